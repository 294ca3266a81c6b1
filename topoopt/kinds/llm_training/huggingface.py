"""The `config.json` of a model of Hugging Face transformers as the shape of its layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from topoopt.core.parallelism import Experts, LanguageModel, LatentAttention
from topoopt.files.documents import parse_document
from topoopt.files.findings import Findings
from topoopt.files.issues import Issue, key_text, value_text
from topoopt.files.reader_fields import ANY_OTHER, FieldTable, named
from topoopt.kinds.llm_training.schema import MOST_EXPERTS, MOST_PER_TOKEN

_STORED = "how the checkpoint is stored; `formats` says what is trained. A note says so where it is not 16 bits"
_LINEAR = "layers of linear attention"
_STATES = "layers of state spaces"
_SOME = "experts in some layers only"
_BIAS = "biases of matrices"
_EXPERTS = "experts under the name of another family"
_PARTS = "models of several parts"
_ONCE = "attention of another structure"

FIELDS: FieldTable = MappingProxyType(
    {
        "model_type": ("used", "the family"),
        "hidden_size": ("used", "width h"),
        "n_embd": ("used", "width h, in gpt2"),
        "intermediate_size": ("used", "inner width of the MLP; in mixtral that of an expert"),
        "n_inner": ("used", "inner width of the MLP, in gpt2; null: 4 h"),
        "num_hidden_layers": ("used", "layers"),
        "n_layer": ("used", "layers, in gpt2"),
        "num_attention_heads": ("used", "heads of queries"),
        "n_head": ("used", "heads, in gpt2"),
        "num_key_value_heads": ("used", "heads of keys and values; null: as of queries. Absent only in llama. "
                                        "deepseek_v3, kimi_k2: means nothing, as each head has keys of its own"),
        "head_dim": ("used", "of a head; null: h / heads. qwen3, qwen3_moe: must be stated. deepseek_v3, kimi_k2: "
                             "means nothing beside the widths of latent attention"),
        "vocab_size": ("used", "rows of the embedding"),
        "n_positions": ("used", "rows of learned positions, in gpt2"),
        "tie_word_embeddings": ("used", "the head is the embedding; absent: true in gpt2, else false"),
        "attention_bias": ("used", "biases of attention, its output included: only false is covered. qwen2, qwen2_moe: "
                                   "queries, keys and values have biases whatever this says"),
        "qkv_bias": ("used", "biases of queries, keys and values, in qwen2_moe; absent: true"),
        "mlp_bias": ("used", "biases of the MLP: only false is covered"),
        "sliding_window": ("used", "keys that a token attends to at most, in all layers; null: all. mistral: 4096 "
                                   "where absent. qwen2, qwen3: counts with use_sliding_window"),
        "use_sliding_window": ("used", "qwen2, qwen3: whether sliding_window counts; qwen2_moe, qwen3_moe: only false"),
        "max_window_layers": ("used", "qwen2, qwen3: layers before the first one with a window; 0 and all are covered"),
        "layer_types": ("used", "must be alike for all layers, and go with sliding_window"),
        "num_local_experts": ("used", "routed experts, in mixtral"),
        "num_experts": ("used", "routed experts, in qwen2_moe and qwen3_moe"),
        "n_routed_experts": ("used", "routed experts, in deepseek_v3 and kimi_k2"),
        "num_experts_per_tok": ("used", "routed experts that a token goes to"),
        "moe_intermediate_size": ("used", "inner width of an expert"),
        "shared_expert_intermediate_size": ("used", "width of the shared expert, in qwen2_moe: a multiple of that of "
                                                    "the others"),
        "n_shared_experts": ("used", "shared experts, in deepseek_v3 and kimi_k2; absent: 1"),
        "decoder_sparse_step": ("used", f"{_SOME}: only 1 is covered"),
        "mlp_only_layers": ("used", "layers without experts: the first ones, or none"),
        "first_k_dense_replace": ("used", "first layers without experts, in deepseek_v3 and kimi_k2; absent: 3"),
        "moe_layer_freq": ("used", f"{_SOME}: only 1 is covered"),
        "n_group": ("used", "groups that experts of a layer are in; absent: 8"),
        "topk_group": ("used", "groups that the experts of a token are in: no limit where it is n_group, or one of "
                               "both is null; else servers that they lie on at most, a group a server. Absent: 4"),
        "num_nextn_predict_layers": ("used", "layers that predict further tokens, in deepseek_v3 and kimi_k2; "
                                             "absent: 1"),
        "q_lora_rank": ("used", "rank of queries in latent attention; null: not compressed"),
        "kv_lora_rank": ("used", "rank of keys and values in latent attention"),
        "qk_nope_head_dim": ("used", "part of a key without rotary position"),
        "qk_rope_head_dim": ("used", "part of a key with rotary position"),
        "v_head_dim": ("used", "of a value"),
        "torch_dtype": ("noted", _STORED),
        "dtype": ("noted", _STORED),
        "quantization_config": ("noted", _STORED),
        **dict.fromkeys(
            ("architectures", "auto_map", "_name_or_path", "name_or_path", "transformers_version",
             "task_specific_params", "id2label", "label2id", "problem_type", "is_decoder"),
            ("noted", "names and uses of the file: no size"),
        ),
        **dict.fromkeys(
            ("bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id"),
            ("noted", "numbers of tokens: no size"),
        ),
        **dict.fromkeys(
            ("hidden_act", "activation_function", "initializer_range", "rms_norm_eps", "layer_norm_eps",
             "layer_norm_epsilon", "scale_attn_weights", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"),
            ("noted", "numbers and functions of elements: no size"),
        ),
        **dict.fromkeys(
            ("rope_theta", "rope_scaling", "rope_parameters", "rope_interleave", "partial_rotary_factor",
             "max_position_embeddings", "n_ctx"),
            ("noted", "rotary positions, and how many there may be: no weights; `batch.length` says the length"),
        ),
        **dict.fromkeys(
            ("attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop", "hidden_dropout", "summary_activation",
             "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"),
            ("noted", "dropout, and parts that language modelling leaves out: no size"),
        ),
        **dict.fromkeys(
            ("use_cache", "pretraining_tp", "ep_size", "_attn_implementation", "attn_implementation", "return_dict",
             "output_attentions", "output_hidden_states", "output_router_logits", "chunk_size_feed_forward"),
            ("noted", "how a program runs the model: no size"),
        ),
        **dict.fromkeys(
            ("norm_topk_prob", "router_aux_loss_coef", "router_jitter_noise", "aux_loss_alpha", "seq_aux",
             "scoring_func", "topk_method", "routed_scaling_factor"),
            ("noted", "how the router scores: no size; experts are asked for equally often"),
        ),
        **dict.fromkeys(
            ("full_attention_interval", "linear_attn_config", "linear_conv_kernel_dim", "linear_key_head_dim",
             "linear_num_key_heads", "linear_num_value_heads", "linear_value_head_dim", "attn_type_list"),
            ("refused", _LINEAR),
        ),
        **dict.fromkeys(
            ("attn_layer_offset", "attn_layer_period", "hybrid_override_pattern", "layers_block_type", "mamba_d_conv",
             "mamba_d_state", "mamba_expand", "mamba_n_heads", "ssm_state_size"),
            ("refused", _STATES),
        ),
        **dict.fromkeys(
            ("expert_layer_offset", "expert_layer_period", "interleave_moe_layer_step", "moe_layer_end_index",
             "moe_layer_interval", "moe_layer_start_index", "moe_layers", "mlp_layer_types"),
            ("refused", _SOME),
        ),
        **dict.fromkeys(
            ("moe_k", "moe_latent_size", "moe_num_experts", "moe_num_shared_experts", "moe_topk", "num_shared_expert",
             "num_shared_experts", "shared_intermediate_size", "intermediate_size_mlp", "zero_expert_num"),
            ("refused", _EXPERTS),
        ),
        **dict.fromkeys(
            ("add_bias_linear", "attention_out_bias", "attn_bias", "bias", "lm_head_bias", "use_bias"),
            ("refused", _BIAS),
        ),
        **dict.fromkeys(
            ("use_qk_norm", "qk_layernorm", "index_head_dim", "index_n_heads", "index_topk", "attention_chunk_size",
             "sliding_window_pattern", "multi_query", "new_decoder_architecture", "num_kv_heads",
             "num_kv_shared_layers", "parallel_attn", "pruned_heads", "ffn_hidden_size", "word_embed_proj_dim"),
            ("refused", _ONCE),
        ),
        **dict.fromkeys(
            ("text_config", "vision_config", "audio_config", "is_encoder_decoder", "add_cross_attention",
             "cross_attention_hidden_size", "tie_encoder_decoder", "num_mtp_layers", "mtp_num_layers"),
            ("refused", _PARTS),
        ),
    }
)  # fmt: skip
"""What is done with each key, and what it means. Keys that are used in one family are refused in any other, and those
refused are refused, unless they are null, false, 0 or empty (1 where they count every n-th layer). Keys that do not
stand here are named in a note."""

EVERY = frozenset(
    {
        "decoder_sparse_step",
        "full_attention_interval",
        "interleave_moe_layer_step",
        "moe_layer_freq",
        "moe_layer_interval",
    }
)
"""Keys that say that every n-th layer is another one: 1 is all of them."""

TABLE: FieldTable = {**FIELDS, ANY_OTHER: ("noted", "its name")}
"""The same with what becomes of any other key."""


Size = Annotated[int, Field(ge=1, le=2**24)]

MOST_NAMED = 20
"""Words of a file that are repeated."""


class Config(BaseModel):
    """Keys that are used, beside them those of a family; the table says what becomes of all others."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True, hide_input_in_errors=True)

    model_type: str


Layers = Annotated[int, Field(ge=1, le=10_000)]
FirstLayers = Annotated[int, Field(ge=0, le=10_000)]
ExpertCount = Annotated[int, Field(ge=1, le=MOST_EXPERTS)]
PerToken = Annotated[int, Field(ge=1, le=MOST_PER_TOKEN)]
Keys = dict[str, Any]
"""Keys of a family: type, and default or ... where it must be stated."""

LLAMA: Keys = {
    "hidden_size": (Size, ...),
    "intermediate_size": (Size, ...),
    "num_hidden_layers": (Layers, ...),
    "num_attention_heads": (Size, ...),
    "num_key_value_heads": (Size | None, None),
    "head_dim": (Size | None, None),
    "vocab_size": (Size, ...),
    "tie_word_embeddings": (bool, False),
    "attention_bias": (bool, False),
    "mlp_bias": (bool, False),
    "layer_types": (list[str] | None, None),
}
GROUPED: Keys = LLAMA | {"num_key_value_heads": (Size | None, ...)}  # the default of transformers is a number
QWEN2: Keys = GROUPED | {
    "use_sliding_window": (bool, False),
    "sliding_window": (Size | None, None),
    "max_window_layers": (FirstLayers | None, None),
}
QWEN_EXPERTS: Keys = QWEN2 | {
    "num_experts": (ExpertCount, ...),
    "num_experts_per_tok": (PerToken, ...),
    "moe_intermediate_size": (Size, ...),
    "decoder_sparse_step": (int, 1),
    "mlp_only_layers": (list[int], Field(default_factory=list)),
}
DEEPSEEK: Keys = LLAMA | {
    "q_lora_rank": (Size | None, ...),
    "kv_lora_rank": (Size, ...),
    "qk_nope_head_dim": (Size, ...),
    "qk_rope_head_dim": (Size, ...),
    "v_head_dim": (Size, ...),
    "n_routed_experts": (ExpertCount, ...),
    "n_shared_experts": (Annotated[int, Field(ge=0, le=1000)] | None, 1),
    "num_experts_per_tok": (PerToken, ...),
    "moe_intermediate_size": (Size, ...),
    "first_k_dense_replace": (FirstLayers, 3),
    "moe_layer_freq": (int, 1),
    "n_group": (Size | None, 8),
    "topk_group": (Size | None, 4),
    "num_nextn_predict_layers": (Annotated[int, Field(ge=0, le=16)], 1),
}
GPT2: Keys = {
    "n_embd": (Size, ...),
    "n_layer": (Layers, ...),
    "n_head": (Size, ...),
    "n_positions": (Size, ...),
    "n_inner": (Size | None, None),
    "vocab_size": (Size, ...),
    "tie_word_embeddings": (bool, True),
}
FAMILIES: Mapping[str, type[Config]] = {
    name: create_model(name, __base__=Config, **keys)
    for name, keys in {
        "llama": LLAMA,
        "mistral": GROUPED | {"sliding_window": (Size | None, 4096)},
        "mixtral": GROUPED
        | {
            "num_local_experts": (ExpertCount, ...),
            "num_experts_per_tok": (PerToken, ...),
            "sliding_window": (Size | None, None),
        },
        "qwen2": QWEN2,
        "qwen2_moe": QWEN_EXPERTS | {"shared_expert_intermediate_size": (Size, ...), "qkv_bias": (bool, True)},
        "qwen3": QWEN2 | {"head_dim": (Size, ...)},
        "qwen3_moe": QWEN_EXPERTS | {"head_dim": (Size, ...)},
        "deepseek_v3": DEEPSEEK,
        "kimi_k2": DEEPSEEK,
        "gpt2": GPT2,
    }.items()
}
"""Shapes of files by `model_type`."""

_DEEPSEEK = ("n_shared_experts", "first_k_dense_replace", "n_group", "topk_group", "num_nextn_predict_layers")
ASSUMED: Mapping[str, tuple[str, ...]] = {
    "mistral": ("sliding_window",),
    "deepseek_v3": _DEEPSEEK,
    "kimi_k2": _DEEPSEEK,
}
"""Keys whose default in transformers decides where a file leaves them out."""


def _window(keys: Mapping[str, Any]) -> int | None:
    """Return the keys that a token of any layer attends to at most."""
    counts = keys.get("use_sliding_window", True) and keys.get("max_window_layers", 0) == 0
    return keys.get("sliding_window") if counts else None


def _node_limit(keys: Mapping[str, Any]) -> int | None:
    """Return the groups that the experts of a token lie in; all of them are no limit."""
    groups, limit = keys.get("n_group"), keys.get("topk_group")
    return limit if groups is not None and limit is not None and limit < groups else None


def _model(name: str, keys: Mapping[str, Any]) -> LanguageModel:
    family, tied = keys["model_type"], keys["tie_word_embeddings"]
    if family == "gpt2":  # learned positions, and biases
        width, heads = keys["n_embd"], keys["n_head"]
        return LanguageModel(
            name,
            layers=keys["n_layer"],
            hidden=width,
            ffn_hidden=keys["n_inner"] or 4 * width,
            heads=heads,
            kv_heads=heads,
            head_size=width // heads,
            vocabulary=keys["vocab_size"],
            positions=keys["n_positions"],
            gated=False,
            biases=True,
            tied=tied,
        )
    heads, hidden, latent = keys["num_attention_heads"], keys["hidden_size"], None
    kv_heads, head_size = keys["num_key_value_heads"] or heads, keys["head_dim"] or hidden // heads
    if "kv_lora_rank" in keys:
        parts = keys["qk_nope_head_dim"], keys["qk_rope_head_dim"]
        latent = LatentAttention(keys["q_lora_rank"] or 0, keys["kv_lora_rank"], *parts, keys["v_head_dim"])
        kv_heads, head_size = heads, sum(parts)
    return LanguageModel(
        name,
        layers=keys["num_hidden_layers"],
        hidden=hidden,
        ffn_hidden=keys["intermediate_size"],
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        vocabulary=keys["vocab_size"],
        tied=tied,
        attention_window=_window(keys),
        attention_biases=keys.get("qkv_bias", family == "qwen2"),
        query_key_norms=family in ("qwen3", "qwen3_moe"),
        experts=_experts(keys),
        latent=latent,
        mtp_layers=keys.get("num_nextn_predict_layers", 0),
    )


def _experts(keys: Mapping[str, Any]) -> Experts | None:
    if "num_local_experts" in keys:
        return Experts(keys["num_local_experts"], keys["num_experts_per_tok"], keys["intermediate_size"])
    if "num_experts" in keys:
        width, shared = keys["moe_intermediate_size"], keys.get("shared_expert_intermediate_size")
        return Experts(
            keys["num_experts"],
            keys["num_experts_per_tok"],
            width,
            0 if shared is None else shared // width,
            len(keys["mlp_only_layers"]),
            shared_gate=shared is not None,
        )
    if "n_routed_experts" in keys:
        return Experts(
            keys["n_routed_experts"],
            keys["num_experts_per_tok"],
            keys["moe_intermediate_size"],
            keys["n_shared_experts"] or 0,
            keys["first_k_dense_replace"],
            _node_limit(keys),
            balanced=True,
        )
    return None


def _errors(keys: Mapping[str, Any]) -> Iterator[Issue]:
    if "n_embd" in keys:
        if keys["n_embd"] % keys["n_head"]:
            allowed = f"divisors of n_embd {keys['n_embd']}"
            yield Issue(("n_head",), "indivisible heads", str(keys["n_head"]), allowed)
        return
    for key in ("attention_bias", "mlp_bias"):
        if keys[key]:
            yield Issue((key,), "not covered", "true", "false")
    heads, hidden, layers = keys["num_attention_heads"], keys["hidden_size"], keys["num_hidden_layers"]
    if keys["head_dim"] is None and hidden % heads:
        allowed = f"divisors of hidden_size {hidden}, or head_dim"
        yield Issue(("num_attention_heads",), "indivisible heads", str(heads), allowed)
    expected, types = "full_attention" if _window(keys) is None else "sliding_attention", keys["layer_types"]
    if types is not None and types != [expected] * layers:
        kinds = ", ".join(sorted({key_text(kind) for kind in types})[:MOST_NAMED])
        yield Issue(("layer_types",), "not covered", f"{len(types)} of {kinds}", f"{layers} times {expected}")
    if keys.get("use_sliding_window"):
        first = keys["max_window_layers"]
        if keys["sliding_window"] is None:
            yield Issue(("sliding_window",), "missing", None, "with use_sliding_window: true")
        if first is None or 0 < first < layers:
            text, allowed = "not covered, as some layers have a window", f"0, or at least the {layers} layers"
            yield Issue(("max_window_layers",), text, value_text(first), allowed)
    yield from _expert_errors(keys)


def _expert_errors(keys: Mapping[str, Any]) -> Iterator[Issue]:
    """Yield experts in some layers only, other than all after the first ones, and groups that cannot be."""
    if "num_experts" in keys and keys["use_sliding_window"]:
        yield Issue(("use_sliding_window",), "not covered", "true", "false")
    for key in ("decoder_sparse_step", "moe_layer_freq"):
        if keys.get(key, 1) != 1:
            yield Issue((key,), "not covered", str(keys[key]), "1")
    plain = keys.get("mlp_only_layers", [])
    if sorted(plain) != list(range(len(plain))):
        yield Issue(("mlp_only_layers",), "not covered", value_text(plain), "the first layers, or none")
    wide, width = keys.get("shared_expert_intermediate_size", 0), keys.get("moe_intermediate_size", 1)
    if wide % width:
        yield Issue(("shared_expert_intermediate_size",), "not covered", str(wide), f"a multiple of {width}")
    groups, limit = keys.get("n_group"), keys.get("topk_group")
    if groups is not None and keys["n_routed_experts"] % groups:
        allowed = f"divisors of n_routed_experts {keys['n_routed_experts']}"
        yield Issue(("n_group",), "indivisible experts", str(groups), allowed)
    if groups is not None and limit is not None and limit > groups:
        yield Issue(("topk_group",), "more than there are groups", str(limit), f"at most n_group {groups}")


HALF_PRECISION = ("bfloat16", "float16", "auto")


def read_huggingface(file: Path) -> tuple[LanguageModel, tuple[str, ...]]:
    """The model of a `config.json`, and notes on what was assumed and not read.

    Raises:
        InputError: everything wrong with the file, keys that change the model and are not covered included; or a family
            that is not covered.
    """
    document, findings = parse_document(file), Findings()
    name = findings.shaped(Config, document).model_type
    if name not in FAMILIES:
        findings.add([Issue(("model_type",), "not covered", value_text(name), f"one of: {', '.join(FAMILIES)}")])
        findings.settled(document, None)
    family, data = FAMILIES[name], document.data
    assert isinstance(data, dict)
    fitting = findings.shape(family, document)
    findings.add(_refused(name, family, data))
    findings.add(() if fitting is None else _errors(fitting.model_dump()))
    keys = findings.settled(document, fitting).model_dump()
    return _model(name, keys), tuple(f"{file.name}: {note}" for note in _notes(name, keys, data))


def _refused(name: str, family: type[Config], data: Mapping[str, Any]) -> Iterator[Issue]:
    """Keys of other families, and of what no family here has."""
    for key, value in data.items():
        if key in family.model_fields or key not in FIELDS:
            continue
        use, meaning = FIELDS[key]
        if use != "noted" and value and not (key in EVERY and value == 1):
            none = "1, " if key in EVERY else ""
            text = f"not covered in model_type {name}" + (f": {meaning}" if use == "refused" else "")
            yield Issue((key,), text, value_text(value), f"left out, {none}null, false, 0 or empty")


def _notes(name: str, keys: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[str]:
    if limit := _node_limit(keys):
        yield (
            f"experts of a token lie in {limit} of {keys['n_group']} groups: "
            f"taken as {limit} servers at most, as where every group has a server of its own"
        )
    absent = [f"{key} {keys[key]}" for key in ASSUMED.get(name, ()) if key not in data]
    if absent:
        yield f"left out, and taken as the default of {name}: {', '.join(absent)}"
    stored = [f"{key} {value_text(data[key])}" for key in ("torch_dtype", "dtype") if data.get(key)]
    stored = [text for text in stored if not any(usual in text for usual in HALF_PRECISION)]
    quantized = data.get("quantization_config")
    if quantized:
        method = quantized.get("quant_method") if isinstance(quantized, dict) else quantized
        stored.append(f"quantization_config {value_text(method)}")
    if stored:
        yield f"{', '.join(stored)}: how the checkpoint is stored; formats says what is trained"
    used = {text.partition(" ")[0] for text in stored}
    noted = [key for key in data if key in FIELDS and FIELDS[key][0] == "noted" and key not in used]
    yield from named("keys that change no size, not used", noted)
    unknown = [key_text(key) for key in data if key not in FIELDS]
    if unknown:
        more = f" and {len(unknown) - MOST_NAMED} more" if len(unknown) > MOST_NAMED else ""
        yield f"keys that were not read: {', '.join(unknown[:MOST_NAMED])}{more}"
