"""No bound is above the time of its strategy, none faster is missed, and a second-best plan is never optimal."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from tests.solvers.test_strategy_space import drawn_problem
from tests.support.llm_plans import with_plan, with_shapes
from tests.support.valid_solutions import written
from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import ShapeVerdict, shape_outcomes
from topoopt.core.parallelism import Overlap
from topoopt.core.proofs import Status
from topoopt.core.result import Result
from topoopt.kinds.pipeline import solve
from topoopt.verify.checker import WorkBudget
from topoopt.verify.llm_training.check import check_llm_training
from topoopt.verify.llm_training.costs import hopped_rates
from topoopt.verify.llm_training.iteration import Fastest, least_seconds, seconds_of, shape_bounds, tables_of
from topoopt.verify.llm_training.layers import records_of, shapes_of

SOME = 60
"""Strategies of a problem whose passes are all followed."""


def drawn(rng: np.random.Generator) -> tuple[LlmTrainingProblem, Floats]:
    """A small problem of any overlap and division of layers, and some of its strategies."""
    problem = drawn_problem(rng)
    overlap = Overlap(float(rng.choice([0, 0.5])), float(rng.choice([0, 0.3])), *map(bool, rng.integers(0, 2, 2)))
    layers = "balanced" if rng.random() < 0.4 else "even"
    ends = (0, 1) if layers == "even" and rng.random() < 0.5 else ()
    space = replace(problem.space, layers=layers, short_ends=ends)
    problem = replace(problem, overlap=overlap, space=space)
    tables = [np.column_stack([table, index]) for table, index in tables_of(problem, sorted(shapes_of(problem)))]
    rows = np.concatenate(tables)
    return problem, rows[rng.choice(len(rows), min(SOME, len(rows)), replace=False)]


@pytest.mark.parametrize("seed", range(20))
def test_every_bound_is_below_the_time_of_its_strategy(seed: int) -> None:
    """Strategy by strategy, on an ideal switch and where tokens take hops; a search by bounds finds the least times."""
    problem, rows = drawn(np.random.default_rng(seed))
    r, shape = records_of(rows[:, :-1]), rows[:, -1].astype(int)
    for rates in (None, partial(hopped_rates, problem)):
        times = seconds_of(problem, r, rates)
        assert (least_seconds(problem, r, rates) <= times * (1 + 1e-10)).all()
        for count, limit in ((1, np.inf), (3, np.inf), (len(times), float(np.median(times)))):
            fastest = Fastest(problem, limit, count, rates)
            fastest.add(rows[:, :-1], WorkBudget())
            due = [time for time in sorted(times.tolist())[:count] if time <= limit]
            assert fastest.times[: len(due)] == pytest.approx(due, rel=1e-12)
        if rates is None:
            bounds = shape_bounds(problem, sorted(shapes_of(problem)), WorkBudget())
            assert (bounds[shape] <= times * (1 + 1e-10)).all()


@cache
def solved(fabric: str) -> tuple[LlmTrainingProblem, Result[Any, Any]]:
    """Eight GPUs, proven."""
    problem = written(f"""{{schema_version: 1, kind: llm-training, name: case,
      model: {{layers: 8, hidden: 1024, ffn_hidden: 4096, heads: 16, kv_heads: 4, vocabulary: 32000}},
      batch: {{sequences: 32, length: 2048}},
      cluster: {{servers: 4, gpus_per_server: 2, device: a100, gpu_memory_gib: 80, intra_server_gbps: 2400, degree: 2,
                interfaces: per-server, link_gbps: 100}},
      strategy: {{context: 1, micro_batch: [1, 2], zero: [0, 1], recompute: none, schedule: [1f1b, gpipe, zb-h1]}},
      fabrics: [{fabric}], search: {{top: 2, seed: 1}}}}""")
    assert isinstance(problem, LlmTrainingProblem)
    solution = solve(problem)
    assert isinstance(solution, Result)
    assert check_llm_training(problem, solution).holds
    return problem, solution


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("lines", ["as they are", "its shape searched", "the best one's left out"])
def test_a_slower_plan_is_not_optimal(rank: int, lines: str) -> None:
    """All figures of the file are those of the slower plan, whatever the certificate says of shapes."""
    problem, solution = solved("ideal-switch")
    assert solution.status is Status.OPTIMAL
    ranked = solution.figures.ranked
    slower, best = ranked[rank], ranked[0]
    assert slower.iteration_time_s > best.iteration_time_s * (1 + 1e-6)
    shapes = shape_outcomes(solution.certificates)
    if lines != "as they are":
        verdict = ShapeVerdict.BOUND if lines == "its shape searched" else ShapeVerdict.MEMORY
        shapes = tuple(
            replace(line, verdict=verdict, records=0, fitting=0, least_bytes=None)
            if line.shape.tensor == best.strategy.tensor and line.shape.pipeline == best.strategy.pipeline
            else line
            for line in shapes
        )
    first = replace(solution.plan.fabrics[0], strategy=slower.strategy)
    forged = replace(
        with_shapes(with_plan(solution, ranked=solution.plan.ranked[rank:], fabrics=(first,)), shapes),
        objective=replace(solution.objective, value=slower.iteration_time_s),
        bound=replace(solution.bound, value=slower.iteration_time_s),
    )
    assert not check_llm_training(problem, forged).ok


def test_a_slower_plan_on_links_is_not_optimal() -> None:
    """A plan said to be faster or slower than it is, or a bound above the proven one."""
    problem, solution = solved("direct-connect")
    for factor in (0.99, 1.01):
        value = solution.objective.value * factor
        forged = replace(
            solution,
            objective=replace(solution.objective, value=value),
            bound=replace(solution.bound, value=value),
            status=Status.OPTIMAL,
        )
        assert not check_llm_training(problem, forged).ok
    larger = replace(solution, bound=replace(solution.bound, value=solution.bound.value * (1 + 1e-6)))
    assert not check_llm_training(problem, larger).ok
