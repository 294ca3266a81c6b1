"""Families of models with mixtures of experts, or whose layers mix attention with linear attention or state spaces."""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.kinds.llm_training.families import (
    DENSE_FAMILIES,
    LENGTH,
    LLAMA_LIKE,
    REQUIRED,
    Choice,
    Family,
    attention,
    mlp,
)

GROUPS = (
    ("n_group is not None and n_routed_experts % n_group != 0", "n_group", "divisors of n_routed_experts"),
    ("n_group is not None and topk_group is not None and topk_group > n_group", "topk_group", "at most n_group"),
    ("moe_layer_freq != 1", "moe_layer_freq", "1"),
)
_LIMIT = "topk_group if n_group is not None and topk_group is not None and topk_group < n_group else None"
ROUTED: Mapping[str, object] = {
    "n_routed_experts": REQUIRED,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": REQUIRED,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "n_group": 8,
    "topk_group": 4,
    "num_nextn_predict_layers": 1,
}


def experts(count: str, per_token: str, hidden: str, shared: str = "0", **more: object) -> Choice:
    """Experts for all layers that no choice before holds for."""
    return ("True", ("Experts", {"count": count, "per_token": per_token, "hidden": hidden, "shared_hidden": shared,
                                 **more}))  # fmt: skip


_DEEPSEEK_EXPERTS = experts(
    "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size",
    "(n_shared_experts or 0) * moe_intermediate_size",
    node_limit=_LIMIT, balanced=True,
)  # fmt: skip
_FIRST = ("i < first_k_dense_replace", mlp())
_LATENT = {
    "heads": "num_attention_heads",
    "query_rank": "q_lora_rank or 0",
    "key_value_rank": "kv_lora_rank",
    "plain_size": "qk_nope_head_dim",
    "rotary_size": "qk_rope_head_dim",
    "value_size": "v_head_dim",
}
_DEEPSEEK = LLAMA_LIKE.but(
    {
        **ROUTED,
        "q_lora_rank": REQUIRED,
        "kv_lora_rank": REQUIRED,
        "qk_nope_head_dim": REQUIRED,
        "qk_rope_head_dim": REQUIRED,
        "v_head_dim": REQUIRED,
        "attention_bias": False,
        "mlp_bias": False,
        "layer_types": None,
    },
    mixer=(("True", ("LatentAttention", _LATENT)),),
    mlp=(_FIRST, _DEEPSEEK_EXPERTS),
    ends={"mtp_layers": "num_nextn_predict_layers or 0"},
    refused=(
        *GROUPS,
        ("attention_bias", "attention_bias", "false"),
        ("mlp_bias", "mlp_bias", "false"),
        ("first_k_dense_replace >= num_hidden_layers", "first_k_dense_replace", "less than num_hidden_layers"),
    ),
    assumed=("n_shared_experts", "first_k_dense_replace", "n_group", "topk_group", "num_nextn_predict_layers"),
)
_INDEXED = {
    **_LATENT,
    "index_heads": "index_n_heads",
    "index_size": "index_head_dim",
    "index_keys": "index_topk",
}
_DEEPSEEK_V32 = _DEEPSEEK.but(
    {"index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048, "num_nextn_predict_layers": 0},
    mixer=(("True", ("LatentAttention", _INDEXED)),),
    assumed=(*_DEEPSEEK.assumed, "index_n_heads", "index_head_dim", "index_topk"),
)

_SPARSE = "i in mlp_only_layers or (i + 1) % decoder_sparse_step != 0"
_QWEN_KEYS: Mapping[str, object] = {
    "num_experts": REQUIRED,
    "moe_intermediate_size": REQUIRED,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
_QWEN_REFUSED = (
    *DENSE_FAMILIES["qwen2"].refused,
    ("use_sliding_window", "use_sliding_window", "false"),
    ("decoder_sparse_step < 1", "decoder_sparse_step", "1 or more"),
)
_SHARED = "shared_expert_intermediate_size"

MIXTURE_FAMILIES: Mapping[str, Family] = {
    "mixtral": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "num_local_experts": REQUIRED, "num_experts_per_tok": 2,
         "sliding_window": None, "layer_types": None},
        mixer=DENSE_FAMILIES["mistral"].mixer,
        mlp=(experts("num_local_experts", "num_experts_per_tok", "intermediate_size"),),
        refused=DENSE_FAMILIES["mistral"].refused,
        assumed=("num_experts_per_tok",)
    ),
    "qwen2_moe": DENSE_FAMILIES["qwen2"].but(
        {**_QWEN_KEYS, "num_experts_per_tok": 4, _SHARED: REQUIRED, "qkv_bias": True},
        mixer=(("True", attention(biases="qkv_bias")),),
        mlp=((_SPARSE, mlp()), experts("num_experts", "num_experts_per_tok", "moe_intermediate_size", _SHARED,
                                       shared_gate=True)),
        refused=_QWEN_REFUSED,
        assumed=("num_experts_per_tok",)
    ),
    "qwen3_moe": DENSE_FAMILIES["qwen3"].but(
        {**_QWEN_KEYS, "num_experts_per_tok": 8},
        mixer=(("True", attention(norms="'head'", biases="attention_bias", output_biases="attention_bias")),),
        mlp=((_SPARSE, mlp()), experts("num_experts", "num_experts_per_tok", "moe_intermediate_size")),
        refused=_QWEN_REFUSED,
        assumed=("num_experts_per_tok",)
    ),
    "deepseek_v2": _DEEPSEEK.but(
        {"q_lora_rank": 1536, "first_k_dense_replace": 0, "n_shared_experts": REQUIRED, "n_group": None,
         "topk_group": None, "num_nextn_predict_layers": 0, "num_experts_per_tok": REQUIRED},
        mlp=(_FIRST, experts("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size",
                             "(n_shared_experts or 0) * moe_intermediate_size", node_limit=_LIMIT)),
        assumed=("q_lora_rank", "first_k_dense_replace")
    ),
    "deepseek_v3": _DEEPSEEK,
    "kimi_k2": _DEEPSEEK,
    "deepseek_v32": _DEEPSEEK_V32,
    "glm_moe_dsa": _DEEPSEEK_V32,
    "glm4_moe_lite": _DEEPSEEK.but(
        {"mlp_layer_types": None, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
         "num_nextn_predict_layers": 0},
        mlp=(
            ("(mlp_layer_types[i] == 'dense') if mlp_layer_types is not None else i < 1", mlp()),
            _DEEPSEEK_EXPERTS,
        ),
        refused=(*_DEEPSEEK.refused, ("mlp_layer_types is not None and len(mlp_layer_types) != num_hidden_layers",
                                      "mlp_layer_types", "an entry for each layer"))
    ),
    "glm4_moe": LLAMA_LIKE.but(
        {**ROUTED, "num_key_value_heads": REQUIRED, "attention_bias": False, "use_qk_norm": False,
         "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1},
        mixer=(
            ("use_qk_norm", attention(norms="'head'", biases="attention_bias")),
            ("True", attention(biases="attention_bias")),
        ),
        mlp=(_FIRST, _DEEPSEEK_EXPERTS),
        ends={"mtp_layers": "num_nextn_predict_layers or 0"},
        refused=(*LLAMA_LIKE.refused, *GROUPS),
        assumed=("n_shared_experts", "first_k_dense_replace", "num_nextn_predict_layers")
    ),
    "bailing_moe_v2": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "num_experts": REQUIRED, "num_shared_experts": REQUIRED,
         "num_experts_per_tok": 8, "moe_intermediate_size": REQUIRED, "first_k_dense_replace": REQUIRED,
         "use_qk_norm": REQUIRED, "moe_router_enable_expert_bias": False, "use_bias": False, "use_qkv_bias": False,
         "num_nextn_predict_layers": 0, "n_group": None, "topk_group": None,
         "moe_shared_expert_intermediate_size": None},
        mixer=(
            ("use_qk_norm", attention(norms="'head'", biases="use_qkv_bias", output_biases="use_bias")),
            ("True", attention(biases="use_qkv_bias", output_biases="use_bias")),
        ),
        mlp=(_FIRST, experts("num_experts", "num_experts_per_tok", "moe_intermediate_size",
                             "(num_shared_experts or 0) * "
                             "(moe_shared_expert_intermediate_size or moe_intermediate_size)",
                             node_limit=_LIMIT, balanced="moe_router_enable_expert_bias")),
        ends={"mtp_layers": "num_nextn_predict_layers or 0"},
        assumed=("num_experts_per_tok",)
    ),
    "gpt_oss": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "head_dim": 64, "sliding_window": 128, "layer_types": None,
         "attention_bias": True, "num_local_experts": REQUIRED, "num_experts_per_tok": 4, "experts_per_token": None},
        mixer=(
            ("(layer_types[i] == 'sliding_attention') if layer_types is not None else i % 2 == 0",
             attention(window="sliding_window", biases=True, output_biases=True, sinks=True)),
            ("True", attention(biases=True, output_biases=True, sinks=True)),
        ),
        mlp=(experts("num_local_experts", "num_experts_per_tok", "intermediate_size", biases=True,
                     router_biases=True),),
        refused=(DENSE_FAMILIES["mistral"].refused[1], ("not attention_bias", "attention_bias", "true"),
                 ("experts_per_token is not None and experts_per_token != num_experts_per_tok", "experts_per_token",
                  "as num_experts_per_tok")),
        assumed=("head_dim", "sliding_window", "num_experts_per_tok")
    ),
    "llama4_text": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "head_dim": None, "intermediate_size_mlp": REQUIRED,
         "num_local_experts": REQUIRED, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1, "moe_layers": None,
         "attention_bias": False, "attention_chunk_size": 8192, "no_rope_layers": None, "no_rope_layer_interval": 4,
         "use_qk_norm": True, "layer_types": None},
        mixer=(
            ("(layer_types[i] == 'full_attention') if layer_types is not None else (no_rope_layers[i] == 0) "
             "if no_rope_layers else (i + 1) % no_rope_layer_interval == 0",
             attention(biases="attention_bias", output_biases="attention_bias")),
            ("True", attention(chunk="attention_chunk_size", biases="attention_bias", output_biases="attention_bias")),
        ),
        mlp=(
            ("(i not in moe_layers) if moe_layers is not None else (i + 1) % interleave_moe_layer_step != 0",
             mlp(hidden="intermediate_size_mlp")),
            experts("num_local_experts", "num_experts_per_tok", "intermediate_size", "intermediate_size"),
        ),
        refused=(*LLAMA_LIKE.refused, DENSE_FAMILIES["mistral"].refused[1],
                 ("interleave_moe_layer_step < 1", "interleave_moe_layer_step", "1 or more")),
        assumed=("interleave_moe_layer_step", "attention_chunk_size")
    ),
    "ernie4_5_moe": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "tie_word_embeddings": True, "use_bias": False, "moe_num_experts": 64,
         "moe_k": 6, "moe_num_shared_experts": 2, "moe_intermediate_size": REQUIRED, "moe_layer_start_index": 1,
         "moe_layer_end_index": -1, "moe_layer_interval": 1, "num_nextn_predict_layers": 0},
        mixer=(("True", attention(biases="use_bias", output_biases="use_bias")),),
        mlp=(
            ("i < moe_layer_start_index or i > (moe_layer_end_index if moe_layer_end_index >= 0 else "
             "num_hidden_layers - 1) or (i + 1) % moe_layer_interval != 0", mlp(biases="use_bias")),
            experts("moe_num_experts", "moe_k", "moe_intermediate_size",
                    "moe_num_shared_experts * moe_intermediate_size", balanced=True, biases="use_bias"),
        ),
        ends={"mtp_layers": "num_nextn_predict_layers or 0"},
        assumed=("tie_word_embeddings", "moe_num_experts", "moe_k", "moe_num_shared_experts",
                 "moe_layer_start_index", "moe_layer_end_index")
    ),
    "granitemoe": LLAMA_LIKE.but(
        {"num_local_experts": REQUIRED, "num_experts_per_tok": 2, "attention_bias": False},
        mixer=(("True", attention(biases="attention_bias", output_biases="attention_bias")),),
        mlp=(experts("num_local_experts", "num_experts_per_tok", "intermediate_size"),),
        assumed=("num_experts_per_tok",)
    ),
    "granitemoeshared": LLAMA_LIKE.but(
        {"num_local_experts": REQUIRED, "num_experts_per_tok": 2, "attention_bias": False,
         "shared_intermediate_size": 0},
        mixer=(("True", attention(biases="attention_bias", output_biases="attention_bias")),),
        mlp=(experts("num_local_experts", "num_experts_per_tok", "intermediate_size", "shared_intermediate_size"),),
        assumed=("num_experts_per_tok",)
    ),
    "minimax_m2": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "num_local_experts": REQUIRED, "num_experts_per_tok": 8,
         "use_routing_bias": True, "use_qk_norm": True, "qk_norm_type": "per_layer", "num_mtp_modules": 0,
         "use_mtp": False, "mtp_transformer_layers": 0, "shared_intermediate_size": 0, "attn_type_list": None,
         "sliding_window": None},
        mixer=(("True", attention(norms="'row'")),),
        mlp=(experts("num_local_experts", "num_experts_per_tok", "intermediate_size", balanced="use_routing_bias"),),
        ends={"mtp_layers": "num_mtp_modules * mtp_transformer_layers if use_mtp else 0"},
        refused=(*LLAMA_LIKE.refused, ("sliding_window is not None", "sliding_window", "null"),
                 ("shared_intermediate_size", "shared_intermediate_size", "0"),
                 ("not use_qk_norm", "use_qk_norm", "true"),
                 ("qk_norm_type != 'per_layer'", "qk_norm_type", "per_layer"),
                 ("attn_type_list is not None and min(attn_type_list) == 0", "attn_type_list", "1 for each layer")),
        assumed=("num_experts_per_tok",)
    ),
    "hunyuan_v1_moe": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "num_experts": REQUIRED, "moe_topk": 1, "num_shared_expert": 1,
         "attention_bias": False, "moe_intermediate_size": None, "moe_layer_num_skipped": 0,
         "use_qk_norm": True},
        mixer=(("True", attention(norms="'head'", biases="attention_bias", output_biases="attention_bias")),),
        mlp=(experts("of_layer(num_experts, i)", "of_layer(moe_topk, i)", "intermediate_size",
                     "of_layer(num_shared_expert, i) * intermediate_size"),),
        refused=(*LLAMA_LIKE.refused, ("moe_layer_num_skipped", "moe_layer_num_skipped", "0")),
        assumed=("moe_topk", "num_shared_expert")
    ),
    "olmoe": LLAMA_LIKE.but(
        {"num_experts": REQUIRED, "num_experts_per_tok": 8, "attention_bias": False},
        mixer=(("True", attention(norms="'row'", biases="attention_bias", output_biases="attention_bias")),),
        mlp=(experts("num_experts", "num_experts_per_tok", "intermediate_size"),),
        assumed=("num_experts_per_tok",)
    ),
    "phimoe": LLAMA_LIKE.but(
        {"num_key_value_heads": REQUIRED, "num_local_experts": REQUIRED, "num_experts_per_tok": 2,
         "attention_bias": False, "lm_head_bias": False, "sliding_window": None},
        mixer=(
            ("sliding_window is not None",
             attention(window="sliding_window", biases="attention_bias", output_biases="attention_bias")),
            ("True", attention(biases="attention_bias", output_biases="attention_bias")),
        ),
        mlp=(experts("num_local_experts", "num_experts_per_tok", "intermediate_size"),),
        norms=4,
        ends={"final_norms": 2, "head_biases": "lm_head_bias"},
        assumed=("num_experts_per_tok",)
    ),
}  # fmt: skip
"""Tables by `model_type`."""


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
_QWEN35 = LLAMA_LIKE.but(_LINEAR, mixer=_GATED, refused=(*LLAMA_LIKE.refused, LENGTH), assumed=_LINEAR_ASSUMED)
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
        assumed=(*_LINEAR_ASSUMED, "num_experts_per_tok")
    ),
    "qwen3_5_text": _QWEN35.but({"mtp_num_hidden_layers": 0}, ends=_FURTHER),
    "qwen3_5_moe_text": _QWEN35.but(
        {"intermediate_size": None, "num_experts": REQUIRED, "num_experts_per_tok": 8,
         "moe_intermediate_size": REQUIRED, "shared_expert_intermediate_size": REQUIRED, "mtp_num_hidden_layers": 0},
        mlp=(_QWEN35_EXPERTS,),
        ends=_FURTHER,
        assumed=(*_LINEAR_ASSUMED, "num_experts_per_tok")
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
        refused=(*LLAMA_LIKE.refused, LENGTH, ("shared_intermediate_size", "shared_intermediate_size", "0"),
                 ("sliding_window is not None", "sliding_window", "null"),
                 ("layer_types is None and attn_type_list is None", "layer_types", "an entry for each layer")),
        assumed=("num_experts_per_tok",)
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
        refused=(*LLAMA_LIKE.refused, LENGTH,
                 ("mamba_d_head != 'auto' and mamba_n_heads * mamba_d_head != mamba_expand * hidden_size",
                  "mamba_d_head", "auto, or mamba_expand hidden_size / mamba_n_heads")),
        assumed=("num_local_experts", "num_experts_per_tok", "shared_intermediate_size", "mamba_n_heads",
                 "mamba_n_groups", "mamba_d_state", "mamba_d_conv", "mamba_expand")
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
        assumed=("expand", "num_heads", "head_dim", "n_groups", "state_size", "conv_kernel")
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
                 "expert_layer_period", "expert_layer_offset", "mamba_d_state", "mamba_d_conv", "mamba_expand")
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
        assumed=("num_key_value_heads", "head_dim")
    ),
}  # fmt: skip
"""Tables by `model_type`."""
