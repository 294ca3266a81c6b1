"""Schedules executed block by block: who has what after every step, and what every link carries in it.

Copies and sums are followed apart. A block that is summed must go up an in-tree: every rank but the last sends what it
has gathered once, after all it waits for has come, so that every contribution is in the sum exactly once.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.collective import REDUCING, CollectiveOp, CollectiveProblem, CollectiveSchedule
from topoopt.core.rated_network import RatedNetwork
from topoopt.verify.laws.findings import ViolationLog


@dataclass(frozen=True, eq=False)
class StepTraffic:
    """What the steps put on the links.

    Attributes:
        units: int64[steps, m], units of the vector over each arc in each step.
        latency_us: float64[steps], of the slowest message of each, links alone.
    """

    units: Ints
    latency_us: Floats


def check_routes(findings: ViolationLog, problem: CollectiveProblem, schedule: CollectiveSchedule) -> list[Ints] | None:
    """Arcs of every route; None where some do not exist, or pass through ranks."""
    network, sends = problem.network, schedule.sends
    number = {(tail, head): place for place, (tail, head) in enumerate(network.arcs.tolist())}
    arcs: list[Ints] = []
    wrong = []
    for place, route in enumerate(schedule.routes):
        own = [number.get(hop, -1) for hop in itertools.pairwise(route)]
        inner = route[1:-1]
        if len(route) < 2 or min(own, default=-1) < 0 or any(not network.is_switch[node] for node in inner):
            wrong.append(place)
        arcs.append(np.array(own, dtype=np.int64))
    findings.add_each("route", wrong, lambda k: f"route {list(schedule.routes[k])} is no way through switches")
    if wrong:
        return None
    ends = np.array([(route[0], route[-1]) for route in schedule.routes], dtype=np.int64).reshape(-1, 2)
    if len(sends) and (sends.route.min() < 0 or sends.route.max() >= len(ends)):
        findings.add("route", "a send over a route that is not listed")
        return None
    other = (ends[sends.route, 0] != sends.tail) | (ends[sends.route, 1] != sends.head)
    findings.add_each("route", np.flatnonzero(other), lambda k: f"send {k} goes over a route between other ranks")
    return None if other.any() else arcs


def check_blocks(findings: ViolationLog, problem: CollectiveProblem, schedule: CollectiveSchedule) -> bool:
    """The blocks are what the collective is about: equal shares of all ranks, or all of the root."""
    blocks, ranks, root = schedule.blocks, problem.network.ranks, int(problem.network.ranks[problem.root])
    if len(blocks.units) == 0 or (blocks.units < 1).any() or not np.isin(blocks.owner, ranks).all():
        findings.add("blocks", "blocks of no size, or of no rank")
        return False
    n, total = len(ranks), blocks.total
    by_owner = np.zeros(problem.network.nodes, dtype=np.int64)
    np.add.at(by_owner, blocks.owner, blocks.units)
    sound = True
    if problem.collective in (CollectiveOp.ALLGATHER, CollectiveOp.REDUCE_SCATTER, CollectiveOp.ALL_TO_ALL):
        wrong = ranks[by_owner[ranks] * n != total]
        findings.add_each("blocks", wrong, lambda rank: f"rank {rank} has {by_owner[rank]} of {total} units, 1/{n} due")
        sound = len(wrong) == 0
    elif problem.collective in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE) and by_owner[root] != total:
        findings.add("blocks", f"blocks of others than the root {root}")
        sound = False
    if problem.collective is CollectiveOp.ALL_TO_ALL:
        to = np.zeros((problem.network.nodes, problem.network.nodes), dtype=np.int64)
        if not np.isin(blocks.target, ranks).all():
            findings.add("blocks", "a block for no rank")
            return False
        np.add.at(to, (blocks.owner, blocks.target), blocks.units)
        if (to[np.ix_(ranks, ranks)] * n * n != total).any():
            findings.add("blocks", "not the same amount from each rank to each")
            sound = False
    elif (blocks.target != -1).any():
        findings.add("blocks", "a target outside All-to-All")
        sound = False
    return sound


def check_sums(findings: ViolationLog, problem: CollectiveProblem, schedule: CollectiveSchedule) -> Ints | None:
    """The step after which the owner of each block has its sum, int64[b]; None where some have not."""
    network, blocks, sends = problem.network, schedule.blocks, schedule.sends
    up = np.flatnonzero(sends.reduce)
    shape = (len(blocks.units), network.nodes)
    sent = np.zeros(shape, dtype=np.int64)
    np.add.at(sent, (sends.block[up], sends.tail[up]), 1)
    due = np.zeros(shape, dtype=np.int64)
    due[:, network.ranks] = 1
    due[np.arange(len(blocks.units)), blocks.owner] = 0
    wrong = np.argwhere(sent != due)
    findings.add_each(
        "sum",
        np.arange(len(wrong)),
        lambda k: f"rank {wrong[k][1]} passes its part of block {wrong[k][0]} on {sent[tuple(wrong[k])]} times",
    )
    if len(wrong):
        return None
    leaves = np.full(shape, np.iinfo(np.int64).max)
    leaves[sends.block[up], sends.tail[up]] = sends.step[up]
    early = up[leaves[sends.block[up], sends.head[up]] <= sends.step[up]]
    findings.add_each(
        "sum",
        early,
        lambda k: f"send {k} of block {sends.block[k]} reaches rank {sends.head[k]} after it passed its part on",
    )
    if len(early):
        return None
    ready = np.zeros(len(blocks.units), dtype=np.int64)
    np.maximum.at(ready, sends.block[up], sends.step[up] + 1)
    return ready


def check_copies(
    findings: ViolationLog, problem: CollectiveProblem, schedule: CollectiveSchedule, ready: Ints
) -> Bools:
    """bool[b, V], who has each block at the end; every copy is sent by a rank that has it.

    Args:
        ready: int64[b], step from which the owner of a block has it.
    """
    network, blocks, sends = problem.network, schedule.blocks, schedule.sends
    down = np.flatnonzero(~sends.reduce)
    has = np.zeros((len(blocks.units), network.nodes), dtype=np.bool_)
    order = down[np.argsort(sends.step[down], kind="stable")]
    steps = sends.step[order].astype(np.int64)
    has[np.arange(len(blocks.units)), blocks.owner] = True
    for begin, end in _groups(steps):
        now = order[begin:end]
        block, tail = sends.block[now], sends.tail[now]
        missing = now[~has[block, tail] | ((blocks.owner[block] == tail) & (ready[block] > sends.step[now]))]
        findings.add_each(
            "causality",
            missing,
            lambda k: f"rank {sends.tail[k]} sends block {sends.block[k]} in step {sends.step[k]} and has it not",
        )
        has[block, sends.head[now]] = True
    return has


def _groups(sorted_values: Ints) -> list[tuple[int, int]]:
    """Ranges of equal values."""
    edges = np.flatnonzero(np.diff(sorted_values)) + 1
    ends = [0, *edges.tolist(), len(sorted_values)] if len(sorted_values) else [0]
    return list(itertools.pairwise(ends))


def check_semantics(findings: ViolationLog, problem: CollectiveProblem, schedule: CollectiveSchedule) -> None:
    """After the last step every rank has what the collective gives it."""
    network, blocks, sends = problem.network, schedule.blocks, schedule.sends
    ranks = network.ranks
    if len(sends) and not (
        np.isin(sends.tail, ranks).all()
        and np.isin(sends.head, ranks).all()
        and sends.block.min() >= 0
        and sends.block.max() < len(blocks.units)
        and sends.step.min() >= 0
    ):
        findings.add("sends", "a send of no block, or between no ranks, or before the first step")
        return
    ready = np.zeros(len(blocks.units), dtype=np.int64)
    if not problem.relaying:
        own = np.where(sends.reduce, sends.head, sends.tail)
        passed = np.flatnonzero(own != blocks.owner[sends.block])
        findings.add_each("relaying", passed, lambda k: f"block {sends.block[k]} is passed on between other ranks")
    if problem.collective in REDUCING:
        sums = check_sums(findings, problem, schedule)
        if sums is None:
            return
        ready = sums
        if problem.collective is not CollectiveOp.ALLREDUCE:
            if not sends.reduce.all():
                findings.add("sends", "copies in a reduction")
            return
    elif sends.reduce.any():
        findings.add("sends", "sums where nothing is reduced")
        return
    has = check_copies(findings, problem, schedule, ready)
    if problem.collective is CollectiveOp.ALL_TO_ALL:
        missing = np.flatnonzero(~has[np.arange(len(blocks.units)), blocks.target])
        findings.add_each("result", missing, lambda b: f"block {b} does not reach rank {blocks.target[b]}")
        return
    absent = np.argwhere(~has[:, ranks])
    findings.add_each(
        "result", np.arange(len(absent)), lambda k: f"rank {ranks[absent[k][1]]} never gets block {absent[k][0]}"
    )


def step_traffic(
    network: RatedNetwork, schedule: CollectiveSchedule, arcs: list[Ints], *, multicast: bool = False
) -> StepTraffic:
    """Loads and latencies of the steps.

    Args:
        arcs: of every route.
        multicast: what a rank sends several others in a step goes over a link of their ways once; switches copy it.
    """
    sends, steps = schedule.sends, schedule.steps
    units = np.zeros((steps, len(network.arcs)), dtype=np.int64)
    latency = np.zeros(steps)
    width = max(map(len, arcs), default=0)
    table = np.full((len(arcs), width), -1, dtype=np.int64)
    for place, own in enumerate(arcs):
        table[place, : len(own)] = own
    slow = np.array([network.latency_us[own].sum() for own in arcs])
    np.maximum.at(latency, sends.step, slow[sends.route])
    uses = np.argwhere(table[sends.route] >= 0)
    send, arc = uses[:, 0], table[sends.route[uses[:, 0]], uses[:, 1]]
    if multicast:
        same = np.column_stack((sends.step[send], sends.block[send], sends.tail[send], arc))
        once = np.unique(same, axis=0, return_index=True)[1]
        send, arc = send[once], arc[once]
    np.add.at(units, (sends.step[send], arc), schedule.blocks.units[sends.block[send]])
    return StepTraffic(units, latency)
