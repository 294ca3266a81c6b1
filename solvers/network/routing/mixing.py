"""Mixtures of routings with the least largest utilisation, each found from the basis of the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from formulations.network import mixture
from solvers.backends.highs import highs_model
from topoopt.core.arrays import Floats

_KEPT = 400
"""Routings in a mixture, at most: then those with a part of it stay, and as many of the last as make half of it."""

_STEPS = 100_000
"""Of the simplex method at most: columns that tie may keep it going round."""

_TIGHT = 1e-9
_PRIMAL = 4
"""The number of this strategy in HiGHS."""


class Routing(NamedTuple):
    """What makes a routing, and its utilisations, float64[m]."""

    lengths: Floats
    softness: float
    utilisation: Floats
    theta: float


class Master:
    """The program of a mixture, which grows. Primal simplex: a new column leaves the last basis feasible."""

    def __init__(self, utilisation: Floats, unit: float) -> None:
        """Start from one routing, float64[m]; `unit` is about the theta to be found."""
        import highspy

        self.use, self.unit = [utilisation], unit
        self.solver = highspy.Highs()
        for name, value in {
            "output_flag": False,
            "threads": 1,
            "presolve": "off",
            "simplex_strategy": _PRIMAL,
            "simplex_iteration_limit": _STEPS,
            "primal_feasibility_tolerance": _TIGHT,
            "dual_feasibility_tolerance": _TIGHT,
        }.items():
            self.solver.setOptionValue(name, value)
        self.solver.passModel(highs_model(mixture.build_arrays(utilisation[None] / unit)))

    def add(self, utilisation: Floats) -> None:
        """One more routing, float64[m]."""
        rows = np.arange(len(utilisation) + 1, dtype=np.int32)
        self.solver.addCol(0.0, 0.0, np.inf, len(rows), rows, np.concatenate(([1.0], utilisation / self.unit)))
        self.use.append(utilisation)

    def best(self, time_s: float | None = None) -> tuple[Floats, float]:
        """Parts, float64[K] of sum 1, and the theta of this mixture; infinite where the time was up before any."""
        if time_s is not None:  # the limit counts from the solver's first run
            self.solver.setOptionValue("time_limit", self.solver.getRunTime() + max(time_s, 1e-3))
        self.solver.run()
        solution = self.solver.getSolution()
        part = np.maximum(np.delete(np.array(solution.col_value), 1), 0.0)  # the second column is theta
        whole = float(part.sum())
        if not (solution.value_valid and whole > 0.5):
            return np.zeros(len(self.use)), np.inf
        part /= whole
        return part, float((part @ np.array(self.use)).max())


class Mixtures:
    """Routings seen, and the best mixture of them: its parts, and its theta, infinite before there is any."""

    def __init__(self) -> None:
        self.theta = np.inf
        self.mixed: list[tuple[float, Routing]] = []
        self._seen: list[Routing] = []
        self._master: Master | None = None

    def add(self, routing: Routing) -> None:
        """One more routing."""
        self._seen.append(routing)
        if routing.theta < self.theta:
            self.theta, self.mixed = routing.theta, [(1.0, routing)]

    def mix(self, unit: float, time_s: float | None) -> float:
        """Least theta of a mixture of all that was seen, kept if it is the best so far; `unit` is about that."""
        if self._master is not None and len(self._seen) > _KEPT:
            last = self._seen[-_KEPT // 2 :]
            known = {id(each) for each in last}
            self._seen = [*(each for _, each in self.mixed if id(each) not in known), *last]
            self._master = None
        if self._master is None:
            self._master = Master(self._seen[0].utilisation, unit)
        for each in self._seen[len(self._master.use) :]:
            self._master.add(each.utilisation)
        part, theta = self._master.best(time_s)
        if theta < self.theta:
            self.theta, self.mixed = theta, _parts(part, self._seen)
        return theta

    def thin(self, counts: Iterable[int], enough: float, late: Callable[[], bool]) -> list[tuple[float, Routing]]:
        """Few routings in the mixture: as few of the heaviest, of these counts, as give a theta of `enough`.

        Args:
            late: asked after each count: whether there is no time for another.
        """
        whole = sorted(self.mixed, key=lambda each: -each[0])
        for count in counts:
            if count >= len(whole):
                break
            few = [routing for _, routing in whole[:count]]
            master = Master(few[0].utilisation, self.theta)
            for each in few[1:]:
                master.add(each.utilisation)
            part, theta = master.best()
            if theta <= enough or late():
                return _parts(part, few)
        return whole


def _parts(part: Floats, routings: list[Routing]) -> list[tuple[float, Routing]]:
    return [(p, each) for p, each in zip(part.tolist(), routings, strict=True) if p > 0.0]
