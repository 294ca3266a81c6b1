"""Strategy search on a fixed network: simulated annealing scored by `hop`, every new best re-scored by `rounds`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solvers.job.strategy.anneal_kernel import (
    ACCEPTED,
    BEST,
    FIGURE,
    OVERLOADED,
    PROPOSALS,
    PRUNED,
    SIMULATED,
    Walker,
    anneal_batch,
    quick_bounds,
    score,
)
from solvers.job.strategy.moves import GraphShape
from solvers.stop import Stop
from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster
from topoopt.core.strategy import Placement, Strategy
from topoopt.core.verdict import StopReason
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
    """

    proposals: int
    start_temperature: float = 0.02
    end_temperature: float = 0.0005
    batch: int = 100
    scored_by_rounds: bool = False


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


def _walker(
    workload: WorkloadArrays, network: NetworkArrays, start: Strategy, capacity: float, seed: int, figure: float | None
) -> Walker:
    split, offset = strategy_arrays(start)
    _, overflow = quick_bounds(workload, split, offset, capacity)
    cost = score(workload, network, split, offset, False, np.inf)
    if figure is None:
        figure = score(workload, network, split, offset, True, np.inf)
    return Walker(
        split=split,
        offset=offset,
        figure_split=split.copy(),
        figure_offset=offset.copy(),
        value=np.array([cost, overflow, cost, overflow, figure]),
        counts=np.zeros(5, dtype=np.int64),
        rng=np.array([seed % 2**64], dtype=np.uint64),
    )


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
    walker = _walker(workload, network, start, capacity, seed, start_ms)
    if settings.scored_by_rounds:
        walker.value[0] = walker.value[BEST] = walker.value[FIGURE]
    cooling = 1.0
    if settings.proposals > 0:
        cooling = (settings.end_temperature / settings.start_temperature) ** (1.0 / settings.proposals)
    reason = stop.reason()
    while reason is None and walker.counts[PROPOSALS] < settings.proposals:
        done = int(walker.counts[PROPOSALS])
        batch = min(settings.batch, settings.proposals - done)
        temperature = settings.start_temperature * cooling**done
        anneal_batch(workload, network, shape, walker, batch, temperature, cooling, settings.scored_by_rounds, capacity)
        if progress is not None:
            progress(batch, float(walker.value[FIGURE]))
        reason = stop.reason()
    best, best_ms = to_strategy(walker.figure_split, walker.figure_offset), float(walker.value[FIGURE])
    return StrategyAnnealResult(
        strategy=best,
        iteration_time_ms=best_ms,
        proposals=int(walker.counts[PROPOSALS]),
        simulated=int(walker.counts[SIMULATED]),
        accepted=int(walker.counts[ACCEPTED]),
        pruned=int(walker.counts[PRUNED]),
        overloaded=int(walker.counts[OVERLOADED]),
        stopped_by=reason,
    )
