"""Simulated annealing searches for a strategy on a fixed network, from promising starts, along the shape of the
operator graph.

Proposals are scored by `hop`, every new best is scored again by `rounds`. Simulating each start on several topologies
takes seconds beyond some hundred servers, minutes where it has a million tasks, and there are a hundred starts where
the number of servers has many divisors: `promising` chooses among them by estimates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from solvers.job.candidate_topologies import grouped_ms
from solvers.job.starts import ANY_TASKS, Start, annealing_threads, effort_for, layers, most_tasks
from solvers.network.distances import Selection, select_offsets
from solvers.network.finder import BusyEstimate
from solvers.stop import Stop
from topoopt.core.arrays import Ints, offsets
from topoopt.core.cluster import Cluster
from topoopt.core.process import end_if_left
from topoopt.core.proofs import StopReason
from topoopt.core.workload import Placement, Strategy, Workload
from topoopt.native import jobs
from topoopt.simulate.network import (
    NetworkArrays,
    WorkloadArrays,
    build_task_graph,
    demand_of,
    strategy_arrays,
    workload_arrays,
)


class LikeLayers(NamedTuple):
    """Layers of at least two like branches: operators of the same splits in the same order, none pinned.

    Attributes:
        layer_ptr: branches of a layer are those from its entry to the next.
        branch_ptr: the same of operators of a branch.
        operator: operators by branch, ascending.
        like: per layer, the first one whose branches are like its own.
    """

    layer_ptr: Ints
    branch_ptr: Ints
    operator: Ints
    like: Ints


class GraphShape(NamedTuple):
    """Neighbours of each operator, its chains (maximal runs of operators with one consumer and one input), and its
    layers of like branches."""

    neighbour_ptr: Ints
    neighbour: Ints
    chain_ptr: Ints
    chain: Ints
    chain_of: Ints
    layers: LikeLayers


def graph_shape(workload: Workload) -> GraphShape:
    """Neighbours and chains of a workload's operator graph."""
    consumers = workload.consumers()
    operators = workload.operators
    neighbours = [
        sorted({edge.producer for edge in operator.inputs} | set(consumers[index]))
        for index, operator in enumerate(operators)
    ]
    chains: list[list[int]] = []
    chain_of = np.empty(len(operators), dtype=np.int64)
    for index, operator in enumerate(operators):
        producers = {edge.producer for edge in operator.inputs}
        if len(producers) == 1 and len(set(consumers[min(producers)])) == 1:
            chain_of[index] = chain_of[min(producers)]
            chains[chain_of[index]].append(index)
        else:
            chain_of[index] = len(chains)
            chains.append([index])
    return GraphShape(
        offsets([len(row) for row in neighbours]),
        np.array([y for x in neighbours for y in x], dtype=np.int64),
        offsets([len(row) for row in chains]),
        np.array([y for x in chains for y in x], dtype=np.int64),
        chain_of,
        like_layers(workload),
    )


def like_layers(workload: Workload) -> LikeLayers:
    operators = workload.operators
    like: list[list[list[int]]] = []
    looks: list[object] = []
    for layer in layers(workload):
        by_look: dict[object, list[list[int]]] = {}
        for branch in layer:
            if all(operators[o].pinned_offset is None for o in branch):
                partitions = tuple(
                    tuple((s.sample_ways, s.channel_ways, s.reduce_ways) for s in operators[o].splits) for o in branch
                )
                by_look.setdefault(partitions, []).append(branch)
        for look, alike in by_look.items():
            if len(alike) > 1:
                like.append(alike)
                looks.append((look, len(alike)))
    branches = [branch for layer in like for branch in layer]
    return LikeLayers(
        offsets([len(layer) for layer in like]),
        offsets([len(branch) for branch in branches]),
        np.array([o for branch in branches for o in branch], dtype=np.int64),
        np.array([looks.index(look) for look in looks], dtype=np.int64),
    )


KEPT = 3
"""Starts that the loop goes on with, where all is annealed."""

FAR, FAR_ON_FABRICS = 2.0, 4.0
"""Starts that are estimated at more than so many times the `KEPT`-th least are passed over. Simulated on topologies
found for them, no start of the models on 16 servers that was followed to its end took less than 0.64 of its estimate;
on other fabrics it may take less, as the estimate has transfers over several hops."""


def promising(cluster: Cluster, workload: Workload, starts: Sequence[Start], *, far: float = FAR) -> list[Start]:
    """The starts that are simulated, in the order given: the first, and those of least `estimated_ms` of all others
    whose graphs are not too large.

    Args:
        far: those of more than so many times the `KEPT`-th least estimate are passed over. Estimates alone say which,
            not times simulated before, so that starts simulated at once are those simulated in turn.
    """
    most, arrays = effort_for(cluster.servers).starts, workload_arrays(cluster, workload)
    others = [index for index in range(1, len(starts)) if not too_many_tasks(arrays, starts[index].strategy)]
    if len(others) < min(most, KEPT):
        return [*starts[:1], *(starts[index] for index in others)]
    estimates = {index: estimated_ms(cluster, workload, starts[index].strategy) for index in (0, *others)}
    limit_ms = far * sorted(estimates.values())[min(KEPT, len(estimates)) - 1]
    ranked = sorted((estimates[index], index) for index in others if estimates[index] <= limit_ms)
    return [starts[index] for index in sorted([0, *(index for _, index in ranked[: most - 1])])]


def too_many_tasks(arrays: WorkloadArrays, strategy: Strategy) -> bool:
    """Whether the graph of a strategy is too large to be looked at."""
    most = most_tasks(arrays.servers)
    return most < ANY_TASKS and jobs.task_count(arrays, *strategy_arrays(strategy)) > most


def estimated_ms(cluster: Cluster, workload: Workload, strategy: Strategy) -> float:
    """Compute of the busiest server or the longest chain, then the time that links are busy, ms: those of TotientPerms
    or those of random graphs of groups, whichever is less."""
    end_if_left()
    arrays = workload_arrays(cluster, workload)
    compute, _ = jobs.quick_bounds(arrays, *strategy_arrays(strategy), float("inf"))
    demand = demand_of(build_task_graph(cluster, workload, strategy))
    distances = select_offsets(cluster.servers, cluster.degree, cluster.links, Selection.FLEXNET)
    return compute + min(BusyEstimate(cluster, demand)(distances), grouped_ms(cluster, demand))


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
