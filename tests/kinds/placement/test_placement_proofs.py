"""What the checker derives again by trying everything: least loads and makespans, against plain enumeration."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from tests.support.placed_schedules import least_makespan_alone
from tests.support.placement_cases import random_problem
from tests.support.unequal_placements import VARIANTS, least_load, unequal_problem
from topoopt.core.placement import Communication, Latency, Schedule, StageShape, Throughput
from topoopt.verify.placement import exhaustive


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_least_load_is_that_of_all_assignments(variant: str) -> None:
    """Whatever value is handed in, a better assignment is found if there is one, and none is made up."""
    for seed in range(4):
        problem = unequal_problem(
            seed, operators=6, backward=seed % 2 == 0, memory=seed % 3 == 0, settings=VARIANTS[variant]
        )
        best = least_load(problem)
        assert best is not None
        for factor in (1.0, 1.0001, 2.0, 100.0):
            assert exhaustive.least_load(problem, VARIANTS[variant], best * factor) == pytest.approx(best, rel=1e-9)
        assert exhaustive.least_load(problem, VARIANTS[variant], best * 0.9) == best * 0.9


@pytest.mark.parametrize("stages", get_args(StageShape))
@pytest.mark.parametrize("schedule", get_args(Schedule))
def test_like_devices_are_used_in_order(schedule: Schedule, stages: StageShape) -> None:
    """Four equal devices: nothing is lost to their symmetry, nor to what partial assignments must still do."""
    settings = Throughput(schedule, get_args(Communication)[len(stages) % 2], stages, stages_per_device=2)
    for seed in range(3):
        problem = random_problem(seed, operators=6, devices=4, backward=seed != 1, memory=seed == 2, settings=settings)
        best = least_load(problem)
        if best is None:
            continue
        for factor in (1.0, 1.5, 100.0):
            assert exhaustive.least_load(problem, settings, best * factor) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("communication", get_args(Communication))
@pytest.mark.parametrize("schedule", get_args(Schedule))
def test_least_pipeline_is_that_of_all_assignments(schedule: Schedule, communication: Communication) -> None:
    """Contiguous stages over equal links, one maximum or a forward and a backward one; devices of two kinds too."""
    settings = Throughput(schedule, communication)
    for seed in range(8):
        problem = random_problem(
            seed,
            operators=7,
            devices=3 - seed % 2,
            cpus=seed % 2,
            backward=True,
            memory=seed % 3 == 0,
            settings=settings,
        )
        best = least_load(problem)
        if best is None:
            continue
        for factor in (1.0, 1.2, 100.0):
            assert exhaustive.least_pipeline(problem, settings, best * factor) == pytest.approx(best, rel=1e-9)
        assert exhaustive.least_pipeline(problem, settings, best * 0.9) == best * 0.9


@pytest.mark.parametrize("seed", range(8))
def test_least_makespan_is_that_of_all_orders(seed: int) -> None:
    """Five operators, all assignments and all orders, equal and unequal links, zero times among them."""
    make = unequal_problem if seed % 2 else random_problem
    problem = make(seed, operators=5, devices=3 if seed % 3 else 2, memory=seed % 4 == 0)
    problem = replace(problem, objective=Latency("none"))
    best = least_makespan_alone(problem)
    assert np.isfinite(best)
    for factor in (1.0, 1.01, 3.0):
        assert exhaustive.least_makespan(problem, best * factor) == pytest.approx(best, rel=1e-9)


def test_too_many_are_refused() -> None:
    """Nothing is derived from a part of the assignments or schedules."""
    problem = unequal_problem(1, operators=9, devices=3)
    with pytest.raises(ValueError, match="more than 5"):
        exhaustive.least_load(problem, Throughput(), 1e9, max_rows=5)
    with pytest.raises(ValueError, match="more than 5"):
        exhaustive.least_makespan(problem, 1e9, max_rows=5)
