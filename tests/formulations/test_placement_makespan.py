"""The reference program of least makespan against CP-SAT and against hand-made cases."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from formulations.placed_graphs import placement_makespan_arrays
from solvers.backends import SOLVERS, SolverLimits
from solvers.placement.makespan import alone_ms
from tests.support.placed_graphs import problem, random_problems
from topoopt.core.proofs import Status
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.simulate.placement import placement_arrays


def optimum(instance, upper):
    """Least makespan by HiGHS."""
    a = placement_arrays(instance)
    program = placement_makespan_arrays(
        instance, upper, lambda t, d, e: float(alone_ms(a, float(a.tensor_size[t]), None)[d, e])
    )
    result = SOLVERS["highs"](program, SolverLimits(time_s=900))
    assert result.status is Status.OPTIMAL, result.message
    return result.objective


@settings(max_examples=20)
@given(random_problems(most=5, sharing=("none",)))
def test_reference_program_and_intervals_agree(instance):
    """Up to five operators on up to four devices: the two exact models, by two solvers, have the same optimum."""
    small = replace(instance, devices=instance.devices[:3])
    solution = solve(small, SolveOptions(method="exact"))
    assert solution.status is Status.OPTIMAL
    assert optimum(small, solution.objective.value + 1.0) == pytest.approx(solution.objective.value, abs=1e-5)


def test_names_of_a_tiny_program():
    """Two free operators and one tensor on two devices: families of rows by name, none forgotten."""
    instance = problem([1, 2], [(0, [1], 3)], [1, 1], sharing="none", memory=[1, 1], room=1)
    program = placement_makespan_arrays(instance, 10.0, lambda t, d, e: 3.0)
    assert program.column_names == ("at_0_0", "at_0_1", "at_1_0", "at_1_1", "start_0", "start_1", "span")
    families = {name.split("_")[0] for name in program.row_names}
    assert families == {"place", "fit", "end", "follow", "send", "work"}  # a path orders the two: no first or second
    assert optimum(instance, 10.0) == pytest.approx(1 + 3 + 2)
