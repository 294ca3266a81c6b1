"""Keys of a `config.json` of Hugging Face transformers, and what the reader makes of each: a literal table."""

from __future__ import annotations

from types import MappingProxyType

from topoopt.files.reader_fields import ANY_OTHER, FieldTable

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
