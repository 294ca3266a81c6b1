"""Refusal of demands and certificates that prove nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem


def checked(n: int, d: int, demand: Floats, faults: Mapping[str, bool] | None = None) -> Floats:
    """Demand as float64[n, n] with zero diagonal.

    Raises:
        InputError: n below 2, d below 1, demand of the wrong shape, negative or not finite, or one of `faults` is true.
    """
    problems = [Problem(message, path="certificate") for message, wrong in (faults or {}).items() if wrong]
    if n < 2:
        problems.append(Problem("a bound needs two servers at least", path="servers", value=str(n), allowed=">= 2"))
    if d < 1:
        problems.append(Problem("degree is too small", path="degree", value=str(d), allowed=">= 1"))
    matrix = np.array(demand, dtype=np.float64)
    if matrix.shape != (n, n):
        problems.append(
            Problem("demand has the wrong shape", path="demand", value=str(matrix.shape), allowed=f"({n}, {n})")
        )
    elif not np.isfinite(matrix).all() or (matrix < 0).any():
        problems.append(Problem("demand must be finite and not negative", path="demand", allowed=">= 0"))
    if problems:
        raise InputError(problems)
    np.fill_diagonal(matrix, 0.0)
    return matrix
