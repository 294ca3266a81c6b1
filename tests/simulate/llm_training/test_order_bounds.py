"""Bounds of orders of passes: none is above what following the passes says, and they are near it."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.support.llm_cases import stage_figures, strategy, training
from tests.support.pipeline_lanes import checked_makespan
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import Overlap, ParallelStrategy, PipelineSchedule, StageCosts
from topoopt.simulate.llm_training.costs import GroupRates
from topoopt.simulate.llm_training.step import strategy_orders, strategy_times
from topoopt.simulate.llm_training.strategies import columns_of, strategy_problems
from topoopt.simulate.llm_training.times import iteration_times, order_bounds, stage_parts

MODELS = ("llama3-70b", "gpt3-175b", "llama3-405b", "mixtral-8x22b", "deepseek-v3", "qwen3-235b")
CHUNKS = {PipelineSchedule.INTERLEAVED: (2, 3, 4), PipelineSchedule.DUALPIPE_V: (2,)}


def drawn(
    rng: random.Random, schedule: PipelineSchedule, most: int = 16
) -> tuple[LlmTrainingProblem, ParallelStrategy]:
    """A strategy with unequal stages, slow or fast transfers, that are hidden or not."""
    while True:
        p, t, d, b = rng.choice((2, 4, 8, 12, 16)), rng.choice((1, 2, 8)), rng.choice((1, 2, 4)), rng.choice((1, 2))
        m = p * rng.choice((1, 2, 4, 8))
        if schedule is not PipelineSchedule.INTERLEAVED:
            m = max(1, m + rng.choice((0, 0, 2, -1)))
        if p > most:
            continue
        problem = training(rng.choice(MODELS), max(8, p * t * d), d * b * m, 4096)
        cluster = replace(problem.cluster, link_gbps=rng.choice((5.0, 100.0, 400.0)), slowdown=rng.choice((1.0, 1.3)))
        overlap = Overlap(data=rng.random() < 0.8, pipeline=rng.random() < 0.8)
        problem = replace(problem, cluster=cluster, overlap=overlap)
        v, zero = rng.choice(CHUNKS.get(schedule, (1,))), rng.choice((0, 1, 3)) if d > 1 else 0
        one = strategy(tensor=t, pipeline=p, data=d, chunks=v, micro_batch=b, schedule=schedule, zero=zero)
        if not strategy_problems(problem, one):
            return problem, one


def bound_and_time(problem: LlmTrainingProblem, one: ParallelStrategy) -> tuple[float, float]:
    """Seconds of an iteration: a bound, and what it takes."""
    columns = columns_of([one], problem.model.layers)
    rates = GroupRates.of(problem, columns)
    bound = order_bounds(problem, columns, stage_parts(problem, columns, rates))
    return float(bound[0]), float(iteration_times(problem, columns)[0])


@pytest.mark.parametrize("schedule", PipelineSchedule)
def test_no_order_is_below_its_bound(schedule: PipelineSchedule) -> None:
    """60 pipelines of each schedule; where hops are short, bounds are within a few per cent."""
    rng = random.Random(7)
    near = []
    for _ in range(60):
        problem, one = drawn(rng, schedule)
        bound, time = bound_and_time(problem, one)
        assert bound <= time * (1 + 1e-10)
        if problem.cluster.link_gbps == 400.0:
            near.append(time / bound - 1)
    # Reductions of two stages follow each other on a rank of either DualPipe; its bound counts the shorter one.
    assert np.median(near) < (0.06 if schedule in (PipelineSchedule.DUALPIPE, PipelineSchedule.DUALPIPE_V) else 0.05)


@pytest.mark.parametrize("schedule", PipelineSchedule)
def test_passes_end_when_the_checker_says(schedule: PipelineSchedule) -> None:
    """Every pass followed one by one."""
    rng = random.Random(11)
    for _ in range(4):
        problem, one = drawn(rng, schedule, most=4)
        stages = stage_figures(problem, one)
        parts = (np.array(part) for part in (stages.forward_s, stages.inputs_s, stages.weights_s))
        costs = StageCosts(*parts, transfer_s=stages.hop_s, blocking=stages.blocking)
        expected = checked_makespan(strategy_orders(problem, one), costs)
        assert stages.makespan_s == pytest.approx(expected, rel=1e-9)
        times = strategy_times(problem, one)[0]
        assert times.passes[0] == pytest.approx(expected, rel=1e-9)
        assert times.exchanged[0] >= 0


@pytest.mark.heavy
@pytest.mark.parametrize("schedule", PipelineSchedule)
def test_no_order_is_below_its_bound_of_many(schedule: PipelineSchedule) -> None:
    rng = random.Random(8)
    for _ in range(400):
        bound, time = bound_and_time(*drawn(rng, schedule))
        assert bound <= time * (1 + 1e-10)
