"""Families of models of Hugging Face transformers with experts, as `huggingface_families`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import Field

from topoopt.core.language_model import Experts, LanguageModel, LatentAttention
from topoopt.files.faults import Fault, value_text
from topoopt.kinds.llm_training.huggingface_families import GroupedConfig, LlamaConfig, Qwen2Config, Size
from topoopt.kinds.llm_training.model_schema import MOST_EXPERTS, MOST_PER_TOKEN

ExpertCount = Annotated[int, Field(ge=1, le=MOST_EXPERTS)]
PerToken = Annotated[int, Field(ge=1, le=MOST_PER_TOKEN)]


class MixtralConfig(GroupedConfig):
    num_local_experts: ExpertCount
    num_experts_per_tok: PerToken
    sliding_window: Size | None = None

    def window(self) -> int | None:
        return self.sliding_window

    def extras(self) -> dict[str, Any]:
        return {"experts": Experts(self.num_local_experts, self.num_experts_per_tok, self.intermediate_size)}


class QwenExpertsConfig(Qwen2Config):
    num_experts: ExpertCount
    num_experts_per_tok: PerToken
    moe_intermediate_size: Size
    decoder_sparse_step: int = 1
    mlp_only_layers: list[int] = Field(default_factory=list)

    def faults(self) -> list[Fault]:
        """Experts in some layers only, other than all after the first ones."""
        found = super().faults()
        if self.use_sliding_window:
            found.append(Fault(("use_sliding_window",), "not covered", "true", "false"))
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


class Qwen2ExpertsConfig(QwenExpertsConfig):
    shared_expert_intermediate_size: Size
    qkv_bias: bool = True

    def faults(self) -> list[Fault]:
        wide, own = self.shared_expert_intermediate_size, self.moe_intermediate_size
        if wide % own == 0:
            return super().faults()
        fault = Fault(("shared_expert_intermediate_size",), "not covered", str(wide), f"a multiple of {own}")
        return [*super().faults(), fault]

    def extras(self) -> dict[str, Any]:
        shared = self.shared_expert_intermediate_size // self.moe_intermediate_size
        return {"attention_biases": self.qkv_bias, "experts": self.routed(shared, gate=True)}


class Qwen3ExpertsConfig(QwenExpertsConfig):
    head_dim: Size

    def extras(self) -> dict[str, Any]:
        return {"query_key_norms": True, "experts": self.routed()}


class DeepSeekConfig(LlamaConfig):
    assumed: ClassVar[tuple[str, ...]] = (
        "n_shared_experts",
        "first_k_dense_replace",
        "n_group",
        "topk_group",
        "num_nextn_predict_layers",
    )

    q_lora_rank: Size | None
    kv_lora_rank: Size
    qk_nope_head_dim: Size
    qk_rope_head_dim: Size
    v_head_dim: Size
    n_routed_experts: ExpertCount
    n_shared_experts: Annotated[int, Field(ge=0, le=1000)] | None = 1
    num_experts_per_tok: PerToken
    moe_intermediate_size: Size
    first_k_dense_replace: Annotated[int, Field(ge=0, le=10_000)] = 3
    moe_layer_freq: int = 1
    n_group: Size | None = 8
    topk_group: Size | None = 4
    num_nextn_predict_layers: Annotated[int, Field(ge=0, le=16)] = 1

    def faults(self) -> list[Fault]:
        """Experts in some layers only; groups that cannot be."""
        found, freq, groups, kept = super().faults(), self.moe_layer_freq, self.n_group, self.topk_group
        if freq != 1:
            found.append(Fault(("moe_layer_freq",), "not covered", str(freq), "1"))
        if groups is not None and self.n_routed_experts % groups:
            allowed = f"divisors of n_routed_experts {self.n_routed_experts}"
            found.append(Fault(("n_group",), "indivisible experts", str(groups), allowed))
        if groups is not None and kept is not None and kept > groups:
            found.append(Fault(("topk_group",), "more than there are groups", str(kept), f"at most n_group {groups}"))
        return found

    def limit(self) -> int | None:
        """Groups that the experts of a token lie in; all of them are no limit."""
        limited = self.n_group is not None and self.topk_group is not None and self.topk_group < self.n_group
        return self.topk_group if limited else None

    def notes(self) -> Iterator[str]:
        if self.limit() is not None:
            yield (
                f"experts of a token lie in {self.topk_group} of {self.n_group} groups: "
                f"taken as {self.topk_group} servers at most, as where every group has a server of its own"
            )

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
                self.n_shared_experts or 0,
                self.first_k_dense_replace,
                self.limit(),
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
