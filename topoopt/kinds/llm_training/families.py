"""Families of models of Hugging Face transformers, a literal table each: what a `config.json` says of which layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Formulas = Mapping[str, object]
"""Fields of a part of a layer by formulas of the keys of a configuration; `i` is the number of the layer."""

Part = tuple[str, Formulas]
"""Name of a type of `topoopt.core.llm_training`, and its fields."""

Choice = tuple[str, Part | None]
"""A formula, and the part that a layer has where it holds and none before does."""

REQUIRED = ...
"""Instead of a default: the key must be stated."""

Keys = Mapping[str, Any]
"""Defaults of transformers by key."""


@dataclass(frozen=True)
class Family:
    """A family of models.

    Attributes:
        keys: that are used, with the defaults of transformers.
        mixer, mlp: choices for a layer, the first that holds.
        norms: vectors of width h of the norms of a layer.
        ends: other fields of `LanguageModel`, by formulas.
        refused: formulas that must not hold, each with the key that it is about and what is allowed.
        assumed: keys whose default decides, so that a note says it where a file leaves them out.
    """

    keys: Keys
    mixer: Sequence[Choice]
    mlp: Sequence[Choice]
    norms: object = 2
    ends: Formulas = field(default_factory=dict)
    refused: Sequence[tuple[str, str, str]] = ()
    assumed: Sequence[str] = ()

    def but(self, keys: Keys, **changes: Any) -> Family:
        """A family that differs in some defaults and parts."""
        ends = {**self.ends, **changes.pop("ends", {})}
        return replace(self, keys={**self.keys, **keys}, ends=ends, **changes)


USUAL: Keys = {
    "hidden_size": REQUIRED,
    "intermediate_size": REQUIRED,
    "num_hidden_layers": REQUIRED,
    "num_attention_heads": REQUIRED,
    "num_key_value_heads": None,
    "head_dim": None,
    "vocab_size": REQUIRED,
    "tie_word_embeddings": False,
}

HEADS: Formulas = {
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads or num_attention_heads",
    "head_size": "head_dim or hidden_size // num_attention_heads",
}

ENDS: Formulas = {
    "hidden": "hidden_size",
    "vocabulary": "vocab_size",
    "layers": "num_hidden_layers",
    "tied": "tie_word_embeddings",
}

DIVIDED = (
    "head_dim is None and hidden_size % num_attention_heads != 0", "num_attention_heads",
    "divisors of hidden_size, or head_dim",
)  # fmt: skip
"""Of `Family.refused`: heads that do not divide the width."""


def always(name: str, **formulas: object) -> tuple[Choice, ...]:
    """One part for all layers."""
    return (("True", (name, formulas)),)


def attention(**more: object) -> tuple[str, Formulas]:
    """Attention with the usual sizes, and further fields."""
    return ("Attention", {**HEADS, **more})


def mlp(**more: object) -> tuple[str, Formulas]:
    """An MLP of the usual width, and further fields."""
    return ("Mlp", {"hidden": "intermediate_size", **more})


FULL: Choice = ("True", attention())
DENSE: Choice = ("True", mlp())

LLAMA_LIKE = Family(keys=USUAL, mixer=(FULL,), mlp=(DENSE,), ends=ENDS, refused=(DIVIDED,))
"""Attention and a gated MLP with two RMSNorms, without biases."""

LENGTH = (
    "layer_types is not None and len(layer_types) != num_hidden_layers", "layer_types", "an entry for each layer"
)  # fmt: skip


def _slides(otherwise: str) -> str:
    """Whether layer i has a window: as `layer_types` says, or otherwise by a rule."""
    return f"(layer_types[i] == 'sliding_attention') if layer_types is not None else ({otherwise})"


def _windows(rule: str, **more: object) -> tuple[Choice, ...]:
    slides = f"sliding_window is not None and ({_slides(rule)})"
    return ((slides, attention(window="sliding_window", **more)), ("True", attention(**more)))


_OTHER_TYPES = "'linear_attention' in (layer_types or ()) or 'chunked_attention' in (layer_types or ())"
_COVERED = (_OTHER_TYPES, "layer_types", "full_attention or sliding_attention for each layer")
_WITHOUT = (
    "layer_types is not None and 'sliding_attention' in layer_types and sliding_window is None",
    "sliding_window", "a window, as layer_types has sliding_attention",
)  # fmt: skip
_CHECKS = (*LLAMA_LIKE.refused, LENGTH, _COVERED, _WITHOUT)

_QWEN2 = LLAMA_LIKE.but(
    {
        "num_key_value_heads": REQUIRED,
        "use_sliding_window": False,
        "sliding_window": None,
        "max_window_layers": 28,
        "layer_types": None,
        "attention_bias": True,
    },
    mixer=(
        (
            f"use_sliding_window and sliding_window is not None and ({_slides('i >= max_window_layers')})",
            attention(window="sliding_window", biases=True),
        ),
        ("True", attention(biases=True)),
    ),
    refused=(
        *LLAMA_LIKE.refused,
        LENGTH,
        _COVERED,
        ("use_sliding_window and sliding_window is None", "sliding_window", "a window, with use_sliding_window: true"),
    ),
)

_GPT2 = Family(
    keys={
        "n_embd": REQUIRED,
        "n_layer": REQUIRED,
        "n_head": REQUIRED,
        "n_positions": REQUIRED,
        "n_inner": None,
        "vocab_size": REQUIRED,
        "tie_word_embeddings": True,
    },
    mixer=always(
        "Attention", heads="n_head", kv_heads="n_head", head_size="n_embd // n_head", biases=True, output_biases=True
    ),
    mlp=always("Mlp", hidden="n_inner or 4 * n_embd", gated=False, biases=True),
    norms=4,
    ends={
        "hidden": "n_embd",
        "vocabulary": "vocab_size",
        "layers": "n_layer",
        "tied": "tie_word_embeddings",
        "positions": "n_positions",
        "final_norms": 2,
    },
    refused=(("n_embd % n_head != 0", "n_head", "divisors of n_embd"),),
)

_BLOOM = Family(
    keys={"hidden_size": REQUIRED, "n_layer": REQUIRED, "n_head": 8, "num_attention_heads": None,
          "vocab_size": REQUIRED, "tie_word_embeddings": True, "n_inner": None},
    mixer=always("Attention", heads="num_attention_heads or n_head", kv_heads="num_attention_heads or n_head",
                 head_size="hidden_size // (num_attention_heads or n_head)", biases=True, output_biases=True),
    mlp=always("Mlp", hidden="4 * hidden_size", gated=False, biases=True),
    norms=4,
    ends={**ENDS, "layers": "n_layer", "embedding_norms": 2, "final_norms": 2},
    assumed=("n_head",),
    refused=(("hidden_size % (num_attention_heads or n_head) != 0", "n_head", "divisors of hidden_size"),
             ("n_inner is not None and n_inner != 4 * hidden_size", "n_inner", "4 times hidden_size, or null")),
)  # fmt: skip

_FALCON = Family(
    keys={
        "hidden_size": REQUIRED,
        "num_hidden_layers": REQUIRED,
        "num_attention_heads": REQUIRED,
        "vocab_size": REQUIRED,
        "ffn_hidden_size": None,
        "num_kv_heads": None,
        "new_decoder_architecture": False,
        "multi_query": True,
        "parallel_attn": True,
        "num_ln_in_parallel_attn": None,
        "bias": False,
        "tie_word_embeddings": True,
    },
    mixer=always("Attention", heads="num_attention_heads",
                 kv_heads="(num_kv_heads or num_attention_heads) if new_decoder_architecture else 1 if multi_query "
                          "else num_attention_heads",
                 head_size="hidden_size // num_attention_heads", biases="bias", output_biases="bias"),
    mlp=always("Mlp", hidden="ffn_hidden_size or 4 * hidden_size", gated=False, biases="bias"),
    norms="2 * ((num_ln_in_parallel_attn or 2) if new_decoder_architecture else 1 if parallel_attn else 2)",
    ends={**ENDS, "final_norms": 2},
    refused=(("hidden_size % num_attention_heads != 0", "num_attention_heads", "divisors of hidden_size"),),
    assumed=("multi_query", "parallel_attn", "tie_word_embeddings"),
)  # fmt: skip

_PLAIN_CHECKS = (
    *LLAMA_LIKE.refused,
    LENGTH,
    ("layer_types is not None and ('sliding_attention' in layer_types or 'linear_attention' in layer_types)",
     "layer_types", "full_attention for each layer"),
)  # fmt: skip

DENSE_FAMILIES: Mapping[str, Family] = {
    "llama": LLAMA_LIKE.but(
        {"attention_bias": False, "mlp_bias": False, "layer_types": None},
        mixer=(("True", attention(biases="attention_bias", output_biases="attention_bias")),),
        mlp=(("True", mlp(biases="mlp_bias")),),
        refused=_PLAIN_CHECKS
    ),
    "mistral": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "sliding_window": 4096, "layer_types": None},
        mixer=_windows("True"),
        refused=_CHECKS,
        assumed=("sliding_window",)
    ),
    "ministral": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "sliding_window": REQUIRED, "layer_types": REQUIRED},
        mixer=_windows("True"),
        refused=_CHECKS
    ),
    "granite": LLAMA_LIKE.but(
        {"attention_bias": False, "mlp_bias": False},
        mixer=(("True", attention(biases="attention_bias", output_biases="attention_bias")),),
        mlp=(("True", mlp(biases="mlp_bias")),)
    ),
    "smollm3": LLAMA_LIKE.but(
        {"num_key_value_heads": 4, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False,
         "use_sliding_window": False, "sliding_window": None, "layer_types": None, "no_rope_layers": None,
         "no_rope_layer_interval": 4},
        refused=(*_CHECKS, ("use_sliding_window", "use_sliding_window", "false"),
                 ("attention_bias", "attention_bias", "false"), ("mlp_bias", "mlp_bias", "false")),
        assumed=("num_key_value_heads", "tie_word_embeddings")
    ),
    "ernie4_5": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "head_dim": 128, "tie_word_embeddings": True, "use_bias": False},
        mixer=(("True", attention(biases="use_bias", output_biases="use_bias")),),
        mlp=(("True", mlp(biases="use_bias")),),
        assumed=("head_dim", "tie_word_embeddings")
    ),
    "seed_oss": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "head_dim": 128, "attention_bias": True, "attention_out_bias": False,
         "mlp_bias": False},
        mixer=(("True", attention(biases="attention_bias", output_biases="attention_out_bias")),),
        mlp=(("True", mlp(biases="mlp_bias")),),
        assumed=("head_dim", "attention_bias")
    ),
    "phi3": LLAMA_LIKE.but(
        {"sliding_window": None, "layer_types": None}, mixer=_windows("True"), refused=_CHECKS
    ),
    "glm": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "attention_bias": True},
        mixer=(("True", attention(biases="attention_bias")),),
        assumed=("attention_bias",)
    ),
    "glm4": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "attention_bias": False},
        mixer=(("True", attention(biases="attention_bias")),),
        norms=4
    ),
    "gemma": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "head_dim": 256, "tie_word_embeddings": True},
        assumed=("head_dim", "tie_word_embeddings")
    ),
    "gemma2": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "head_dim": 256, "sliding_window": 4096, "tie_word_embeddings": True,
         "layer_types": None, "attention_bias": False},
        mixer=_windows("i % 2 == 0", biases="attention_bias", output_biases="attention_bias"),
        norms=4,
        refused=_CHECKS,
        assumed=("head_dim", "sliding_window", "tie_word_embeddings")
    ),
    "gemma3_text": LLAMA_LIKE.but(
        {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262_208,
         "sliding_window": 4096, "sliding_window_pattern": 6, "tie_word_embeddings": True, "layer_types": None,
         "attention_bias": False},
        mixer=_windows("(i + 1) % sliding_window_pattern != 0", norms="'head'", biases="attention_bias",
                       output_biases="attention_bias"),
        norms=4,
        refused=_CHECKS,
        assumed=("num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size", "sliding_window",
                 "tie_word_embeddings")
    ),
    "olmo2": LLAMA_LIKE.but(
        {"attention_bias": False},
        mixer=(("True", attention(norms="'row'", biases="attention_bias", output_biases="attention_bias")),)
    ),
    "olmo3": LLAMA_LIKE.but(
        {"sliding_window": 4096, "layer_types": None, "attention_bias": False},
        mixer=_windows("(i + 1) % 4 != 0", norms="'row'", biases="attention_bias", output_biases="attention_bias"),
        refused=_CHECKS,
        assumed=("sliding_window",)
    ),
    "exaone4": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "sliding_window": None, "sliding_window_pattern": 4, "layer_types": None},
        mixer=_windows("(i + 1) % sliding_window_pattern != 0", norms="'head'"),
        refused=(*_CHECKS, ("sliding_window_pattern == 'LLLG'", "sliding_window_pattern", "a number, or layer_types"))
    ),
    "hunyuan_v1_dense": LLAMA_LIKE.but(
        {"attention_bias": False},
        mixer=(("True", attention(norms="'head'", biases="attention_bias", output_biases="attention_bias")),)
    ),
    "cohere": LLAMA_LIKE.but(
        {"tie_word_embeddings": True, "attention_bias": False, "use_qk_norm": False},
        mixer=(("True", attention(biases="attention_bias", output_biases="attention_bias")),),
        norms=1,
        refused=(*LLAMA_LIKE.refused, ("use_qk_norm", "use_qk_norm", "false")),
        assumed=("tie_word_embeddings",)
    ),
    "nemotron": LLAMA_LIKE.but(
        {"head_dim": 128, "attention_bias": False, "mlp_bias": False},
        mixer=(("True", attention(biases="attention_bias", output_biases="attention_bias")),),
        mlp=(("True", mlp(gated=False, biases="mlp_bias")),),
        norms=4,
        ends={"final_norms": 2},
        assumed=("head_dim",)
    ),
    "starcoder2": LLAMA_LIKE.but(
        {"num_key_value_heads": 2, "use_bias": True, "tie_word_embeddings": True, "sliding_window": None,
         "layer_types": None},
        mixer=_windows("True", biases="use_bias", output_biases="use_bias"),
        mlp=(("True", mlp(gated=False, biases="use_bias")),),
        norms=4,
        ends={"final_norms": 2},
        refused=_CHECKS,
        assumed=("num_key_value_heads", "use_bias", "tie_word_embeddings")
    ),
    "gpt_neox": LLAMA_LIKE.but(
        {"attention_bias": True},
        mixer=(("True", attention(biases="attention_bias", output_biases="attention_bias")),),
        mlp=(("True", mlp(gated=False, biases=True)),),
        norms=4,
        ends={"final_norms": 2}
    ),
    "opt": LLAMA_LIKE.but(
        {"intermediate_size": None, "ffn_dim": REQUIRED, "max_position_embeddings": REQUIRED,
         "word_embed_proj_dim": None, "tie_word_embeddings": True, "enable_bias": True, "do_layer_norm_before": True,
         "layer_norm_elementwise_affine": True},
        mixer=(("True", attention(biases="enable_bias", output_biases="enable_bias")),),
        mlp=(("True", mlp(hidden="ffn_dim", gated=False, biases="enable_bias")),),
        norms="4 if layer_norm_elementwise_affine else 0",
        ends={"positions": "max_position_embeddings + 2",
              "final_norms": "2 if do_layer_norm_before and layer_norm_elementwise_affine else 0"},
        refused=(*LLAMA_LIKE.refused, ("word_embed_proj_dim is not None and word_embed_proj_dim != hidden_size",
                                       "word_embed_proj_dim", "hidden_size, or null"))
    ),
    "phi": LLAMA_LIKE.but(
        {"qk_layernorm": False},
        mixer=(("True", attention(biases=True, output_biases=True)),),
        mlp=(("True", mlp(gated=False, biases=True)),),
        norms=2,
        ends={"final_norms": 2, "head_biases": True},
        refused=(*LLAMA_LIKE.refused, ("qk_layernorm", "qk_layernorm", "false"))
    ),
    "olmo": LLAMA_LIKE.but(
        {"attention_bias": False},
        mixer=(("True", attention(biases="attention_bias", output_biases="attention_bias")),),
        norms=0,
        ends={"final_norms": 0}
    ),
    "stablelm": LLAMA_LIKE.but(
        {"use_qkv_bias": False, "qk_layernorm": False, "use_parallel_residual": False},
        mixer=(("True", attention(biases="use_qkv_bias")),),
        norms="2 if use_parallel_residual else 4",
        ends={"final_norms": 2},
        refused=(*LLAMA_LIKE.refused, ("qk_layernorm", "qk_layernorm", "false"))
    ),
    "falcon": _FALCON,
    "bloom": _BLOOM,
    "gpt2": _GPT2,
    "qwen2": _QWEN2,
    "qwen3": _QWEN2.but(
        {"head_dim": REQUIRED, "attention_bias": False},
        mixer=(
            (
                f"use_sliding_window and sliding_window is not None and ({_slides('i >= max_window_layers')})",
                attention(window="sliding_window", norms="'head'", biases="attention_bias",
                          output_biases="attention_bias"),
            ),
            ("True", attention(norms="'head'", biases="attention_bias", output_biases="attention_bias")),
        )
    ),
}  # fmt: skip
"""Tables by `model_type`."""
