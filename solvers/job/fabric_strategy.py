"""The best strategy found for a job on a given network: for fabrics whose topology is not the plan's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from solvers.job.sizes import effort_for
from solvers.job.strategy.anneal import AnnealSettings, anneal, memory_capacity, overflow_bytes
from solvers.job.strategy.graph_shape import GraphShape, graph_shape
from solvers.job.strategy.screening import FAR_ON_FABRICS, promising
from solvers.job.strategy.starts import starting_strategies
from solvers.stop import Stop
from topoopt.core.cluster import Cluster
from topoopt.core.workload import Strategy, TaskGraph, Workload
from topoopt.simulate.lower import build_task_graph
from topoopt.simulate.network import Network, network_arrays
from topoopt.simulate.time_models.arrival import rounds_within
from topoopt.simulate.time_models.evaluate import simulate
from topoopt.simulate.workload_arrays import WorkloadArrays, workload_arrays


@dataclass(frozen=True, eq=False)
class FabricJob:
    """A job, and the strategies tried on every fabric: those that fit into memory."""

    cluster: Cluster
    workload: Workload
    arrays: WorkloadArrays
    shape: GraphShape
    capacity: float
    strategies: tuple[Strategy, ...]


@dataclass(frozen=True)
class FoundStrategy:
    """The best strategy found, its iteration time by `rounds`, and how many were proposed."""

    strategy: Strategy
    iteration_time_ms: float
    proposals: int


def fabric_job(cluster: Cluster, workload: Workload, found: Sequence[Strategy]) -> FabricJob:
    """The strategies are those found before, then the starting ones, the promising of them; if none fits into
    memory, the first alone."""
    arrays, capacity = workload_arrays(cluster, workload), memory_capacity(cluster)

    def fits(strategy: Strategy) -> bool:
        return overflow_bytes(arrays, strategy, capacity) == 0

    starts = starting_strategies(cluster, workload)
    within = [start for start in starts if fits(start.strategy)]
    tried = promising(cluster, workload, within, far=FAR_ON_FABRICS)
    fitting = [*filter(fits, found), *(start.strategy for start in tried)]
    chosen = fitting or [*found, starts[0].strategy][:1]
    return FabricJob(cluster, workload, arrays, graph_shape(workload), capacity, tuple(dict.fromkeys(chosen)))


def search_strategy(job: FabricJob, network: Network, *, proposals: int, seed: int, stop: Stop) -> FoundStrategy:
    """Search on one network.

    All strategies of the job are simulated, on large clusters by `hop` and the best of them by `rounds`. The best is
    annealed. Once `stop` says so, only the first is tried.

    Args:
        job: on n servers.
        network: of n servers, with rings for all groups of `strided_groups(n)`, in that order.
        proposals: of the annealing.
        seed: of its moves.
        stop: looked at between strategies, and by the annealing.
    """
    positions: Sequence[int] = range(len(job.strategies))
    most = effort_for(job.cluster.servers).on_fabrics
    if len(positions) > most:
        by_hop = sorted(
            _timed(job, positions, stop, lambda graph, _: simulate(graph, network, "hop").iteration_time_ms)
        )
        positions = [position for _, position in by_hop[:most]]
    time_ms, position = min(_timed(job, positions, stop, lambda graph, best: rounds_within(graph, network, best)))
    start = job.strategies[position]
    settings = AnnealSettings(proposals)
    arrays = network_arrays(network)
    result = anneal(
        job.arrays, arrays, job.shape, start, settings, capacity=job.capacity, seed=seed, stop=stop, start_ms=time_ms
    )
    if result.iteration_time_ms < time_ms:
        return FoundStrategy(result.strategy, result.iteration_time_ms, result.proposals)
    return FoundStrategy(start, time_ms, result.proposals)


def _timed(
    job: FabricJob, positions: Sequence[int], stop: Stop, time_ms: Callable[[TaskGraph, float], float]
) -> list[tuple[float, int]]:
    """(ms, position) of the strategies at these positions, of the first alone once `stop` says so.

    Args:
        time_ms: of a graph; may be infinite where it exceeds the least time before, which is given, too.
    """
    timed: list[tuple[float, int]] = []
    best = math.inf
    for position in positions:
        if timed and stop.reason() is not None:
            break
        graph = build_task_graph(job.cluster, job.workload, job.strategies[position])
        timed.append((time_ms(graph, best), position))
        best = min(best, timed[-1][0])
    return timed
