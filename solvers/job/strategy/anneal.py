"""Strategy search on a fixed network: simulated annealing scored by `hop`, every new best re-scored by `rounds`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from solvers.job.sizes import annealing_threads, most_tasks
from solvers.job.strategy.graph_shape import GraphShape
from solvers.stop import Stop
from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster
from topoopt.core.proofs import StopReason
from topoopt.core.workload import Placement, Strategy
from topoopt.native import jobs
from topoopt.simulate.lower import strategy_arrays
from topoopt.simulate.network import NetworkArrays
from topoopt.simulate.workload_arrays import WorkloadArrays


@dataclass(frozen=True)
class AnnealSettings:
    """Schedule of one annealing run.

    Attributes:
        proposals: how many to make.
        start_temperature, end_temperature: relative to the current cost; cooled geometrically.
        batch: proposals between two looks at the clock.
        scored_by_rounds: score every proposal by `rounds` (slower, exact in the model of the figures).
        threads: that score proposals ahead; None: as many as suit the cluster. They change nothing in the result.
    """

    proposals: int
    start_temperature: float = 0.02
    end_temperature: float = 0.0005
    batch: int = 100
    scored_by_rounds: bool = False
    threads: int | None = None


@dataclass(frozen=True)
class StrategyAnnealResult:
    """Outcome of one annealing run.

    Attributes:
        strategy: best by `rounds` among all that came near the best score of the run.
        iteration_time_ms: its time by `rounds`.
        proposals, simulated, accepted, pruned, overloaded: counts; pruned ones died in the bound of memory or compute,
            overloaded ones in that of link loads.
        stopped_by: why it ended early, None if it did not.
    """

    strategy: Strategy
    iteration_time_ms: float
    proposals: int
    simulated: int
    accepted: int
    pruned: int
    overloaded: int
    stopped_by: StopReason | None


def to_strategy(split: Ints, offset: Ints) -> Strategy:
    """Strategy of (split, offset) arrays."""
    return Strategy(tuple(Placement(int(s), int(o)) for s, o in zip(split, offset, strict=True)))


def memory_capacity(cluster: Cluster) -> float:
    """Bytes of memory of a server, infinite if memory is not checked."""
    return float("inf") if cluster.server_memory_bytes is None else float(cluster.server_memory_bytes)


def overflow_bytes(workload: WorkloadArrays, strategy: Strategy, capacity: float) -> float:
    """Bytes in all by which servers have too little memory."""
    return jobs.quick_bounds(workload, *strategy_arrays(strategy), capacity)[1]


def anneal(
    workload: WorkloadArrays,
    network: NetworkArrays,
    shape: GraphShape,
    start: Strategy,
    settings: AnnealSettings,
    *,
    capacity: float,
    seed: int,
    stop: Stop,
    progress: Callable[[int, float], None] | None = None,
    start_ms: float | None = None,
) -> StrategyAnnealResult:
    """Anneal from `start`; the start itself is the worst that can be returned.

    Args:
        workload: arrays of the workload on the cluster.
        network: arrays of the network, with rings for all cosets in the order of `strided_groups(n)`.
        shape: neighbours and chains of the workload's graph.
        start: first strategy.
        settings: schedule.
        capacity: memory of a server, bytes.
        seed: of the random moves.
        stop: looked at after every batch.
        progress: called after every batch with (proposals of the batch, best ms so far).
        start_ms: time of the start by `rounds`, if it is known.
    """
    run = jobs.Annealing(
        workload,
        network,
        shape,
        *strategy_arrays(start),
        capacity=capacity,
        seed=seed % 2**64,
        rounds=settings.scored_by_rounds,
        most_tasks=most_tasks(workload.servers),
        start_ms=math.nan if start_ms is None else start_ms,
        threads=annealing_threads(workload.servers) if settings.threads is None else settings.threads,
    )
    cooling = 1.0
    if settings.proposals > 0:
        cooling = (settings.end_temperature / settings.start_temperature) ** (1.0 / settings.proposals)
    reason, made = stop.reason(), 0
    while reason is None and made < settings.proposals:
        batch = min(settings.batch, settings.proposals - made)
        run.run(batch, settings.start_temperature * cooling**made, cooling)
        made += batch
        if progress is not None:
            progress(batch, run.best_ms)
        reason = stop.reason()
    proposals, simulated, accepted, pruned, overloaded = run.counts.tolist()
    return StrategyAnnealResult(
        strategy=to_strategy(*run.best),
        iteration_time_ms=run.best_ms,
        proposals=proposals,
        simulated=simulated,
        accepted=accepted,
        pruned=pruned,
        overloaded=overloaded,
        stopped_by=reason,
    )
