"""`config.json` of Hugging Face: models of every family have as many parameters as their published checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from topoopt.core.errors import InputError
from topoopt.kinds.llm_training.huggingface import read_huggingface
from topoopt.workloads.llm_training.facts import active_parameters, parameters
from topoopt.workloads.llm_training.presets import LANGUAGE_MODELS


def _config(
    family: str, hidden: int, inner: int, layers: int, heads: int, keys: int, vocabulary: int, **more: Any
) -> dict[str, Any]:
    return {
        "model_type": family,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "vocab_size": vocabulary,
        "rope_theta": 1e6,
        **more,
    }


LLAMA3_8B = _config("llama", 4096, 14336, 32, 32, 8, 128256)
DEEPSEEK_V3 = _config(
    "deepseek_v3", 7168, 18432, 61, 128, 128, 129280,
    q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
    n_routed_experts=256, n_shared_experts=1, num_experts_per_tok=8, moe_intermediate_size=2048,
    first_k_dense_replace=3, moe_layer_freq=1, topk_group=4, num_nextn_predict_layers=1,
)  # fmt: skip
PUBLISHED: list[tuple[dict[str, Any], int]] = [
    (LLAMA3_8B, 8_030_261_248),
    (_config("mistral", 4096, 14336, 32, 32, 8, 32000), 7_241_732_096),
    (_config("mixtral", 4096, 14336, 32, 32, 8, 32000, num_local_experts=8, num_experts_per_tok=2), 46_702_792_704),
    (_config("qwen2", 3584, 18944, 28, 28, 4, 152064), 7_615_616_512),
    (_config("qwen3", 4096, 12288, 36, 32, 8, 151936, head_dim=128), 8_190_735_360),
    (
        _config("qwen3_moe", 2048, 6144, 48, 32, 4, 151936, head_dim=128, num_experts=128, num_experts_per_tok=8,
                moe_intermediate_size=768, decoder_sparse_step=1, mlp_only_layers=[]),
        30_532_122_624,
    ),
    (
        _config("qwen2_moe", 2048, 5632, 24, 16, 16, 151936, num_experts=60, num_experts_per_tok=4,
                moe_intermediate_size=1408, shared_expert_intermediate_size=5632),
        14_315_784_192,
    ),
    (DEEPSEEK_V3, 671_026_419_200),
    ({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "n_inner": None,
      "vocab_size": 50257}, 124_439_808),
]  # fmt: skip
"""Configurations, and the numbers of weights of their checkpoints."""


def _file(folder: Path, config: dict[str, Any]) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


@pytest.mark.parametrize(("config", "count"), PUBLISHED, ids=[str(config["model_type"]) for config, _ in PUBLISHED])
def test_parameters_of_checkpoints(tmp_path: Path, config: dict[str, Any], count: int) -> None:
    assert parameters(read_huggingface(_file(tmp_path, config))) == count


def test_a_preset_is_its_config(tmp_path: Path) -> None:
    """DeepSeek-V3 by its file is DeepSeek-V3 by its name, the active part too."""
    found = read_huggingface(_file(tmp_path, DEEPSEEK_V3))
    preset = LANGUAGE_MODELS["deepseek-v3"]
    assert (found.experts, found.latent, found.mtp_layers) == (preset.experts, preset.latent, preset.mtp_layers)
    assert active_parameters(found) == 37_552_297_472


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"model_type": "lama"}, "model_type", "not covered"),
        ({"attention_bias": True}, "attention_bias", "not covered"),
        ({"num_attention_heads": 33}, "num_attention_heads", "indivisible heads"),
        ({"hidden_size": "4096"}, "hidden_size", ""),
        ({"hidden_size": None}, "hidden_size", ""),
    ],
)
def test_what_is_not_covered_is_refused(tmp_path: Path, changes: dict[str, Any], path: str, message: str) -> None:
    file = _file(tmp_path, {**LLAMA3_8B, **changes})
    with pytest.raises(InputError) as error:
        read_huggingface(file)
    assert [(problem.path, problem.file) for problem in error.value.problems] == [(path, str(file))]
    assert message in error.value.problems[0].message


def test_experts_in_every_other_layer_are_refused(tmp_path: Path) -> None:
    config = next(config for config, _ in PUBLISHED if config["model_type"] == "qwen3_moe")
    with pytest.raises(InputError) as error:
        read_huggingface(_file(tmp_path, {**config, "decoder_sparse_step": 2, "mlp_only_layers": [3]}))
    assert {problem.path for problem in error.value.problems} == {"decoder_sparse_step", "mlp_only_layers"}
