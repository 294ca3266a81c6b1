"""Programs of numbers far from 1 are solved as well as those near 1, by every backend."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.programs import Families, LpArrays
from solvers.backends import SOLVERS
from solvers.backends.backend import SolverLimits, scaling_of
from topoopt.core.arrays import Floats
from topoopt.core.proofs import Status

CONTINUOUS = [name for name, line in SOLVERS.items() if line.features.continuous]
MIXED = [name for name in CONTINUOUS if SOLVERS[name].features.integer]


def blending(unit: float, price: float) -> LpArrays:
    """Least cost 2 x + 3 y, x + y >= 4, x <= 3, y <= 5, in these units of x and of money: x = 3, y = 1, cost 9."""
    made = Families()
    x = made.columns(2, upper=np.array([3.0, 5.0]) * unit, cost=np.array([2.0, 3.0]) * price / unit)
    made.terms(made.rows(1, 4.0 * unit, np.inf), x, 1.0)
    return made.arrays()


def choosing(unit: float) -> LpArrays:
    """Least time T of two machines for tasks of 3, 2, 2 (in this unit): 4, {3} against {2, 2}."""
    times = np.array([3.0, 2.0, 2.0]) * unit
    made = Families()
    longest, first = made.columns(1, cost=1.0), made.columns(3, upper=1.0, integer=True)
    one, other = made.rows(1, 0.0, np.inf), made.rows(1, float(times.sum()), np.inf)
    made.terms(one, longest, 1.0)
    made.terms(one, first, -times)
    made.terms(other, longest, 1.0)
    made.terms(other, first, times)
    return made.arrays()


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("unit", [1e-12, 1e-9, 1.0, 1e9, 1e12])
def test_linear_programs_of_any_size(name: str, unit: float) -> None:
    """Point, objective, bound and prices in the units of the program."""
    for price in (1e-9, 1.0, 1e9):
        found = SOLVERS[name](blending(unit, price))
        assert found.status is Status.OPTIMAL, found.message
        assert found.x == pytest.approx(np.array([3.0, 1.0]) * unit, rel=1e-5)
        assert found.objective == pytest.approx(9.0 * price, rel=1e-6)
        assert found.bound == pytest.approx(9.0 * price, rel=1e-6)
        assert found.row_dual == pytest.approx(np.array([3.0]) * price / unit, rel=1e-5)
        assert found.column_dual == pytest.approx(
            np.array([-1.0, 0.0]) * price / unit, rel=1e-5, abs=1e-5 * price / unit
        )


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("unit", [1e-12, 1e-9, 1.0, 1e9, 1e12])
def test_integer_programs_of_any_size(name: str, unit: float) -> None:
    """Whole numbers stay whole; a start and the points that are streamed are in the units of the program."""
    seen: list[Floats] = []
    start = np.array([5.0 * unit, 1.0, 1.0, 0.0])
    found = SOLVERS[name](choosing(unit), SolverLimits(), start=start, on_incumbent=seen.append)
    assert found.status is Status.OPTIMAL, found.message
    assert found.objective == pytest.approx(4.0 * unit, rel=1e-6)
    assert found.bound == pytest.approx(4.0 * unit, rel=1e-6)
    assert found.x is not None
    assert set(found.x[1:].tolist()) <= {0.0, 1.0}
    for x in seen:
        assert 4.0 * unit * (1 - 1e-6) <= x[0] <= 7.0 * unit * (1 + 1e-6)


def test_infeasible_stays_infeasible() -> None:
    """x >= 2e-9 and x <= 1e-9, which an absolute tolerance of 1e-6 lets pass."""
    made = Families()
    x = made.columns(1, upper=1.0, cost=1.0)
    made.terms(made.rows(1, 2e-9, np.inf), x, 1.0)
    made.terms(made.rows(1, -np.inf, 1e-9), x, 1.0)
    assert SOLVERS["highs"](made.arrays()).status is Status.INFEASIBLE


def test_programs_near_one_are_solved_as_they_are() -> None:
    """No scaling, so that nothing about them changes; the scaling of others is by powers of two, integers kept."""
    assert scaling_of(blending(1.0, 1.0)) is None
    assert scaling_of(choosing(100.0)) is None
    scaling = scaling_of(choosing(1e-9))
    assert scaling is not None
    for factors in (scaling.row, scaling.column, np.array([scaling.cost])):
        np.testing.assert_array_equal(np.frexp(factors)[0], 0.5)
    np.testing.assert_array_equal(scaling.column[1:], 1.0)
    scaled = scaling.applied(choosing(1e-9))
    assert 1e-2 < np.abs(scaled.value).min() <= np.abs(scaled.value).max() < 1e2


def test_the_scaling_of_empty_rows_and_columns() -> None:
    """A row or a column without coefficients keeps its unit."""
    program = blending(1e-9, 1.0)
    wider = Families.extending(program)
    wider.columns(1, upper=1.0)
    wider.rows(1, -1.0, 1.0)
    scaling = scaling_of(wider.arrays())
    assert scaling is not None
    assert scaling.row[-1] == scaling.column[-1] == 1.0
    found = SOLVERS["highs"](wider.arrays())
    assert found.objective == pytest.approx(9.0, rel=1e-6)
