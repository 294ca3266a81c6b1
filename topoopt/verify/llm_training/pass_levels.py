"""What every pass of pipelines waits for, and passes by level: those of a level wait for no more than earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from topoopt.core.arrays import Bools, Ints
from topoopt.verify.llm_training.pass_orders import Pass

KINDS = {"F": 0, "J": 1, "B": 2, "I": 3, "W": 4}
COST_ROW = np.array([0, 0, 1, 2, 3])
"""Of each kind, in rows of costs; what goes with a joined pass counts apart."""


@dataclass(frozen=True, eq=False)
class Levels:
    """Passes by level. A joined pass and the one behind it are one step; steps are numbered from 1 + copies on.

    Attributes:
        levels: for each an int64[k, 9]: the number of each step, what is before it and whether it is a hop away (three
            times; number 0: nothing, 1 + s: the weights of stage s), and two rows of costs, four times the stages, -1:
            none.
        kind, micro, stage, number: int64[passes], of each pass, rank by rank in order; `number`: of its step.
        last: int64[ranks], number of the last step of each rank.
        copies: stages, the model's copies counted apart.
    """

    levels: list[Ints]
    kind: Ints
    micro: Ints
    stage: Ints
    number: Ints
    last: Ints
    copies: int

    @property
    def size(self) -> int:
        """Numbers in use."""
        return 1 + self.copies + sum(len(level) for level in self.levels)

    @cached_property
    def final(self) -> Ints:
        """int64[copies]: number of the last pass of each stage that its gradients need; 0: none."""
        found = np.zeros(self.copies, dtype=np.int64)
        which = np.flatnonzero((self.kind == KINDS["B"]) | (self.kind == KINDS["W"]))
        found[self.stage[which]] = self.number[which]  # the last one of a stage stays
        return found

    @cached_property
    def table(self) -> Ints:
        """int64[kinds, copies, micro-batches]: numbers; -1: no such pass."""
        found = np.full((len(KINDS), self.copies, int(self.micro.max()) + 1), -1, dtype=np.int64)
        found[self.kind, self.stage, self.micro] = self.number
        return found


def levelled(orders: Sequence[list[Pass]], stages: int, *, blocking: bool) -> Levels:
    """Passes of ranks whose orders are given.

    Args:
        stages: of the model.
        blocking: whether a rank waits until what it sends has come.

    Raises:
        ValueError: passes wait for each other.
    """
    rows = [(KINDS[kind], i, stage, rank) for rank, own in enumerate(orders) for kind, i, stage in own]
    kind, micro, stage, rank = np.array(rows, dtype=np.int64).T.copy()
    second = np.concatenate(([False], kind[:-1] == KINDS["J"]))
    copies = int(stage.max()) + 1
    number = copies + np.cumsum(~second)
    home = np.full(copies, -1, dtype=np.int64)
    home[stage] = rank
    first, with_second = np.flatnonzero(~second), np.flatnonzero(second)
    ahead, weights = kind <= KINDS["J"], kind == KINDS["W"]

    def beside(step: Ints) -> tuple[Ints, Bools, Bools]:
        """The stage so far from that of each pass, whether it is one of its copy, and on another rank."""
        other = stage + step
        there = (other >= 0) & (other // stages == stage // stages) & ~weights
        other = np.where(there, other, 0)
        return other, there, there & (home[other] != rank)

    numbers = np.full((2, copies, int(micro.max()) + 1), -1, dtype=np.int64)
    known = ~weights
    numbers[1 - ahead[known].astype(np.int64), stage[known], micro[known]] = number[known]
    other, there, away = beside(np.where(ahead, -1, 1))
    source = np.where(there, numbers[1 - ahead.astype(np.int64), other, micro], 0)
    _, _, leaves = beside(np.where(ahead, 1, -1))
    steps = np.full((len(first), 9), 0, dtype=np.int64)
    steps[:, 0] = number[first]
    follows = np.flatnonzero(rank[first[1:]] == rank[first[:-1]]) + 1
    steps[follows, 1] = number[first[follows - 1]]
    if blocking:
        waits = np.zeros(len(first), dtype=bool)
        np.logical_or.at(waits, number - copies - 1, leaves)
        steps[follows, 2] = waits[follows - 1]
    steps[:, 3], steps[:, 4] = source[first], away[first]
    place = number[with_second] - copies - 1
    steps[place, 5], steps[place, 6] = source[with_second], away[with_second]
    forward = np.flatnonzero(ahead)
    begun, begins = np.unique(stage[forward], return_index=True)
    place = number[forward[begins]] - copies - 1
    if (source < 0).any() or steps[place, 5].any():
        raise ValueError("passes wait for each other")
    steps[place, 5] = 1 + begun  # weights that are gathered
    cost = COST_ROW[kind] * stages + stage % stages
    steps[:, 7], steps[:, 8] = cost[first], -1
    steps[number[with_second] - copies - 1, 8] = cost[with_second]
    ends = np.flatnonzero(np.concatenate((rank[first[1:]] != rank[first[:-1]], [True])))
    return Levels(_by_level(steps, copies), kind, micro, stage, number, number[first[ends]], copies)


def _by_level(steps: Ints, copies: int) -> list[Ints]:
    """Rows of steps whose predecessors all stand in earlier levels.

    Raises:
        ValueError: steps wait for each other.
    """
    before = steps[:, [1, 3, 5]] - (1 + copies)
    after, column = np.nonzero(before >= 0)
    source = before[after, column]
    after = after[np.argsort(source, kind="stable")]
    ptr = np.concatenate(([0], np.cumsum(np.bincount(source, minlength=len(steps)))))
    waits = np.bincount(after, minlength=len(steps))
    now, found, count = np.flatnonzero(waits == 0), [], 0
    while len(now):
        found.append(steps[now])
        count += len(now)
        length = ptr[now + 1] - ptr[now]
        begin = np.repeat(ptr[now] - np.concatenate(([0], np.cumsum(length)[:-1])), length)
        reached = after[begin + np.arange(len(begin))]
        np.subtract.at(waits, reached, 1)
        now = np.unique(reached[waits[reached] == 0])
    if count < len(steps):
        raise ValueError("passes wait for each other")
    return found
