"""What pairs may choose if traffic is to be done by a time, and multipliers that show that no choice is possible.

By time T a pair with x circuits has b T x bytes carried. In a box of circuits each pair takes one of few choices:
none, or as many as carry all it sends, and with splitting any number between. All choices together keep ports and what
the electrical interfaces carry in T. With prices of these, the sum of each pair's cheapest choice may be more than all
ports and interfaces are worth: then no choice keeps them (Lagrangian relaxation; Geoffrion 1974).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Families
from solvers.backends import SOLVERS, SolverLimits
from topoopt.core.arrays import Floats, Ints
from topoopt.core.verdict import Status
from topoopt.simulate.regional.transfer_time import RegionTraffic

NEED_ROUNDING = 1e-12
"""Part of a circuit that a pair may lack: rounding, to the side that proves less."""

MARGIN = 1e-10
"""Part of all prices by which the cheapest choices must be dearer."""


@dataclass(frozen=True, eq=False)
class PairChoices:
    """PairChoices of all pairs within a box, by a time.

    Attributes:
        traffic: to carry.
        seconds: T.
        pair: int64[C], ascending.
        circuits: int64[C].
        out, back: float64[C], bytes left to the electrical network.
        stuck: a pair has no choice at all.
    """

    traffic: RegionTraffic
    seconds: float
    pair: Ints
    circuits: Ints
    out: Floats
    back: Floats
    stuck: bool

    @staticmethod
    def of(traffic: RegionTraffic, seconds: float, least: Ints, most: Ints) -> PairChoices:
        """Within a box."""
        problem = traffic.problem
        unit = problem.circuit_rate * seconds
        need = np.ceil(traffic.larger / unit * (1.0 - NEED_ROUNDING)).astype(np.int64)
        pairs = np.arange(len(need))
        if problem.split:
            top = np.minimum(most, np.maximum(least, need))
            count = np.maximum(top - least + 1, 0)
            pair = np.repeat(pairs, count)
            circuits = least[pair] + np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
            out = np.maximum(traffic.out[pair] - unit * circuits, 0.0)
            back = np.maximum(traffic.back[pair] - unit * circuits, 0.0)
        else:
            none = pairs[least == 0]
            full = np.maximum(least, np.maximum(need, 1))
            some = pairs[(full <= most) & ((need > 0) | (least > 0))]
            pair = np.concatenate((none, some))
            circuits = np.concatenate((np.zeros_like(none), full[some]))
            out = np.concatenate((traffic.out[none], np.zeros(len(some))))
            back = np.concatenate((traffic.back[none], np.zeros(len(some))))
            order = np.argsort(pair, kind="stable")
            pair, circuits, out, back = pair[order], circuits[order], out[order], back[order]
        stuck = len(np.unique(pair)) < len(pairs)
        return PairChoices(traffic, seconds, pair, circuits, out, back, stuck)

    def used(self) -> tuple[Ints, Ints, Floats]:
        """(choice, row, part of the row): rows are ports, leaving bytes and reaching bytes of each server."""
        problem, ends = self.traffic.problem, self.traffic.ends
        n, one, other = problem.servers, ends[self.pair, 0], ends[self.pair, 1]
        ports = np.maximum(np.array(problem.ports), 1)
        wired = problem.electrical_rate * self.seconds
        rows = (one, other, n + one, n + other, 2 * n + other, 2 * n + one)
        parts = (
            self.circuits / ports[one], self.circuits / ports[other],
            self.out / wired, self.back / wired, self.out / wired, self.back / wired,
        )  # fmt: skip
        choice = np.tile(np.arange(len(self.pair)), len(rows))
        return choice, np.concatenate(rows), np.concatenate(parts)

    def program(self, *, whole: bool) -> LpArrays:
        """Least s with every row at most 1 + s; whole: choices are integers, and keep ports."""
        made = Families()
        chosen = made.columns(len(self.pair), upper=1.0, integer=whole)
        over = made.columns(1, cost=1.0)
        pairs = len(self.traffic.out)
        one = made.rows(pairs, 1.0, 1.0)
        made.terms(one[self.pair], chosen, 1.0)
        kept = made.rows(3 * self.traffic.problem.servers, -np.inf, 1.0)
        choice, row, part = self.used()
        made.terms(kept[row], chosen[choice], part)
        made.terms(kept[self.traffic.problem.servers if whole else 0 :], over[0], -1.0)
        return made.arrays()

    def excluded(self, multipliers: Floats) -> bool:
        """Whether prices show that no choice keeps ports and interfaces."""
        if self.stuck:
            return True
        choice, row, part = self.used()
        price = np.bincount(choice, part * multipliers[row], len(self.pair))
        first = np.flatnonzero(np.diff(self.pair, prepend=-1))
        total = float(multipliers.sum())
        return total > 0 and float(np.minimum.reduceat(price, first).sum()) > total * (1.0 + MARGIN)


@dataclass(frozen=True, eq=False)
class RelaxedChoices:
    """The relaxation of choices.

    Attributes:
        over: by what part of ports and interfaces it exceeds them at least.
        chosen: float64[C], parts of choices.
        multipliers: float64[3 n] prices.
    """

    over: float
    chosen: Floats
    multipliers: Floats


def relaxed(choices: PairChoices) -> RelaxedChoices | None:
    """By HiGHS; None: it fails."""
    program = choices.program(whole=False)
    result = SOLVERS["highs"](program, SolverLimits(feasibility=1e-6))
    if result.x is None or result.row_dual is None:
        return None
    prices = np.maximum(-result.row_dual[len(choices.traffic.out) :], 0.0)
    return RelaxedChoices(float(result.x[-1]), result.x[:-1], prices)


def whole_choice(choices: PairChoices, seconds: float | None) -> Ints | None:
    """Circuits of the whole choice that exceeds ports and interfaces least, as far as the limit lets HiGHS see."""
    result = SOLVERS["highs"](choices.program(whole=True), SolverLimits(time_s=seconds))
    if result.status not in (Status.OPTIMAL, Status.FEASIBLE) or result.x is None:
        return None
    counts = np.zeros(len(choices.traffic.out), dtype=np.int64)
    picked = np.flatnonzero(result.x[:-1] > 0.5)
    counts[choices.pair[picked]] = choices.circuits[picked]
    return counts
