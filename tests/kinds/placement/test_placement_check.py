"""The checker of placements rejects every corrupted field of a good solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.placement_cases import load_of, random_problem
from topoopt.core.placement import Communication, PlacementProblem, Schedule, Throughput
from topoopt.core.placement_solution import PlacementSolution
from topoopt.core.proofs import Argument, Bound
from topoopt.core.solution import Objective
from topoopt.core.verdict import Status
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.simulate.placement.stage_loads import device_loads, max_load_ms
from topoopt.verify.placement.check import check_placement
from topoopt.verify.placement.loads import loads_of, objective_of

PROBLEM = random_problem(21, operators=6, devices=3, cpus=1, backward=True)
SOLUTION = solve(PROBLEM, SolveOptions(method="slices"))

Corruption = Callable[[PlacementSolution], PlacementSolution]


def _moved(solution: PlacementSolution) -> PlacementSolution:
    device = solution.device.copy()
    device[0] = (device[0] + 1) % 3
    return replace(solution, device=device)


CORRUPTED: dict[str, tuple[Corruption, str]] = {
    "name": (lambda s: replace(s, name="other"), "identity"),
    "instance": (lambda s: replace(s, instance_sha256="0"), "instance-sha256"),
    "settings": (lambda s: replace(s, settings=replace(PROBLEM.objective, stages_per_device=2)), "identity"),
    "devices": (lambda s: replace(s, devices=s.devices[:-1]), "identity"),
    "too few operators": (lambda s: replace(s, device=s.device[:-1]), "placement"),
    "no such device": (lambda s: replace(s, device=s.device + 99), "placement"),
    "moved operator": (_moved, "loads"),
    "objective": (lambda s: replace(s, objective=replace(s.objective, value=s.objective.value * 1.01)), "objective"),
    "name of the objective": (lambda s: replace(s, objective=Objective("theta", s.objective.value, "ms")), "objective"),
    "bound": (lambda s: replace(s, bound=Bound(2 * s.objective.value, Argument.DEVICE_WORK)), "bound"),
    "optimal": (lambda s: replace(s, status=Status.OPTIMAL, bound=Bound(0.0, Argument.DEVICE_WORK)), "status"),
    "loads": (lambda s: replace(s, loads=s.loads[::-1]), "loads"),
    "stages missing": (lambda s: replace(s, stage=None), "stages"),
    "stages reversed": (lambda s: replace(s, stage=(3 - np.asarray(s.stage)).astype(np.int32)), "stages"),
    "not an array": (lambda s: replace(s, device=None), "placement"),  # type: ignore[arg-type]
}


def test_good_solution_passes() -> None:
    """Nothing is held against a solution of ours."""
    assert check_placement(PROBLEM, SOLUTION).violations == ()


@pytest.mark.parametrize("what", list(CORRUPTED))
def test_corruption_is_found(what: str) -> None:
    """One changed field, one violation of the right code at least."""
    corrupt, code = CORRUPTED[what]
    assert code in {violation.code for violation in check_placement(PROBLEM, corrupt(SOLUTION)).violations}


def test_memory_support_and_colocation() -> None:
    """A device too small, a class that cannot run an operator, and a group apart."""
    small = replace(PROBLEM, devices=tuple(replace(device, memory_bytes=0) for device in PROBLEM.devices))
    held = any(operator.memory_bytes for operator in PROBLEM.operators)
    assert held
    assert "memory" in {v.code for v in check_placement(small, replace(SOLUTION, devices=small.devices)).violations}
    never = replace(PROBLEM.operators[0], times_ms=(float("inf"),) * 2)
    lame = replace(PROBLEM, operators=(never, *PROBLEM.operators[1:]))
    assert "support" in {v.code for v in check_placement(lame, SOLUTION).violations}
    glued = replace(PROBLEM, operators=tuple(replace(op, colocation="all") for op in PROBLEM.operators))
    assert len(set(SOLUTION.device.tolist())) > 1
    assert "colocation" in {v.code for v in check_placement(glued, SOLUTION).violations}


@given(seed=st.integers(0, 10**6), cpus=st.integers(0, 1))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_three_evaluators_agree(seed: int, cpus: int) -> None:
    """Ours, the checker's and the one of the tests, on random placements of random problems."""
    problem: PlacementProblem = random_problem(seed, operators=8, devices=3, cpus=cpus, backward=bool(seed % 2))
    rng = np.random.default_rng(seed)
    classes = [device.class_index for device in problem.devices]
    device = np.array(
        [
            rng.choice([d for d, c in enumerate(classes) if np.isfinite(operator.times_ms[c])])
            for operator in problem.operators
        ],
        dtype=np.int32,
    )
    for choice in (Throughput(schedule, communication) for schedule in Schedule for communication in Communication):
        same = replace(problem, objective=choice)
        value = max_load_ms(choice, device_loads(same, device))
        assert value == pytest.approx(load_of(same, tuple(device.tolist())))
        assert value == pytest.approx(objective_of(choice, loads_of(same, device.astype(np.int64))))
