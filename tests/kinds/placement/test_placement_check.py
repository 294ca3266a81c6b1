"""The checker of placements rejects every corrupted field of a good solution."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.placement_cases import load_of, random_problem
from topoopt.core.arrays import Int32s
from topoopt.core.placement import Communication, LinkShare, PlacementProblem, Schedule, Throughput
from topoopt.core.proofs import Argument, Bound, Status
from topoopt.core.result import Objective, Result
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.simulate.placement import device_loads, max_load_ms
from topoopt.verify.checker import FULL
from topoopt.verify.placement.check import check, device_order, loads_of, objective_of

PROBLEM = random_problem(21, operators=6, devices=3, cpus=1, backward=True)
SOLUTION = solve(PROBLEM, SolveOptions(method="slices"))

Corruption = Callable[[Result[Any, Any]], Result[Any, Any]]


def codes(problem: PlacementProblem, solution: Result[Any, Any]) -> set[str]:
    """Codes of all violations."""
    return {violation.code for violation in check(problem, solution, FULL).violations}


def changed(solution: Result[Any, Any], **fields: Any) -> Result[Any, Any]:
    """The same with other decisions."""
    return replace(solution, plan=replace(solution.plan, **fields))


def _moved(solution: Result[Any, Any]) -> Result[Any, Any]:
    device = solution.plan.device.copy()
    device[0] = (device[0] + 1) % 3
    return changed(solution, device=device)


def _returning() -> Int32s:
    """Groups on the first two devices, by turns in some way that has tensors go there and back."""
    groups = PROBLEM.colocated()
    for homes in itertools.product((0, 1), repeat=len(groups)):
        device = np.zeros(6, dtype=np.int32)
        for members, home in zip(groups, homes, strict=True):
            device[list(members)] = home
        if device_order(PROBLEM, device.astype(np.int64)) is None:
            return device
    raise AssertionError("every placement is a pipeline")


CORRUPTED: dict[str, tuple[Corruption, str]] = {
    "name": (lambda s: replace(s, name="other"), "identity"),
    "instance": (lambda s: replace(s, instance_sha256="0"), "instance-sha256"),
    "too few operators": (lambda s: changed(s, device=s.plan.device[:-1]), "placement"),
    "no such device": (lambda s: changed(s, device=s.plan.device + 99), "placement"),
    "moved operator": (_moved, "objective"),
    "objective": (lambda s: replace(s, objective=replace(s.objective, value=s.objective.value * 1.01)), "objective"),
    "name of the objective": (lambda s: replace(s, objective=Objective("theta", s.objective.value, "ms")), "objective"),
    "bound": (lambda s: replace(s, bound=Bound(2 * s.objective.value, Argument.DEVICE_WORK)), "bound"),
    "optimal": (lambda s: replace(s, status=Status.OPTIMAL, bound=Bound(0.0, Argument.DEVICE_WORK)), "status"),
    "without certificate": (lambda s: replace(s, certificates=()), "bound"),
    "no pipeline": (lambda s: changed(s, device=_returning()), "order"),
    "starts": (lambda s: changed(s, start_ms=np.zeros(6)), "schedule"),
    "starts of transfers": (lambda s: changed(s, send_ms=np.zeros(1)), "schedule"),
    "rates": (lambda s: changed(s, link_shares=(LinkShare(0, 1, 0, 1.0),)), "schedule"),
    "not an array": (lambda s: changed(s, device=None), "placement"),
}


def test_good_solution_passes() -> None:
    """Nothing is held against a solution of ours."""
    assert not codes(PROBLEM, SOLUTION)


@pytest.mark.parametrize("what", list(CORRUPTED))
def test_corruption_is_found(what: str) -> None:
    """One changed field, one violation of the right code at least."""
    corrupt, code = CORRUPTED[what]
    assert code in codes(PROBLEM, corrupt(SOLUTION))


def test_memory_support_and_colocation() -> None:
    """A device too small, a class that cannot run an operator, and a group apart."""
    small = replace(PROBLEM, devices=tuple(replace(device, memory_bytes=0) for device in PROBLEM.devices))
    held = any(operator.memory_bytes for operator in PROBLEM.operators)
    assert held
    assert "memory" in codes(small, SOLUTION)
    never = replace(PROBLEM.operators[0], times_ms=(float("inf"),) * 2)
    lame = replace(PROBLEM, operators=(never, *PROBLEM.operators[1:]))
    assert "support" in codes(lame, SOLUTION)
    glued = replace(PROBLEM, operators=tuple(replace(op, colocation="all") for op in PROBLEM.operators))
    assert len(set(SOLUTION.plan.device.tolist())) > 1
    assert "colocation" in codes(glued, SOLUTION)


@given(seed=st.integers(0, 10**6), cpus=st.integers(0, 1))
@settings(max_examples=40)
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
    for choice in (
        Throughput(schedule, communication)
        for schedule in get_args(Schedule)
        for communication in get_args(Communication)
    ):
        same = replace(problem, objective=choice)
        value = max_load_ms(choice, device_loads(same, device))
        assert value == pytest.approx(load_of(same, tuple(device.tolist())))
        assert value == pytest.approx(objective_of(choice, *loads_of(same, device.astype(np.int64))))
