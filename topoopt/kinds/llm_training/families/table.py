"""What a table of a family says, and the parts that many families have in common."""

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
    "head_dim is None and hidden_size % num_attention_heads != 0",
    "num_attention_heads",
    "divisors of hidden_size, or head_dim",
)
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
