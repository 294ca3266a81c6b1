"""An iteration by the order of its passes: its pipeline, its laws, and many strategies at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.closed_forms import closed_form_s
from tests.support.llm_cases import strategy, training
from topoopt.core.llm_training import Attention, LlmTrainingProblem, Mlp
from topoopt.core.parallelism import Overlap, PipelineShape, StageCosts
from topoopt.simulate.llm_training.costs import GroupRates
from topoopt.simulate.llm_training.step import estimate, strategy_times
from topoopt.simulate.llm_training.strategies import LayerTimes, columns_of
from topoopt.simulate.llm_training.times import inner_rank_times, iteration_times
from topoopt.workloads.language_models import uniform

UNIFORM = uniform("uniform", 32, 4096, Attention(32, 32, 128), Mlp(16384, gated=False), 1)
"""Embedding and head take next to nothing."""


def _pipelined(**parts: object) -> tuple[LlmTrainingProblem, object]:
    problem = replace(training("llama3-70b", 64, 256, 4096), model=UNIFORM)
    return problem, strategy(tensor=1, pipeline=8, data=8, zero=1, **parts)


@pytest.mark.parametrize(("schedule", "chunks"), [("1f1b", 1), ("gpipe", 1), ("interleaved", 2), ("interleaved", 4)])
def test_the_pipeline_takes_the_makespan_of_its_schedule(schedule: str, chunks: int) -> None:
    """Against formulas of makespans that the explicit orders are held to, hops included."""
    problem, one = _pipelined(schedule=schedule, chunks=chunks)
    columns = columns_of([one], 32)  # type: ignore[list-item]
    rates = GroupRates.of(problem, columns)
    _, forward, backward, moved = inner_rank_times(problem, columns, rates)
    found = estimate(problem, one).breakdown  # type: ignore[arg-type]
    shape = PipelineShape(8, 32, chunks)
    hop = float(moved[0]) if chunks == 1 else 0.0
    costs = StageCosts.uniform(shape, float(forward[0]), float(backward[0]), 0.0, transfer_s=hop)
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
    together = iteration_times(problem, columns_of(tried, 56))
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
    # Nothing else goes on: all of the rates of groups.
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


@pytest.mark.parametrize(("forward", "shown"), [(0.5, 0.0), (0.9, 0.0), (1.5, 1.0)])
def test_zero_three_gathers_half_of_the_weights_in_the_backward_pass(forward: float, shown: float) -> None:
    """Gathering takes so much of a forward pass; with 16-bit gradients the backward pass, twice as long, moves twice
    that. So all is hidden but for one layer of the first and of the last pass, or half a forward pass and a whole one.
    """
    problem = replace(training("llama3-70b", 64, 512, 4096), model=UNIFORM)
    problem = replace(problem, formats=replace(problem.formats, gradient_bytes=2))
    one = strategy(data=64, zero=3)
    columns = columns_of([one], 32)
    rates = GroupRates.of(problem, columns)
    parts = estimate(problem, one).breakdown
    passes, m = parts.forward / 8, 8
    weights = 32 * (4 * 4096**2 + 2 * 4096 * 16384)  # of all layers, norms and the vocabulary of one left out
    rate = weights * 2.0 * 63 / 64 / (forward * passes) / problem.device.reached.gather
    problem = replace(problem, cluster=replace(problem.cluster, message_latency_us=0.0))
    found = strategy_times(problem, one, replace(rates, data=np.array([rate])))[0]
    layer = forward * passes / 32
    assert found.exchanged[0] / m / passes == pytest.approx(1.5 * shown, rel=0.1, abs=4 * layer / passes)


def _layer(problem: LlmTrainingProblem, **reached: float) -> np.ndarray:
    """Seconds of the passes of a layer of Qwen3-235B with experts of 8 GPUs, one value a pass."""
    device = replace(problem.device, reached=replace(problem.device.reached, **reached))
    columns = columns_of([strategy(tensor=2, data=128, expert=8, recompute="full")], 94)
    return LayerTimes(replace(problem, device=device), columns).layer(problem.model.kinds[0])[:, 0]


def test_the_fixed_cost_of_experts_falls_on_both_passes() -> None:
    """50 ms of a layer and micro-batch: half of it forward, half backward, and a third more for computing again."""
    problem = training("qwen3-235b", 256, 2048, 4096)
    more = _layer(problem, expert_us=5e4) - _layer(problem, expert_us=0.0)
    assert more == pytest.approx([0.025, 0.025, 0.0, 0.05 / 3], rel=1e-9)


@pytest.mark.parametrize("name", ["products", "low_products", "grouped", "attention", "memory"])
def test_no_pass_is_slower_where_more_of_a_peak_is_reached(name: str) -> None:
    problem = training("qwen3-235b", 256, 2048, 4096)
    usual = getattr(problem.device.reached, name)
    base, better = _layer(problem), _layer(problem, **{name: 1.1 * usual})
    assert (better <= base).all()
    assert better.sum() < base.sum()


def test_products_by_hand() -> None:
    """Llama 3 70B on tensor 8, a sequence of 8192: projections and MLP of a layer, 2 k n a token, and half a product
    more for each of the four, which hide most of 14 bytes a weight in three passes; attention with scores of half the
    square; and bytes of fused kernels."""
    problem = training("llama3-70b", 8, 8, 8192)
    reached = problem.device.reached
    columns = columns_of([strategy(tensor=8, sequence=True)], 80)
    forward, inputs, weights, _ = LayerTimes(problem, columns).layer(problem.model.kinds[0])[:, 0]
    h, f, queries, keys = 8192, 28672, 8192, 1024
    rate, memory = problem.device.matrix_tflops * 1e12 * reached.products, problem.device.memory_gbytes_per_s * 1e9
    products = 0.0
    for elements in (h * (queries + 2 * keys) / 8, queries * h / 8, 2 * h * f / 8, h * f / 8):
        computing = (2 * 8192 * elements + reached.half_gflops * 1e9) / rate
        products += (computing**4 + (14 / 3 * elements / memory / reached.memory) ** 4) ** 0.25
    scores = 2 * 8192 * 4096 * 2 * queries / 8 * (1 + reached.half_keys / 8192)
    core = scores / (problem.device.matrix_tflops * 1e12 * reached.attention)
    moved = 8192 / 8 * (2 * 22 * h + 12 * (queries + 2 * keys) + 3 * 5.4 * f) * reached.between
    between = moved / (problem.device.memory_gbytes_per_s * 1e9 * reached.memory)
    fixed = reached.layer_us * 1e-6
    assert weights == pytest.approx(products, rel=1e-12)
    assert forward == pytest.approx(products + core + 0.4 * between + fixed / 2, rel=1e-12)
    assert inputs == pytest.approx(products + 2.5 * core + 0.6 * between + fixed / 2, rel=1e-12)
