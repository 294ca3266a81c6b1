"""Rates of the dimensions of a strategy on a network: alone, and beside those that send at the same time.

All replicas run in step, so the load of a link in a phase is the sum over all groups of a family, and the rate of a GPU
is its bytes over the seconds of the fullest link. Families that send at the same time share links max-min fairly: their
rates rise together, in parts of what each has alone, until a link is full, whose families then stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import RANK_ORDER, ParallelStrategy
from topoopt.simulate.llm_training.network.groups import FamilyGroups
from topoopt.simulate.llm_training.network.links import BYTES_PER_GBIT, FamilyLoad, PlacedNetwork, family_loads
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


def network_rates(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, network: PlacedNetwork, groups: FamilyGroups
) -> NetworkRates:
    """Rates of families that have the links to themselves.

    No rate is above that of an ideal switch, where ranks are in the usual order.

    Raises:
        InfeasibleError: a pair that sends has no route.
    """
    cluster, reached = problem.cluster, problem.device.reached
    inside = cluster.intra_server_gbps * BYTES_PER_GBIT * reached.scale_up
    g = cluster.gpus_per_server
    loads = family_loads(network, groups, server_bytes_per_s=g * inside / reached.network, gpus_per_server=g)
    ideal = GroupRates.of(cluster, reached, columns_of([strategy], problem.model.layers))
    outside = cluster.gpu_gbps * BYTES_PER_GBIT * reached.network
    most = dict.fromkeys(F, inside) | {F.TENSOR: min(inside, outside), F.EXPERT: outside, F.PIPELINE: outside}
    if strategy.order == RANK_ORDER:
        usual = (ideal.tensor, ideal.context, ideal.expert, ideal.hop, ideal.data, ideal.expert_data)
        families = (F.TENSOR, F.CONTEXT, F.EXPERT, F.PIPELINE, F.DATA, F.EXPERT_DATA)
        most = {family: float(rate[0]) for family, rate in zip(families, usual, strict=True)}
    alone = {family: min(most[family], reached.network / float(load.seconds.max())) for family, load in loads.items()}
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
    """Part of its rate alone that each family keeps when all of them send at once."""
    full = np.stack([load.seconds / load.seconds.max() for load in loads])
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
