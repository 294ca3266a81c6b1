"""The checker's time model, memory ledger, space and bounds agree with those of the search, which share no code."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from solvers.llm_training.records import columns_of_rows, rows_of_shape, strategy_of
from solvers.llm_training.shape_bounds import shape_bounds, shape_numbers
from solvers.llm_training.shapes import strategy_shapes
from tests.solvers.test_strategy_space import drawn_problem
from tests.support.llm_cases import training
from topoopt.core.llm_training import LlmTrainingProblem, StepBreakdown, TrainingMemory
from topoopt.core.parallelism import Overlap
from topoopt.simulate.llm_training.roofline import roofline_columns
from topoopt.verify.llm_training.certificate import bounds_of
from topoopt.verify.llm_training.space import records_of, row_of, shapes_of, strategies_of
from topoopt.verify.llm_training.step import recomputed
from topoopt.workloads.llm_training.presets import LANGUAGE_MODELS


def drawn(rng: np.random.Generator) -> LlmTrainingProblem:
    """A published model or a small one, in formats, overlaps and spaces of all sorts."""
    if rng.random() < 0.5:
        problem = drawn_problem(rng)
    else:
        gpus, device = int(rng.choice([16, 32, 48])), str(rng.choice(["a100", "h100"]))
        problem = training(str(rng.choice(list(LANGUAGE_MODELS))), gpus, int(rng.choice([48, 96])), 4096, device)
    formats = replace(
        problem.formats,
        fp8=bool(rng.integers(2)),
        fp8_dispatch=bool(rng.integers(2)),
        flash=bool(rng.integers(2)),
        gradient_bytes=int(rng.choice([2, 4])),
    )
    overlap = Overlap(float(rng.choice([0, 0.5])), float(rng.choice([0, 0.3])), *rng.integers(0, 2, 2).astype(bool))
    space = replace(
        problem.space,
        short_ends=(0, 1, 2) if rng.random() < 0.5 else (),
        expert_tensor=(1, 2) if rng.random() < 0.3 else (1,),
    )
    return replace(problem, formats=formats, overlap=overlap, space=space)


def agree(seed: int, cases: int) -> None:
    """All shapes of random problems, and all strategies of a few of each."""
    rng = np.random.default_rng(seed)
    for _ in range(cases):
        problem = drawn(rng)
        shapes = strategy_shapes(problem)
        assert sorted(shapes) == sorted(shapes_of(problem))
        bounds = bounds_of(problem, shapes)
        np.testing.assert_allclose(bounds, shape_bounds(problem, shapes), rtol=1e-10)
        for place in rng.choice(len(shapes), min(6, len(shapes)), replace=False).tolist():
            shape, rows = shapes[place], rows_of_shape(problem, shapes[place])
            own = strategies_of(problem, shape)
            spelled = np.array([row_of(strategy_of(problem, shape, row)) for row in rows]).reshape(-1, own.shape[1])
            assert sorted(spelled.tolist()) == sorted(own.tolist())
            if not len(rows):
                continue
            columns = columns_of_rows(problem, np.array([shape_numbers(shape)] * len(rows)), rows)
            step, again = roofline_columns(problem, problem.device, columns), recomputed(problem, records_of(spelled))
            for part in fields(StepBreakdown):
                np.testing.assert_allclose(again.seconds[part.name], getattr(step, part.name), rtol=1e-9, atol=1e-12)
            for part in fields(TrainingMemory):
                np.testing.assert_allclose(again.memory[part.name], getattr(step.memory, part.name), rtol=1e-9)
            assert bounds[place] <= again.total.min() * (1 + 1e-12)


def test_both_time_models_agree() -> None:
    """Random problems: the same shapes, strategies, times, bytes; no strategy below the bound of its shape."""
    agree(11, 6)


@pytest.mark.heavy
def test_both_time_models_agree_on_many() -> None:
    agree(12, 120)
