"""Memory of a rank against published figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.llm_cases import strategy, training
from topoopt.core.arrays import GIB
from topoopt.core.llm_training import Attention, Experts, LanguageModel, LatentAttention, Mlp, NumberFormats
from topoopt.simulate.llm_training.costs import in_flight, layer_activations, part_weights, rank_weights
from topoopt.simulate.llm_training.step import estimate
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.verify.llm_training.costs import ends_on_rank
from topoopt.verify.llm_training.layers import layer_on_rank
from topoopt.workloads.language_models import LANGUAGE_MODELS, parameters, uniform

PLAIN = NumberFormats(flash=False)

KORTHIKANTI = [
    ("megatron-22b", 1, 1, 4, 59.25, 9.56),
    ("gpt3-175b", 8, 3, 1, 66.84, 12.35),
    ("megatron-530b", 35, 3, 1, 114.02, 23.08),
    ("megatron-1t", 64, 1, 1, 131.25, 26.56),
]
"""Model, p, v, b, GiB of activations with t = 8: as it is, and with sequence parallelism and selective recomputation.

arXiv:2205.05198, equations 2, 4 and 6 in figure 7.
"""


@pytest.mark.parametrize(("model", "p", "v", "b", "whole", "least"), KORTHIKANTI)
def test_activations_of_the_first_rank(model: str, p: int, v: int, b: int, whole: float, least: float) -> None:
    problem = training(model, 8 * p, 64 * p, 2048)
    sizes = {"tensor": 8, "pipeline": p, "chunks": v, "micro_batch": b}
    tried = [strategy(**sizes, sequence=False), strategy(**sizes, recompute="selective")]
    columns = columns_of(tried, problem.model.layers)
    layer = layer_activations(replace(problem, formats=PLAIN), columns, problem.model.kinds[0])
    held = in_flight(columns, np.full(2, 64.0 * p), np.zeros(2))
    found = held * columns.inner_layers * layer / GIB
    assert found.tolist() == pytest.approx([whole, least], abs=0.006)


def test_state_is_18_bytes_a_parameter() -> None:
    """12 L h^2 / (t p) parameters of 175B on 64 GPUs are 45.5625 GiB, biases and norms less than a thousandth more."""
    problem = training("gpt3-175b", 64, 64, 2048)
    columns = columns_of([strategy(tensor=8, pipeline=8)], 96)
    none = np.zeros(1, dtype=bool)
    inner, _ = rank_weights(part_weights(problem, columns), columns.inner_layers[None], none, none)
    assert 18 * inner[0] / GIB == pytest.approx(45.5625, rel=1e-3)
    assert 18 * inner[0] / GIB > 45.5625


QWEN3_30B = uniform("qwen3-30b-a3b", 48, 2048, Attention(32, 4, 128, norms="head"), Experts(128, 8, 768), 151936)
CI_7B = uniform(
    "gpt-7b", 32, 4096, Attention(32, 8, 128, biases=True, output_biases=True), Mlp(16384, gated=False, biases=True),
    131_584, norms=4, positions=8192, final_norms=2,
)  # fmt: skip


def _held(model: LanguageModel, gpus: int, **parts: int) -> tuple[float, float]:
    """Weights on the first rank, of experts and of all else, told by the search and by the checker alike."""
    problem = replace(training("llama3-70b", gpus, gpus, 4096), model=model)
    one = strategy(**parts, data=gpus // parts["tensor"], stage_layers=(model.layers,))
    columns, both = columns_of([one], model.layers), np.ones(1, dtype=bool)
    dense, experts = rank_weights(part_weights(problem, columns), columns.inner_layers[None], both, both)
    t = np.array([float(parts["tensor"])])
    (_, own, routed), ends = layer_on_rank(model.kinds[0], model.hidden, t), ends_on_rank(model, t)
    assert model.layers * own[0] + sum(ends)[0] == dense[0]
    assert model.layers * routed / parts.get("expert", 1) == experts[0]
    return float(dense[0]), float(experts[0])


def test_what_every_tensor_rank_holds_whole() -> None:
    """Norms and routers; experts are divided by their own dimensions alone (Megatron-LM, theoretical_memory_usage.py).

    Qwen3-30B-A3B, tensor 4, expert 4: attention and embeddings / 4, 48 layers of two norms, two of a head and a router.
    """
    divided = 48 * (2 * 2048 * 32 * 128 + 2 * 2048 * 4 * 128) + 2 * 151936 * 2048
    whole = 48 * (2 * 2048 + 2 * 128 + 2048 * 128) + 2048
    assert divided // 4 + whole == 394_868_736
    assert _held(QWEN3_30B, 16, tensor=4, expert=4) == (394_868_736, 7_247_757_312)
    assert _held(QWEN3_30B, 16, tensor=1, expert=4)[1] == 7_247_757_312
    assert _held(QWEN3_30B, 16, tensor=4, expert=8)[1] == 7_247_757_312 / 2
    problem = replace(training("llama3-70b", 16, 16, 4096), model=QWEN3_30B)
    memory = estimate(problem, strategy(tensor=4, expert=4, data=4, zero=0, recompute="full")).memory
    assert (memory.weights + memory.gradients + memory.optimizer) / GIB == pytest.approx(128.120, abs=5e-4)


def test_biases_and_positions_of_a_tensor_rank() -> None:
    """A rank of Megatron's continuous test of 7B, tensor 4: biases in front of a product are divided, those behind a
    sum, norms and learned positions are not."""
    assert _held(CI_7B, 8, tensor=4) == (1_713_299_456, 0)


def test_a_tensor_rank_has_a_head_of_keys_at_least() -> None:
    """With twice the ranks that there are heads of keys and values, each of these stands on two ranks."""
    model = uniform("dense", 48, 2048, Attention(32, 4, 128, norms="head"), Mlp(6144), 151936)
    per_layer = (2 * 2048 * 32 * 128 + 3 * 2048 * 6144) / 8 + 2 * 2048 * 128 + 2 * 2048 + 2 * 128
    assert _held(model, 8, tensor=8)[0] == 48 * per_layer + 2 * 151936 * 2048 / 8 + 2048


def test_weights_of_all_ranks_are_those_of_the_model() -> None:
    for name, parts in (
        ("llama3-405b", {"tensor": 8, "pipeline": 16}),
        ("gpt3-175b", {"tensor": 8, "pipeline": 1}),
        ("mixtral-8x22b", {"tensor": 2, "pipeline": 8, "expert": 8}),
    ):
        problem = training(name, 1024, 1024, 4096)
        columns = columns_of([strategy(**parts)], problem.model.layers)
        of_parts, p, layers = part_weights(problem, columns), parts["pipeline"], problem.model.layers
        loads = columns.first_layers, columns.inner_layers, columns.last_layers
        shares = []
        for place, load in enumerate(loads):
            ends = np.array([p == 1 or place == 0]), np.array([p == 1 or place == 2])
            dense, experts = rank_weights(of_parts, load[None], *ends)
            shares.append((dense + experts * parts.get("expert", 1) / parts["tensor"])[0])
        first, inner, last = shares  # inner ranks are equal here, but for what the first and the last have less
        total = (first + last + (p - 2) * inner if p > 1 else first) * parts["tensor"]
        small = 4 * layers * problem.model.hidden * parts["tensor"]
        assert total == pytest.approx(parameters(problem.model), rel=2e-2, abs=small)


def test_the_405b_ledger() -> None:
    """8192 GPUs, v 1, nothing computed again: 82 GiB for eight layers and 16 micro-batches on their way."""
    problem = training("llama3-405b", 8192, 2048, 8192)
    one = strategy(tensor=8, pipeline=16, data=64, zero=1)
    columns = columns_of([one], 126)
    layer = layer_activations(problem, columns, problem.model.kinds[0])[0]
    memory = estimate(problem, one).memory
    state = memory.weights + memory.gradients + memory.optimizer
    assert (state + 8 * 16 * layer) / GIB == pytest.approx(82, abs=0.5)
    # The first rank has a layer less, for the embedding: the second one is the fullest, with 15 on their way.
    assert memory.activations == pytest.approx(8 * 15 * layer)
    assert memory.working == pytest.approx(layer)


@pytest.mark.parametrize(
    ("schedule", "chunks", "held"),
    [("gpipe", 1, 64), ("1f1b", 1, 8), ("zb-h1", 1, 8), ("zb-2p", 1, 16), ("dualpipe", 1, 9), ("interleaved", 4, 9.75)],
)
def test_micro_batches_on_their_way_of_the_first_rank(schedule: str, chunks: int, held: float) -> None:
    # Interleaved: 2 (p-1) + (v-1) p + 1 passes of chunks (arXiv:2104.04473, section 2.2), 39 of 4 a micro-batch.
    columns = columns_of([strategy(pipeline=8, chunks=chunks, schedule=schedule)], 32)
    assert in_flight(columns, np.array([64.0]), np.zeros(1))[0] == held
    few = 8 / chunks if schedule == "interleaved" else 2.0
    assert in_flight(columns, np.array([2.0]), np.zeros(1))[0] <= max(few, 2.0)


LLAMA3_8B = uniform("llama3-8b", 32, 4096, Attention(32, 8, 128), Mlp(14336), 128_256)
LATENT = LatentAttention(128, 1536, 512, 128, 64, 128)
SLICES = {
    "70b": LANGUAGE_MODELS["llama3-70b"].of_layers(12),
    "405b": LANGUAGE_MODELS["llama3-405b"].of_layers(4),
    "v2": uniform("v2", 4, 5120, LATENT, Experts(160, 6, 1536, 3072), 102_400, dense=(1, Mlp(12288))),
    "v3": uniform("v3", 4, 7168, LATENT, Experts(256, 8, 2048, 2048, balanced=True), 129_280, dense=(1, Mlp(18432))),
    "8b": LLAMA3_8B,
    "7b": CI_7B,
    "7b p": replace(CI_7B, vocabulary=131_200),
}
FSDP = NumberFormats(weight_bytes=4, master_bytes=0)
PEAKS: list[tuple[str, int, dict[str, Any], float, float]] = [
    ("70b", 4096, {"tensor": 1, "pipeline": 2, "data": 4, "zero": 1}, 66.55, -1.7),
    ("70b", 4096, {"tensor": 2, "data": 4, "zero": 1}, 60.68, -1.8),
    ("70b", 4096, {"tensor": 4, "data": 2, "zero": 1}, 39.07, -1.6),
    ("70b", 4096, {"tensor": 8}, 28.29, -1.5),
    ("70b", 32768, {"tensor": 2, "context": 4, "zero": 1}, 68.43, -1.6),
    ("70b", 131_072, {"context": 8, "zero": 1}, 147.99, 0.3),
    ("405b", 4096, {"tensor": 1, "pipeline": 2, "data": 4, "zero": 1}, 87.08, -7.0),
    ("405b", 4096, {"tensor": 8}, 38.57, -4.4),
    ("405b", 32768, {"context": 8, "zero": 1}, 139.22, -7.1),
    ("v2", 4096, {"data": 8, "expert": 8, "zero": 1}, 45.63, -1.2),
    ("v2", 4096, {"data": 4, "expert": 4, "pipeline": 2, "zero": 1}, 44.70, -0.6),
    ("v3", 4096, {"data": 8, "expert": 8, "zero": 1}, 104.30, -1.8),
    ("v3", 4096, {"data": 4, "expert": 4, "pipeline": 2, "zero": 1}, 114.00, -1.1),
    ("7b", 8192, {"tensor": 4, "data": 2, "sequence": False, "zero": 1, "micro_batch": 2}, 53.219, -1.1),
    ("7b p", 8192, {"pipeline": 4, "chunks": 8, "data": 2, "zero": 1}, 56.551, 0.8),
    ("8b", 8192, {"data": 8, "zero": 3, "micro_batch": 2, "recompute": "selective"}, 77.0, -3.5),
    ("8b", 8192, {"data": 128, "zero": 3, "micro_batch": 2, "recompute": "selective"}, 62.0, -2.7),
]
"""Model, length, strategy, GiB of the fullest GPU as measured, and percent that the computed ones are off.

Slices of 4 and 12 layers on B200 from SimuMax; Megatron-LM's continuous tests of 7B; torchtitan's runs of 8B.
"""


@pytest.mark.parametrize(("name", "length", "parts", "gib", "off"), PEAKS)
def test_measured_peaks(name: str, length: int, parts: dict[str, Any], gib: float, off: float) -> None:
    """As the page of results prints them."""
    one = strategy(**parts)
    problem = training("llama3-70b", one.gpus, 8 * one.data * one.micro_batch, length)
    problem = replace(problem, model=SLICES[name], formats=FSDP if one.zero == 3 else NumberFormats())
    if "recompute" in parts:  # torchtitan computes half of the products again, others scores alone
        problem = replace(problem, device=replace(problem.device, reached=replace(problem.device.reached, again=0.5)))
    held = estimate(problem, one).memory.total / GIB
    assert 100 * (held / gib - 1) == pytest.approx(off, abs=0.06)
    assert abs(held / gib - 1) < 0.1


def test_the_worked_examples() -> None:
    """Megatron-LM's test of 7B: 12 bytes of 1 713 299 456 parameters, (10 + 21/4) s b h L of activations."""
    one = strategy(tensor=4, data=2, sequence=False, zero=1, micro_batch=2)
    memory = estimate(replace(training("llama3-70b", 8, 32, 8192), model=CI_7B), one).memory
    assert memory.weights + memory.gradients + memory.optimizer == 12 * 1_713_299_456
    assert memory.activations == (10 + 21 / 4) * 8192 * 2 * 4096 * 32
