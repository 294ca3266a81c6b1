"""Integer programs with large whole numbers reach CP-SAT unchanged."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.programs import LpArrays, Rows
from solvers.backends import SOLVERS
from topoopt.core.proofs import Status


def program(side: float, upper: float) -> LpArrays:
    """minimise x, x + 2 y >= side - 1 and x <= upper; y up to (side - 5) / 2."""
    rows = Rows()
    rows.column("x", upper=upper, integer=True)
    rows.column("y", upper=(side - 5) / 2, integer=True)
    rows.row("cover", side - 1, np.inf, [(rows.at("x"), 1.0), (rows.at("y"), 2.0)])
    return rows.program({("x",): 1.0})


@pytest.mark.parametrize("side", [1e3 + 1, 1e9 + 1, 1e12 + 1])
def test_sides_of_rows_are_exact(side: float) -> None:
    """x = 4 whatever the size of the numbers; a side forgiven by 1e-9 of itself would admit less from 10^10 on."""
    result = SOLVERS["cp-sat"](program(side, 1e6))
    assert result.status is Status.OPTIMAL
    assert result.objective == 4.0


def test_large_finite_domains_are_kept() -> None:
    """A lower bound of 10^11 on a variable is no reason to cut it at 10^9."""
    rows = Rows()
    rows.column("x", lower=1e11, upper=3e11, integer=True)
    rows.row("more", 1e11 + 7, np.inf, [(rows.at("x"), 1.0)])
    result = SOLVERS["cp-sat"](rows.program({("x",): 1.0}))
    assert result.status is Status.OPTIMAL
    assert result.objective == 1e11 + 7
