"""What every backend takes and gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from formulations.arrays import LpArrays
from topoopt.core.status import Status, StopReason


@dataclass(frozen=True)
class SolverLimits:
    """How long and how wide a solver may run."""

    time_s: float | None = None
    threads: int = 1


@dataclass(frozen=True, eq=False)
class LpResult:
    """Outcome of a linear program.

    Attributes:
        status: what is known; OPTIMAL and FEASIBLE come with `x`.
        stopped_by: why the solver ended.
        x: float64[columns], None when there is no solution.
        objective: cost of `x`.
        message: the solver's own words.
    """

    status: Status
    stopped_by: StopReason
    x: NDArray[np.float64] | None
    objective: float | None
    message: str


class LpBackend(Protocol):
    """A solver of linear programs."""

    def __call__(self, program: LpArrays, limits: SolverLimits) -> LpResult:
        """Solve within the limits; never raises for infeasible or unbounded programs."""
