"""Rates of the dimensions of a strategy on a network: alone, and beside those that send at the same time.

All replicas run in step, so the load of a link in a phase is the sum over all groups of a family, and the rate of a GPU
is its bytes over the seconds of the fullest link. Families that send at the same time share links max-min fairly: their
rates rise together, in parts of what each has alone, until a link is full, whose families then stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.group_schedule import RINGS
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import ALLREDUCE_FAMILIES
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.simulate.llm_training.network.buckets import Bucket, family_buckets, rounds_counted
from topoopt.simulate.llm_training.network.groups import BlockGroups, FamilyGroups
from topoopt.simulate.llm_training.network.links import (
    BYTES_PER_GBIT,
    FamilyLoad,
    LinkGraph,
    PlacedNetwork,
    family_loads,
)
from topoopt.simulate.llm_training.network.schedule_load import LinkSchedules
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.llm_training.transfers import GroupHops, GroupRates


@dataclass(frozen=True, eq=False)
class NetworkRates:
    """What a network gives the families of a strategy.

    Attributes:
        loads: of each family between servers.
        alone: bytes a second of a GPU, by family, none of the others sending.
        rates: of all groups, alone.
    """

    loads: Mapping[F, FamilyLoad]
    alone: Mapping[F, float]
    rates: GroupRates


def ring_load(load: FamilyLoad, classes: tuple[BlockGroups, ...], bucket: Bucket) -> FamilyLoad:
    """A family on rings, its rounds counted."""
    rounds = 2 * (max(one.blocks.shape[1] for one in classes) - 1)
    waits = bucket.waits_s(rounds, load.hops) * bucket.network / bucket.passed(classes[0].ranks)
    return replace(load, waits=waits, method=RINGS, rounds=rounds)


def schedule_loads(problem: LlmTrainingProblem, graph: LinkGraph) -> LinkSchedules:
    """Loads of schedules on the links of a cluster."""
    reached, g = problem.device.reached, problem.cluster.gpus_per_server
    inside = problem.cluster.intra_server_gbps * BYTES_PER_GBIT * reached.scale_up
    return LinkSchedules(graph, server_bytes_per_s=g * inside / reached.network, gpus_per_server=g)


def _reduced(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, network: PlacedNetwork, groups: FamilyGroups,
    loads: Mapping[F, FamilyLoad],
) -> dict[F, FamilyLoad]:  # fmt: skip
    """Families that reduce on what they reduce on, their rounds counted."""
    found, buckets = dict(loads), family_buckets(problem, strategy)
    on_links = schedule_loads(problem, network.graph)
    for family in ALLREDUCE_FAMILIES:
        if family not in loads:
            continue
        classes, own = groups.collectives[family], network.schedules.get(family)
        if own is None:
            found[family] = ring_load(loads[family], classes, buckets[family])
        else:
            found[family] = on_links.load(classes, network.places, own, buckets[family])
    return found


def network_rates(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, network: PlacedNetwork, groups: FamilyGroups
) -> NetworkRates:
    """Rates of families that have the links to themselves.

    No rate is above that of an ideal switch: k servers that send at rate B need 2 (k-1)/k of the vector over B for an
    AllReduce on any schedule, as on rings of one rank a server.

    Raises:
        InfeasibleError: a pair that sends has no route.
    """
    cluster, reached = problem.cluster, problem.device.reached
    inside = cluster.intra_server_gbps * BYTES_PER_GBIT * reached.scale_up
    g = cluster.gpus_per_server
    loads = family_loads(network, groups, server_bytes_per_s=g * inside / reached.network, gpus_per_server=g)
    ideal = GroupRates.of(cluster, reached, columns_of([strategy], problem.model.layers))
    usual = (ideal.tensor, ideal.context, ideal.expert, ideal.hop, ideal.data, ideal.expert_data)
    families = (F.TENSOR, F.CONTEXT, F.EXPERT, F.PIPELINE, F.DATA, F.EXPERT_DATA)
    most = {family: float(rate[0]) for family, rate in zip(families, usual, strict=True)}
    if rounds_counted(problem, network.graph):
        loads = _reduced(problem, strategy, network, groups, loads)
    alone = {family: min(most[family], reached.network / load.taken) for family, load in loads.items()}
    return NetworkRates(loads, alone, group_rates(alone, loads, ideal))


def group_rates(alone: Mapping[F, float], loads: Mapping[F, FamilyLoad], ideal: GroupRates) -> GroupRates:
    """Rates as the time model takes them; groups inside servers have the rate of their links."""

    def rate(family: F, otherwise: Floats) -> Floats:
        return np.full_like(otherwise, alone[family]) if family in alone else otherwise

    def hops(family: F) -> int:
        return loads[family].hops if family in loads else 1

    inside = np.full_like(ideal.tensor, ideal.inside)
    return GroupRates(
        tensor=rate(F.TENSOR, inside),
        context=rate(F.CONTEXT, inside),
        expert=rate(F.EXPERT, ideal.expert),
        hop=rate(F.PIPELINE, ideal.hop),
        data=rate(F.DATA, inside),
        expert_data=rate(F.EXPERT_DATA, inside),
        inside=ideal.inside,
        hops=GroupHops(hops(F.TENSOR), hops(F.CONTEXT), hops(F.EXPERT), hops(F.PIPELINE)),
    )


def max_min_parts(loads: Sequence[FamilyLoad]) -> list[float]:
    """Part of its rate alone that each family keeps when all of them send at once.

    One that also waits fills no link alone, and keeps no more than all of its rate.
    """
    full = np.stack([load.seconds / load.taken for load in loads])
    waiting = [place for place, load in enumerate(loads) if load.waits > 0]
    full = np.concatenate([full, np.eye(len(loads))[:, waiting]], axis=1)
    part, rising, left = np.zeros(len(loads)), np.ones(len(loads), dtype=bool), np.ones(full.shape[1])
    level = 0.0
    while rising.any():
        together = full[rising].sum(axis=0)
        used = together > 0
        step = float((left[used] / together[used]).min())
        level += step
        left = np.maximum(left - step * together, 0.0)
        crowded = used & (left <= 1e-12)
        stopped = rising & (full[:, crowded] > 0).any(axis=1)
        part[stopped] = level
        rising &= ~stopped
    return part.tolist()
