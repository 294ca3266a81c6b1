"""`config.json` of Hugging Face: models of every family have as many parameters as their published checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from topoopt.core.errors import InputError
from topoopt.kinds.llm_training.huggingface import FAMILIES, FIELDS, read_huggingface
from topoopt.workloads.language_models import LANGUAGE_MODELS, active_parameters, parameters


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
KIMI_K2 = {
    **DEEPSEEK_V3, "model_type": "kimi_k2", "num_attention_heads": 64, "num_key_value_heads": 64, "vocab_size": 163840,
    "n_routed_experts": 384, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "num_nextn_predict_layers": 0,
}  # fmt: skip
MISTRAL = _config("mistral", 4096, 14336, 32, 32, 8, 32000)
QWEN2 = _config("qwen2", 3584, 18944, 28, 28, 4, 152064)
PUBLISHED: list[tuple[dict[str, Any], int]] = [
    (LLAMA3_8B, 8_030_261_248),
    (MISTRAL, 7_241_732_096),
    (_config("mixtral", 4096, 14336, 32, 32, 8, 32000, num_local_experts=8, num_experts_per_tok=2), 46_702_792_704),
    (QWEN2, 7_615_616_512),
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
    (KIMI_K2, 1_026_408_232_448),
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
    assert parameters(read_huggingface(_file(tmp_path, config))[0]) == count


def test_a_preset_is_its_config(tmp_path: Path) -> None:
    """DeepSeek-V3 by its file is DeepSeek-V3 by its name, the active part too."""
    found, _ = read_huggingface(_file(tmp_path, DEEPSEEK_V3))
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


def test_every_key_that_is_read_stands_in_the_table() -> None:
    """And the other way round; uses are words of a short list."""
    read = set[str]().union(*(family.model_fields for family in FAMILIES.values()))
    assert read == {key for key, (use, _) in FIELDS.items() if use == "used"}
    assert {use for use, _ in FIELDS.values()} == {"used", "noted", "refused"}
    assert all(meaning for _, meaning in FIELDS.values())


@pytest.mark.parametrize("family", ["llama4", "qwen3_next", "glm4_moe", "gemma3", "mamba2"])
def test_no_family_stands_for_another(tmp_path: Path, family: str) -> None:
    """A family that is not covered is named beside all that are, none of which is suggested."""
    with pytest.raises(InputError) as error:
        read_huggingface(_file(tmp_path, {**LLAMA3_8B, "model_type": family}))
    (problem,) = error.value.problems
    assert (problem.path, problem.value) == ("model_type", repr(family))
    assert problem.allowed == f"one of: {', '.join(FAMILIES)}"


@pytest.mark.parametrize(
    ("config", "window"),
    [
        ({**MISTRAL, "sliding_window": 4096}, 4096),
        (MISTRAL, 4096),  # the default of the class
        ({**MISTRAL, "sliding_window": None}, None),
        ({**MISTRAL, "sliding_window": 64, "layer_types": ["sliding_attention"] * 32}, 64),
        ({**QWEN2, "sliding_window": 4096, "use_sliding_window": False, "max_window_layers": 28}, None),
        ({**QWEN2, "sliding_window": 4096, "max_window_layers": 21}, None),
        ({**QWEN2, "sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 28}, None),
        ({**QWEN2, "sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 0}, 4096),
        ({**QWEN2, "layer_types": ["full_attention"] * 28}, None),
        (LLAMA3_8B, None),
    ],
)
def test_windows(tmp_path: Path, config: dict[str, Any], window: int | None) -> None:
    found, _ = read_huggingface(_file(tmp_path, config))
    assert found.attention_window == window


@pytest.mark.parametrize(
    ("groups", "kept", "limit"),
    [(1, 1, None), (8, 8, None), (8, None, None), (None, 4, None), (8, 4, 4)],
)
def test_all_groups_are_no_limit(tmp_path: Path, groups: int | None, kept: int | None, limit: int | None) -> None:
    """A limit of groups is one only where fewer are taken than there are, and is told."""
    found, notes = read_huggingface(_file(tmp_path, {**DEEPSEEK_V3, "n_group": groups, "topk_group": kept}))
    assert found.experts is not None
    assert found.experts.node_limit == limit
    assert any("groups" in note for note in notes) == (limit is not None)


REFUSED = [
    ({**MISTRAL, "num_local_experts": 8, "num_experts_per_tok": 2}, ("num_local_experts", "num_experts_per_tok")),
    ({**LLAMA3_8B, "sliding_window": 4096}, ("sliding_window",)),
    ({**LLAMA3_8B, "layer_types": ["full_attention", "linear_attention"] * 16}, ("layer_types",)),
    ({**MISTRAL, "layer_types": ["full_attention", "sliding_attention"] * 16}, ("layer_types",)),
    ({**MISTRAL, "layer_types": ["sliding_attention"] * 31}, ("layer_types",)),
    ({**LLAMA3_8B, "full_attention_interval": 4, "linear_num_key_heads": 16},
     ("full_attention_interval", "linear_num_key_heads")),
    ({**LLAMA3_8B, "mlp_bias": True}, ("mlp_bias",)),
    ({**LLAMA3_8B, "kv_lora_rank": 512}, ("kv_lora_rank",)),
    ({**LLAMA3_8B, "num_nextn_predict_layers": 1}, ("num_nextn_predict_layers",)),
    ({**QWEN2, "sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 21}, ("max_window_layers",)),
    ({**QWEN2, "use_sliding_window": True, "max_window_layers": 0}, ("sliding_window",)),
    ({**QWEN2, "first_k_dense_replace": 2, "n_shared_experts": 1}, ("first_k_dense_replace", "n_shared_experts")),
    ({**DEEPSEEK_V3, "moe_layer_freq": 2, "index_topk": 2048}, ("index_topk", "moe_layer_freq")),
    ({**DEEPSEEK_V3, "n_group": 3}, ("n_group", "topk_group")),
    ({key: value for key, value in QWEN2.items() if key != "num_key_value_heads"}, ("num_key_value_heads",)),
]  # fmt: skip


@pytest.mark.parametrize(("config", "keys"), REFUSED, ids=[" ".join(keys) for _, keys in REFUSED])
def test_what_changes_the_model_and_is_not_covered(tmp_path: Path, config: dict[str, Any], keys: tuple[str]) -> None:
    """Each key is named, with its value and what is allowed; no other family is."""
    with pytest.raises(InputError) as error:
        read_huggingface(_file(tmp_path, config))
    assert sorted(problem.path or "" for problem in error.value.problems) == sorted(keys)
    for problem in error.value.problems:
        text = f"{problem.message} {problem.allowed}"
        assert problem.allowed
        assert not [family for family in FAMILIES if family in text and family != config["model_type"]]


def test_keys_that_say_nothing_are_let_through(tmp_path: Path) -> None:
    """What is refused elsewhere may stand there as null, false, 0, empty, or as every layer."""
    harmless = {
        "num_local_experts": 0,
        "kv_lora_rank": None,
        "use_bias": False,
        "mlp_only_layers": [],
        "moe_layer_freq": 1,
    }
    found, notes = read_huggingface(_file(tmp_path, {**LLAMA3_8B, **harmless, "torch_dtype": "bfloat16"}))
    assert parameters(found) == 8_030_261_248
    assert notes == ("config.json: keys that change no size, not used: rope_theta, torch_dtype",)


def test_what_is_noted(tmp_path: Path) -> None:
    """How a checkpoint is stored, keys of no size, keys that nobody knows, defaults that a file leaves out."""
    more = {
        "torch_dtype": "float32",
        "quantization_config": {"quant_method": "fp8"},
        "xyz_size": 3,
        "rope_scaling": None,
    }
    _, notes = read_huggingface(_file(tmp_path, {**MISTRAL, **more}))
    assert notes == (
        "config.json: left out, and taken as the default of mistral: sliding_window 4096",
        "config.json: torch_dtype 'float32', quantization_config 'fp8': how the checkpoint is stored; formats says "
        "what is trained",
        "config.json: keys that change no size, not used: rope_theta, rope_scaling",
        "config.json: keys that were not read: xyz_size",
    )
    _, notes = read_huggingface(_file(tmp_path, KIMI_K2))
    assert notes == ("config.json: keys that change no size, not used: rope_theta",)
