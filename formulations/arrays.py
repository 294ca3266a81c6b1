"""A linear program in arrays, as formulations hand it to a backend: no solver object, no names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class LpArrays:
    """minimise cost.x subject to row_lower <= A x <= row_upper, lower <= x <= upper.

    Attributes:
        cost, lower, upper: float64[columns]; infinite bounds are +-numpy.inf.
        row_lower, row_upper: float64[rows].
        start: int64[columns+1]; index: int64[nonzeros]; value: float64[nonzeros]: A by columns.
    """

    cost: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    row_lower: NDArray[np.float64]
    row_upper: NDArray[np.float64]
    start: NDArray[np.int64]
    index: NDArray[np.int64]
    value: NDArray[np.float64]

    @property
    def columns(self) -> int:
        """Number of variables."""
        return len(self.cost)

    @property
    def rows(self) -> int:
        """Number of constraints."""
        return len(self.row_lower)
