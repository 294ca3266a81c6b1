"""Execution of a program of chunks: its partial order, what the order leaves open, and what every cell holds.

A value is a part of the vector (its label) and the set of ranks whose contributions are in it; copies keep it, sums
join disjoint sets of one label. Anything else is no value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Bools, Ints, distinct
from topoopt.core.collective import ALL_RANKS, ChunkProgram, Defect

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


@dataclass(frozen=True)
class Accesses:
    """What the order leaves open.

    Attributes:
        races: pairs of accesses to a cell that are in no order, at least one of them a write.
        through_others: pairs that are in order only because of messages from other ranks.
    """

    races: tuple[Defect, ...]
    through_others: int


def accesses(program: ChunkProgram, order: Order) -> Accesses:
    """Whether all reads and writes of every cell are in order.

    Raises:
        OrderLimitError: after 30 million actions looked at.
    """
    pairs, cells = _pairs(program, order)
    if len(pairs) == 0:
        return Accesses((), 0)
    walk = _Walk(program, order)
    races: list[Defect] = []
    missed = others = 0
    for (early, late), cell in zip(pairs.tolist(), cells.tolist(), strict=True):
        if walk.reaches(early, late, local=True):
            continue
        if walk.reaches(early, late, local=False):
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
    return Accesses(tuple(races), others)


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
    """bool[w], which of the wanted values are given."""
    ordered = np.sort(given)
    index = np.searchsorted(ordered, wanted)
    among: Bools = np.zeros(len(wanted), dtype=np.bool_)
    inside = index < len(ordered)
    among[inside] = ordered[index[inside]] == wanted[inside]
    return among


class _Walk:
    """Backward search along dependences, no farther than need be."""

    def __init__(self, program: ChunkProgram, order: Order) -> None:
        self.position = order.position.tolist()
        self.earlier = order.earlier.tolist()
        self.first = order.first.tolist()
        self.chain = program.chain.tolist()
        self.home = program.home.tolist()
        self.visits = 0

    def reaches(self, early: int, late: int, *, local: bool) -> bool:
        """Whether `late` always comes after `early`; `local`: by dependences inside one rank alone."""
        least, chain, home = self.position[early], self.chain[early], self.home[early]
        if local and self.home[late] != home:
            return False
        stack, seen = [late], {late}
        while stack:
            action = stack.pop()
            self.visits += 1
            if self.visits > MOST_VISITS:
                raise OrderLimitError(f"more than {MOST_VISITS} actions looked at")
            for other in self.earlier[self.first[action] : self.first[action + 1]]:
                if other == early or (self.chain[other] == chain and other > early):
                    return True
                if self.position[other] > least and other not in seen and not (local and self.home[other] != home):
                    seen.add(other)
                    stack.append(other)
        return False


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
    """

    defects: tuple[Defect, ...]
    order: Order
    through_others: int


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
    wrong = _run(program, order)
    open_accesses = accesses(program, order)
    return Execution((*defects, *open_accesses.races, *wrong), order, open_accesses.through_others)


class _Values:
    """Values by number; 0 is nothing, a negative number stands for what went wrong."""

    def __init__(self) -> None:
        self.values: list[tuple[int, int]] = [(-1, 0)]
        self.number: dict[tuple[int, int], int] = {}
        self.sums: dict[tuple[int, int], int] = {}
        self.wrong: list[str] = [""]

    def of(self, label: int, ranks: int) -> int:
        """Number of a label with a set of ranks as bits."""
        number = self.number.setdefault((label, ranks), len(self.values))
        if number == len(self.values):
            self.values.append((label, ranks))
        return number

    def bad(self, why: str) -> int:
        """A value that is wrong for a reason."""
        self.wrong.append(why)
        return 1 - len(self.wrong)

    def joined(self, value: int, added: int, where: Callable[[], str]) -> int:
        """Sum of two values."""
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


def _run(program: ChunkProgram, order: Order) -> list[Defect]:
    values = _Values()
    held = [NOTHING] * program.cells
    for cell, label, rank in program.start.tolist():
        held[cell] = values.of(label, 1 << rank)
    begin = np.searchsorted(program.moves[:, 0], np.arange(len(program.places) + 1)).tolist()
    to, source = program.moves[:, 1].tolist(), program.moves[:, 2].tolist()
    empty: list[tuple[int, int]] = []
    for action in order.actions.tolist():
        low, high = begin[action], begin[action + 1]
        if high == low + 1 and held[source[low]] != NOTHING:
            held[to[low]] = held[source[low]]
            continue
        fresh: dict[int, int] = {}
        for row in range(low, high):
            value, cell = held[source[row]], to[row]
            if value == NOTHING:
                empty.append((action, source[row]))
                value = values.bad(f"{program.place(action)} takes what is not there")
            fresh[cell] = (
                value if cell not in fresh else values.joined(fresh[cell], value, lambda at=action: program.place(at))  # type: ignore[misc]
            )
        for cell, value in fresh.items():
            held[cell] = value
    taken = _several(
        "causality",
        (f"{program.place(action)} takes {program.cell(cell)}, where nothing is yet" for action, cell in empty),
    )
    return [*taken, *_several("result", _wrong_results(program, values, held))]


def _wrong_results(program: ChunkProgram, values: _Values, held: list[int]) -> Iterable[str]:
    """What is not there at the end, or wrong."""
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
    """The first few, and how many more there are."""
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
    buffers = {cell: other.rank for other in program.buffers for cell in (other.first,)}
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
