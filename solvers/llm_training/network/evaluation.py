"""What a strategy takes on a network."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import DimensionLoad
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.simulate.llm_training.iteration_times import iteration_times
from topoopt.simulate.llm_training.network.groups import FamilyGroups
from topoopt.simulate.llm_training.network.links import PlacedNetwork, family_flows
from topoopt.simulate.llm_training.network.rates import NetworkRates, network_rates
from topoopt.simulate.llm_training.network.sharing import shared_rates
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.llm_training.traffic import iteration_traffic
from topoopt.simulate.llm_training.transfers import GroupHops, GroupRates

RATE_OF = {
    F.TENSOR: "tensor",
    F.CONTEXT: "context",
    F.EXPERT: "expert",
    F.PIPELINE: "hop",
    F.DATA: "data",
    F.EXPERT_DATA: "expert_data",
}
BYTES_OF = {
    F.TENSOR: "tensor",
    F.CONTEXT: "context",
    F.EXPERT: "expert_crossing",
    F.PIPELINE: "pipeline",
    F.DATA: "data_dense",
    F.EXPERT_DATA: "data_expert",
}
FREE = 1e18
"""Bytes a second of transfers that take no time."""


@dataclass(frozen=True, eq=False)
class EvaluatedNetwork:
    """A network with what it gives a strategy.

    Attributes:
        rates: alone and shared.
    """

    network: PlacedNetwork
    found: NetworkRates
    rates: GroupRates
    iteration_time_s: float


def iteration_s(problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: GroupRates) -> float:
    """Seconds of an iteration at these rates."""
    columns = columns_of([strategy], problem.model.layers)
    return float(iteration_times(problem, problem.device, columns, rates)[0])


def evaluated(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, network: PlacedNetwork, groups: FamilyGroups
) -> EvaluatedNetwork:
    """Time of a strategy on a network.

    Raises:
        InfeasibleError: a pair that sends has no route.
    """
    found = network_rates(problem, strategy, network, groups)
    rates = shared_rates(problem, strategy, found)
    return EvaluatedNetwork(network, found, rates, iteration_s(problem, strategy, rates))


def no_faster(rates: GroupRates, than: GroupRates) -> bool:
    """Whether no group has more than at other rates, nor fewer hops, so that no iteration takes less."""
    slower = all(bool(np.all(getattr(rates, name) <= getattr(than, name))) for name in set(RATE_OF.values()))
    farther = all(getattr(rates.hops, each.name) >= getattr(than.hops, each.name) for each in fields(GroupHops))
    return slower and farther


def family_bytes(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> dict[F, float]:
    """Bytes that a GPU of an average stage sends in an iteration, of experts those that leave the server."""
    model, batch = problem.model, problem.batch
    columns = columns_of([strategy], model.layers)
    sent = iteration_traffic(
        model, problem.formats, columns, batch.length, batch.sequences, problem.cluster.gpus_per_server
    )
    return {family: float(getattr(sent, name)[0]) for family, name in BYTES_OF.items()}


def dimension_loads(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, one: EvaluatedNetwork
) -> tuple[DimensionLoad, ...]:
    """What each family between servers asks of the network."""
    sent = family_bytes(problem, strategy)
    found = []
    for family in F:
        if family not in one.found.loads:
            continue
        load, alone, name = one.found.loads[family], one.found.alone[family], RATE_OF[family]
        free: GroupRates = replace(one.rates, **dict[str, Any]({name: np.full_like(one.rates.tensor, FREE)}))
        found.append(
            DimensionLoad(
                dimension=family,
                bytes_sent=sent[family] * load.sent,
                seconds=sent[family] / alone,
                exposed_s=max(0.0, one.iteration_time_s - iteration_s(problem, strategy, free)),
                gbytes_per_s=alone / 1e9,
                shared_gbytes_per_s=float(getattr(one.rates, name)[0]) / 1e9,
                hops=load.hops,
                method=load.method,
                rounds=load.rounds,
            )
        )
    return tuple(found)


def sending_pairs(groups: FamilyGroups, places: Ints, orders: dict[F, tuple[Ints, ...]]) -> tuple[Ints, Ints]:
    """Pairs of servers that send, sorted and distinct."""
    n = len(places)
    keys = [one.source * n + one.target for flows in family_flows(groups, places, orders).values() for one in flows]
    pairs = np.unique(np.concatenate(keys)) if keys else np.zeros(0, dtype=np.int64)
    return pairs // n, pairs % n
