"""Simulated annealing over strategies on one network, compiled, in batches so that limits and Ctrl-C are seen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.job.sizes import LARGE_SERVERS
from solvers.job.strategy.load_bound import surely_longer
from solvers.job.strategy.moves import GraphShape, propose
from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.jit import kernel
from topoopt.simulate.lower import GraphArrays, lower_arrays, task_count
from topoopt.simulate.network import NetworkArrays
from topoopt.simulate.splitmix import uniform
from topoopt.simulate.time_models.arrival import iteration_time, time_within
from topoopt.simulate.workload_arrays import WorkloadArrays

COST, OVERFLOW, BEST, BEST_OVERFLOW, FIGURE = 0, 1, 2, 3, 4
PROPOSALS, SIMULATED, ACCEPTED, PRUNED, OVERLOADED = 0, 1, 2, 3, 4
CLOSE = 1.005
"""Accepted proposals whose score is within this factor of the best are scored by `rounds` too."""

MOST_TASKS = 2_000_000
"""Tasks of the strategies that are looked at above `LARGE_SERVERS`: a graph takes some 300 bytes a task where it is
simulated, and n servers that all send to each other make n (n - 1) tasks of every edge of the workload."""


class Walker(NamedTuple):
    """State of one annealing run, changed in place.

    Attributes:
        split, offset: the current strategy.
        figure_split, figure_offset: best by `rounds` among the strategies scored by it.
        value: current cost, current memory overflow, best cost, best overflow, best cost by `rounds`.
        counts: proposals, simulated, accepted, pruned by memory or compute, overloaded (pruned by the load of a link).
        rng: uint64[1].
    """

    split: Ints
    offset: Ints
    figure_split: Ints
    figure_offset: Ints
    value: Floats
    counts: Ints
    rng: NDArray[np.uint64]


@kernel
def quick_bounds(w: WorkloadArrays, split: Ints, offset: Ints, capacity: float) -> tuple[float, float]:
    """(lower bound on the iteration time, memory overflow in bytes) of a strategy, without simulating it.

    The bound is the larger of the busiest server's compute time and the longest chain of forward and backward times:
    every part of an operator waits for at least one part of each of its producers.
    """
    n = w.servers
    load = np.zeros(n, dtype=np.float64)
    memory = np.zeros(n, dtype=np.float64)
    operators = len(split)
    chain = np.zeros(operators, dtype=np.float64)
    bound = 0.0
    for o in range(operators):
        s = w.split_ptr[o] + split[o]
        parts = w.sample_ways[s] * w.channel_ways[s] * w.reduce_ways[s]
        span = w.forward_ms[s] + w.backward_ms[s]
        stride = n // parts
        for j in range(parts):
            load[offset[o] + stride * j] += span
            memory[offset[o] + stride * j] += w.memory[s]
        for e in range(w.edge_ptr[o], w.edge_ptr[o + 1]):
            chain[o] = max(chain[o], chain[w.producer[e]])
        chain[o] += span
        bound = max(bound, chain[o])
    overflow = 0.0
    for i in range(n):
        bound = max(bound, load[i])
        overflow += max(0.0, memory[i] - capacity)
    return bound, overflow


@kernel
def too_many_tasks(w: WorkloadArrays, split: Ints, offset: Ints) -> bool:
    """Whether the graph of a strategy is too large to be looked at."""
    return bool(w.servers > LARGE_SERVERS and task_count(w, split, offset) > MOST_TASKS)


@kernel
def score(w: WorkloadArrays, net: NetworkArrays, split: Ints, offset: Ints, rounds: bool, limit: float) -> float:
    """Iteration time of a strategy, ms; infinity once it is sure to exceed `limit`."""
    return iteration_time(lower_arrays(w, split, offset), net, rounds, limit)


@kernel
def _figure_within(graph: GraphArrays, net: NetworkArrays, reach: float, deadline: Floats) -> float:
    """Time of a task graph by `rounds`, ms; infinity once it is sure to exceed `reach`. Writes `deadline`."""
    deadline[:] = reach
    if reach < np.inf and surely_longer(graph, net, reach, deadline):
        return np.inf
    return time_within(graph, net, True, reach, deadline)


@kernel
def anneal_batch(
    w: WorkloadArrays,
    net: NetworkArrays,
    g: GraphShape,
    walker: Walker,
    proposals: int,
    temperature: float,
    cooling: float,
    rounds: bool,
    capacity: float,
) -> None:
    """Make `proposals` proposals.

    A proposal is accepted if its time is at most current * (1 - temperature * ln u), u uniform in (0, 1]: Metropolis
    with a temperature relative to the current cost. u is drawn first, so that bounds and the simulation can stop as
    soon as a proposal is sure to be rejected. Memory overflow comes before time: it may never grow.
    """
    split, offset = walker.split.copy(), walker.offset.copy()
    for _ in range(proposals):
        temperature *= cooling
        walker.counts[PROPOSALS] += 1
        split[:] = walker.split
        offset[:] = walker.offset
        if not propose(w, g, split, offset, walker.rng):
            continue
        limit = walker.value[COST] * (1.0 - temperature * np.log(1.0 - uniform(walker.rng)))
        bound, overflow = quick_bounds(w, split, offset, capacity)
        if overflow > walker.value[OVERFLOW] * (1 + 1e-12):
            walker.counts[PRUNED] += 1
            continue
        relieved = overflow < walker.value[OVERFLOW] * (1 - 1e-12)
        if relieved:
            limit = np.inf
        if bound > limit or too_many_tasks(w, split, offset):
            walker.counts[PRUNED] += 1
            continue
        graph = lower_arrays(w, split, offset)
        deadline = np.full(len(graph.kind), limit)
        if limit < np.inf and surely_longer(graph, net, limit, deadline):
            walker.counts[OVERLOADED] += 1
            continue
        walker.counts[SIMULATED] += 1
        cost = time_within(graph, net, rounds, limit, deadline)
        if cost > limit or cost == np.inf:
            continue
        walker.counts[ACCEPTED] += 1
        walker.split[:] = split
        walker.offset[:] = offset
        walker.value[COST] = cost
        walker.value[OVERFLOW] = overflow
        less_overflow = overflow < walker.value[BEST_OVERFLOW]
        if less_overflow or (overflow == walker.value[BEST_OVERFLOW] and cost < walker.value[BEST] * CLOSE):
            # A search exploits the errors of the model it is scored with, so all that look best are scored by `rounds`.
            reach = np.inf if less_overflow else walker.value[FIGURE]
            figure = cost if rounds else _figure_within(graph, net, reach, deadline)
            if less_overflow or figure < walker.value[FIGURE]:
                walker.value[FIGURE] = figure
                walker.figure_split[:] = split
                walker.figure_offset[:] = offset
            walker.value[BEST] = cost if less_overflow else min(cost, walker.value[BEST])
            walker.value[BEST_OVERFLOW] = overflow
