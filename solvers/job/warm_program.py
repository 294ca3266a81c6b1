"""A linear relaxation that is solved again and again with other columns allowed, each time from the basis before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.parts.arrays import LpArrays
from solvers.backends.highs import load
from solvers.backends.scaling import Scaling, scaling_of
from topoopt.core.arrays import Bools, Floats

if TYPE_CHECKING:
    import highspy


class WarmProgram:
    """The relaxation of a program, in units that suit the solver; as it is given where none do."""

    def __init__(self, program: LpArrays) -> None:
        self._program = program
        self._integers = np.flatnonzero(program.is_integer).astype(np.int32)
        self._scaling = scaling_of(program)
        self._solver = _loaded(program, self._scaling)
        self._suits = False

    def solve(self, allowed: Bools) -> tuple[float, Floats, Floats] | None:
        """Least value, the integer columns, and duals of the rows; None where there is no optimum.

        Args:
            allowed: of each integer column whether it may be above 0.
        """
        found = self._solved(allowed)
        if found is None and self._scaling is not None and not self._suits:
            # No units suit numbers that lie too far apart; as they are given they may do.
            self._scaling = None
            self._solver = _loaded(self._program, None)
            found = self._solved(allowed)
        self._suits = self._suits or found is not None
        return found

    def _solved(self, allowed: Bools) -> tuple[float, Floats, Floats] | None:
        import highspy

        upper = np.where(allowed, self._program.upper[self._integers], 0.0)
        self._solver.changeColsBounds(len(upper), self._integers, np.zeros(len(upper)), upper)
        self._solver.run()
        solution = self._solver.getSolution()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal or not solution.dual_valid:
            return None
        self._solver.setOptionValue("presolve", "off")  # from here on there is a basis to begin from
        value = float(self._solver.getInfo().objective_function_value)
        # The units of integer columns are their own.
        chosen, dual = np.array(solution.col_value)[self._integers], np.array(solution.row_dual)
        if self._scaling is None:
            return value, chosen, dual
        return value / self._scaling.cost, chosen, dual * self._scaling.row / self._scaling.cost


def _loaded(program: LpArrays, scaling: Scaling | None) -> highspy.Highs:
    import highspy

    solver: Any = highspy.Highs()
    for option, value in {"output_flag": False, "threads": 1, "solver": "simplex"}.items():
        solver.setOptionValue(option, value)
    load(solver, replace(program if scaling is None else scaling.applied(program), integer=None))
    return solver
