"""The `config.json` of a model of Hugging Face transformers as the kinds of its layers."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from topoopt.core import llm_training as language_models
from topoopt.core.errors import InputError, Problem
from topoopt.core.llm_training import LanguageModel, LayerKind, Mixer, Mlp
from topoopt.files.documents import Document, parse_document
from topoopt.files.issues import Issue, key_text, value_text
from topoopt.files.reader_fields import ANY_OTHER, FieldTable, Findings, named
from topoopt.kinds.llm_training.families import DENSE_FAMILIES, Choice, Family
from topoopt.kinds.llm_training.mixed_families import HYBRID_FAMILIES, MIXTURE_FAMILIES
from topoopt.workloads.language_models import further_parameters

_BINARY: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_CALLS: Mapping[str, Callable[..., Any]] = {
    "ceil": math.ceil,
    "len": len,
    "max": max,
    "min": min,
    "of_layer": lambda value, index: value[index] if isinstance(value, list) else value,
}


@lru_cache(maxsize=4096)
def _parsed(formula: str) -> ast.expr:
    return ast.parse(formula, mode="eval").body


def value_of(formula: object, keys: Mapping[str, Any]) -> Any:
    """What a formula comes to; anything but text stands for itself.

    Args:
        keys: values by name.

    Raises:
        IndexError: a list of the configuration has no entry for a layer.
        ZeroDivisionError: a size that others are divided by is 0.
    """
    return _value(_parsed(formula), keys) if isinstance(formula, str) else formula


def _value(node: ast.expr, keys: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return keys[node.id]
        case ast.UnaryOp(op=ast.Not()):
            return not _value(node.operand, keys)
        case ast.UnaryOp(op=ast.USub()):
            return -_value(node.operand, keys)
        case ast.BoolOp():
            result: Any = None
            for part in node.values:
                result = _value(part, keys)
                if bool(result) is isinstance(node.op, ast.Or):
                    break
            return result
        case ast.BinOp():
            return _BINARY[type(node.op)](_value(node.left, keys), _value(node.right, keys))
        case ast.Compare():
            left, holds = _value(node.left, keys), True
            for compared, part in zip(node.ops, node.comparators, strict=True):
                right = _value(part, keys)
                holds, left = holds and _BINARY[type(compared)](left, right), right
            return holds
        case ast.IfExp():
            return _value(node.body if _value(node.test, keys) else node.orelse, keys)
        case ast.Subscript():
            return _value(node.value, keys)[_value(node.slice, keys)]
        case ast.Tuple():
            return tuple(_value(part, keys) for part in node.elts)
        case ast.Call(func=ast.Name(id=name)):
            return _CALLS[name](*(_value(part, keys) for part in node.args))
        case _:
            raise ValueError(ast.dump(node))


_STORED = "how the checkpoint is stored; `formats` says what is trained. A note says so where it is not 16 bits"

FAMILIES: Mapping[str, Family] = MappingProxyType({**DENSE_FAMILIES, **MIXTURE_FAMILIES, **HYBRID_FAMILIES})
"""Tables by `model_type`."""

NOTED: FieldTable = MappingProxyType(
    {
        "torch_dtype": ("noted", _STORED),
        "dtype": ("noted", _STORED),
        "quantization_config": ("noted", _STORED),
        **dict.fromkeys(
            ("architectures", "auto_map", "_name_or_path", "name_or_path", "transformers_version",
             "task_specific_params", "id2label", "label2id", "problem_type", "is_decoder"),
            ("noted", "names and uses of the file: no size")
        ),
        **dict.fromkeys(
            ("bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id"),
            ("noted", "numbers of tokens: no size")
        ),
        **dict.fromkeys(
            ("hidden_act", "activation_function", "initializer_range", "rms_norm_eps", "layer_norm_eps",
             "layer_norm_epsilon", "scale_attn_weights", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"),
            ("noted", "numbers and functions of elements: no size")
        ),
        **dict.fromkeys(
            ("use_parallel_residual", "rope_theta", "rope_scaling", "rope_parameters", "rope_interleave",
             "partial_rotary_factor", "max_position_embeddings", "n_ctx", "alibi"),
            ("noted", "order of blocks, positions, and how many: no weights; `batch.length` says the length")
        ),
        **dict.fromkeys(
            ("attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop", "hidden_dropout", "summary_activation",
             "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"),
            ("noted", "dropout, and parts that language modelling leaves out: no size")
        ),
        **dict.fromkeys(
            ("use_cache", "pretraining_tp", "ep_size", "_attn_implementation", "attn_implementation", "return_dict",
             "output_attentions", "output_hidden_states", "output_router_logits", "chunk_size_feed_forward",
             "block_size"),
            ("noted", "how a program runs the model: no size")
        ),
        **dict.fromkeys(
            ("norm_topk_prob", "router_aux_loss_coef", "router_jitter_noise", "aux_loss_alpha", "seq_aux",
             "scoring_func", "topk_method", "routed_scaling_factor"),
            ("noted", "how the router scores: no size; experts are asked for equally often")
        ),
    }
)  # fmt: skip
"""Keys that change no count, and why."""

REFUSED: FieldTable = MappingProxyType(
    {
        **dict.fromkeys(("linear_attn_config", "attn_layer_indices"), ("refused", "layers of linear attention")),
        **dict.fromkeys(("layers_block_type", "mamba_d_ssm"), ("refused", "layers of state spaces")),
        **dict.fromkeys(
            ("zero_expert_num", "moe_num_first_k_dense", "num_experts_shared"),
            ("refused", "experts under the name of another family")
        ),
        **dict.fromkeys(("add_bias_linear", "attn_bias"), ("refused", "biases of matrices")),
        **dict.fromkeys(
            ("qk_layernorm", "num_kv_shared_layers", "pruned_heads", "word_embed_proj_dim", "cross_layer_sharing"),
            ("refused", "attention of another structure")
        ),
        **dict.fromkeys(
            ("text_config", "vision_config", "audio_config", "is_encoder_decoder", "add_cross_attention",
             "cross_attention_hidden_size", "tie_encoder_decoder", "num_mtp_layers", "mtp_num_layers"),
            ("refused", "models of several parts")
        ),
    }
)  # fmt: skip
"""Keys of structures that no family here has, and what they are of."""

FIELDS: FieldTable = MappingProxyType(
    {
        **NOTED,
        **REFUSED,
        **{
            key: ("used", "in " + ", ".join(name for name, family in FAMILIES.items() if key in family.keys))
            for key in dict.fromkeys(key for family in FAMILIES.values() for key in family.keys)
        },
        "model_type": ("used", "the family"),
    }
)
"""What is done with each key. Keys that are used in one family are refused in any other, and those refused are refused,
unless they are null, false, 0 or empty (1 where they count every n-th layer). Keys that do not stand here are named in
a note; so are those that change a size in one family alone and stand in `NOTED`."""

TABLE: FieldTable = {**FIELDS, ANY_OTHER: ("noted", "its name")}
"""The same with what becomes of any other key."""

EVERY = frozenset(
    {
        "decoder_sparse_step",
        "expert_layer_period",
        "full_attention_interval",
        "interleave_moe_layer_step",
        "moe_layer_freq",
        "moe_layer_interval",
    }
)
"""Keys that say that every n-th layer is another one: 1 is all of them."""

WRAPPERS = "text_config"
"""Key of the language model in a file of several parts."""

Size = Annotated[int, Field(ge=1, le=2**24)]
Number = Annotated[int, Field(ge=-1, le=2**24)]
Layers = Annotated[int, Field(ge=1, le=10_000)]
ByLayer = Annotated[list[Number], Field(max_length=10_000)]

TYPES: Mapping[str, Any] = MappingProxyType(
    {
        "num_hidden_layers": Layers,
        "n_layer": Layers,
        "layer_types": Annotated[list[str], Field(min_length=1, max_length=10_000)],
        "mlp_layer_types": Annotated[list[str], Field(min_length=1, max_length=10_000)],
        "mlp_only_layers": ByLayer,
        "moe_layers": ByLayer,
        "no_rope_layers": ByLayer,
        "attn_type_list": ByLayer,
        "num_experts": Size | ByLayer,
        "num_shared_expert": Number | ByLayer,
        "moe_topk": Size | ByLayer,
        "moe_intermediate_size": Size | ByLayer | Literal[0],
        "hybrid_override_pattern": Annotated[str, Field(pattern=r"^[ME*-]{1,10000}$")],
        **dict.fromkeys(
            (
                "first_k_dense_replace",
                "num_local_experts",
                "n_routed_experts",
                "n_shared_experts",
                "num_shared_experts",
                "moe_num_shared_experts",
                "moe_layer_start_index",
                "shared_intermediate_size",
                "shared_expert_intermediate_size",
                "attn_layer_offset",
                "max_window_layers",
                "num_nextn_predict_layers",
                "num_mtp_modules",
                "expert_layer_offset",
            ),
            Number,
        ),
        **dict.fromkeys(("use_qk_norm", "new_decoder_architecture"), bool),
        "mamba_dt_rank": Size | Literal["auto"],
        "mamba_d_head": Size | Literal["auto"],
        "qk_norm_type": str,
    }
)
"""Types of keys that are not sizes, by name; the others are as their default is."""

MOST_NAMED = 20
"""Words of a file that are repeated."""


class Config(BaseModel):
    """Keys that are used, beside them those of a family; the table says what becomes of all others."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True, hide_input_in_errors=True)

    model_type: str


def _typed(key: str, default: Any) -> tuple[Any, Any]:
    shape = bool if isinstance(default, bool) else TYPES.get(key, Size if default is ... or default else Number)
    if default is None or (key in ("q_lora_rank", "num_key_value_heads", "n_group", "topk_group", "n_shared_experts",
                                   "sliding_window", "num_nextn_predict_layers", "mlp_only_layers")):  # fmt: skip
        shape = shape | None
    return shape, default if not isinstance(default, list) else Field(default_factory=list)


def _shape(name: str, family: Family) -> type[Config]:
    keys: dict[str, Any] = {key: _typed(key, default) for key, default in family.keys.items()}
    return create_model(name, __base__=Config, **keys)


SHAPES: Mapping[str, type[Config]] = MappingProxyType({name: _shape(name, own) for name, own in FAMILIES.items()})
"""Shapes of files by `model_type`."""


_PARTS: Mapping[str, TypeAdapter[Any]] = MappingProxyType(
    {part.__name__: TypeAdapter(part) for part in (*get_args(Mixer), Mlp, language_models.Experts)}
)
"""Parts of layers by the names that tables of families use."""


def _part(choices: tuple[Choice, ...], keys: Mapping[str, Any]) -> Any:
    for condition, part in choices:
        if value_of(condition, keys):
            if part is None:
                return None
            name, formulas = part
            fields = {key: value_of(text, keys) for key, text in formulas.items()}
            return _PARTS[name].validate_python(fields, strict=False)
    return None


def model_of_family(name: str, family: Family, keys: Mapping[str, Any]) -> LanguageModel:
    """The model that values of the keys of a family describe.

    Args:
        name: of the model.
        keys: all keys of the family.

    Raises:
        InputError: sizes or lists of which no layer can be made.
    """
    ends = {key: value_of(text, keys) for key, text in family.ends.items()}
    kinds, order = dict[LayerKind, int](), list[int]()
    for i in range(ends.pop("layers")):
        of_layer = {**keys, "i": i}
        try:
            mixer: Mixer | None = _part(tuple(family.mixer), of_layer)
            mlp = _part(tuple(family.mlp), of_layer)
        except (ValidationError, IndexError, TypeError, ZeroDivisionError) as error:
            items = error.errors() if isinstance(error, ValidationError) else []
            fields = sorted({str((*item["loc"], "sizes")[0]) for item in items})
            value = ", ".join(fields) or "a list that is too short, or a size of 0"
            text, allowed = f"no layer {i} can be made", "sizes in their range, and an entry for each layer"
            raise InputError([Problem(text, value=value, allowed=allowed)]) from None
        kind = LayerKind(mixer, mlp, value_of(family.norms, of_layer))
        order.append(kinds.setdefault(kind, len(kinds)))
    return LanguageModel(name, kinds=tuple(kinds), order=tuple(order), **ends)


def read_huggingface(file: Path) -> tuple[LanguageModel, tuple[str, ...]]:
    """The model of a `config.json`, and notes on what was assumed and not read.

    Raises:
        InputError: everything wrong with the file, keys that change the model and are not covered included; or a family
            that is not covered.
    """
    document, findings, notes = parse_document(file), Findings(), list[str]()
    document, path = _language_part(document, notes)
    name = findings.shaped(Config, document).model_type
    if name not in FAMILIES:
        allowed = f"model: {{kinds: ...}} with each kind of layer by hand, or one of: {', '.join(FAMILIES)}"
        findings.add([Issue((*path, "model_type"), "not covered", value_text(name), allowed)])
        findings.settled(document, None)
    family, data = FAMILIES[name], document.data
    assert isinstance(data, dict)
    fitting = findings.shape(SHAPES[name], document)
    findings.add(_refused(name, family, data))
    if fitting is not None:
        findings.add(_broken_rules(family, fitting.model_dump(), data))
    keys = findings.settled(document, fitting).model_dump()
    model = findings.attempt(lambda: model_of_family(name, family, keys), path)
    model = findings.settled(document, model)
    notes += _notes(name, family, keys, data, model)
    return model, tuple(f"{file.name}: {note}" for note in notes)


def _language_part(document: Document, notes: list[str]) -> tuple[Document, tuple[str, ...]]:
    """The language model inside a file of several parts, else the file itself; and the path to it."""
    data = document.data
    part = data.get(WRAPPERS) if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(part, dict) or data.get("model_type") in FAMILIES:
        return document, ()
    inner = {"tie_word_embeddings": data["tie_word_embeddings"]} if "tie_word_embeddings" in data else {}
    family = data.get("model_type")
    guessed = {"model_type": f"{family}_text"} if f"{family}_text" in FAMILIES else {}
    notes.append(f"the language model under {WRAPPERS} is read; weights of its other parts are left out")
    return replace(document, data={**guessed, **inner, **part}), (WRAPPERS,)


def _broken_rules(family: Family, keys: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[Issue]:
    """Rules of a family that do not hold, and lists that are too short."""
    for condition, key, values in family.refused:
        if value_of(condition, keys):
            text, allowed = "not covered" if key in data else "missing", values
            if allowed.startswith("divisors of"):
                text = "indivisible heads" if "head" in key else "indivisible"
                name = allowed.removeprefix("divisors of ").partition(",")[0]
                allowed = allowed.replace(name, f"{name} {keys.get(name)}", 1)
            yield Issue((key,), text, value_text(keys[key]), allowed)


def _refused(name: str, family: Family, data: Mapping[str, Any]) -> Iterator[Issue]:
    """Keys of other families, and of what no family here has."""
    for key, value in data.items():
        if key in family.keys or key in NOTED or key not in FIELDS or key == "model_type":
            continue
        use, meaning = FIELDS[key]
        if value and not (key in EVERY and value == 1):
            none = "1, " if key in EVERY else ""
            text = f"not covered in model_type {name}" + (f": {meaning}" if use == "refused" else "")
            yield Issue((key,), text, value_text(value), f"left out, {none}null, false, 0 or empty")


HALF_PRECISION = ("bfloat16", "float16", "auto")


def _notes(
    name: str, family: Family, keys: Mapping[str, Any], data: Mapping[str, Any], model: LanguageModel
) -> Iterator[str]:
    limits = {kind.experts.node_limit for kind in model.kinds if kind.experts is not None} - {None}
    if limits:
        yield (
            f"experts of a token lie in {keys['topk_group']} of {keys['n_group']} groups: "
            f"taken as {keys['topk_group']} servers at most, as where every group has a server of its own"
        )
    absent = [f"{key} {value_text(keys[key])}" for key in family.assumed if key not in data]
    if absent:
        yield f"left out, and taken as the default of {name}: {', '.join(absent)}"
    if model.mtp_layers:
        yield (
            f"parameters leave out the {further_parameters(model):,} of {model.mtp_layers} further layers "
            "that predict further tokens, which time and memory count"
        )
    if any(isinstance(kind.mixer, language_models.LatentAttention) and kind.mixer.index_heads for kind in model.kinds):
        yield "the indexer's scores of all pairs count, and attention to the keys that it leaves"
    stored = [f"{key} {value_text(data[key])}" for key in ("torch_dtype", "dtype") if data.get(key)]
    stored = [text for text in stored if not any(usual in text for usual in HALF_PRECISION)]
    quantized = data.get("quantization_config")
    if quantized:
        method = quantized.get("quant_method") if isinstance(quantized, dict) else quantized
        stored.append(f"quantization_config {value_text(method)}")
    if stored:
        yield f"{', '.join(stored)}: how the checkpoint is stored; formats says what is trained"
    used = {text.partition(" ")[0] for text in stored}
    noted = [key for key in data if key in NOTED and key not in family.keys and key not in used]
    yield from named("keys that change no size, not used", noted)
    unknown = [key_text(key) for key in data if key not in FIELDS]
    if unknown:
        more = f" and {len(unknown) - MOST_NAMED} more" if len(unknown) > MOST_NAMED else ""
        yield f"keys that were not read: {', '.join(unknown[:MOST_NAMED])}{more}"
