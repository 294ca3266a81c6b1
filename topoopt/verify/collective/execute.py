"""Schedules executed block by block: who has what after every step, what every link carries, and how long it takes.

Copies and sums are followed separately. A block that is summed must go up an in-tree: every rank but the last sends
what it has gathered once, after all its inputs have come, so that every contribution is in the sum exactly once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.collective import REDUCING, CollectiveOp, CollectiveProblem, CollectiveSchedule, bytes_per_unit
from topoopt.core.rated_network import RatedNetwork

Law = Callable[[CollectiveProblem, CollectiveSchedule], Iterator[str]]


@dataclass(frozen=True, eq=False)
class StepTraffic:
    """What the steps put on the links.

    Attributes
    ----------
    units : int64[steps, m], units of the vector over each arc in each step.
    latency_us : float64[steps], of the slowest message of each step, links alone.
    """

    units: Ints
    latency_us: Floats


# Laws of a schedule: each may rely on those before it.


def routes_exist(problem: CollectiveProblem, schedule: CollectiveSchedule) -> Iterator[str]:
    """Every route follows links through switches alone, and every send takes one between its ends."""
    network, sends, routes = problem.network, schedule.sends, schedule.routes
    for route, arcs in zip(routes, route_arcs(network, routes), strict=True):
        if len(route) < 2 or (arcs < 0).any() or any(not network.is_switch[node] for node in route[1:-1]):
            yield f"route {list(route)} does not lead through switches from rank to rank"
    if len(sends) and not 0 <= sends.route.min() <= sends.route.max() < len(routes):
        yield "a send over a route that is not listed"
        return
    ends = np.array([(route[0], route[-1]) for route in routes], dtype=np.int64).reshape(-1, 2)
    for send in np.flatnonzero((ends[sends.route, 0] != sends.tail) | (ends[sends.route, 1] != sends.head)):
        yield f"send {send} goes over a route between other ranks"


def blocks_fit(problem: CollectiveProblem, schedule: CollectiveSchedule) -> Iterator[str]:
    """The blocks are what the collective is about: equal shares of all ranks, or all of the root."""
    blocks, ranks = schedule.blocks, problem.network.ranks
    if len(blocks.units) == 0 or (blocks.units < 1).any() or not np.isin(blocks.owner, ranks).all():
        yield "blocks of no size, or of no rank"
        return
    n, total, nodes, root = len(ranks), blocks.total, problem.network.nodes, int(ranks[problem.root])
    owned = np.zeros(nodes, dtype=np.int64)
    np.add.at(owned, blocks.owner, blocks.units)
    if problem.collective in (CollectiveOp.ALLGATHER, CollectiveOp.REDUCE_SCATTER, CollectiveOp.ALL_TO_ALL):
        for rank in ranks[owned[ranks] * n != total].tolist():
            yield f"rank {rank} has {owned[rank]} of {total} units, 1/{n} expected"
    elif problem.collective in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE) and owned[root] != total:
        yield f"blocks of others than the root {root}"
    if problem.collective is not CollectiveOp.ALL_TO_ALL:
        if (blocks.target != -1).any():
            yield "a target outside All-to-All"
    elif not np.isin(blocks.target, ranks).all():
        yield "a block for no rank"
    else:
        sent = np.zeros((nodes, nodes), dtype=np.int64)
        np.add.at(sent, (blocks.owner, blocks.target), blocks.units)
        if (sent[np.ix_(ranks, ranks)] * n * n != total).any():
            yield "not the same amount from each rank to each"


def sends_fit(problem: CollectiveProblem, schedule: CollectiveSchedule) -> Iterator[str]:
    """Sends are of blocks, between ranks, and add only where something is reduced."""
    ranks, sends, count = problem.network.ranks, schedule.sends, len(schedule.blocks.units)
    between = np.isin(sends.tail, ranks).all() and np.isin(sends.head, ranks).all()
    if len(sends) and not (between and 0 <= sends.block.min() <= sends.block.max() < count and sends.step.min() >= 0):
        yield "a send of no block, or between no ranks, or before the first step"
    elif problem.collective not in REDUCING and sends.reduce.any():
        yield "sums where nothing is reduced"
    elif problem.collective in (CollectiveOp.REDUCE_SCATTER, CollectiveOp.REDUCE) and not sends.reduce.all():
        yield "copies in a reduction"


def relays_allowed(problem: CollectiveProblem, schedule: CollectiveSchedule) -> Iterator[str]:
    """Where ranks do not relay, each block goes between its owner and another rank alone."""
    if problem.relaying:
        return
    sends = schedule.sends
    owner = np.where(sends.reduce, sends.head, sends.tail)
    for send in np.flatnonzero(owner != schedule.blocks.owner[sends.block]):
        yield f"block {sends.block[send]} is passed on between other ranks"


def sums_complete(problem: CollectiveProblem, schedule: CollectiveSchedule) -> Iterator[str]:
    """Every rank but the owner passes its part of a block on once, after all that is added to it has come."""
    if problem.collective not in REDUCING:
        return
    network, blocks, sends = problem.network, schedule.blocks, schedule.sends
    up = np.flatnonzero(sends.reduce)
    block, tail = sends.block[up], sends.tail[up]
    shape = (len(blocks.units), network.nodes)
    sent = np.zeros(shape, dtype=np.int64)
    np.add.at(sent, (block, tail), 1)
    expected = np.zeros(shape, dtype=np.int64)
    expected[:, network.ranks] = 1
    expected[np.arange(len(blocks.units)), blocks.owner] = 0
    wrong = np.argwhere(sent != expected)
    for index, rank in wrong.tolist():
        yield f"rank {rank} passes its part of block {index} on {sent[index, rank]} times"
    if len(wrong):
        return
    leaves = np.full(shape, np.iinfo(np.int64).max)
    leaves[block, tail] = sends.step[up]
    for send in up[leaves[block, sends.head[up]] <= sends.step[up]]:
        yield f"send {send} of block {sends.block[send]} reaches rank {sends.head[send]} after it passed its part on"


def copies_held(problem: CollectiveProblem, schedule: CollectiveSchedule) -> Iterator[str]:
    """Every copy leaves a rank that has the block, and the owner only once its sum is complete."""
    sends, blocks = schedule.sends, schedule.blocks
    ready = np.zeros(len(blocks.units), dtype=np.int64)
    up = np.flatnonzero(sends.reduce)
    np.maximum.at(ready, sends.block[up], sends.step[up] + 1)
    down = np.flatnonzero(~sends.reduce)
    order = down[np.argsort(sends.step[down], kind="stable")]
    has = _held_at_first(problem, schedule)
    for start, end in _groups(sends.step[order].astype(np.int64)):
        current = order[start:end]
        block, tail = sends.block[current], sends.tail[current]
        early = (blocks.owner[block] == tail) & (ready[block] > sends.step[current])
        for send in current[~has[block, tail] | early]:
            yield f"rank {sends.tail[send]} sends block {sends.block[send]} in step {sends.step[send]} and has it not"
        has[block, sends.head[current]] = True


def results_arrive(problem: CollectiveProblem, schedule: CollectiveSchedule) -> Iterator[str]:
    """After the last step every rank has what the collective gives it; sums are at their owner by the law of sums."""
    if problem.collective in (CollectiveOp.REDUCE_SCATTER, CollectiveOp.REDUCE):
        return
    sends, blocks, ranks = schedule.sends, schedule.blocks, problem.network.ranks
    has = _held_at_first(problem, schedule)
    copies = ~sends.reduce
    has[sends.block[copies], sends.head[copies]] = True
    if problem.collective is CollectiveOp.ALL_TO_ALL:
        for block in np.flatnonzero(~has[np.arange(len(blocks.units)), blocks.target]):
            yield f"block {block} does not reach rank {blocks.target[block]}"
        return
    for missing, rank in np.argwhere(~has[:, ranks]).tolist():
        yield f"rank {ranks[rank]} never gets block {missing}"


def _held_at_first(problem: CollectiveProblem, schedule: CollectiveSchedule) -> Bools:
    """bool[b, V], only the owner of each block has it."""
    count = len(schedule.blocks.units)
    has = np.zeros((count, problem.network.nodes), dtype=np.bool_)
    has[np.arange(count), schedule.blocks.owner] = True
    return has


def _groups(sorted_values: Ints) -> list[tuple[int, int]]:
    """Ranges of equal values."""
    edges = np.flatnonzero(np.diff(sorted_values)) + 1
    ends = [0, *edges.tolist(), len(sorted_values)] if len(sorted_values) else [0]
    return list(itertools.pairwise(ends))


LAWS: tuple[tuple[str, Law], ...] = (
    ("route", routes_exist),
    ("blocks", blocks_fit),
    ("sends", sends_fit),
    ("relaying", relays_allowed),
    ("sum", sums_complete),
    ("causality", copies_held),
    ("result", results_arrive),
)
"""Code of the violations, and the law; after a violated law no later one is looked at."""


# Traffic and times.


def route_arcs(network: RatedNetwork, routes: Sequence[Sequence[int]]) -> list[Ints]:
    """Return the arcs along every route; -1 where there is no link."""
    index = {(tail, head): arc for arc, (tail, head) in enumerate(network.arcs.tolist())}
    return [np.array([index.get(hop, -1) for hop in itertools.pairwise(route)], dtype=np.int64) for route in routes]


def step_traffic(
    network: RatedNetwork, schedule: CollectiveSchedule, arcs: list[Ints], *, multicast: bool = False
) -> StepTraffic:
    """Return loads and latencies of the steps.

    Parameters
    ----------
    arcs : of every route.
    multicast : what a rank sends several others in a step goes over a link of their routes once; switches copy it.
    """
    sends, steps = schedule.sends, schedule.steps
    units = np.zeros((steps, len(network.arcs)), dtype=np.int64)
    latency = np.zeros(steps)
    table = np.full((len(arcs), max(map(len, arcs), default=0)), -1, dtype=np.int64)
    for route, along in enumerate(arcs):
        table[route, : len(along)] = along
    slow = np.array([network.latency_us[along].sum() for along in arcs])
    np.maximum.at(latency, sends.step, slow[sends.route])
    uses = np.argwhere(table[sends.route] >= 0)
    send, arc = uses[:, 0], table[sends.route[uses[:, 0]], uses[:, 1]]
    if multicast:
        same = np.column_stack((sends.step[send], sends.block[send], sends.tail[send], arc))
        once = np.unique(same, axis=0, return_index=True)[1]
        send, arc = send[once], arc[once]
    np.add.at(units, (sends.step[send], arc), schedule.blocks.units[sends.block[send]])
    return StepTraffic(units, latency)


def us_per_unit(problem: CollectiveProblem, schedule: CollectiveSchedule) -> Floats:
    """float64[m], us of a unit of the blocks on each arc."""
    moved = bytes_per_unit(problem.collective, problem.vector_bytes, problem.network, schedule.blocks.total)
    return np.asarray(moved / (problem.network.gbytes_per_s * 1e3), dtype=np.float64)


def step_time_us(problem: CollectiveProblem, schedule: CollectiveSchedule, traffic: StepTraffic) -> float:
    """All steps one after the other: of each the slowest message's latency and the bytes of its fullest link."""
    fullest = (traffic.units * us_per_unit(problem, schedule)).max(axis=1, initial=0.0)
    return float((fullest + traffic.latency_us + problem.message_us).sum())


def busy_us(problem: CollectiveProblem, schedule: CollectiveSchedule, traffic: StepTraffic) -> float:
    """Bytes of all steps over the rate, of the link where that is most."""
    return float((traffic.units.sum(axis=0) * us_per_unit(problem, schedule)).max(initial=0.0))
