"""The `config.json` of a model of Hugging Face transformers as the shape of its layers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from topoopt.core.errors import InputError, Problem
from topoopt.core.language_model import Experts, LanguageModel, LatentAttention
from topoopt.files.checked_file import read_checked
from topoopt.files.faults import Fault, nearest_text, value_text
from topoopt.kinds.llm_training.model_schema import MOST_EXPERTS, MOST_PER_TOKEN

Size = Annotated[int, Field(ge=1, le=2**24)]
ExpertCount = Annotated[int, Field(ge=1, le=MOST_EXPERTS)]
PerToken = Annotated[int, Field(ge=1, le=MOST_PER_TOKEN)]


class _Config(BaseModel):
    """Keys that are used; all others are let through."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True, hide_input_in_errors=True)


class _AnyConfig(_Config):
    model_type: str


class _Llama(_Config):
    """llama, mistral, and what others share with them."""

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
            **self.extras(),
        )

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
        return found


class _Mixtral(_Llama):
    num_local_experts: ExpertCount
    num_experts_per_tok: PerToken

    def extras(self) -> dict[str, Any]:
        return {"experts": Experts(self.num_local_experts, self.num_experts_per_tok, self.intermediate_size)}


class _Qwen2(_Llama):
    def extras(self) -> dict[str, Any]:
        return {"attention_biases": True}


class _Qwen3(_Llama):
    def extras(self) -> dict[str, Any]:
        return {"query_key_norms": True}


class _QwenExperts(_Llama):
    num_experts: ExpertCount
    num_experts_per_tok: PerToken
    moe_intermediate_size: Size
    decoder_sparse_step: int = 1
    mlp_only_layers: list[int] = Field(default_factory=list)

    def faults(self) -> list[Fault]:
        """Experts in some layers only, other than all after the first ones."""
        found = super().faults()
        if self.decoder_sparse_step != 1:
            found.append(Fault(("decoder_sparse_step",), "not covered", str(self.decoder_sparse_step), "1"))
        if sorted(self.mlp_only_layers) != list(range(len(self.mlp_only_layers))):
            value = value_text(self.mlp_only_layers)
            found.append(Fault(("mlp_only_layers",), "not covered", value, "the first layers, or none"))
        return found

    def routed(self, shared: int = 0, *, gate: bool = False) -> Experts:
        """The experts of a layer."""
        return Experts(
            self.num_experts,
            self.num_experts_per_tok,
            self.moe_intermediate_size,
            shared,
            len(self.mlp_only_layers),
            shared_gate=gate,
        )


class _Qwen2Experts(_QwenExperts):
    shared_expert_intermediate_size: Size

    def faults(self) -> list[Fault]:
        wide, own = self.shared_expert_intermediate_size, self.moe_intermediate_size
        if wide % own == 0:
            return super().faults()
        fault = Fault(("shared_expert_intermediate_size",), "not covered", str(wide), f"a multiple of {own}")
        return [*super().faults(), fault]

    def extras(self) -> dict[str, Any]:
        shared = self.shared_expert_intermediate_size // self.moe_intermediate_size
        return {"attention_biases": True, "experts": self.routed(shared, gate=True)}


class _Qwen3Experts(_QwenExperts):
    def extras(self) -> dict[str, Any]:
        return {"query_key_norms": True, "experts": self.routed()}


class _DeepSeek(_Llama):
    q_lora_rank: Size | None = None
    kv_lora_rank: Size
    qk_nope_head_dim: Size
    qk_rope_head_dim: Size
    v_head_dim: Size
    n_routed_experts: ExpertCount
    n_shared_experts: Annotated[int, Field(ge=0, le=1000)] = 0
    num_experts_per_tok: PerToken
    moe_intermediate_size: Size
    first_k_dense_replace: Annotated[int, Field(ge=0, le=10_000)] = 0
    moe_layer_freq: int = 1
    topk_group: Size | None = None
    num_nextn_predict_layers: Annotated[int, Field(ge=0, le=16)] = 0

    def faults(self) -> list[Fault]:
        """Experts in some layers only."""
        freq = self.moe_layer_freq
        own = [] if freq == 1 else [Fault(("moe_layer_freq",), "not covered", str(freq), "1")]
        return [*super().faults(), *own]

    def model(self, name: str) -> LanguageModel:
        """With latent attention."""
        return LanguageModel(
            name,
            layers=self.num_hidden_layers,
            hidden=self.hidden_size,
            ffn_hidden=self.intermediate_size,
            heads=self.num_attention_heads,
            kv_heads=self.num_attention_heads,
            head_size=self.qk_nope_head_dim + self.qk_rope_head_dim,
            vocabulary=self.vocab_size,
            tied=self.tie_word_embeddings,
            experts=Experts(
                self.n_routed_experts,
                self.num_experts_per_tok,
                self.moe_intermediate_size,
                self.n_shared_experts,
                self.first_k_dense_replace,
                self.topk_group,
                balanced=True,
            ),
            latent=LatentAttention(
                self.q_lora_rank or 0,
                self.kv_lora_rank,
                self.qk_nope_head_dim,
                self.qk_rope_head_dim,
                self.v_head_dim,
            ),
            mtp_layers=self.num_nextn_predict_layers,
        )


class _Gpt2(_Config):
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


_FAMILIES: Mapping[str, type[_Llama] | type[_Gpt2]] = {
    "llama": _Llama,
    "mistral": _Llama,
    "mixtral": _Mixtral,
    "qwen2": _Qwen2,
    "qwen2_moe": _Qwen2Experts,
    "qwen3": _Qwen3,
    "qwen3_moe": _Qwen3Experts,
    "deepseek_v3": _DeepSeek,
    "gpt2": _Gpt2,
}
"""By `model_type`."""


def read_huggingface(file: Path) -> LanguageModel:
    """The model of a `config.json`.

    Raises:
        InputError: everything wrong with the file, or a family that is not covered.
    """
    family = read_checked(file, _AnyConfig).model_type
    if family not in _FAMILIES:
        allowed = nearest_text(family, _FAMILIES)
        raise InputError([Problem("not covered", str(file), None, "model_type", value_text(family), allowed)])
    return read_checked(file, _FAMILIES[family], lambda config: config.faults()).model(family)
