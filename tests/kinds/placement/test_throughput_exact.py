"""Exact throughput placements against enumeration, and bound <= exact <= heuristics."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.stage_order import build_arrays, data_of, positions_of, rounded_down, stage_graph, start_values
from solvers.backends import SOLVERS, SolverLimits
from solvers.placement.pipelines import Search, normal_form, polish, reduced, slice_orders, work_bound
from solvers.stop import Stop
from tests.support.placement_cases import brute_force, random_problem
from tests.support.settled import settled
from topoopt.core.errors import InfeasibleError
from topoopt.core.placement import PlacementProblem, Throughput
from topoopt.core.proofs import Status
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve

VARIANTS = {
    "1f1b": Throughput(),
    "gpipe": Throughput(schedule="gpipe"),
    "overlapped": Throughput(communication="overlapped"),
    "gpipe-overlapped": Throughput("gpipe", "overlapped"),
    "interleaved": Throughput(stages="interleaved", stages_per_device=2),
    "free": Throughput(stages="free"),
    "free-gpipe": Throughput(schedule="gpipe", stages="free"),
}


def in_process(problem: PlacementProblem, backend: str) -> float | None:
    """Optimum by the stage-order program on the reduced graph, None if infeasible."""
    assert isinstance(problem.objective, Throughput)
    graph = reduced(stage_graph(problem), problem.objective)
    data = data_of(graph, problem.objective)
    if backend == "cp-sat":
        data = rounded_down(data, 0.5)  # all times are whole milliseconds: nothing is lost
    result = SOLVERS[backend](build_arrays(data), SolverLimits(time_s=900))
    if result.status is Status.INFEASIBLE:
        return None
    assert result.status is Status.OPTIMAL
    assert result.objective is not None
    return result.objective * (0.5 if backend == "cp-sat" else 1.0)


@pytest.mark.parametrize("variant", list(VARIANTS))
@given(seed=st.integers(0, 10**6), cpus=st.integers(0, 1), backward=st.booleans(), memory=st.booleans())
@settings(max_examples=8)
def test_program_reaches_the_enumerated_optimum(
    variant: str, seed: int, cpus: int, backward: bool, memory: bool
) -> None:
    """With and without a CPU pool, backward operators and tight memory, after the exact reductions."""
    problem = random_problem(
        seed, operators=6 if cpus == 0 else 5, cpus=cpus, backward=backward, memory=memory, settings=VARIANTS[variant]
    )
    expected = brute_force(problem)
    found = in_process(problem, "cp-sat")
    if expected is None:
        assert found is None
    else:
        assert found == pytest.approx(expected, abs=1e-6)


@given(seed=st.integers(0, 10**6), backward=st.booleans())
@settings(max_examples=8)
def test_both_backends_agree_on_three_devices(seed: int, backward: bool) -> None:
    """HiGHS in floating point, CP-SAT in whole numbers."""
    problem = random_problem(seed, operators=7, devices=3, backward=backward)
    one, other = in_process(problem, "cp-sat"), in_process(problem, "highs")
    assert one is not None
    assert other == pytest.approx(one, abs=1e-5)


@pytest.mark.parametrize("variant", list(VARIANTS))
@given(seed=st.integers(0, 10**6), cpus=st.integers(0, 1), memory=st.booleans())
@settings(max_examples=4)
def test_bound_below_optimum_below_heuristics(variant: str, seed: int, cpus: int, memory: bool) -> None:
    """The work bound, the enumerated optimum, order slicing with local search; no heuristic beats the optimum."""
    problem = random_problem(seed, cpus=cpus, backward=True, memory=memory, settings=VARIANTS[variant])
    expected = brute_force(problem)
    search = Search(problem)
    slice_orders(search, 1, Stop())
    polish(search, 1, Stop())
    if expected is None:
        assert search.best is None
        return
    assert work_bound(search.graph, search.settings) <= expected + 1e-9
    assert search.value >= expected - 1e-9


@given(seed=st.integers(0, 10**6), variant=st.sampled_from(list(VARIANTS)), cpus=st.integers(0, 1))
@settings(max_examples=25)
def test_start_of_a_placement_is_a_point_of_the_program(seed: int, variant: str, cpus: int) -> None:
    """The start satisfies every row, costs what the placement costs, and reads back as the same placement."""
    problem = random_problem(seed, operators=7, devices=3, cpus=cpus, backward=True, settings=VARIANTS[variant])
    search = Search(problem)
    slice_orders(search, 0, Stop())
    assert search.best is not None
    data = data_of(search.graph, search.settings, upper=search.value + 1.0)
    program = build_arrays(data)
    stage = normal_form(data, search.best).stage
    start = start_values(data, program, stage, search.best.group)
    activity = program.matrix() @ start
    assert (activity <= program.row_upper + 1e-9).all()
    assert (activity >= program.row_lower - 1e-9).all()
    assert (start <= program.upper + 1e-9).all()
    assert program.cost @ start == pytest.approx(search.value)
    again, group = positions_of(data, program, start)
    assert (again == stage).all()
    if data.group_of_slot is None:
        assert (group == search.best.group).all()


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_solution_is_optimal_and_checked(variant: str) -> None:
    """From problem to solution: the enumerated optimum, proven, and accepted by the checker."""
    problem = random_problem(11, operators=6, cpus=1, backward=True, settings=VARIANTS[variant])
    solution = solve(problem, SolveOptions(time_limit_s=900))
    assert solution.check.ok, solution.check.violations
    assert solution.objective.value == pytest.approx(brute_force(problem))
    assert settled(solution)


def test_equal_seeds_give_equal_placements() -> None:
    """Order slicing draws from the seed alone."""
    problem = random_problem(3, operators=9, devices=3)
    one, other = (solve(problem, SolveOptions(method="slices", seed=5)) for _ in range(2))
    assert (one.plan.device == other.plan.device).all()


def test_memory_that_nothing_fits_is_infeasible() -> None:
    """Two operators of two bytes and two devices of one: proven infeasible, not merely not found."""
    base = random_problem(0, operators=4, devices=2)
    crowded = replace(
        base,
        operators=tuple(replace(op, memory_bytes=2, colocation=None) for op in base.operators),
        devices=tuple(replace(device, memory_bytes=3) for device in base.devices),
    )
    with pytest.raises(InfeasibleError):
        solve(crowded)


def test_one_device_takes_everything() -> None:
    """k = 1: the load is all the work, nothing is sent."""
    problem = random_problem(2, operators=5, devices=1)
    solution = solve(problem)
    assert solution.objective.value == pytest.approx(sum(op.times_ms[0] for op in problem.operators))
    assert settled(solution)


def test_faster_links_inside_servers_bound_the_others() -> None:
    """Two devices in one server and one in another: the bound is that of the faster links, and stays a bound."""
    problem = random_problem(8, operators=6, devices=3)
    servers = (replace(problem.servers[0], intra_gbps=1.0), problem.servers[1])
    devices = tuple(replace(device, server=min(i // 2, 1)) for i, device in enumerate(problem.devices))
    mixed = replace(problem, servers=servers, devices=devices)
    solution = solve(mixed)
    assert solution.check.ok, solution.check.violations
    assert solution.bound.value <= solution.objective.value * (1 + 1e-9)
    assert any("fastest link" in note for note in solution.notes)
