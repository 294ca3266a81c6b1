"""Which operator a case of the strategy program is divided by: the one whose two halves rose most when it was tried.

Strong branching with a memory (reliability branching: Achterberg, Koch and Martin, 2005): operators that were never
divided are tried, the others are judged by what their divisions gave in the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Bools, Floats
from topoopt.core.workload import StrategyCase

WHOLE = 1e-6
TRIED = 6
"""Operators without a memory that are tried at a case."""

LEAST = 1e-4
"""What a half counts that did not rise, as a part of the value of the case."""

Allowed = tuple[Bools, ...]


@dataclass(frozen=True, eq=False)
class Relaxed:
    """The linear relaxation of a case.

    Attributes:
        value: its optimum as the duals prove it, ms.
        shares: z of the solution, float64[states] per operator.
        case: the duals.
    """

    value: float
    shares: tuple[Floats, ...]
    case: StrategyCase


@dataclass(frozen=True, eq=False)
class DividedCase:
    """A case in two: the operator, its states inside, and of each half its relaxation and which states are allowed."""

    operator: int
    inside: Bools
    halves: tuple[tuple[Relaxed | None, Allowed], ...]

    def gain(self, value: float) -> float:
        """How much the two halves rose above a case of this value; a half without a strategy counts as much."""
        rises = [value if half is None else half.value - value for half, _ in self.halves]
        return float(np.prod([max(rise / value, LEAST) for rise in rises])) if value > 0 else 0.0


class Branching:
    """Divides cases; remembers what came of it."""

    def __init__(self, relax: Callable[[Allowed], Relaxed | None], operators: int) -> None:
        self._relax = relax
        self._gain, self._times = np.zeros(operators), np.zeros(operators)
        self.solved = 0

    def best(self, case: Relaxed, allowed: Allowed) -> DividedCase | None:
        """The division that promises most; None if all operators are decided."""
        undecided = np.array([1.0 - float(share.max()) for share in case.shares])
        if undecided.max() <= WHOLE:
            return None
        candidates = np.flatnonzero(undecided > WHOLE)
        known = candidates[self._times[candidates] > 0]
        new = [o for o in candidates[np.argsort(-undecided[candidates], kind="stable")] if not self._times[o]]
        tried = [self._divided(case, allowed, int(operator)) for operator in new[:TRIED]]
        if len(known):
            expected = self._gain[known] / self._times[known]
            if not tried or expected.max() >= max(division.gain(case.value) for division in tried):
                return self._divided(case, allowed, int(known[int(np.argmax(expected))]))
        return max(tried, key=lambda division: division.gain(case.value))

    def _divided(self, case: Relaxed, allowed: Allowed, operator: int) -> DividedCase:
        share = case.shares[operator]
        inside: Bools = np.arange(len(share)) == int(np.argmax(share))
        halves = []
        for mask in (inside, ~inside):
            part = (*allowed[:operator], allowed[operator] & mask, *allowed[operator + 1 :])
            halves.append((self._relax(part), part))
            self.solved += 1
        division = DividedCase(operator, inside, tuple(halves))
        self._gain[operator] += division.gain(case.value)
        self._times[operator] += 1
        return division
