"""Execution of a program on sets of contributions: what every cell holds after every action.

A value is a part of the vector (its label) and the set of ranks whose contributions are in it; copies keep it, sums
join disjoint sets of one label. Anything else is no value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from topoopt.core.chunk_program import ALL_RANKS, ChunkProgram, Defect
from topoopt.verify.collective.order import Order, accesses, deadlock, ordered

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
    if any(one.law in HALTING for one in defects):
        return Execution(tuple(defects), order, 0)
    if not program.exact:
        return Execution((*defects, *_knowledge(program, order)), order, 0)
    wrong = _run(program, order)
    found = accesses(program, order)
    return Execution((*defects, *found.races, *wrong), order, found.through_others)


class _Values:
    """Values by number; 0 is nothing, a negative number stands for what went wrong."""

    def __init__(self) -> None:
        self.known: list[tuple[int, int]] = [(-1, 0)]
        self.number: dict[tuple[int, int], int] = {}
        self.sums: dict[tuple[int, int], int] = {}
        self.wrong: list[str] = [""]

    def of(self, label: int, ranks: int) -> int:
        """Number of a label with a set of ranks as bits."""
        found = self.number.setdefault((label, ranks), len(self.known))
        if found == len(self.known):
            self.known.append((label, ranks))
        return found

    def bad(self, why: str) -> int:
        """A value that is wrong for a reason."""
        self.wrong.append(why)
        return 1 - len(self.wrong)

    def joined(self, one: int, other: int, where: Callable[[], str]) -> int:
        """Sum of two values."""
        if one < 0 or other < 0:
            return one if one < 0 else other
        found = self.sums.get((one, other))
        if found is None:
            (label, ranks), (second, more) = self.known[one], self.known[other]
            if NOTHING in (one, other):
                return self.bad(f"nothing is there to be added at {where()}")
            if label != second:
                return self.bad(f"different parts of the vector are added at {where()}")
            if ranks & more:
                twice = _lowest(ranks & more)
                return self.bad(f"what rank {twice} has is counted twice at {where()}")
            found = self.sums[one, other] = self.of(label, ranks | more)
        return found


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
    for cell, label, rank in program.due.tolist():
        value = held[cell]
        if (label, rank) not in right:
            right[label, rank] = values.number.get((label, everyone if rank == ALL_RANKS else 1 << rank))
        if value == right[label, rank]:
            continue
        if value < 0:
            yield f"{program.cell(cell)} ends wrong: {values.wrong[-value]}"
            continue
        own, ranks = values.known[value]
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
    known = [0] * len(program.places)
    home = program.home.tolist()
    first, earlier = order.first.tolist(), order.earlier.tolist()
    at_end = [1 << rank for rank in range(len(program.ranks))]
    for action in order.actions.tolist():
        mask = 1 << home[action]
        for one in earlier[first[action] : first[action + 1]]:
            mask |= known[one]
        known[action] = mask
        at_end[home[action]] |= mask
    wanted: dict[int, int] = {}
    buffers = {cell: one.rank for one in program.buffers for cell in (one.first,)}
    for cell, _, rank in program.due.tolist():
        everyone = (1 << len(program.ranks)) - 1
        own = buffers[cell]
        wanted[own] = wanted.get(own, 0) | (everyone if rank == ALL_RANKS else 1 << rank)
    lost = [
        f"rank {program.ranks[rank]} can know nothing of rank {program.ranks[_lowest(mask & ~at_end[rank])]}"
        for rank, mask in sorted(wanted.items())
        if mask & ~at_end[rank]
    ]
    return _several("result", lost)
