"""`config.json` of Hugging Face: models of every family have as many parameters as their published checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from topoopt.core.errors import InputError
from topoopt.core.llm_training import Attention, DeltaAttention, LanguageModel
from topoopt.kinds.llm_training.huggingface import FAMILIES, FIELDS, read_huggingface
from topoopt.workloads.language_models import (
    LANGUAGE_MODELS,
    active_parameters,
    parameters,
    routed_parameters,
    token_operations,
)


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
    (_config("gpt_neox", 4096, 16384, 32, 32, 32, 50432, use_parallel_residual=True), 6_857_302_016),
    ({"model_type": "opt", "hidden_size": 4096, "ffn_dim": 16384, "num_hidden_layers": 32, "num_attention_heads": 32,
      "vocab_size": 50272, "max_position_embeddings": 2048, "word_embed_proj_dim": 4096}, 6_658_473_984),
    (_config("phi", 2560, 10240, 32, 32, 32, 51200, qk_layernorm=False), 2_779_683_840),
    (_config("olmo", 4096, 11008, 32, 32, 32, 50304, clip_qkv=None), 6_888_095_744),
    (_config("stablelm", 2560, 6912, 32, 32, 32, 50304, use_qkv_bias=False), 2_795_443_200),
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
    assert (found.kinds, found.order, found.mtp_layers) == (preset.kinds, preset.order, preset.mtp_layers)
    assert active_parameters(found) == 37_552_297_472


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"model_type": "lama"}, "model_type", "not covered"),
        ({"use_sliding_window": True}, "use_sliding_window", "not covered"),
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


def test_experts_in_every_other_layer(tmp_path: Path) -> None:
    """And one layer more without: 23 of 48 layers have experts, the others an MLP."""
    config = next(config for config, _ in PUBLISHED if config["model_type"] == "qwen3_moe")
    found, _ = read_huggingface(_file(tmp_path, {**config, "decoder_sparse_step": 2, "mlp_only_layers": [3]}))
    routed = {i for i, kind in enumerate(found.order) if found.kinds[kind].experts is not None}
    assert routed == set(range(1, 48, 2)) - {3}
    assert 30_532_122_624 - parameters(found) == 25 * (128 * 3 * 2048 * 768 + 2048 * 128 - 3 * 2048 * 6144)


def test_every_key_that_is_read_stands_in_the_table() -> None:
    """And the other way round; uses are words of a short list."""
    read = set[str]().union(*(family.keys for family in FAMILIES.values())) | {"model_type"}
    assert read == {key for key, (use, _) in FIELDS.items() if use == "used"}
    assert {use for use, _ in FIELDS.values()} == {"used", "noted", "refused"}
    assert all(meaning for _, meaning in FIELDS.values())


@pytest.mark.parametrize("family", ["zamba2", "deepseek_v4", "gemma3n", "kimi_linear", "t5"])
def test_no_family_stands_for_another(tmp_path: Path, family: str) -> None:
    """A family that is not covered is named beside all that are, none of which is suggested."""
    with pytest.raises(InputError) as error:
        read_huggingface(_file(tmp_path, {**LLAMA3_8B, "model_type": family}))
    (problem,) = error.value.problems
    assert (problem.path, problem.value) == ("model_type", repr(family))
    assert problem.allowed is not None
    assert problem.allowed.startswith("model: {kinds: ...}")
    assert problem.allowed.endswith(f"one of: {', '.join(FAMILIES)}")


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
    (kind,) = found.kinds
    assert isinstance(kind.mixer, Attention)
    assert kind.mixer.window == window


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


FAMILY_FILES = Path(__file__).parents[3] / ".." / "shared" / "data" / "model_families"


def _vectors(name: str) -> list[dict[str, Any]]:
    if not FAMILY_FILES.is_dir():
        pytest.skip("../shared/data/model_families is not here")
    vectors: list[dict[str, Any]] = json.loads((FAMILY_FILES / name).read_text())
    return vectors


def _corrections(model: LanguageModel) -> int:
    """Numbers that correct routers, which checkpoints have and lists of parameters do not."""
    kinds = zip(model.counts, (kind.experts for kind in model.kinds), strict=True)
    return sum(count * experts.count for count, experts in kinds if experts is not None and experts.balanced)


def test_counts_of_every_family(tmp_path: Path) -> None:
    """135 small configurations of 45 families have as many parameters as the classes of transformers make of them."""
    wrong = []
    for vector in _vectors("vectors.json"):
        family = vector["model_type"]
        found, _ = read_huggingface(_file(tmp_path, {"model_type": family, **vector["config"]}))
        # In ernie4_5_moe the corrections are parameters.
        count = parameters(found) - (0 if family == "ernie4_5_moe" else _corrections(found))
        if (count, routed_parameters(found)) != (vector["parameters"], vector["routed_experts"]):
            wrong.append((family, count, vector["parameters"]))
    assert not wrong


def test_counts_of_published_models(tmp_path: Path) -> None:
    wrong = []
    for row in _vectors("published.json"):
        found, _ = read_huggingface(_file(tmp_path, {"model_type": row["model_type"], **row["config"]}))
        if parameters(found) != row["parameters"]:
            wrong.append((row["model"], parameters(found), row["parameters"]))
    assert not wrong


QWEN3_NEXT = _config(
    "qwen3_next", 2048, 5120, 48, 16, 2, 151936, head_dim=256, full_attention_interval=4, num_experts=512,
    num_experts_per_tok=10, moe_intermediate_size=512, shared_expert_intermediate_size=512, linear_num_key_heads=16,
    linear_num_value_heads=32, linear_key_head_dim=128, linear_value_head_dim=128, linear_conv_kernel_dim=4,
)  # fmt: skip
GEMMA2_9B = _config("gemma2", 3584, 14336, 42, 16, 8, 256000, head_dim=256)
GLM_AIR = _config(
    "glm4_moe", 4096, 10944, 46, 96, 8, 151552, head_dim=128, attention_bias=True, n_routed_experts=128,
    n_shared_experts=1, num_experts_per_tok=8, moe_intermediate_size=1408, first_k_dense_replace=1, n_group=1,
    topk_group=1, use_qk_norm=False, num_nextn_predict_layers=0,
)  # fmt: skip
OPERATIONS = [
    (LLAMA3_8B, 4096, 48.2492),
    (LLAMA3_8B, 8192, 51.4704),
    (MISTRAL, 32768, 48.7022),
    (GEMMA2_9B, 8192, 62.8454),
    (GLM_AIR, 4096, 90.7055),
    ({**DEEPSEEK_V3, "num_nextn_predict_layers": 0}, 4096, 250.4499),
    (KIMI_K2, 4096, 205.4675),
    (QWEN3_NEXT, 4096, 23.0423),
    (QWEN3_NEXT, 32768, 31.4980),
]
"""Configurations, lengths, and GFLOP of a token forward and backward, counted by hand and as Megatron-LM does."""


@pytest.mark.parametrize(("config", "length", "giga"), OPERATIONS)
def test_operations_of_a_token(tmp_path: Path, config: dict[str, Any], length: int, giga: float) -> None:
    found, _ = read_huggingface(_file(tmp_path, config))
    assert token_operations(found, length) / 1e9 == pytest.approx(giga, abs=6e-5)


def test_layers_follow_as_the_family_has_them(tmp_path: Path) -> None:
    """Every fourth layer of Qwen3-Next is full attention; every second one of gpt-oss and Gemma 2 has a window."""
    found, _ = read_huggingface(_file(tmp_path, QWEN3_NEXT))
    assert parameters(found) == 79_674_391_296
    assert [isinstance(found.kinds[kind].mixer, DeltaAttention) for kind in found.order] == 12 * [
        True,
        True,
        True,
        False,
    ]
    found, _ = read_huggingface(_file(tmp_path, GEMMA2_9B))
    windows = [kind.mixer.window for kind in found.kinds if isinstance(kind.mixer, Attention)]
    assert (windows, found.order[:4]) == ([4096, None], (0, 1, 0, 1))


def test_the_language_model_of_a_file_of_several_parts(tmp_path: Path) -> None:
    """Of Gemma 3 4B as published, whose text_config leaves out what the class has by default."""
    text = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}
    file = _file(tmp_path, {"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 1152}})
    found, notes = read_huggingface(file)
    assert parameters(found) == 3_880_263_168
    assert "weights of its other parts are left out" in notes[0]
    with pytest.raises(InputError) as error:
        read_huggingface(_file(tmp_path, {"model_type": "zamba9", "text_config": {"model_type": "zamba9_text"}}))
    assert error.value.problems[0].path == "text_config.model_type"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"no_rope_layers": [1, 1, 0]}, "no layer 3 can be made"),
        ({"num_local_experts": [4, 4]}, "num_local_experts"),
        ({"num_attention_heads": 8192, "head_dim": None}, "indivisible heads"),
    ],
)
def test_sizes_of_which_no_layer_can_be_made(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    llama4 = _config(
        "llama4_text", 5120, 8192, 48, 40, 8, 202048, intermediate_size_mlp=16384, num_local_experts=16, head_dim=128
    )
    assert parameters(read_huggingface(_file(tmp_path, llama4))[0]) > 0
    with pytest.raises(InputError) as error:
        read_huggingface(_file(tmp_path, {**llama4, **changes}))
    assert any(said in f"{problem.path} {problem.message}" for problem in error.value.problems)


def test_further_layers_are_counted_apart(tmp_path: Path) -> None:
    """DeepSeek-V3: one more layer, a projection of 2h to h and three norms, without copies of embedding and head."""
    _, notes = read_huggingface(_file(tmp_path, DEEPSEEK_V3))
    assert any(f"{13_463_426_304 - 2 * 129_280 * 7168:,}" in note for note in notes)


REFUSED = [
    ({**MISTRAL, "num_local_experts": 8, "num_experts_per_tok": 2}, ("num_local_experts", "num_experts_per_tok")),
    ({**LLAMA3_8B, "sliding_window": 4096}, ("sliding_window",)),
    ({**LLAMA3_8B, "layer_types": ["full_attention", "linear_attention"] * 16}, ("layer_types",)),
    ({**MISTRAL, "layer_types": ["sliding_attention"] * 31}, ("layer_types",)),
    ({**LLAMA3_8B, "full_attention_interval": 4, "linear_num_key_heads": 16},
     ("full_attention_interval", "linear_num_key_heads")),
    ({**LLAMA3_8B, "kv_lora_rank": 512}, ("kv_lora_rank",)),
    ({**LLAMA3_8B, "num_nextn_predict_layers": 1}, ("num_nextn_predict_layers",)),
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
