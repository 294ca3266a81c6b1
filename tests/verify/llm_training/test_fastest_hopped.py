"""The fastest strategy where tokens take hops, found by bounds, is that of all by the time model of the search."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from solvers.llm_training.plan import optimistic_rates
from solvers.llm_training.strategies import columns_of_rows, rows_of_shape, shape_numbers, strategy_of, strategy_shapes
from tests.solvers.test_strategy_space import drawn_problem
from tests.support.llm_cases import training
from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.simulate.llm_training.times import iteration_times
from topoopt.verify.checker import WorkBudget
from topoopt.verify.llm_training.costs import hopped_rates
from topoopt.verify.llm_training.iteration import Fastest, least_seconds
from topoopt.verify.llm_training.layers import records_of, row_of

CASES = 4


def _drawn(rng: np.random.Generator) -> tuple[LlmTrainingProblem, Floats, Floats]:
    """A problem, up to 150 of its strategies as the checker spells them, and their times by the model of the search."""
    if rng.random() < 0.5:
        problem = drawn_problem(rng)
    else:  # eight servers in a group of experts, of two interfaces each: tokens are forwarded
        problem = training("mixtral-8x22b", 64, 64, 4096)
        problem = replace(problem, cluster=replace(problem.cluster, degree=2))
    spelled, times = [], []
    shapes = strategy_shapes(problem)
    for place in rng.choice(len(shapes), min(5, len(shapes)), replace=False).tolist():
        shape, rows = shapes[place], rows_of_shape(problem, shapes[place])
        rows = rows[rng.choice(len(rows), min(30, len(rows)), replace=False)]
        if len(rows):
            columns = columns_of_rows(problem, np.array([shape_numbers(shape)] * len(rows)), rows)
            times.append(iteration_times(problem, columns, optimistic_rates(problem, columns)))
            spelled += [row_of(strategy_of(problem, shape, row)) for row in rows]
    return problem, np.array(spelled), np.concatenate(times)


def fastest(problem: LlmTrainingProblem, rows: Floats, limit: float) -> float:
    """Of strategies within a limit; inf where all bounds are above it."""
    found = Fastest(problem, limit, 1, partial(hopped_rates, problem))
    found.add(rows, WorkBudget())
    return found.least


def test_fastest_of_all() -> None:
    """Wherever times cease to matter."""
    rng, others = np.random.default_rng(13), 0
    for _ in range(CASES):
        problem, rows, times = _drawn(rng)
        bounds, least = least_seconds(problem, records_of(rows), partial(hopped_rates, problem)), times.min()
        others += int(times[np.argmin(bounds)] > least * (1 + 1e-9))
        for limit in (np.inf, least, float(np.median(times))):
            assert fastest(problem, rows, limit) == pytest.approx(least, rel=1e-9)
        assert fastest(problem, rows, float(bounds.min()) * 0.99) == np.inf
    assert others  # the least bound is not always that of the fastest: the first would not do
    assert fastest(problem, rows[:0], np.inf) == np.inf
