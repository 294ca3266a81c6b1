"""Families whose layers mix attention with linear attention or state spaces."""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.kinds.llm_training.families.mixtures import MIXTURE_FAMILIES, experts
from topoopt.kinds.llm_training.families.table import LLAMA_LIKE, REQUIRED, Family, attention, mlp

_TYPES = ("layer_types is not None and len(layer_types) != num_hidden_layers", "layer_types",
          "an entry for each layer")  # fmt: skip

_DELTA = ("DeltaAttention", {
    "key_heads": "linear_num_key_heads",
    "key_size": "linear_key_head_dim",
    "value_heads": "linear_num_value_heads",
    "value_size": "linear_value_head_dim",
    "kernel": "linear_conv_kernel_dim",
})  # fmt: skip
_EVERY = "(layer_types[i] == 'full_attention') if layer_types is not None else (i + 1) % full_attention_interval == 0"
_GATED = ((_EVERY, attention(gated="attn_output_gate", norms="'head'", biases="attention_bias",
                            output_biases="attention_bias")), ("True", _DELTA))  # fmt: skip
_LINEAR: Mapping[str, object] = {
    "num_key_value_heads": REQUIRED,
    "head_dim": 256,
    "attention_bias": False,
    "attn_output_gate": True,
    "full_attention_interval": 4,
    "layer_types": None,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
_LINEAR_ASSUMED = ("head_dim", "full_attention_interval", "linear_num_key_heads", "linear_num_value_heads",
                   "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim")  # fmt: skip
_QWEN35 = LLAMA_LIKE.but(_LINEAR, mixer=_GATED, refused=(*LLAMA_LIKE.refused, _TYPES), assumed=_LINEAR_ASSUMED)
_FURTHER = {"mtp_layers": "mtp_num_hidden_layers"}
_QWEN35_EXPERTS = MIXTURE_FAMILIES["qwen2_moe"].mlp[1]

_MAMBA2 = ("StateSpace", {
    "inner": "expand * hidden_size",
    "state": "state_size",
    "kernel": "conv_kernel",
    "groups": "n_groups",
    "heads": "num_heads",
    "convolution_biases": "use_conv_bias",
    "biases": "use_bias",
})  # fmt: skip

HYBRID_FAMILIES: Mapping[str, Family] = {
    "qwen3_next": _QWEN35.but(
        {"num_experts": REQUIRED, "num_experts_per_tok": 10, "moe_intermediate_size": REQUIRED,
         "shared_expert_intermediate_size": REQUIRED, "decoder_sparse_step": 1, "mlp_only_layers": [],
         "use_sliding_window": False, "num_nextn_predict_layers": 0},
        mlp=MIXTURE_FAMILIES["qwen2_moe"].mlp,
        ends={"mtp_layers": "num_nextn_predict_layers or 0"},
        refused=(*_QWEN35.refused, ("decoder_sparse_step < 1", "decoder_sparse_step", "1 or more"),
                 ("use_sliding_window", "use_sliding_window", "false")),
        assumed=(*_LINEAR_ASSUMED, "num_experts_per_tok"),
    ),
    "qwen3_5_text": _QWEN35.but({"mtp_num_hidden_layers": 0}, ends=_FURTHER),
    "qwen3_5_moe_text": _QWEN35.but(
        {"intermediate_size": None, "num_experts": REQUIRED, "num_experts_per_tok": 8,
         "moe_intermediate_size": REQUIRED, "shared_expert_intermediate_size": REQUIRED, "mtp_num_hidden_layers": 0},
        mlp=(_QWEN35_EXPERTS,),
        ends=_FURTHER,
        assumed=(*_LINEAR_ASSUMED, "num_experts_per_tok"),
    ),
    "minimax": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "num_local_experts": REQUIRED, "num_experts_per_tok": 2,
         "layer_types": None, "attn_type_list": None, "shared_intermediate_size": 0,
         "sliding_window": None},
        mixer=(
            ("(layer_types[i] == 'full_attention') if layer_types is not None else (attn_type_list[i] == 1) "
             "if attn_type_list is not None else (i + 1) % 2 == 0", attention()),
            ("True", ("LightningAttention",
                      {"heads": "num_attention_heads", "head_size": "head_dim or hidden_size // num_attention_heads"})),
        ),
        mlp=(experts("num_local_experts", "num_experts_per_tok", "intermediate_size"),),
        refused=(*LLAMA_LIKE.refused, _TYPES, ("shared_intermediate_size", "shared_intermediate_size", "0"),
                 ("sliding_window is not None", "sliding_window", "null"),
                 ("layer_types is None and attn_type_list is None", "layer_types", "an entry for each layer")),
        assumed=("num_experts_per_tok",),
    ),
    "granitemoehybrid": LLAMA_LIKE.but(
        {"num_local_experts": 8, "num_experts_per_tok": 2, "shared_intermediate_size": 1024, "layer_types": REQUIRED,
         "attention_bias": False, "mamba_n_heads": 128, "mamba_d_head": "auto", "mamba_n_groups": 1,
         "mamba_d_state": 256, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_conv_bias": True,
         "mamba_proj_bias": False},
        mixer=(
            ("layer_types[i] == 'attention'", attention(biases="attention_bias", output_biases="attention_bias")),
            ("True", ("StateSpace",
                      {"inner": "mamba_expand * hidden_size", "state": "mamba_d_state", "kernel": "mamba_d_conv",
                       "groups": "mamba_n_groups", "heads": "mamba_n_heads", "convolution_biases": "mamba_conv_bias",
                       "biases": "mamba_proj_bias"})),
        ),
        mlp=(
            ("num_local_experts == 0", mlp(hidden="shared_intermediate_size")),
            experts("num_local_experts", "num_experts_per_tok", "intermediate_size", "shared_intermediate_size"),
        ),
        refused=(*LLAMA_LIKE.refused, _TYPES,
                 ("mamba_d_head != 'auto' and mamba_n_heads * mamba_d_head != mamba_expand * hidden_size",
                  "mamba_d_head", "auto, or mamba_expand hidden_size / mamba_n_heads")),
        assumed=("num_local_experts", "num_experts_per_tok", "shared_intermediate_size", "mamba_n_heads",
                 "mamba_n_groups", "mamba_d_state", "mamba_d_conv", "mamba_expand"),
    ),
    "mamba2": Family(
        keys={"hidden_size": REQUIRED, "num_hidden_layers": REQUIRED, "vocab_size": REQUIRED, "expand": 2,
              "num_heads": 128, "head_dim": 64, "n_groups": 8, "state_size": 128, "conv_kernel": 4,
              "use_conv_bias": True, "use_bias": False, "tie_word_embeddings": False},
        mixer=(("True", _MAMBA2),),
        mlp=(("True", None),),
        norms=1,
        ends=LLAMA_LIKE.ends,
        refused=(("expand * hidden_size != num_heads * head_dim", "num_heads", "expand hidden_size / head_dim"),),
        assumed=("expand", "num_heads", "head_dim", "n_groups", "state_size", "conv_kernel"),
    ),
    "jamba": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "num_experts": 16, "num_experts_per_tok": 2, "attn_layer_period": 8,
         "attn_layer_offset": 4, "expert_layer_period": 2, "expert_layer_offset": 1, "mamba_d_state": 16,
         "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": "auto", "mamba_conv_bias": True,
         "mamba_proj_bias": False, "sliding_window": None},
        mixer=(
            ("i % attn_layer_period == attn_layer_offset", attention()),
            ("True", ("StateSpace",
                      {"inner": "mamba_expand * hidden_size", "state": "mamba_d_state", "kernel": "mamba_d_conv",
                       "step_rank": "ceil(hidden_size / 16) if mamba_dt_rank == 'auto' else mamba_dt_rank",
                       "convolution_biases": "mamba_conv_bias", "biases": "mamba_proj_bias"})),
        ),
        mlp=(
            ("num_experts == 1 or i % expert_layer_period != expert_layer_offset", mlp()),
            experts("num_experts", "num_experts_per_tok", "intermediate_size"),
        ),
        refused=(*LLAMA_LIKE.refused, ("sliding_window is not None", "sliding_window", "null"),
                 ("attn_layer_period < 1", "attn_layer_period", "1 or more"),
                 ("expert_layer_period < 1", "expert_layer_period", "1 or more")),
        assumed=("num_experts", "num_experts_per_tok", "attn_layer_period", "attn_layer_offset",
                 "expert_layer_period", "expert_layer_offset", "mamba_d_state", "mamba_d_conv", "mamba_expand"),
    ),
    "nemotron_h": LLAMA_LIKE.but(
        {"num_hidden_layers": None, "num_key_value_heads": 8, "head_dim": 128, "hybrid_override_pattern": REQUIRED,
         "attention_bias": False, "mlp_bias": False, "mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8,
         "ssm_state_size": 128, "conv_kernel": 4, "use_conv_bias": True, "use_bias": False, "n_routed_experts": 8,
         "num_experts_per_tok": 2, "moe_intermediate_size": 0, "moe_shared_expert_intermediate_size": 0,
         "n_shared_experts": 1, "moe_latent_size": None, "mamba_proj_bias": False, "expand": 2,
         "num_nextn_predict_layers": 0, "n_group": 1, "topk_group": 1},
        mixer=(
            ("hybrid_override_pattern[i] == 'M'", ("StateSpace",
                {"inner": "mamba_num_heads * mamba_head_dim", "state": "ssm_state_size", "kernel": "conv_kernel",
                 "groups": "n_groups", "heads": "mamba_num_heads", "convolution_biases": "use_conv_bias",
                 "biases": "mamba_proj_bias or use_bias"})),
            ("hybrid_override_pattern[i] == '*'",
             attention(biases="attention_bias", output_biases="attention_bias")),
            ("True", None),
        ),
        mlp=(
            ("hybrid_override_pattern[i] == '-'", mlp(gated=False, biases="mlp_bias")),
            ("hybrid_override_pattern[i] == 'E'", experts(
                "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size",
                "n_shared_experts * moe_shared_expert_intermediate_size", gated=False,
                latent="moe_latent_size or 0")[1]),
            ("True", None),
        ),
        norms=1,
        ends={"layers": "len(hybrid_override_pattern)"},
        refused=(("num_hidden_layers is not None and num_hidden_layers != len(hybrid_override_pattern)",
                  "hybrid_override_pattern", "a letter for each layer"),
                 ("num_nextn_predict_layers", "num_nextn_predict_layers", "0")),
        assumed=("num_key_value_heads", "head_dim"),
    ),
}  # fmt: skip
"""Tables by `model_type`."""
