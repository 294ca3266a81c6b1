"""The partial order of the actions of a program: an order that obeys it, and accesses that it leaves open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Bools, Ints, distinct
from topoopt.core.chunk_program import ChunkProgram, Defect

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
        place: int64[a], place of each action in it; -1: never.
        earlier, first: those before action k are earlier[first[k]:first[k + 1]].
    """

    actions: Ints
    place: Ints
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
    found = [action for action, left in enumerate(waiting) if left == 0]
    for action in found:
        for one in later[begin[action] : begin[action + 1]]:
            waiting[one] -= 1
            if waiting[one] == 0:
                found.append(one)
    actions = np.array(found, dtype=np.int64)
    place = np.full(count, -1, dtype=np.int64)
    place[actions] = np.arange(len(actions))
    return Order(actions, place, earlier, first)


def deadlock(program: ChunkProgram, order: Order) -> list[Defect]:
    """Actions that wait for each other in a circle."""
    stuck = np.flatnonzero(order.place < 0)
    if len(stuck) == 0:
        return []
    seen: dict[int, int] = {}
    action = int(stuck[0])
    while action not in seen:
        seen[action] = len(seen)
        before = order.earlier[order.first[action] : order.first[action + 1]]
        action = int(before[order.place[before] < 0][0])
    circle = [one for one, number in seen.items() if number >= seen[action]]
    shown = "; ".join(program.place(one) for one in circle[:6]) + ("; ..." if len(circle) > 6 else "")
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
    row = np.lexsort((write, order.place[action], cell))
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
    place = np.searchsorted(ordered, wanted)
    found: Bools = np.zeros(len(wanted), dtype=np.bool_)
    inside = place < len(ordered)
    found[inside] = ordered[place[inside]] == wanted[inside]
    return found


class _Walk:
    """Backward search along dependences, no farther than need be."""

    def __init__(self, program: ChunkProgram, order: Order) -> None:
        self.place = order.place.tolist()
        self.earlier = order.earlier.tolist()
        self.first = order.first.tolist()
        self.chain = program.chain.tolist()
        self.home = program.home.tolist()
        self.visits = 0

    def reaches(self, early: int, late: int, *, local: bool) -> bool:
        """Whether `late` always comes after `early`; `local`: by dependences inside one rank alone."""
        least, chain, home = self.place[early], self.chain[early], self.home[early]
        if local and self.home[late] != home:
            return False
        stack, seen = [late], {late}
        while stack:
            action = stack.pop()
            self.visits += 1
            if self.visits > MOST_VISITS:
                raise OrderLimitError(f"more than {MOST_VISITS} actions looked at")
            for one in self.earlier[self.first[action] : self.first[action + 1]]:
                if one == early or (self.chain[one] == chain and one > early):
                    return True
                if self.place[one] > least and one not in seen and not (local and self.home[one] != home):
                    seen.add(one)
                    stack.append(one)
        return False
