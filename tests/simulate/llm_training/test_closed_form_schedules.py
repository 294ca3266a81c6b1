"""The closed form of an iteration beside explicit orders of all passes, stages as unequal as models make them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.support.llm_cases import strategy, training
from topoopt.core.pipeline import PipelineSchedule, PipelineShape, StageCosts
from topoopt.simulate.llm_training.rank_times import RankTimes, rank_times
from topoopt.simulate.llm_training.roofline import roofline_columns
from topoopt.simulate.llm_training.rules import strategy_problems
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.llm_training.transfers import GroupRates
from topoopt.simulate.pipeline import pipeline_time

MODELS = ("llama3-70b", "gpt3-175b", "llama3-405b", "mixtral-8x22b", "deepseek-v3", "qwen3-235b")
CHUNKS = {PipelineSchedule.INTERLEAVED: (2, 3, 4), PipelineSchedule.DUALPIPE_V: (2,)}
OFF = {
    PipelineSchedule.GPIPE: (0.0, 0.0),
    PipelineSchedule.ONE_F_ONE_B: (0.0, 0.03),
    PipelineSchedule.INTERLEAVED: (-0.01, 0.04),
    PipelineSchedule.ZB_H1: (-0.02, 0.12),
    PipelineSchedule.ZB_2P: (-0.12, 0.08),
    PipelineSchedule.DUALPIPE: (-0.03, 0.15),
    PipelineSchedule.DUALPIPE_V: (-0.15, 0.1),
}
"""How far the closed form may be below and above the order, as parts of it; exact where the docstrings say so."""


def _costs(ranks: tuple[RankTimes, RankTimes, RankTimes], p: int, v: int, *, turned: bool, hop: float) -> StageCosts:
    """Stages in the order of the model; `turned`: they come back along the ranks, first and last on rank 0."""
    first, inner, last = ranks
    order = [first, *[inner] * (2 * p - 2), last] if turned else [first, *[inner] * (p - 2), last] * v
    forward = np.array([one.forward[0] / v for one in order])
    weights = np.array([one.passes.weights[0] / v for one in order])
    backward = np.array([one.backward[0] / v for one in order])
    return StageCosts(forward, backward - weights, weights, transfer_s=hop)


@pytest.mark.parametrize("schedule", PipelineSchedule)
def test_the_closed_form_is_near_the_order(schedule: PipelineSchedule) -> None:
    rng = random.Random(7)
    compared = 0
    below, above = OFF[schedule]
    while compared < 12:
        p, t, d, b = rng.choice((2, 4, 8, 16)), rng.choice((1, 2, 8)), rng.choice((1, 2, 4)), rng.choice((1, 2))
        m, v = p * rng.choice((2, 4, 8)), rng.choice(CHUNKS.get(schedule, (1,)))
        problem = training(rng.choice(MODELS), max(8, p * t * d), d * b * m, 4096)
        one = strategy(tensor=t, pipeline=p, data=d, chunks=v, micro_batch=b, schedule=schedule)
        if strategy_problems(problem, one):
            continue
        columns, device = columns_of([one], problem.model.layers), problem.device
        rates = GroupRates.of(problem.cluster, problem.device.reached, columns)
        ranks, moved = rank_times(problem, device, columns, rates)
        step = roofline_columns(problem, device, columns)
        closed = float((step.total - step.data - step.optimizer)[0])
        turned = schedule is PipelineSchedule.DUALPIPE_V
        costs = _costs(ranks, p, v, turned=turned, hop=float(moved.hop[0]))
        followed = pipeline_time(schedule, PipelineShape(p, m, v), costs).makespan_s
        assert 1 + below - 1e-9 <= closed / followed <= 1 + above + 1e-9, (problem.model.name, one)
        compared += 1
