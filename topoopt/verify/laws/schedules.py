"""Schedules and programs of chunks are executed: who has what after every step, and what every link carries."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints, distinct, padded
from topoopt.core.collective import (
    ALL_RANKS,
    METHODS_OF,
    REDUCING,
    ChunkProgram,
    CollectiveOp,
    CollectiveProblem,
    CollectiveSchedule,
    Defect,
    GroupSchedule,
    Sends,
    VectorBlocks,
    bytes_per_unit,
)
from topoopt.core.job import Plan
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.result import AllReduceChoice
from topoopt.verify.checker import ViolationLog, as_int

Law = Callable[[CollectiveProblem, CollectiveSchedule], Iterator[str]]


StepTraffic = tuple[Floats, Floats]
"""What the steps put on the links: float64[steps, m], units of the vector over each arc; float64[steps], latency of the
slowest message of each step, links alone, us."""

# Laws of a schedule: each may rely on those before it.


def routes_exist(problem: CollectiveProblem, schedule: CollectiveSchedule) -> Iterator[str]:
    """Every route follows links through switches alone, and every send takes one between its ends."""
    network, sends, routes = problem.network, schedule.sends, schedule.routes
    if any(not network.is_switch[switch] for group in schedule.groups for switch, _ in group):
        yield "a group of others than switches"
    between = np.append(network.is_switch, np.ones(len(schedule.groups), dtype=np.bool_))
    nodes, arcs, _ = _route_hops(network, schedule)
    long = (nodes >= 0).sum(axis=1)
    column = np.arange(nodes.shape[1])
    inner = (column > 0) & (column < long[:, None] - 1)
    wrong = (long < 2) | (inner & ~between[nodes]).any(axis=1)
    wrong |= ((arcs < 0) & (column[1:] < long[:, None])).any(axis=1)
    for route in np.flatnonzero(wrong).tolist():
        yield f"route {list(routes[route])} does not lead through switches from rank to rank"
    if len(sends) and not 0 <= sends.route.min() <= sends.route.max() < len(routes):
        yield "a send over a route that is not listed"
        return
    if not len(sends):
        return
    first, last = nodes[:, 0], nodes[np.arange(len(nodes)), long - 1]
    for send in np.flatnonzero((first[sends.route] != sends.tail) | (last[sends.route] != sends.head)):
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
    between = all(np.isin(end, ranks, kind="table").all() for end in (sends.tail, sends.head))
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
    sends, blocks, nodes = schedule.sends, schedule.blocks, problem.network.nodes
    ready = np.zeros(len(blocks.units), dtype=np.int64)
    up = np.flatnonzero(sends.reduce)
    np.maximum.at(ready, sends.block[up], sends.step[up] + 1)
    down = np.flatnonzero(~sends.reduce)
    block, tail, step = sends.block[down].astype(np.int64), sends.tail[down], sends.step[down].astype(np.int64)
    owns = blocks.owner[block] == tail
    held, first = _first_copies(schedule, nodes)
    cell = block * nodes + tail
    came = np.full(len(down), np.iinfo(np.int64).max)
    if len(held):
        index = np.minimum(np.searchsorted(held, cell), len(held) - 1)
        came = np.where(held[index] == cell, first[index], came)
    for send in down[np.where(owns, ready[block] > step, came >= step)]:
        yield f"rank {sends.tail[send]} sends block {sends.block[send]} in step {sends.step[send]} and has it not"


def _first_copies(schedule: CollectiveSchedule, nodes: int) -> tuple[Ints, Ints]:
    """Cells (block * nodes + node) that get a copy, ascending, and the first step in which they do."""
    sends, down = schedule.sends, np.flatnonzero(~schedule.sends.reduce)
    cell = sends.block[down].astype(np.int64) * nodes + sends.head[down]
    order = np.lexsort((sends.step[down], cell))
    held, index = np.unique(cell[order], return_index=True)
    return held, sends.step[down][order][index].astype(np.int64)


def results_arrive(problem: CollectiveProblem, schedule: CollectiveSchedule) -> Iterator[str]:
    """After the last step every rank has what the collective gives it; sums are at their owner by the law of sums."""
    if problem.collective in (CollectiveOp.REDUCE_SCATTER, CollectiveOp.REDUCE):
        return
    blocks, ranks, nodes = schedule.blocks, problem.network.ranks, problem.network.nodes
    held, _ = _first_copies(schedule, nodes)
    own = np.arange(len(blocks.units), dtype=np.int64) * nodes
    if problem.collective is CollectiveOp.ALL_TO_ALL:
        arrived = _among(own + blocks.target, held) | (blocks.owner == blocks.target)
        for block in np.flatnonzero(~arrived).tolist():
            yield f"block {block} does not reach rank {blocks.target[block]}"
        return
    cells = distinct(np.concatenate((held, own + blocks.owner)))
    cells = cells[~problem.network.is_switch[cells % nodes]]
    counts = np.bincount(cells // nodes, minlength=len(blocks.units))
    for block in np.flatnonzero(counts < len(ranks)).tolist():
        for missing in np.setdiff1d(ranks, cells[cells // nodes == block] % nodes).tolist():
            yield f"rank {missing} never gets block {block}"


def of_group(schedule: CollectiveSchedule, members: Ints) -> CollectiveSchedule:
    """What the ranks of a process group own and send of it."""
    blocks, sends = schedule.blocks, schedule.sends
    kept = np.isin(blocks.owner, members)
    number, mine = np.cumsum(kept) - 1, kept[sends.block]
    rows = {name: getattr(sends, name)[mine] for name in sends.__dataclass_fields__}
    rows["block"] = number[rows["block"]].astype(np.int32)
    used, route = np.unique(rows["route"], return_inverse=True)
    rows["route"] = route.astype(np.int32)
    routes = tuple(schedule.routes[index] for index in used.tolist())
    own = (blocks.units[kept], blocks.owner[kept], blocks.target[kept])
    return CollectiveSchedule(VectorBlocks(*own), Sends(**rows), routes, schedule.groups)


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


def _route_hops(
    network: RatedNetwork, schedule: CollectiveSchedule
) -> tuple[Ints, Ints, list[list[tuple[int, float]]]]:
    """Nodes of every route and its hops, -1 behind them and for no link; arcs of every hop, and parts over each."""
    nodes, wide = padded(schedule.routes), network.nodes + len(schedule.groups)
    parts = [[(arc, 1.0)] for arc in range(len(network.arcs))]
    codes = np.concatenate((network.arcs[:, 0].astype(np.int64) * wide + network.arcs[:, 1], [1 << 62]))
    number = np.append(np.arange(len(parts)), -1)
    inside = nodes[:, 1:] >= 0
    code = nodes[:, :-1][inside] * wide + nodes[:, 1:][inside]
    if schedule.groups:
        arcs = dict(zip(map(tuple, network.arcs.tolist()), range(len(parts)), strict=True))
        switches = [[(node, 1.0)] for node in range(network.nodes)]
        for group in schedule.groups:
            switches.append([(switch, weight / sum(own for _, own in group)) for switch, weight in group])
        more = []
        for hop in distinct(code[(code // wide >= network.nodes) | (code % wide >= network.nodes)]).tolist():
            ends = itertools.product(switches[hop // wide], switches[hop % wide])
            own = [(arcs.get((tail, head), -1), first * second) for (tail, first), (head, second) in ends]
            if min(own)[0] >= 0:
                more.append(hop)
                parts.append(own)
        codes = np.concatenate((codes[:-1], more, codes[-1:]))
        order = np.argsort(codes)
        codes, number = codes[order], np.append(np.arange(len(parts)), -1)[order]
    index, hops = np.searchsorted(codes, code), np.full(inside.shape, -1, dtype=np.int64)
    hops[inside] = np.where(codes[index] == code, number[index], -1)
    return nodes, hops, parts


def step_traffic(network: RatedNetwork, schedule: CollectiveSchedule, *, multicast: bool = False) -> StepTraffic:
    """Return loads and latencies of the steps; with `multicast` what a rank sends several others passes a link once."""
    sends, steps, m = schedule.sends, schedule.steps, len(network.arcs)
    _, table, parts = _route_hops(network, schedule)
    units = np.zeros((steps, len(parts)), dtype=np.int64)
    latency = np.zeros(steps)
    slowest = np.array([*(max(network.latency_us[arc] for arc, _ in own) for own in parts), 0.0])
    np.maximum.at(latency, sends.step, slowest[table].sum(axis=1)[sends.route])
    if multicast:
        uses = np.argwhere(table[sends.route] >= 0)
        send, arc = uses[:, 0], table[sends.route[uses[:, 0]], uses[:, 1]]
        same = np.column_stack((sends.step[send], sends.block[send], sends.tail[send], arc))
        once = np.unique(same, axis=0, return_index=True)[1]
        send, arc = send[once], arc[once]
        np.add.at(units, (sends.step[send], arc), schedule.blocks.units[sends.block[send]])
    else:
        for column in table.T:
            send = np.flatnonzero(column[sends.route] >= 0)
            arc = column[sends.route[send]]
            np.add.at(units, (sends.step[send], arc), schedule.blocks.units[sends.block[send]])
    loads = units[:, :m].astype(np.float64)
    for carried, own in zip(units.T[m:], parts[m:], strict=True):
        for number, part in own:
            loads[:, number] += carried * part
    return loads, latency


def us_per_unit(problem: CollectiveProblem, schedule: CollectiveSchedule) -> Floats:
    """float64[m], us of a unit of the blocks on each arc."""
    moved = bytes_per_unit(problem, schedule.blocks.total)
    return np.asarray(moved / (problem.network.gbytes_per_s * 1e3), dtype=np.float64)


def step_time_us(problem: CollectiveProblem, schedule: CollectiveSchedule, traffic: StepTraffic) -> float:
    """All steps one after the other: of each the slowest message's latency and the bytes of its fullest link."""
    units, latency_us = traffic
    fullest = (units * us_per_unit(problem, schedule)).max(axis=1, initial=0.0)
    return float((fullest + latency_us + problem.message_us).sum())


def busy_us(problem: CollectiveProblem, schedule: CollectiveSchedule, traffic: StepTraffic) -> float:
    """Bytes of all steps over the rate, of the link where that is most."""
    return float((traffic[0].sum(axis=0) * us_per_unit(problem, schedule)).max(initial=0.0))


MOST_VISITS = 30_000_000
"""Actions looked at to find whether accesses are in order."""

MOST_RACES = 8


class OrderLimitError(ValueError):
    """Whether accesses are in order takes too long to find out."""


@dataclass(frozen=True, eq=False)
class Order:
    """Actions in an order that obeys all dependences.

    Attributes:
        actions: int64[a]; fewer where some wait for each other.
        position: int64[a], position of each action in it; -1: never.
        earlier, first: those before action k are earlier[first[k]:first[k + 1]].
    """

    actions: Ints
    position: Ints
    earlier: Ints
    first: Ints


def ordered(program: ChunkProgram) -> Order:
    """Actions in order (Kahn), those of lower number first where that is open within a wave."""
    count = len(program.places)
    after = program.after
    by_action = np.argsort(after[:, 0], kind="stable")
    earlier = after[by_action, 1]
    first = np.concatenate(([0], np.cumsum(np.bincount(after[:, 0], minlength=count)))).astype(np.int64)
    by_earlier = np.argsort(after[:, 1], kind="stable")
    later = after[by_earlier, 0].tolist()
    begin = np.concatenate(([0], np.cumsum(np.bincount(after[:, 1], minlength=count)))).tolist()
    waiting = np.diff(first).tolist()
    order = [action for action, left in enumerate(waiting) if left == 0]
    for action in order:
        for follower in later[begin[action] : begin[action + 1]]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                order.append(follower)
    actions = np.array(order, dtype=np.int64)
    position = np.full(count, -1, dtype=np.int64)
    position[actions] = np.arange(len(actions))
    return Order(actions, position, earlier, first)


def deadlock(program: ChunkProgram, order: Order) -> list[Defect]:
    """Actions that wait for each other in a circle."""
    stuck = np.flatnonzero(order.position < 0)
    if len(stuck) == 0:
        return []
    seen: dict[int, int] = {}
    action = int(stuck[0])
    while action not in seen:
        seen[action] = len(seen)
        before = order.earlier[order.first[action] : order.first[action + 1]]
        action = int(before[order.position[before] < 0][0])
    circle = [member for member, number in seen.items() if number >= seen[action]]
    shown = "; ".join(program.place(member) for member in circle[:6]) + ("; ..." if len(circle) > 6 else "")
    return [Defect("deadlock", f"{len(stuck)} actions never run; these wait for each other: {shown}")]


def accesses(program: ChunkProgram, order: Order) -> tuple[tuple[Defect, ...], int]:
    """Races: accesses to a cell, a write among them, in no order; and how many only messages of other ranks order.

    Raises:
        OrderLimitError: after 30 million actions looked at.
    """
    pairs, cells = _pairs(program, order)
    if len(pairs) == 0:
        return (), 0
    reaches = _walk(program, order)
    races: list[Defect] = []
    missed = others = 0
    for (early, late), cell in zip(pairs.tolist(), cells.tolist(), strict=True):
        if reaches(early, late, True):
            continue
        if reaches(early, late, False):
            others += 1
            continue
        missed += 1
        if missed <= MOST_RACES:
            text = f"{program.cell(cell)} is used by two that nothing puts in order: "
            races.append(Defect("race", text + f"{program.place(early)}; {program.place(late)}"))
        elif missed > 1000:
            break
    if missed > MOST_RACES:
        races.append(Defect("race", f"{missed - MOST_RACES} more of the kind"))
    return tuple(races), others


def _pairs(program: ChunkProgram, order: Order) -> tuple[Ints, Ints]:
    """Pairs of actions that must be in order, int64[p, 2], and the cell of each; those that plainly are left out."""
    moves = program.moves
    count = max(len(program.places), 1)
    reads, writes = (np.column_stack(np.divmod(distinct(moves[:, end] * count + moves[:, 0]), count)) for end in (2, 1))
    cell = np.concatenate((reads[:, 0], writes[:, 0]))
    if len(cell) == 0:
        return np.zeros((0, 2), dtype=np.int64), cell
    action = np.concatenate((reads[:, 1], writes[:, 1]))
    write = np.repeat([False, True], [len(reads), len(writes)])
    row = np.lexsort((write, order.position[action], cell))
    cell, action, write = cell[row], action[row], write[row]
    index = np.arange(len(cell))
    opening = np.concatenate(([True], cell[1:] != cell[:-1]))
    start = np.maximum.accumulate(np.where(opening, index, 0))
    last = np.maximum.accumulate(np.where(write, index, -1))
    before = np.concatenate(([-1], last[:-1]))  # the write before each access
    before = np.where(before >= start, before, -1)
    read_since = np.concatenate(([False], ~write[:-1])) & ~opening
    coming = np.minimum.accumulate(np.where(write, index, len(cell))[::-1])[::-1]
    same = (coming < len(cell)) & (start[np.minimum(coming, len(cell) - 1)] == start)
    following = np.where(same & ~write, coming, -1)  # the write after each read
    after_write = index[(before >= 0) & (~write | ~read_since)]
    before_write = index[following >= 0]
    early = np.concatenate((before[after_write], before_write))
    late = np.concatenate((after_write, following[before_write]))
    pairs = np.column_stack((action[early], action[late]))
    where = cell[late]
    key, kept = np.unique(pairs[:, 1] * count + pairs[:, 0], return_index=True)
    pairs, where = pairs[kept], where[kept]
    direct = _among(key, program.after[:, 0] * count + program.after[:, 1])
    chain = program.chain
    same_chain = (chain[pairs[:, 0]] == chain[pairs[:, 1]]) & (pairs[:, 0] < pairs[:, 1])
    open_ = ~direct & ~same_chain & (pairs[:, 0] != pairs[:, 1])
    return pairs[open_], where[open_]


def _among(wanted: Ints, given: Ints) -> Bools:
    ordered = np.sort(given)
    index = np.searchsorted(ordered, wanted)
    among: Bools = np.zeros(len(wanted), dtype=np.bool_)
    inside = index < len(ordered)
    among[inside] = ordered[index[inside]] == wanted[inside]
    return among


def _walk(program: ChunkProgram, order: Order) -> Callable[[int, int, bool], bool]:
    """A backward search along dependences, no farther than need be, for many pairs of actions."""
    position, earlier, first = order.position.tolist(), order.earlier.tolist(), order.first.tolist()
    chain, home = program.chain.tolist(), program.home.tolist()
    visits = 0

    def reaches(early: int, late: int, local: bool) -> bool:
        """Whether `late` always comes after `early`; `local`: by dependences inside one rank alone."""
        nonlocal visits
        if local and home[late] != home[early]:
            return False
        stack, seen = [late], {late}
        while stack:
            action = stack.pop()
            visits += 1
            if visits > MOST_VISITS:
                raise OrderLimitError(f"more than {MOST_VISITS} actions looked at")
            for other in earlier[first[action] : first[action + 1]]:
                if other == early or (chain[other] == chain[early] and other > early):
                    return True
                foreign = local and home[other] != home[early]
                if position[other] > position[early] and other not in seen and not foreign:
                    seen.add(other)
                    stack.append(other)
        return False

    return reaches


MOST_SHOWN = 5
NOTHING = 0
HALTING = frozenset({"deadlock", "message", "range"})
"""Laws without which a program cannot be executed."""


@dataclass(frozen=True, eq=False)
class Execution:
    """What came of it.

    Attributes:
        defects: laws that are broken, in the order in which they are looked at.
        order: of the actions.
        through_others: accesses of a rank that only messages of other ranks keep in order.
        orders_differ: parts of the vector whose sums are added up in different orders for different ranks.
    """

    defects: tuple[Defect, ...]
    order: Order
    through_others: int
    orders_differ: int = 0


def execute(program: ChunkProgram) -> Execution:
    """Run a program once; its order is partial, and what it leaves open is a race.

    Raises:
        OrderLimitError: too much to look at.
    """
    order = ordered(program)
    defects = [*program.defects, *deadlock(program, order)]
    if any(defect.law in HALTING for defect in defects):
        return Execution(tuple(defects), order, 0)
    if not program.exact:
        return Execution((*defects, *_knowledge(program, order)), order, 0)
    wrong, orders_differ = _run(program, order)
    races, through_others = accesses(program, order)
    return Execution((*defects, *races, *wrong), order, through_others, orders_differ)


class _Values:
    """Values by number; 0 is nothing, a negative number stands for what went wrong."""

    def __init__(self) -> None:
        self.values: list[tuple[int, int]] = [(-1, 0)]
        self.number: dict[tuple[int, int], int] = {}
        self.sums: dict[tuple[int, int], int] = {}
        self.wrong: list[str] = [""]
        self.orders: dict[tuple[int, int], int] = {}

    def of(self, label: int, ranks: int) -> int:
        number = self.number.setdefault((label, ranks), len(self.values))
        if number == len(self.values):
            self.values.append((label, ranks))
        return number

    def order(self, first: int, second: int) -> int:
        """Number of the order of additions of a sum of two values, which are added in either order alike."""
        return self.orders.setdefault((min(first, second), max(first, second)), -1 - len(self.orders))

    def bad(self, why: str) -> int:
        self.wrong.append(why)
        return 1 - len(self.wrong)

    def joined(self, value: int, added: int, where: Callable[[], str]) -> int:
        """Number of the sum of two values; a negative one where they must not be added."""
        if value < 0 or added < 0:
            return value if value < 0 else added
        number = self.sums.get((value, added))
        if number is None:
            (label, ranks), (second, more) = self.values[value], self.values[added]
            if NOTHING in (value, added):
                return self.bad(f"nothing is there to be added at {where()}")
            if label != second:
                return self.bad(f"different parts of the vector are added at {where()}")
            if ranks & more:
                twice = _lowest(ranks & more)
                return self.bad(f"what rank {twice} has is counted twice at {where()}")
            number = self.sums[value, added] = self.of(label, ranks | more)
        return number


def _lowest(ranks: int) -> int:
    return (ranks & -ranks).bit_length() - 1


def _run(program: ChunkProgram, order: Order) -> tuple[list[Defect], int]:
    """What is wrong, and how many parts of the vector are summed in different orders for different ranks."""
    values = _Values()
    held, added_as = [NOTHING] * program.cells, [0] * program.cells
    for cell, label, rank in program.start.tolist():
        held[cell] = values.of(label, 1 << rank)
        added_as[cell] = rank
    begin = np.searchsorted(program.moves[:, 0], np.arange(len(program.places) + 1)).tolist()
    to, source = program.moves[:, 1].tolist(), program.moves[:, 2].tolist()
    empty: list[tuple[int, int]] = []
    for action in order.actions.tolist():
        low, high = begin[action], begin[action + 1]
        if high == low + 1 and held[source[low]] != NOTHING:
            held[to[low]], added_as[to[low]] = held[source[low]], added_as[source[low]]
            continue
        fresh: dict[int, int] = {}
        orders: dict[int, int] = {}
        for row in range(low, high):
            value, cell = held[source[row]], to[row]
            if value == NOTHING:
                empty.append((action, source[row]))
                value = values.bad(f"{program.place(action)} takes what is not there")
            own = added_as[source[row]]
            orders[cell] = values.order(orders[cell], own) if cell in orders else own
            fresh[cell] = (
                value if cell not in fresh else values.joined(fresh[cell], value, lambda at=action: program.place(at))  # type: ignore[misc]
            )
        for cell, value in fresh.items():
            held[cell], added_as[cell] = value, orders[cell]
    taken = _several(
        "causality",
        (f"{program.place(action)} takes {program.cell(cell)}, where nothing is yet" for action, cell in empty),
    )
    sums: dict[int, set[int]] = {}
    for cell, label, rank in program.expected.tolist():
        if rank == ALL_RANKS:
            sums.setdefault(label, set()).add(added_as[cell])
    differ = sum(len(kinds) > 1 for kinds in sums.values())
    return [*taken, *_several("result", _wrong_results(program, values, held))], differ


def _wrong_results(program: ChunkProgram, values: _Values, held: list[int]) -> Iterable[str]:
    everyone = (1 << len(program.ranks)) - 1
    right: dict[tuple[int, int], int | None] = {}
    for cell, label, rank in program.expected.tolist():
        value = held[cell]
        if (label, rank) not in right:
            right[label, rank] = values.number.get((label, everyone if rank == ALL_RANKS else 1 << rank))
        if value == right[label, rank]:
            continue
        if value < 0:
            yield f"{program.cell(cell)} ends wrong: {values.wrong[-value]}"
            continue
        own, ranks = values.values[value]
        wanted = everyone if rank == ALL_RANKS else 1 << rank
        if value == NOTHING:
            yield f"{program.cell(cell)} is never filled"
        elif own != label:
            yield f"{program.cell(cell)} ends with part {own} of the vector, not {label}"
        elif ranks != wanted:
            missing, more = wanted & ~ranks, ranks & ~wanted
            if missing:
                yield f"{program.cell(cell)} ends without what rank {program.ranks[_lowest(missing)]} has"
            else:
                yield f"{program.cell(cell)} ends with what rank {program.ranks[_lowest(more)]} has besides"


def _several(law: str, messages: Iterable[str]) -> list[Defect]:
    every = list(messages)
    hidden = len(every) - MOST_SHOWN
    return [
        *(Defect(law, text) for text in every[:MOST_SHOWN]),
        *([Defect(law, f"{hidden} more of the kind")] if hidden > 0 else []),
    ]


def _knowledge(program: ChunkProgram, order: Order) -> list[Defect]:
    """Where a file does not say which bytes are sent: every rank must at least come after something of every other."""
    knowledge = [0] * len(program.places)
    home = program.home.tolist()
    first, earlier = order.first.tolist(), order.earlier.tolist()
    at_end = [1 << rank for rank in range(len(program.ranks))]
    for action in order.actions.tolist():
        mask = 1 << home[action]
        for other in earlier[first[action] : first[action + 1]]:
            mask |= knowledge[other]
        knowledge[action] = mask
        at_end[home[action]] |= mask
    wanted: dict[int, int] = {}
    buffers = {first: rank for rank, _, first, _ in program.buffers}
    for cell, _, rank in program.expected.tolist():
        everyone = (1 << len(program.ranks)) - 1
        own = buffers[cell]
        wanted[own] = wanted.get(own, 0) | (everyone if rank == ALL_RANKS else 1 << rank)
    lost = [
        f"rank {program.ranks[rank]} can know nothing of rank {program.ranks[_lowest(mask & ~at_end[rank])]}"
        for rank, mask in sorted(wanted.items())
        if mask & ~at_end[rank]
    ]
    return _several("result", lost)


MOST_LOADS = 100_000_000
"""Loads of links in the steps of a schedule that are looked at."""

METHODS = METHODS_OF[AllReduceChoice.BEST]


@dataclass(frozen=True, eq=False)
class ScheduleLoads:
    """What one sound schedule puts on the links.

    Attributes:
        members: of its group, ascending.
        from_bytes, below_bytes: payloads it is for; None: any more.
        arcs: int64[m, 2], tail and head of the links that count.
        units: int64[steps, hops, m], over each link at each hop of the messages of a step.
        total: units of the payload.
    """

    members: tuple[int, ...]
    from_bytes: int
    below_bytes: int | None
    arcs: Ints
    units: Ints
    total: int

    def covers(self, members: tuple[int, ...], payload: int) -> bool:
        below = self.below_bytes is None or payload < self.below_bytes
        return members == self.members and self.from_bytes <= payload and below


def check_schedules(
    findings: ViolationLog, schedules: tuple[GroupSchedule, ...], links: Ints
) -> tuple[ScheduleLoads, ...]:
    """Report what is wrong; the loads of the schedules that are sound.

    Args:
        findings: where to report.
        schedules: of a plan.
        links: int64[n, n], parallel links i -> j.
    """
    loads: list[ScheduleLoads] = []
    for position, schedule in enumerate(schedules):
        check = partial(_check_one, findings, f"schedule {position}", schedule, links, loads)
        findings.guard("schedule-shape", f"schedule {position}", check)
    for first, second in combinations(loads, 2):
        if first.members == second.members and _overlap(first, second):
            findings.add("schedule-sizes", f"two schedules of group {list(first.members)} for the same payloads")
    return tuple(loads)


def _overlap(first: ScheduleLoads, other: ScheduleLoads) -> bool:
    low, high = (first, other) if first.from_bytes <= other.from_bytes else (other, first)
    return low.below_bytes is None or high.from_bytes < low.below_bytes


def _check_one(
    findings: ViolationLog, where: str, schedule: GroupSchedule, links: Ints, loads: list[ScheduleLoads]
) -> None:
    arcs = executed(findings, where, schedule, links)
    if arcs is None:
        return
    ends, pieces = joined(links), schedule.pieces
    count = len(ends)
    size = (schedule.schedule.steps + pieces - 1) * max(map(len, arcs), default=0) * count
    if size > MOST_LOADS:
        findings.add("schedule-size", f"{where} has {size} loads of links in its steps, at most {MOST_LOADS}")
        return
    units = piece_units(schedule, arcs, count, pieces)
    total = schedule.schedule.blocks.total * pieces
    loads.append(ScheduleLoads(schedule.members, schedule.from_bytes, schedule.below_bytes, ends, units, total))


def joined(links: Ints) -> Ints:
    """int64[m, 2], tail and head of the links that count, in ascending order."""
    ends = np.argwhere(links > 0).astype(np.int64)
    apart: Ints = ends[ends[:, 0] != ends[:, 1]]
    return apart


def executed(findings: ViolationLog, where: str, schedule: GroupSchedule, links: Ints) -> list[Ints] | None:
    """Report what is wrong with a schedule, which is executed block by block.

    Args:
        findings: where to report.
        where: name of the schedule.
        schedule: the schedule.
        links: int64[n, n], parallel links i -> j.

    Returns:
        of each of its routes the numbers of its links, as in `joined`; None: it is not sound.
    """
    n = len(links)
    members = tuple(number for number in map(as_int, schedule.members) if number is not None and 0 <= number < n)
    if len(members) < max(len(schedule.members), 2) or list(members) != sorted(set(members)):
        findings.add("schedule-group", f"{where} is for {schedule.members!r}, two or more ascending servers expected")
        return None
    start, below, pieces = as_int(schedule.from_bytes), as_int(schedule.below_bytes), as_int(schedule.pieces)
    if start is None or start < 0 or (schedule.below_bytes is not None and (below is None or below <= start)):
        findings.add("schedule-sizes", f"{where} is for {schedule.from_bytes!r} to {schedule.below_bytes!r} bytes")
        return None
    if pieces is None or pieces < 1:
        findings.add("schedule-pieces", f"{where} is in {schedule.pieces!r} pieces")
        return None
    if schedule.method not in METHODS:
        findings.add("schedule-method", f"{where} is said to be made by {schedule.method!r}")
    # Rates do not matter here: what a schedule takes is simulated.
    network = RatedNetwork.of_links(
        [server not in members for server in range(n)],
        [(tail, head, Fraction(int(links[tail, head]))) for tail, head in joined(links).tolist()],
    )
    problem = CollectiveProblem(where, network, CollectiveOp.ALLREDUCE, 1)
    for code, law in LAWS:
        messages = list(law(problem, schedule.schedule))
        for message in messages:
            findings.add(f"schedule-{code}", f"{where} of group {list(members)}: {message}")
        if messages:
            return None
    return [row[row >= 0] for row in _route_hops(network, schedule.schedule)[1]]


def piece_units(schedule: GroupSchedule, arcs: Sequence[Ints], count: int, pieces: int) -> Ints:
    """int64[steps, hops, m]: every piece does what whole blocks would, a step behind the one before.

    Args:
        schedule: the schedule.
        arcs: numbers of the links along each of its routes.
        count: m.
        pieces: of every block; a unit is one of a piece.
    """
    sends = schedule.schedule.sends
    whole = schedule.schedule.steps
    longest = max(map(len, arcs), default=0)
    units = np.zeros((whole + pieces - 1, longest, count), dtype=np.int64)
    alone = np.zeros((whole, longest, count), dtype=np.int64)
    size = schedule.schedule.blocks.units[sends.block]
    for send, route in enumerate(np.asarray(sends.route).tolist()):
        alone[sends.step[send], np.arange(len(arcs[route])), arcs[route]] += size[send]
    for late in range(pieces):
        units[late : late + whole] += alone
    return units


def check_choice(findings: ViolationLog, choice: AllReduceChoice, plan: Plan) -> None:
    """AllReduces run on what the instance asks for: all on rings, none, or whichever is best."""
    allowed = METHODS_OF[choice]
    for position, schedule in enumerate(plan.schedules):
        if schedule.method not in allowed:
            findings.add(
                "allreduce", f"schedule {position} is by {schedule.method!r}, the instance asks for {choice.value}"
            )
    if choice not in (AllReduceChoice.RINGS, AllReduceChoice.BEST) and plan.rings:
        findings.add("allreduce", f"AllReduces on rings, the instance asks for {choice.value}")
