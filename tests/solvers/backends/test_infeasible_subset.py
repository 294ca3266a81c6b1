"""Irreducible infeasible subsets: found, named, and proved by solving again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csc_array

from formulations.programs import LpArrays
from solvers.backends import SolverLimits, infeasible_subset
from solvers.backends.infeasible import Member, restricted

INF = float("inf")


def program(
    lower: list[float],
    upper: list[float],
    row_lower: list[float],
    row_upper: list[float],
    rows: list[list[float]],
    *,
    whole: bool = False,
    columns: str = "",
    names: tuple[str, ...] | None = None,
) -> LpArrays:
    """A program without cost, from dense rows."""
    matrix = csc_array(np.array(rows, dtype=np.float64).reshape(len(row_lower), len(lower)))
    return LpArrays(
        np.ones(len(lower)),
        *(np.array(values, dtype=np.float64) for values in (lower, upper, row_lower, row_upper)),
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int64),
        matrix.data,
        integer=np.full(len(lower), whole),
        column_names=tuple(columns) or None,
        row_names=names,
    )


def has_solution(data: LpArrays, members: list[Member]) -> bool:
    """By scipy: whether the sides have a common point (linear programs)."""
    part = restricted(data, members)
    dense = part.matrix().todense()
    low, high = np.isfinite(part.row_lower), np.isfinite(part.row_upper)
    found = linprog(
        np.zeros(part.columns),
        A_ub=np.vstack([dense[high], -dense[low]]),
        b_ub=np.concatenate([part.row_upper[high], -part.row_lower[low]]),
        bounds=list(zip(part.lower, part.upper, strict=True)),
    )
    assert found.status in (0, 2)
    return bool(found.status == 0)


def test_two_rows_that_clash_are_named() -> None:
    """a + b >= 2 against a + b <= 1; the other rows, and the bounds, have nothing to do with it."""
    data = program(
        [0, 0, 0],
        [INF, INF, 5],
        [2, -INF, -INF, 0],
        [INF, 1, 9, INF],
        [[1, 1, 0], [1, 1, 0], [0, 1, 1], [1, 0, -1]],
        columns="abc",
        names=("need", "room", "other", "more"),
    )
    subset = infeasible_subset(data, SolverLimits(time_s=300.0))
    assert subset.members == (("row", 0, "lower"), ("row", 1, "upper"))
    assert subset.texts == ("need: a + b >= 2", "room: a + b <= 1")
    assert subset.infeasible
    assert subset.irreducible


def test_bounds_of_variables_belong_to_the_subset() -> None:
    """a + 2 b >= 7 with a <= 1, b <= 2: the row and both upper bounds, not the lower ones."""
    data = program([0, 0], [1, 2], [7], [20], [[1, 2]], columns="ab", names=("need",))
    subset = infeasible_subset(data)
    assert subset.texts == ("need: a + 2 b >= 7", "bound: a <= 1", "bound: b <= 2")
    assert subset.irreducible


@pytest.mark.parametrize("case", ["column", "row"])
def test_crossed_bounds_are_a_subset_of_two(case: str) -> None:
    """lower > upper clashes with itself."""
    if case == "column":
        data = program([3, 0], [2, 9], [0], [9], [[1, 1]])
        expected = (("column", 0, "lower"), ("column", 0, "upper"))
    else:
        data = program([0, 0], [9, 9], [5], [4], [[1, 1]])
        expected = (("row", 0, "lower"), ("row", 0, "upper"))
    subset = infeasible_subset(data)
    assert (subset.members, subset.irreducible) == (expected, True)


def test_whole_numbers_make_the_clash() -> None:
    """2 a + 2 b = 1 has fractional solutions only; both sides of the row are needed, no bound is."""
    data = program([0, 0], [5, 5], [1], [1], [[2, 2]], whole=True, columns="ab", names=("odd",))
    subset = infeasible_subset(data, SolverLimits(time_s=300.0))
    assert subset.texts == ("odd: 2 a + 2 b >= 1", "odd: 2 a + 2 b <= 1")
    assert (subset.infeasible, subset.irreducible, subset.source) == (True, True, "deletion filter")


def test_feasible_program_has_no_subset() -> None:
    """Nothing clashes, and nothing is claimed to."""
    subset = infeasible_subset(program([0], [1], [0], [1], [[1]]))
    assert (subset.members, subset.infeasible, subset.irreducible) == ((), False, False)


def test_no_time_means_no_proof() -> None:
    """Without time nothing is claimed."""
    data = program([0, 0], [1, 2], [7], [20], [[1, 2]])
    subset = infeasible_subset(data, SolverLimits(time_s=0.0))
    assert (subset.infeasible, subset.irreducible) == (False, False)


@st.composite
def clashing(draw: st.DrawFn) -> LpArrays:
    """Random small rows over a box, made infeasible by asking more of the first row than the box holds."""
    n, m = draw(st.integers(2, 4)), draw(st.integers(1, 4))
    rows = [draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n)) for _ in range(m)]
    rows[0][0] = rows[0][0] or 1
    most = sum(max(0, 2 * a) for a in rows[0])
    low = [float(most + 1)] + [float(draw(st.integers(-4, 2))) for _ in range(m - 1)]
    high = [INF] + [v + draw(st.integers(0, 4)) for v in low[1:]]
    return program([0] * n, [2] * n, low, high, rows)  # type: ignore[arg-type]


@settings(max_examples=20)
@given(clashing())
def test_subsets_are_irreducible_by_another_solver(data: LpArrays) -> None:
    """Scipy agrees: the members clash, and without any one of them they do not."""
    subset = infeasible_subset(data)
    assert subset.infeasible
    assert subset.irreducible
    members = list(subset.members)
    assert not has_solution(data, members)
    for i in range(len(members)):
        assert has_solution(data, members[:i] + members[i + 1 :])
