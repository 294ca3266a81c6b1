"""The path split program: algebra by hand, and the linear program backends."""

from __future__ import annotations

import highspy
import numpy as np
import pytest
from scipy.optimize import linprog

from formulations.mixtures import PathSplit, path_split_arrays, shares_of
from formulations.programs import LpArrays
from solvers.backends import BACKENDS, SOLVERS, SolverLimits, self_test
from solvers.backends.highs import outcome
from topoopt.core.proofs import Status, StopReason


def two_paths(**changes: object) -> PathSplit:
    """One demand, two paths: resource 0 costs 1 per unit, resource 1 costs 3."""
    values: dict[str, object] = {
        "demand": np.array([0, 0]),
        "resource": np.array([0, 1]),
        "alternative": np.array([0, 1]),
        "use": np.array([1.0, 3.0]),
        "resources": 2,
    }
    return PathSplit(**{**values, **changes})  # type: ignore[arg-type]


def test_rows_and_columns_are_the_algebra() -> None:
    """Columns share, share, peak; row split then two rows fit_peak, written out by hand."""
    program = path_split_arrays(two_paths())
    dense = np.zeros((program.rows, program.columns))
    for column in range(program.columns):
        for k in range(program.start[column], program.start[column + 1]):
            dense[program.index[k], column] = program.value[k]
    np.testing.assert_array_equal(dense, [[1, 1, 0], [1, 0, -1], [0, 3, -1]])
    np.testing.assert_array_equal(program.cost, [0, 0, 1])
    np.testing.assert_array_equal(program.row_lower, [1, -np.inf, -np.inf])
    np.testing.assert_array_equal(program.row_upper, [1, 0, 0])


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_water_filling_optimum(backend: str) -> None:
    """x = 3 (1 - x) gives shares 3/4 and 1/4 and the largest load 3/4."""
    data = two_paths()
    result = BACKENDS[backend](path_split_arrays(data), SolverLimits())
    assert (result.status, result.stopped_by) == (Status.OPTIMAL, StopReason.CONVERGED)
    assert result.x is not None
    share = shares_of(data, result.x)
    np.testing.assert_allclose(share, [0.75, 0.25])
    load = np.bincount(data.resource, weights=data.use * share[data.alternative], minlength=data.resources)
    assert load.max() == pytest.approx(0.75), "one family: the largest load of a resource"
    assert result.objective == pytest.approx(0.75)


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_families_and_prices(backend: str) -> None:
    """Two families: the sum of weighted peaks is minimised; a price beats a small gain."""
    split = two_paths(family=np.array([0, 1]), family_weight=(1.0, 1.0))
    result = BACKENDS[backend](path_split_arrays(split), SolverLimits())
    assert result.objective == pytest.approx(1.0), "all on the first path: peaks 1 and 0"
    priced = two_paths(price=np.array([10.0, 0.0]))
    result = BACKENDS[backend](path_split_arrays(priced), SolverLimits())
    assert result.x is not None
    np.testing.assert_allclose(shares_of(priced, result.x), [0.0, 1.0], atol=1e-9)


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_random_programs_agree_with_scipy(backend: str) -> None:
    """Three demands over random alternatives: the same optimum as scipy's linprog from dense matrices."""
    rng = np.random.default_rng(7)
    for _ in range(5):
        demand = np.array([0, 0, 0, 1, 1, 2, 2, 2])
        use = rng.random((6, 8)) * (rng.random((6, 8)) < 0.6)
        resource, alternative = np.nonzero(use)
        data = PathSplit(demand, resource, alternative, use[resource, alternative], 6)
        result = BACKENDS[backend](path_split_arrays(data), SolverLimits())
        expected = linprog(
            np.r_[np.zeros(8), 1.0],
            A_ub=np.c_[use, -np.ones(6)],
            b_ub=np.zeros(6),
            A_eq=np.c_[(demand == np.arange(3)[:, None]).astype(float), np.zeros(3)],
            b_eq=np.ones(3),
        )
        assert result.objective == pytest.approx(expected.fun)


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_infeasible_and_unbounded_are_told_apart(backend: str) -> None:
    """x >= 2 with x <= 1 is infeasible; min -x, x free above is not solved, and says so; no exception."""
    one = np.ones(1)
    program = LpArrays(one, 0 * one, one, 2 * one, np.inf * one, np.array([0, 1]), np.array([0]), one)
    result = BACKENDS[backend](program, SolverLimits())
    assert result.status is Status.INFEASIBLE
    assert result.x is None
    endless = LpArrays(-one, 0 * one, np.inf * one, 0 * one, np.inf * one, np.array([0, 1]), np.array([0]), one)
    result = BACKENDS[backend](endless, SolverLimits())
    assert result.status is Status.UNKNOWN
    assert result.x is None


def test_every_highs_status_has_a_meaning() -> None:
    """The table of outcomes is total, and only solved states count as solved."""
    members = [
        getattr(highspy.HighsModelStatus, name) for name in dir(highspy.HighsModelStatus) if name.startswith("k")
    ]
    solved = {member.name for member in members if outcome(member)[0] in (Status.OPTIMAL, Status.FEASIBLE)}
    assert solved == {"kOptimal", "kModelEmpty", "kObjectiveTarget"}


def test_backends_pass_their_self_test() -> None:
    """Every backend of the table answers the one-variable program."""
    assert self_test() == dict.fromkeys(SOLVERS)
