"""Dense families of Hugging Face transformers: keys of their `config.json`, and the shape of layers they mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from topoopt.core.language_model import LanguageModel
from topoopt.files.faults import Fault, key_text, value_text

Size = Annotated[int, Field(ge=1, le=2**24)]

MOST_NAMED = 20
"""Words of a file that are repeated."""


class Config(BaseModel):
    """Keys that are used; the table says what becomes of all others."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True, hide_input_in_errors=True)

    # Keys whose default in transformers decides where a file leaves them out.
    assumed: ClassVar[tuple[str, ...]] = ()

    model_type: str

    def model(self, name: str) -> LanguageModel:
        """The shape of its layers."""
        raise NotImplementedError(name)

    def faults(self) -> list[Fault]:
        """What the shape of a model has no words for."""
        return []

    def notes(self) -> Iterator[str]:
        """What was assumed."""
        yield from ()


class LlamaConfig(Config):
    """llama, and what others share with it."""

    hidden_size: Size
    intermediate_size: Size
    num_hidden_layers: Annotated[int, Field(ge=1, le=10_000)]
    num_attention_heads: Size
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    vocab_size: Size
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    layer_types: list[str] | None = None

    def model(self, name: str) -> LanguageModel:
        """The dense model."""
        return LanguageModel(
            name,
            layers=self.num_hidden_layers,
            hidden=self.hidden_size,
            ffn_hidden=self.intermediate_size,
            heads=self.num_attention_heads,
            kv_heads=self.num_key_value_heads or self.num_attention_heads,
            head_size=self.head_dim or self.hidden_size // self.num_attention_heads,
            vocabulary=self.vocab_size,
            tied=self.tie_word_embeddings,
            attention_window=self.window(),
            **self.extras(),
        )

    def window(self) -> int | None:
        """Keys that a token of any layer attends to at most."""
        return None

    def extras(self) -> dict[str, Any]:
        """Arguments of the model that this family has of its own."""
        return {}

    def faults(self) -> list[Fault]:
        """What the shape of a model has no words for."""
        found = [
            Fault((key,), "not covered", "true", "false")
            for key, value in (("attention_bias", self.attention_bias), ("mlp_bias", self.mlp_bias))
            if value
        ]
        heads = self.num_attention_heads
        if self.head_dim is None and self.hidden_size % heads:
            allowed = f"divisors of hidden_size {self.hidden_size}, or head_dim"
            found.append(Fault(("num_attention_heads",), "indivisible heads", str(heads), allowed))
        due = "full_attention" if self.window() is None else "sliding_attention"
        if self.layer_types is not None and self.layer_types != [due] * self.num_hidden_layers:
            kinds = ", ".join(sorted({key_text(kind) for kind in self.layer_types})[:MOST_NAMED])
            value, allowed = f"{len(self.layer_types)} of {kinds}", f"{self.num_hidden_layers} times {due}"
            found.append(Fault(("layer_types",), "not covered", value, allowed))
        return found


class GroupedConfig(LlamaConfig):
    """Heads of keys must be stated, as the default is a number."""

    num_key_value_heads: Size | None


class MistralConfig(GroupedConfig):
    assumed: ClassVar[tuple[str, ...]] = ("sliding_window",)

    sliding_window: Size | None = 4096

    def window(self) -> int | None:
        return self.sliding_window


class Qwen2Config(GroupedConfig):
    use_sliding_window: bool = False
    sliding_window: Size | None = None
    max_window_layers: Annotated[int, Field(ge=0, le=10_000)] | None = None

    def window(self) -> int | None:
        return self.sliding_window if self.use_sliding_window and self.max_window_layers == 0 else None

    def faults(self) -> list[Fault]:
        """Windows in some layers only."""
        found, layers, first = super().faults(), self.num_hidden_layers, self.max_window_layers
        if self.use_sliding_window and self.sliding_window is None:
            found.append(Fault(("sliding_window",), "missing", None, "with use_sliding_window: true"))
        if self.use_sliding_window and (first is None or 0 < first < layers):
            text, allowed = "not covered, as some layers have a window", f"0, or at least the {layers} layers"
            found.append(Fault(("max_window_layers",), text, value_text(first), allowed))
        return found

    def extras(self) -> dict[str, Any]:
        return {"attention_biases": True}


class Qwen3Config(Qwen2Config):
    head_dim: Size

    def extras(self) -> dict[str, Any]:
        return {"query_key_norms": True}


class Gpt2Config(Config):
    n_embd: Size
    n_layer: Annotated[int, Field(ge=1, le=10_000)]
    n_head: Size
    n_positions: Size
    n_inner: Size | None = None
    vocab_size: Size
    tie_word_embeddings: bool = True

    def faults(self) -> list[Fault]:
        """Heads of no whole size."""
        if self.n_embd % self.n_head == 0:
            return []
        return [Fault(("n_head",), "indivisible heads", str(self.n_head), f"divisors of n_embd {self.n_embd}")]

    def model(self, name: str) -> LanguageModel:
        """With learned positions and biases."""
        return LanguageModel(
            name,
            layers=self.n_layer,
            hidden=self.n_embd,
            ffn_hidden=self.n_inner or 4 * self.n_embd,
            heads=self.n_head,
            kv_heads=self.n_head,
            head_size=self.n_embd // self.n_head,
            vocabulary=self.vocab_size,
            positions=self.n_positions,
            gated=False,
            biases=True,
            tied=self.tie_word_embeddings,
        )
