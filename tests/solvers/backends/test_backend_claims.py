"""What a solver says is checked: statuses, options, wrong claims, and starts that must not get lost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import highspy
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csc_array

from formulations.programs import LpArrays
from solvers.backends import SOLVERS, Backend, SolverLimits, solver_named
from solvers.backends.backend import Claim, Engine, Features
from solvers.backends.highs import algorithm_for, load
from topoopt.core.errors import InputError
from topoopt.core.proofs import Status, StopReason

ALL = Features(
    continuous=True, integer=True, duals=True, warm_start=True, exact=True, streams=True, proves_unbounded=True
)


def flow_program(nodes: int, seed: int = 0) -> LpArrays:
    """Transport between `nodes` suppliers and as many customers at random cost."""
    rng = np.random.default_rng(seed)
    matrix = csc_array(np.vstack([np.kron(np.eye(nodes), np.ones(nodes)), np.kron(np.ones(nodes), np.eye(nodes))]))
    return LpArrays(
        rng.random(nodes * nodes),
        np.zeros(nodes * nodes),
        np.full(nodes * nodes, np.inf),
        np.ones(2 * nodes),
        np.ones(2 * nodes),
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int64),
        matrix.data,
    )


def box(upper: float = 4.0, *, whole: bool = False) -> LpArrays:
    """min -x - y, x + y <= 3, 0 <= x, y <= upper: optimum -3."""
    return LpArrays(
        np.array([-1.0, -1.0]),
        np.zeros(2),
        np.full(2, upper),
        np.array([-np.inf]),
        np.array([3.0]),
        np.array([0, 1, 2]),
        np.array([0, 0]),
        np.ones(2),
        integer=np.full(2, whole),
    )


def saying(claim: Claim) -> Backend:
    """A backend whose library claims this, whatever it is asked."""
    engine = Engine(lambda *_: claim, frozenset({"speed"}), {}, ())
    return Backend("parrot", "a parrot", ALL, lambda: engine)


def optimal(x: list[float], **more: object) -> Claim:
    """A claim of optimality."""
    return Claim(Status.OPTIMAL, StopReason.CONVERGED, "Optimal", np.array(x), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", list(SOLVERS))
def test_status_maps_are_total(name: str) -> None:
    """Every status the installed library declares has one of ours, and only its word for optimal counts as optimal."""
    engine = SOLVERS[name].load()
    assert len(engine.statuses) >= 5
    assert set(engine.statuses) <= set(engine.status_map)
    called_optimal = {code for code, (status, _) in engine.status_map.items() if status is Status.OPTIMAL}
    assert {re.sub(r"^k", "", code).lower() for code in called_optimal} <= {
        "optimal",
        "modelempty",
        "convergencecriteriasatisfied",
    }
    infeasible = {code for code, (status, _) in engine.status_map.items() if status is Status.INFEASIBLE}
    assert len(infeasible) == 1, "no library word that leaves unbounded open means infeasible"


@pytest.mark.parametrize(
    ("name", "option", "value", "close"),
    [
        ("highs", "mip_rel_gp", 0.1, "mip_rel_gap"),
        ("highs-ipx", "run_crosover", "on", "run_crossover"),
        ("pyomo", "presolv", "off", "presolve"),
        ("cp-sat", "max_time_in_second", 1.0, "max_time_in_seconds"),
    ],
)
def test_unknown_options_are_errors_with_close_names(name: str, option: str, value: object, close: str) -> None:
    """A misspelt option is named, with what was probably meant; nothing is solved."""
    with pytest.raises(InputError) as refused:
        SOLVERS[name](box(whole=name == "cp-sat"), options={option: value, "zzz": 1})  # type: ignore[dict-item]
    misspelt, nonsense = refused.value.problems
    assert misspelt.path == option
    assert close in str(misspelt.allowed)
    assert nonsense.path == "zzz"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("highs", {"solver": "abacus"}),
        ("highs", {"mip_rel_gap": -1.0}),
        ("cp-sat", {"max_time_in_seconds": "soon"}),
    ],
)
def test_bad_option_values_are_errors(name: str, options: Mapping[str, str]) -> None:
    """A value the library refuses is an error, not a default."""
    with pytest.raises(InputError, match="refuses the value"):
        SOLVERS[name](box(whole=name == "cp-sat"), options=options)


@pytest.mark.parametrize(
    ("name", "options", "stopped_by"),
    [
        ("highs-simplex", {"simplex_iteration_limit": 1, "presolve": "off"}, StopReason.BUDGET),
        ("highs", {"solver": "pdlp", "pdlp_iteration_limit": 3, "presolve": "off"}, StopReason.BUDGET),
        ("pyomo", {"simplex_iteration_limit": 1, "presolve": "off"}, StopReason.BUDGET),
    ],
)
def test_options_reach_the_solver(name: str, options: Mapping[str, int], stopped_by: StopReason) -> None:
    """An iteration limit by the library's own name stops it, and no optimum is claimed."""
    result = SOLVERS[name](flow_program(8), options=options)
    assert (result.status is Status.OPTIMAL, result.stopped_by) == (False, stopped_by), result.message
    assert SOLVERS[name](flow_program(8)).status is Status.OPTIMAL


def test_unknown_solver_lists_close_names() -> None:
    """`hihgs` is answered by `highs`."""
    with pytest.raises(InputError, match=r"hihgs.*highs"):
        solver_named("hihgs")


def test_claimed_solution_outside_the_program_is_not_passed_on() -> None:
    """x + y = 4 breaks the row: unknown, the message says so, the point is kept apart."""
    result = saying(optimal([2, 2], row_dual=np.array([-1.0])))(box())
    assert (result.status, result.stopped_by, result.x) == (Status.UNKNOWN, StopReason.ERROR, None)
    assert "violates" in result.message
    np.testing.assert_array_equal(result.raw_x, [2, 2])


@pytest.mark.parametrize("x", [[np.nan, 0.0], [1.0], [np.inf, 0.0]])
def test_claimed_rubbish_is_not_passed_on(x: list[float]) -> None:
    """Not-a-number, a short vector and infinities are no solutions."""
    assert saying(optimal(x, bound=-3.0))(box(whole=True)).status is Status.UNKNOWN


def test_claimed_optimum_without_proof_is_only_feasible() -> None:
    """(1, 1) is feasible; right prices show -3, wrong prices show less, and neither proves -2."""
    result = saying(optimal([1, 1], row_dual=np.array([-1.0])))(box())
    assert (result.status, result.objective, result.bound) == (Status.FEASIBLE, -2.0, -3.0)
    assert "claimed optimal" in result.message
    result = saying(optimal([1, 2], row_dual=np.array([-0.5])))(box())
    # Lagrangian by hand: -0.5 * 3 + 2 * min over [0, 4] of -0.5 x = -5.5.
    assert (result.status, result.objective, result.bound) == (Status.FEASIBLE, -3.0, -5.5)
    assert saying(optimal([1, 2]))(box()).status is Status.FEASIBLE, "no bound at all"
    assert saying(optimal([1, 2], row_dual=np.array([-1.0])))(box()).status is Status.OPTIMAL


def test_claims_against_a_feasible_point_are_dropped() -> None:
    """A bound above a feasible cost, and infeasibility beside a feasible start, are wrong on their face."""
    result = saying(optimal([1, 2], bound=-2.0))(box(whole=True))
    assert (result.status, result.bound, result.stopped_by) == (Status.FEASIBLE, None, StopReason.ERROR)
    claim = Claim(Status.INFEASIBLE, StopReason.CONVERGED, "Infeasible")
    result = saying(claim)(box(whole=True), start=np.array([1.0, 1.0]))
    assert (result.status, result.objective, result.from_start) == (Status.FEASIBLE, -2.0, True)
    assert "wrong" in result.message


def test_objective_is_recomputed_after_rounding() -> None:
    """An integer point off by 1e-8 comes back whole, with the cost of the whole point."""
    result = saying(optimal([1 - 1e-8, 2 + 1e-8], bound=-3.0))(box(whole=True))
    assert result.x is not None
    np.testing.assert_array_equal(result.x, [1.0, 2.0])
    assert (result.objective, result.residual) == (-3.0, 0.0)


@pytest.mark.parametrize(
    ("claimed", "start", "expected", "from_start"),
    [
        (None, [1.0, 1.0], -2.0, True),  # the solver dropped the start
        ([1.0, 0.0], [1.0, 1.0], -2.0, True),  # and found something worse
        ([1.0, 2.0], [1.0, 1.0], -3.0, False),
        ([1.0, 2.0], [4.0, 4.0], -3.0, False),  # a start that does not fit
        ([4.0, 4.0], [1.0, 1.0], -2.0, True),  # the solver's point does not fit
    ],
)
def test_start_is_never_lost(
    claimed: list[float] | None, start: list[float], expected: float, from_start: bool
) -> None:
    """The result is the better of the solver's point and the start, both checked."""
    x: NDArray[np.float64] | None = None if claimed is None else np.array(claimed)
    result = saying(Claim(Status.FEASIBLE, StopReason.TIME, "Time limit", x))(box(), start=np.array(start))
    assert (result.objective, result.from_start, result.status) == (expected, from_start, Status.FEASIBLE)
    assert result.stopped_by is StopReason.TIME


@pytest.mark.parametrize("name", list(SOLVERS))
def test_starts_of_all_kinds_leave_the_optimum_alone(name: str) -> None:
    """Optimal, worse, infeasible and not-a-number starts: -3 in every case."""
    data = box(whole=not SOLVERS[name].features.continuous)
    for start in ([1.0, 2.0], [0.0, 0.0], [4.0, 4.0], [np.nan, 0.0]):
        result = SOLVERS[name](data, start=np.array(start))
        assert (result.status, result.objective) == (Status.OPTIMAL, pytest.approx(-3.0, abs=1e-6)), result.message


def test_algorithm_by_size_and_by_name(tmp_path: Path) -> None:
    """The iteration counts tell which algorithm ran, and HiGHS's own log agrees that ipx is IPX."""
    assert [algorithm_for(size) for size in (100, 100_000, 10_000_000)] == ["simplex", "ipx", "pdlp"]
    data = flow_program(8)
    for name, ran in (("highs-simplex", "simplex"), ("highs-ipx", "ipx"), ("highs", "simplex")):
        result = SOLVERS[name](data, options={"presolve": "off"})
        assert (result.algorithm, result.status) == (ran, Status.OPTIMAL)
    assert SOLVERS["highs"](data, options={"solver": "pdlp", "presolve": "off"}).algorithm == "pdlp"
    log = tmp_path / "highs.log"
    solver = highspy.Highs()
    for option, value in (("log_to_console", False), ("log_file", str(log)), ("solver", "ipx"), ("presolve", "off")):
        solver.setOptionValue(option, value)
    load(solver, data)
    solver.run()
    del solver
    assert "IPX" in log.read_text()


def test_streamed_incumbents_are_feasible_and_improve() -> None:
    """Both integer solvers report points as they go; the last is the optimum."""
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 60, (15, 40)).astype(float)
    matrix = csc_array(rows)
    data = LpArrays(
        -rng.integers(5, 60, 40).astype(float),
        np.zeros(40),
        np.ones(40),
        np.full(15, -np.inf),
        np.floor(rows.sum(axis=1) / 2),
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int64),
        matrix.data,
        integer=np.ones(40, dtype=np.bool_),
    )
    for name in ("highs", "cp-sat"):
        seen: list[NDArray[np.float64]] = []
        result = SOLVERS[name](data, on_incumbent=seen.append)
        costs = [float(data.cost @ x) for x in seen]
        assert costs == sorted(costs, reverse=True)
        assert len(seen) > 1
        assert all((rows @ x <= data.row_upper + 1e-6).all() for x in seen)
        assert costs[-1] == pytest.approx(result.objective)
        # The same seed gives the same bytes.
        again = SOLVERS[name](data)
        assert again.x is not None
        assert result.x is not None
        assert again.x.tobytes() == result.x.tobytes()


def test_default_gap_of_highs_is_not_called_optimal() -> None:
    """A relative gap of one half is asked for: feasible, stopped by the gap, unless the bound happens to meet."""
    rng = np.random.default_rng(1)
    rows = rng.integers(20, 99, (12, 50)).astype(float)
    matrix = csc_array(rows)
    data = LpArrays(
        -rng.integers(10, 99, 50).astype(float),
        np.zeros(50),
        np.ones(50),
        np.full(12, -np.inf),
        np.floor(rows.sum(axis=1) / 2),
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int64),
        matrix.data,
        integer=np.ones(50, dtype=np.bool_),
    )
    result = SOLVERS["highs"](data, SolverLimits(time_s=300.0), {"mip_rel_gap": 0.5})
    assert (result.status, result.stopped_by) == (Status.FEASIBLE, StopReason.GAP)
    assert result.bound is not None
    assert result.objective is not None
    assert result.bound < result.objective


def test_loose_pdlp_keeps_its_point_apart() -> None:
    """At a tolerance of a hundredth, the point is in raw_x with its prices, whatever status it earns."""
    tolerances = ("pdlp_optimality_tolerance", "primal_feasibility_tolerance", "dual_feasibility_tolerance")
    loose = {"solver": "pdlp", "presolve": "off", **dict.fromkeys(tolerances, 1e-2)}
    data = flow_program(8)
    result = SOLVERS["highs"](data, replace(SolverLimits(), feasibility=1e-9), loose)
    exact = SOLVERS["highs-simplex"](data)
    assert result.raw_x is not None
    assert result.row_dual is not None
    assert result.status is not Status.OPTIMAL
    assert exact.objective is not None
    assert float(data.cost @ result.raw_x) == pytest.approx(exact.objective, rel=0.1)
