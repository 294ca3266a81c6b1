"""Parameters and operations of language models against published counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from topoopt.core.llm_training import Attention, LayerKind, Mlp
from topoopt.workloads.language_models import (
    LANGUAGE_MODELS,
    active_parameters,
    end_weights,
    keys_attended,
    layer_weights,
    parameters,
    token_operations,
    uniform,
)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("gpt3-175b", 174_615_846_912),  # arXiv:2205.05198, with V 51200
        ("llama3-70b", 70_553_706_496),  # weights of the published checkpoints, here and below
        ("llama3-405b", 405_853_388_800),
        ("mixtral-8x22b", 140_630_071_296),
        ("deepseek-v3", 671_026_419_200),
        ("qwen3-235b", 235_093_634_560),
    ],
)
def test_parameters_are_exact(name: str, count: int) -> None:
    assert parameters(LANGUAGE_MODELS[name]) == count


def test_a_token_meets_a_part_of_the_experts() -> None:
    mixtral = LANGUAGE_MODELS["mixtral-8x22b"]
    assert active_parameters(mixtral) == 39_161_468_928
    assert active_parameters(LANGUAGE_MODELS["deepseek-v3"]) == 37_552_297_472
    assert active_parameters(LANGUAGE_MODELS["llama3-70b"]) == 70_553_706_496
    assert parameters(replace(mixtral, vocabulary=32000)) == 140_620_634_112


def test_latent_attention_has_the_published_weights() -> None:
    # h q + q a (128 + 64) + h (kv + 64) + kv a (128 + 128) + a 128 h, and two norms (arXiv:2412.19437, section 4.2).
    mixer = LANGUAGE_MODELS["deepseek-v3"].kinds[0].mixer
    assert layer_weights(LayerKind(mixer, None, norms=0), 7168, np.ones(1)).tolist() == [187_107_328]


@pytest.mark.parametrize(
    ("name", "length", "causal", "giga"),
    [
        ("gpt3-175b", 2048, True, 1061.9),
        ("gpt3-175b", 2048, False, 1076.4),
        ("llama3-70b", 8192, True, 449.2),
        ("llama3-70b", 8192, False, 481.4),
        ("llama3-405b", 8192, True, 2524.0),
        ("llama3-405b", 8192, False, 2625.4),
        ("llama3-405b", 131072, True, 4046.0),
        ("mixtral-8x22b", 4096, True, 242.2),
        ("deepseek-v3", 4096, True, 260.6),
    ],
)
def test_operations_of_a_token(name: str, length: int, causal: bool, giga: float) -> None:
    # To the digits that are published: 2524.0 and 260.6 are those behind NVIDIA's tables of TFLOP/s.
    assert token_operations(LANGUAGE_MODELS[name], length, causal=causal) / 1e9 == pytest.approx(giga, abs=0.06)


def test_layers_that_predict_further_tokens_count_apart() -> None:
    plain = replace(LANGUAGE_MODELS["deepseek-v3"], mtp_layers=0)
    assert token_operations(plain, 4096) / 1e9 == pytest.approx(250.45, abs=0.005)


def test_operations_are_those_of_the_megatron_formula() -> None:
    # 72 B s L h^2 (1 + s/6h + V/12Lh) with full attention (arXiv:2205.05198, appendix A).
    for name in ("gpt3-175b", "megatron-22b", "megatron-1t"):
        model = LANGUAGE_MODELS[name]
        layers, h, s, v = model.layers, model.hidden, 2048, model.vocabulary
        formula = 72 * layers * h**2 * (1 + s / (6 * h) + v / (12 * layers * h))
        assert token_operations(model, s, causal=False) == pytest.approx(formula, rel=1e-12)


def test_a_window_of_attention() -> None:
    """Mistral 7B v0.1 at 32768 tokens: w - w^2/(2s) keys a token instead of s/2; a window of all tokens is none."""
    behind, all_keys = Attention(32, 8, 128, window=4096), Attention(32, 8, 128)
    mistral, whole = (uniform("mistral-7b", 32, 4096, mixer, Mlp(14336), 32000) for mixer in (behind, all_keys))
    assert parameters(mistral) == 7_241_732_096
    assert (keys_attended(behind, 32768), keys_attended(all_keys, 32768)) == (3840, 16384)
    # Each of the first w tokens has those before it and itself, all others w.
    assert keys_attended(replace(behind, window=100), 1000) == (100 * 100 / 2 + 900 * 100) / 1000
    assert token_operations(mistral, 32768) / 1e9 == pytest.approx(48.7022, abs=5e-5)
    assert token_operations(whole, 32768) / 1e9 == pytest.approx(68.43, abs=5e-3)
    assert token_operations(mistral, 4096) == token_operations(whole, 4096)


def test_a_head_with_biases_has_one_for_each_token() -> None:
    """They are beside the head, also where it is tied to the embedding."""
    model = LANGUAGE_MODELS["llama3-70b"]
    for tied in (False, True):
        without, with_them = (end_weights(replace(model, tied=tied, head_biases=biases)) for biases in (False, True))
        assert (with_them[0] - without[0], with_them[1] - without[1]) == (0, model.vocabulary)
