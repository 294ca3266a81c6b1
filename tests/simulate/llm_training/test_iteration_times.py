"""An iteration by the order of its passes: its pipeline, its laws, and many strategies at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.llm_cases import strategy, training
from topoopt.core.language_model import LanguageModel
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import Overlap
from topoopt.core.pipeline import PipelineShape, StageCosts
from topoopt.simulate.llm_training.estimate import estimate
from topoopt.simulate.llm_training.iteration_times import iteration_times
from topoopt.simulate.llm_training.rank_times import rank_times
from topoopt.simulate.llm_training.step import strategy_times
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.llm_training.transfers import GroupRates
from topoopt.simulate.pipeline.closed_forms import closed_form_s

UNIFORM = LanguageModel("uniform", 32, 4096, 16384, 32, 32, 128, vocabulary=1, gated=False)
"""Embedding and head take next to nothing."""


def _pipelined(**parts: object) -> tuple[LlmTrainingProblem, object]:
    problem = replace(training("llama3-70b", 64, 256, 4096), model=UNIFORM)
    return problem, strategy(tensor=1, pipeline=8, data=8, zero=1, **parts)


@pytest.mark.parametrize(("schedule", "chunks"), [("1f1b", 1), ("gpipe", 1), ("interleaved", 2), ("interleaved", 4)])
def test_the_pipeline_takes_the_makespan_of_its_schedule(schedule: str, chunks: int) -> None:
    """Against formulas of makespans that the explicit orders are held to, hops included."""
    problem, one = _pipelined(schedule=schedule, chunks=chunks)
    columns = columns_of([one], 32)  # type: ignore[list-item]
    rates = GroupRates.of(problem.cluster, problem.device.reached, columns)
    ranks, moved = rank_times(problem, problem.device, columns, rates)
    inner = ranks[1]
    found = estimate(problem, one).breakdown  # type: ignore[arg-type]
    shape = PipelineShape(8, 32, chunks)
    hop = float(moved.hop[0]) if chunks == 1 else 0.0
    costs = StageCosts.uniform(shape, float(inner.forward[0]), float(inner.backward[0]), 0.0, transfer_s=hop)
    expected = closed_form_s(one.schedule, shape, costs)  # type: ignore[attr-defined]
    assert expected is not None
    pipelined = found.forward + found.backward + found.recompute + found.bubble + found.tensor
    if chunks == 1:
        pipelined += found.pipeline
    assert pipelined == pytest.approx(expected, rel=2e-3)


def test_parts_add_up_and_columns_are_the_same_as_one_by_one() -> None:
    problem = training("mixtral-8x22b", 128, 512, 4096)
    tried = [
        strategy(tensor=t, pipeline=p, data=128 // t // p, expert=x, zero=z, micro_batch=b, recompute=again)
        for t in (1, 2, 8) for p in (1, 4) for x in (1, 8) for z in (0, 1) for b in (1, 2) for again in ("none", "full")
    ]  # fmt: skip
    together = iteration_times(problem, problem.device, columns_of(tried, 56))
    for place, one in enumerate(tried):
        alone = estimate(problem, one)
        assert alone.iteration_time_s == pytest.approx(together[place], rel=1e-12)
        assert all(part >= 0 for part in vars(alone.breakdown).values())


def test_faster_links_and_less_work_never_cost_time() -> None:
    problem = training("mixtral-8x22b", 128, 512, 4096)
    one = strategy(tensor=2, pipeline=4, data=16, expert=8, zero=1, micro_batch=2)
    base = estimate(problem, one).iteration_time_s
    cluster = problem.cluster
    assert estimate(replace(problem, cluster=replace(cluster, link_gbps=800.0)), one).iteration_time_s < base
    assert estimate(replace(problem, cluster=replace(cluster, intra_server_gbps=7200.0)), one).iteration_time_s < base
    assert estimate(problem, replace(one, recompute=strategy(recompute="full").recompute)).iteration_time_s > base
    assert estimate(replace(problem, overlap=Overlap(tensor=0.5)), one).iteration_time_s < base
    assert estimate(replace(problem, overlap=Overlap(data=False)), one).iteration_time_s > base
    slow = replace(problem, cluster=replace(cluster, slowdown=1.5))
    assert estimate(slow, one).iteration_time_s == pytest.approx(1.5 * base)


def test_no_gpu_computes_faster_than_its_peak() -> None:
    for name in ("gpt3-175b", "llama3-70b", "deepseek-v3", "qwen3-235b"):
        problem = training(name, 1024, 4096, 4096)
        one = strategy(tensor=8, pipeline=4, data=32, zero=1, micro_batch=4)
        found = estimate(problem, one)
        assert 0.02 < found.model_flops / found.iteration_time_s / 1024 / found.peak_flops < 0.7
        assert np.isfinite(found.memory.total)


@pytest.mark.parametrize(("zero", "passes"), [(0, 2.0), (1, 1.0)])
def test_both_copies_of_dualpipe_reduce_their_gradients(zero: int, passes: float) -> None:
    """Two ranks hold both stages: 2 x 8 replicas pass all gradients of the model round, which nothing hides here."""
    problem = training("llama3-70b", 16, 64, 4096)
    problem = replace(problem, overlap=Overlap(data=False))
    one = strategy(pipeline=2, data=8, schedule="dualpipe", zero=zero)
    cluster, reached = problem.cluster, problem.device.reached
    rate = min(cluster.intra_server_gbps * reached.scale_up, 8 * cluster.gpu_gbps * reached.network) * 1.25e8
    parameters = 70_553_706_496  # of the published checkpoint
    reduced = passes * problem.formats.gradient_bytes * parameters * 15 / 16 / rate
    gathered = 0.0 if zero == 0 else 2.0 * parameters * 15 / 16 / rate
    times = strategy_times(problem, one)[0]
    assert times.exchanged[0] == pytest.approx(reduced + gathered, rel=1e-9)
    memory = estimate(problem, one).memory
    assert memory.gradients == problem.formats.gradient_bytes * parameters
    assert memory.weights == 2 * parameters
    each = 1 if zero == 0 else 16
    assert memory.optimizer == pytest.approx((4 + 2 * problem.formats.moment_bytes) * parameters / each)
