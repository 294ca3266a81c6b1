"""The best strategy found for a job on a given network: for fabrics whose topology is not the plan's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from solvers.job.strategy.anneal import AnnealSettings, anneal, memory_capacity
from solvers.job.strategy.anneal_kernel import quick_bounds
from solvers.job.strategy.moves import GraphShape, graph_shape
from solvers.job.strategy.starts import starting_strategies
from solvers.stop import Stop
from topoopt.core.cluster import Cluster
from topoopt.core.strategy import Strategy
from topoopt.core.workload import Workload
from topoopt.simulate.lower import build_task_graph, strategy_arrays
from topoopt.simulate.network import Network, network_arrays
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
    """The strategies are those found before, then the starting ones; if none fits into memory, the first alone."""
    arrays, capacity = workload_arrays(cluster, workload), memory_capacity(cluster)
    strategies = [*found, *(start.strategy for start in starting_strategies(cluster, workload))]
    fits = [each for each in strategies if quick_bounds(arrays, *strategy_arrays(each), capacity)[1] == 0]
    chosen = tuple(fits or strategies[:1])
    return FabricJob(cluster, workload, arrays, graph_shape(workload), capacity, chosen)


def search_strategy(job: FabricJob, network: Network, *, proposals: int, seed: int, stop: Stop) -> FoundStrategy:
    """Search on one network.

    All strategies of the job are simulated, and the best is annealed; once `stop` says so, only the first is tried.

    Args:
        job: on n servers.
        network: of n servers, with rings for all groups of `strided_groups(n)`, in that order.
        proposals: of the annealing.
        seed: of its moves.
        stop: looked at between strategies, and by the annealing.
    """
    timed: list[tuple[float, int]] = []
    for position, each in enumerate(job.strategies):
        if timed and stop.reason() is not None:
            break
        graph = build_task_graph(job.cluster, job.workload, each)
        timed.append((simulate(graph, network).iteration_time_ms, position))
    time_ms, position = min(timed)
    start = job.strategies[position]
    settings = AnnealSettings(proposals)
    arrays = network_arrays(network)
    result = anneal(job.arrays, arrays, job.shape, start, settings, capacity=job.capacity, seed=seed, stop=stop)
    if result.iteration_time_ms < time_ms:
        return FoundStrategy(result.strategy, result.iteration_time_ms, result.proposals)
    return FoundStrategy(start, time_ms, result.proposals)
