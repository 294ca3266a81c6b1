"""Mixtures of routings with the least largest utilisation, each found from the basis of the one before."""

from __future__ import annotations

import numpy as np

from formulations.network import mixture
from solvers.backends.highs import highs_model
from topoopt.core.arrays import Floats

_STEPS = 100_000
"""Of the simplex method at most: columns that tie may keep it going round."""

_TIGHT = 1e-9
_PRIMAL = 4
"""The number of this strategy in HiGHS."""


class Mixing:
    """A master program that grows. Primal simplex: a new column leaves the last basis feasible."""

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
