"""One list of small programs with answers by hand, passed by every backend whose features cover them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csc_array

from formulations.programs import LpArrays, shape_errors
from solvers.backends import SOLVERS, SolverLimits, self_test
from solvers.backends.backend import dual_bound, residual
from topoopt.core.errors import InputError
from topoopt.core.proofs import Status, StopReason

INF = float("inf")
LIMITS = SolverLimits(time_s=300.0)


def program(
    cost: list[float],
    lower: list[float],
    upper: list[float],
    row_lower: list[float],
    row_upper: list[float],
    rows: list[list[float]],
    *,
    integer: str = "",
) -> LpArrays:
    """Arrays of a dense program; `integer` marks whole columns by `i`."""
    matrix = csc_array(np.array(rows, dtype=np.float64).reshape(len(row_lower), len(cost)))
    return LpArrays(
        *(np.array(values, dtype=np.float64) for values in (cost, lower, upper, row_lower, row_upper)),
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int64),
        matrix.data,
        integer=np.array([letter == "i" for letter in integer]) if integer else None,
    )


@dataclass(frozen=True)
class Case:
    """A program and its answer: an optimum, None when there is no solution, -inf when it is unbounded."""

    name: str
    program: LpArrays
    optimum: float | None
    x: tuple[float, ...] | None = None
    row_dual: tuple[float, ...] | None = None


CASES = (
    # min x + 2y, x + y >= 3, y >= 1: x = 2, y = 1; prices 1 of the row.
    Case("lp", program([1, 2], [0, 1], [INF, INF], [3], [INF], [[1, 1]]), 4.0, (2, 1), (1,)),
    # max 3x + 5y, x <= 4, 2y <= 12, 3x + 2y <= 18: 36 at (2, 6), prices 0, 3/2, 1 (Wyndor Glass).
    Case(
        "wyndor",
        program([-3, -5], [0, 0], [INF, INF], [-INF] * 3, [4, 12, 18], [[1, 0], [0, 2], [3, 2]]),
        -36.0,
        (2, 6),
        (0, -1.5, -1),
    ),
    Case("equality", program([1, 1], [0, 0], [INF, INF], [2, 0], [2, 0], [[1, 2], [1, -1]]), 4 / 3, (2 / 3, 2 / 3)),
    # |x - 3| as t >= x - 3, t >= 3 - x with x = -1 held by a row; x is free and negative.
    Case(
        "free",
        program([0, 1], [-INF, -INF], [INF, INF], [-1, -3, 3], [-1, INF, INF], [[1, 0], [-1, 1], [1, 1]]),
        4.0,
        (-1, 4),
    ),
    # Both rows and the corner meet in one point.
    Case(
        "degenerate",
        program([-1, -1], [0, 0], [INF, INF], [-INF] * 3, [1, 1, 2], [[1, 0], [0, 1], [1, 1]]),
        -2.0,
        (1, 1),
    ),
    Case("range", program([-1], [0], [INF], [2], [5], [[1]]), -5.0, (5,), (-1,)),
    Case("fixed column", program([2, 1], [3, 0], [3, INF], [4], [INF], [[1, 1]]), 7.0, (3, 1)),
    Case("zero cost", program([0, 0], [0, 0], [1, 1], [1], [1], [[1, 1]]), 0.0),
    Case("no rows", program([-1, 2], [0, -1], [3, 9], [], [], []), -5.0, (3, -1)),
    Case("no columns", program([], [], [], [-1], [1], [[]]), 0.0, ()),
    Case("empty row", program([1], [2], [9], [-1], [0], [[0]]), 2.0, (2,)),
    Case("infeasible", program([1, 1], [0, 0], [INF, INF], [3, -INF], [INF, 2], [[1, 1], [1, 1]]), None),
    Case("infeasible without columns", program([], [], [], [1], [1], [[]]), None),
    Case("infeasible by an empty row", program([1], [0], [1], [1], [1], [[0]]), None),
    Case("crossed bounds", program([1], [2], [1], [0], [9], [[1]]), None),
    Case("unbounded", program([-1, 0], [0, 0], [INF, INF], [-INF], [1], [[1, -1]]), -INF),
    Case("unbounded free", program([1], [-INF], [INF], [-INF], [5], [[1]]), -INF),
    Case("mixed", program([-1, -1], [0, 0], [INF, 10], [-INF], [3.5], [[1, 1]], integer="ic"), -3.5),
    # Knapsack 10, 13, 7 with weights 3, 4, 2 in 6: items 2 and 3; the relaxation reaches 20.67.
    Case(
        "knapsack",
        program([-10, -13, -7], [0] * 3, [1] * 3, [-INF], [6], [[3, 4, 2]], integer="iii"),
        -20.0,
        (0, 1, 1),
    ),
    Case("integer equality", program([1, 1], [0, 0], [9, 9], [12], [12], [[2, 5]], integer="ii"), 3.0, (1, 2)),
    Case("fractions", program([0.5, 0.25], [0, 0], [9, 9], [1.5], [INF], [[0.5, 0.3]], integer="ii"), 1.25, (0, 5)),
    Case("negative", program([1, 1], [-7, -7], [7, 7], [-INF], [-3], [[1, 2]], integer="ii"), -14.0, (-7, -7)),
    Case("whole only infeasible", program([1, 1], [0, 0], [9, 9], [1], [1], [[2, 2]], integer="ii"), None),
    Case("integer no bounds", program([1, 1], [0, 0], [INF, INF], [2.5], [INF], [[1, 1]], integer="ii"), 3.0),
    Case("integer unbounded", program([-1], [0], [INF], [0], [INF], [[1]], integer="i"), -INF),
)


def pairs() -> list[object]:
    """Every backend with every case its features cover."""
    return [
        pytest.param(name, case, id=f"{name}-{case.name.replace(' ', '_')}")
        for name, backend in SOLVERS.items()
        for case in CASES
        if backend.covers(case.program) is None
    ]


@pytest.mark.parametrize(("name", "case"), pairs())
def test_every_backend_passes_the_list(name: str, case: Case) -> None:
    """Status, optimum, point, prices and bound are those worked out by hand."""
    result = SOLVERS[name](case.program, LIMITS)
    if case.optimum is None:
        assert (result.status, result.x) == (Status.INFEASIBLE, None), result.message
        return
    if case.optimum == -INF:
        assert (result.status, result.x) == (Status.UNKNOWN, None), result.message
        assert result.unbounded is SOLVERS[name].features.proves_unbounded
        return
    assert result.status is Status.OPTIMAL, result.message
    assert result.objective == pytest.approx(case.optimum, abs=2e-6, rel=2e-6)
    assert result.bound == pytest.approx(case.optimum, abs=2e-6, rel=2e-6)
    assert result.x is not None
    assert residual(case.program, result.x) <= LIMITS.feasibility
    if case.x is not None:
        np.testing.assert_allclose(result.x, case.x, atol=1e-5)
    if case.row_dual is not None and not case.program.has_integers:
        assert result.row_dual is not None
        np.testing.assert_allclose(result.row_dual, case.row_dual, atol=1e-5)


def test_the_list_reaches_every_backend() -> None:
    """No backend is without cases: CP-SAT takes the integer ones, linear codes the continuous ones."""
    taken = {name: sum(backend.covers(case.program) is None for case in CASES) for name, backend in SOLVERS.items()}
    assert taken["highs"] == taken["pyomo"] == len(CASES)
    assert min(taken.values()) >= 7


@pytest.mark.parametrize("name", [name for name, backend in SOLVERS.items() if not backend.features.continuous])
def test_continuous_columns_are_refused(name: str) -> None:
    """A backend for whole numbers names the continuous column instead of rounding it."""
    with pytest.raises(InputError, match="x1 is one"):
        SOLVERS[name](program([1, 1], [0, 0], [1, 1], [1], [1], [[1, 1]], integer="ic"))


@pytest.mark.parametrize("name", [name for name, backend in SOLVERS.items() if not backend.features.integer])
def test_integer_columns_are_refused(name: str) -> None:
    """A linear code does not relax whole numbers silently."""
    with pytest.raises(InputError, match="integer"):
        SOLVERS[name](program([1], [0], [1], [1], [1], [[1]], integer="i"))


def test_cp_sat_names_the_row_it_cannot_scale() -> None:
    """A row with pi has no small common denominator: refused by name, not rounded."""
    odd = replace(program([1, 1], [0, 0], [9, 9], [1], [INF], [[np.pi, 1]], integer="ii"), row_names=("circle",))
    with pytest.raises(InputError, match="circle"):
        SOLVERS["cp-sat"](odd)


def test_self_test_of_the_whole_table() -> None:
    """Every backend answers the one-variable program."""
    assert self_test(SOLVERS) == dict.fromkeys(SOLVERS)


@st.composite
def random_integer_programs(draw: st.DrawFn) -> LpArrays:
    """Two to four whole variables in 0..4, one to three rows of small integers."""
    n, m = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    small = st.integers(-4, 4)
    rows = [draw(st.lists(small, min_size=n, max_size=n)) for _ in range(m)]
    cost = draw(st.lists(small, min_size=n, max_size=n))
    high = draw(st.lists(st.integers(-3, 9), min_size=m, max_size=m))
    return program(cost, [0] * n, [4] * n, [-INF] * m, high, rows, integer="i" * n)  # type: ignore[arg-type]


@settings(max_examples=25)
@given(random_integer_programs())
def test_integer_backends_agree_with_enumeration(data: LpArrays) -> None:
    """All points of the box: the least cost of those that fit, or infeasible."""
    grid = np.stack(np.meshgrid(*[np.arange(5.0)] * data.columns, indexing="ij"), axis=-1).reshape(-1, data.columns)
    fits = (grid @ data.matrix().todense().T <= data.row_upper).all(axis=1)
    for name in ("highs", "cp-sat"):
        result = SOLVERS[name](data, LIMITS)
        if fits.any():
            assert result.status is Status.OPTIMAL
            assert result.objective == pytest.approx(float((grid[fits] @ data.cost).min()), abs=1e-6)
        else:
            assert result.status is Status.INFEASIBLE


@pytest.mark.parametrize("name", [name for name, backend in SOLVERS.items() if backend.features.continuous])
def test_random_linear_programs_agree_with_scipy(name: str) -> None:
    """Transport problems of 4 by 5: scipy's optimum, and a bound from the prices that meets it."""
    rng = np.random.default_rng(11)
    for _ in range(3):
        supply, cost = rng.integers(5, 20, 4).astype(float), rng.integers(1, 30, 20).astype(float)
        need = np.full(5, supply.sum() / 5)
        rows = np.vstack([np.kron(np.eye(4), np.ones(5)), np.kron(np.ones(4), np.eye(5))])
        side = np.concatenate((supply, need))
        data = program(cost.tolist(), [0] * 20, [INF] * 20, side.tolist(), side.tolist(), rows.tolist())
        expected = linprog(cost, A_eq=rows, b_eq=side).fun
        result = SOLVERS[name](data, LIMITS)
        assert result.status is Status.OPTIMAL, result.message
        assert result.objective == pytest.approx(expected, rel=3e-6)
        assert result.row_dual is not None
        assert dual_bound(data, result.row_dual, result.x, tolerance=1e-6)[0] == pytest.approx(expected, rel=3e-6)


def test_integer_programs_agree_with_scipy() -> None:
    """Set covers of 12 elements by 15 sets: HiGHS, Pyomo and CP-SAT all reach the optimum of scipy's milp."""
    rng = np.random.default_rng(5)
    for _ in range(2):
        rows = (rng.random((12, 15)) < 0.3).astype(float)
        rows[rows.sum(axis=1) == 0, 0] = 1.0
        cost = rng.integers(1, 9, 15).astype(float)
        data = program(cost.tolist(), [0] * 15, [1] * 15, [1] * 12, [INF] * 12, rows.tolist(), integer="i" * 15)
        expected = milp(cost, constraints=LinearConstraint(rows, lb=1), bounds=Bounds(0, 1), integrality=np.ones(15))
        for name in ("highs", "pyomo", "cp-sat"):
            assert SOLVERS[name](data, LIMITS).objective == pytest.approx(expected.fun)


def test_malformed_arrays_are_refused_with_all_issues() -> None:
    """Sizes first, then order, rows and numbers; each named."""
    good = program([1, 1], [0, 0], [1, 1], [1], [1], [[1, 1]])
    with pytest.raises(InputError) as refused:
        SOLVERS["highs"](replace(good, lower=np.zeros(3), row_names=("a", "b")))
    assert len(refused.value.problems) == 2
    assert shape_errors(replace(good, index=np.array([0, 1]))) == ["index names a row that does not exist"]
    assert shape_errors(replace(good, cost=np.array([np.nan, 1.0]))) == ["cost or value is not finite"]
    twice = replace(good, start=np.array([0, 2, 2]), index=np.array([0, 0]))
    assert shape_errors(twice) == ["a coefficient stands twice"]
    with pytest.raises(InputError, match="entries"):
        SOLVERS["highs"](good, start=np.zeros(5))


def test_time_limit_of_zero_stops_every_exact_backend() -> None:
    """A hard knapsack with no time: no claim beyond a checked point and a bound below it."""
    rng = np.random.default_rng(3)
    rows = rng.integers(20, 99, (10, 60)).astype(float)
    data = program(
        (-rng.integers(10, 99, 60)).tolist(),
        [0] * 60,
        [1] * 60,
        [-INF] * 10,
        (rows.sum(axis=1) // 2).tolist(),
        rows.tolist(),
        integer="i" * 60,
    )
    start = np.zeros(60)
    for name in ("highs", "cp-sat", "pyomo"):
        result = SOLVERS[name](data, SolverLimits(time_s=0.05), start=start)
        assert (result.status, result.stopped_by) == (Status.FEASIBLE, StopReason.TIME), (name, result.message)
        assert result.objective is not None
        assert result.objective <= 0.0
        assert result.bound is None or result.bound <= result.objective


def test_cp_sat_without_any_time_proves_nothing() -> None:
    """What CP-SAT answers before it has looked at the objective is not taken for a bound of zero."""
    data = program([-1.0, -1.0], [0, 0], [3, 3], [-INF], [5.0], [[2.0, 1.0]], integer="ii")
    result = SOLVERS["cp-sat"](data, SolverLimits(time_s=0.0), start=np.zeros(2))
    assert result.bound is None or result.bound <= -4.0  # the optimum
    assert result.status is not Status.OPTIMAL or result.objective == -4.0
