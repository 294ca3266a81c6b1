"""Readers of tables, and of configurations of several families: for each field two files that differ in it alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.support import foreign_network_cases as foreign
from tests.support.network_reader_cases import (
    COLUMN_PAIRS,
    GRAPHML_FORMAL,
    GRAPHML_NOTED,
    GRAPHML_PAIRS,
    GRAPHML_STRANGE,
    LINK_PAIRS,
    LINKS_NOTED,
    NODE_LINK_FORMAL,
    NODE_LINK_PAIRS,
    NODE_LINK_STRANGE,
    RATE_PAIRS,
    RATES_NOTED,
    Pair,
)
from tests.support.reader_cases import Read, plain
from topoopt.analyses.calibrate import read_runs
from topoopt.core.errors import InputError
from topoopt.core.shared_cluster import JobClass
from topoopt.files.demand_files import read_csv_matrix
from topoopt.files.graph_files import read_graph
from topoopt.files.link_attributes import NetworkUse
from topoopt.kinds.llm_training.huggingface import read_huggingface
from topoopt.kinds.shared_cluster.trace import read_trace


@dataclass(frozen=True)
class PairCase:
    """A reader, and files of it.

    Attributes:
        pairs: two files for each field that is used; they differ in that field.
        strange: a file for each level, with a field that nobody knows.
        noted: files with all fields that are noted.
        checked: fields of which another value is refused.
        formal: fields that are known and say nothing of the network, with the reason.
    """

    read: Callable[[Path], Read]
    pairs: Mapping[str, Pair]
    strange: Sequence[str]
    noted: Sequence[str] = ()
    checked: frozenset[str] = frozenset()
    formal: Mapping[str, str] = field(default_factory=dict)

    def outcome(self, text: str, folder: Path) -> Read | InputError:
        """What is read of a text, or why it is refused."""
        path = folder / f"file{ {'<': '.graphml', '{': '.json'}.get(text[0], '.csv') }"
        path.write_text(text)
        try:
            return self.read(path)
        except InputError as error:
            return error


def _graph(path: Path, use: NetworkUse) -> Read:
    found = plain(read_graph(path, use))
    assert isinstance(found, dict)
    return found, tuple(found.pop("notes"))


def _model(path: Path) -> Read:
    model, notes = read_huggingface(path)
    return plain(model), notes


def _runs(path: Path) -> Read:
    rows, notes = read_runs(path)
    return plain(rows), notes


CLASSES = (JobClass("x", 4, (1.0,)), JobClass("y", 4, (2.0,)))


def _table(row: Mapping[str, object]) -> str:
    """A table of one line."""
    return f"{','.join(row)}\n{','.join(map(str, row.values()))}\n"


def _columns(base: Mapping[str, object], others: Mapping[str, tuple[Mapping[str, object], object, object]]) -> Any:
    """Pairs of tables of one line: what stands beside a column, and its two values."""
    return {
        name: (_table({**base, **beside, name: one}), _table({**base, **beside, name: two}))
        for name, (beside, one, two) in others.items()
    }


JOB = {"job": "a", "arrival_s": 0, "class": "x", "servers": 4, "iterations": 10}
RUN = {
    "id": "mb-26.06-x", "model": "llama3-70b", "device": "h100-sxm", "gpus": 64, "tp": 4, "pp": 2, "gbs": 128,
    "seq": 4096, "step_s": 10,
}  # fmt: skip
A_MICRO_BATCH_A_STEP = {"software": "primus", "gbs": "", "mbs": 2}
MIXTURE, TABLE_OF_LENGTHS = {"model": "mixtral-8x22b"}, {"id": "nemo-long-x", "step_s": ""}
RUN_PAIRS = _columns(
    RUN,
    {
        "id": ({}, "mb-26.06-x", "mb-26.06-y"), "model": ({}, "llama3-70b", "llama3-8b"),
        "device": ({}, "h100-sxm", "a100-sxm-80"), "gpus": ({}, 64, 128), "tp": ({}, 4, 8), "pp": ({}, 2, 4),
        "vp": ({}, 1, 2), "cp": ({}, 1, 2), "ep": (MIXTURE, 1, 2), "dp": (A_MICRO_BATCH_A_STEP, 8, 4),
        "mbs": ({}, 1, 2),
        "gbs": ({}, 128, 256), "seq": ({}, 4096, 8192), "recompute": ({}, "none", "full"),
        "precision": ({}, "bf16", "fp8"), "nic_gbps": ({}, 400, 200), "step_s": ({}, 10, 11),
        "tflops_gpu": (TABLE_OF_LENGTHS, 400, 500), "tokens_s_gpu": ({"step_s": ""}, 1000, 1100),
        "notes": ({}, "", "ZeRO 3"), "software": ({}, "megatron-core", "nemo"),
    },
)  # fmt: skip

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000,
}  # fmt: skip
GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_layer": 4, "n_head": 8, "n_positions": 128, "vocab_size": 1000}
MISTRAL = {**LLAMA, "model_type": "mistral"}
MIXTRAL = {**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
QWEN2 = {**LLAMA, "model_type": "qwen2", "use_sliding_window": True, "sliding_window": 32, "max_window_layers": 0}
QWEN3_MOE = {
    **LLAMA, "model_type": "qwen3_moe", "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}  # fmt: skip
QWEN2_MOE = {**QWEN3_MOE, "model_type": "qwen2_moe", "shared_expert_intermediate_size": 64}
del QWEN2_MOE["head_dim"]
DEEPSEEK = {
    **LLAMA, "model_type": "deepseek_v3", "q_lora_rank": 16, "kv_lora_rank": 8, "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 32, "n_group": 4, "topk_group": 2,
}  # fmt: skip
HEADLESS = {key: LLAMA[key] for key in ("hidden_size", "num_hidden_layers", "vocab_size")}
FALCON = {**HEADLESS, "model_type": "falcon", "num_attention_heads": 8}
NEW_FALCON = {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}
EXPERTS_LOCAL = {**LLAMA, "num_local_experts": 4}
LLAMA4 = {**EXPERTS_LOCAL, "model_type": "llama4_text", "intermediate_size_mlp": 256, "head_dim": 8}
GPT_OSS = {**EXPERTS_LOCAL, "model_type": "gpt_oss"}
MINIMAX = {**EXPERTS_LOCAL, "model_type": "minimax", "attn_type_list": [0, 1, 0, 1]}
MINIMAX_M2 = {**EXPERTS_LOCAL, "model_type": "minimax_m2"}
MTP_M2 = {**MINIMAX_M2, "use_mtp": True, "num_mtp_modules": 2, "mtp_transformer_layers": 1}
HUNYUAN = {**LLAMA, "model_type": "hunyuan_v1_moe", "num_experts": 4}
BAILING = {
    **LLAMA, "model_type": "bailing_moe_v2", "num_experts": 4, "num_shared_experts": 1, "moe_intermediate_size": 32,
    "first_k_dense_replace": 0, "use_qk_norm": False,
}  # fmt: skip
ERNIE = {**LLAMA, "model_type": "ernie4_5_moe", "moe_intermediate_size": 32}
INDEXED = {**DEEPSEEK, "model_type": "deepseek_v32"}
GLM_LITE = {**DEEPSEEK, "model_type": "glm4_moe_lite", "mlp_layer_types": ["dense"] * 4}
QWEN35 = {**LLAMA, "model_type": "qwen3_5_text"}
MAMBA2 = {**HEADLESS, "model_type": "mamba2", "num_heads": 16, "head_dim": 8}
JAMBA = {**LLAMA, "model_type": "jamba", "num_hidden_layers": 12}
GRANITE = {**LLAMA, "model_type": "granitemoehybrid", "layer_types": ["mamba", "attention"] * 2, "mamba_n_heads": 16}
NEMOTRON = {
    **LLAMA, "model_type": "nemotron_h", "hybrid_override_pattern": "ME*-", "moe_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 32,
}  # fmt: skip
OPT = {**HEADLESS, "model_type": "opt", "num_attention_heads": 8, "ffn_dim": 256, "max_position_embeddings": 128}
PHI, STABLELM = {**LLAMA, "model_type": "phi"}, {**LLAMA, "model_type": "stablelm"}
FURTHER_CONFIGS: Mapping[str, tuple[Mapping[str, Any], Any]] = {
    "attention_chunk_size": (LLAMA4, 4096), "attention_out_bias": ({**LLAMA, "model_type": "seed_oss"}, True),
    "attn_layer_offset": (JAMBA, 3), "attn_layer_period": (JAMBA, 6), "attn_output_gate": (QWEN35, False),
    "attn_type_list": (MINIMAX, [0, 1, 1, 1]), "bias": (FALCON, True), "conv_kernel": (MAMBA2, 8),
    "expand": (MAMBA2, 4), "expert_layer_offset": (JAMBA, 0), "expert_layer_period": (JAMBA, 4),
    "experts_per_token": (GPT_OSS, 2), "ffn_hidden_size": (FALCON, 300), "full_attention_interval": (QWEN35, 2),
    "hybrid_override_pattern": (NEMOTRON, "MM*-"), "index_head_dim": (INDEXED, 64), "index_n_heads": (INDEXED, 32),
    "index_topk": (INDEXED, 1024), "interleave_moe_layer_step": (LLAMA4, 2), "intermediate_size_mlp": (
        {**LLAMA4, "interleave_moe_layer_step": 2}, 320
    ),
    "linear_conv_kernel_dim": (QWEN35, 8), "linear_key_head_dim": (QWEN35, 64), "linear_num_key_heads": (QWEN35, 8),
    "linear_num_value_heads": (QWEN35, 16), "linear_value_head_dim": (QWEN35, 64),
    "lm_head_bias": ({**EXPERTS_LOCAL, "model_type": "phimoe"}, True), "mamba_conv_bias": (JAMBA, False),
    "mamba_d_conv": (JAMBA, 8), "mamba_d_head": (GRANITE, 7), "mamba_d_state": (JAMBA, 32),
    "mamba_dt_rank": (JAMBA, 8), "mamba_expand": (JAMBA, 4), "mamba_head_dim": (NEMOTRON, 32),
    "mamba_n_groups": (GRANITE, 2), "mamba_n_heads": (GRANITE, 32), "mamba_num_heads": (NEMOTRON, 64),
    "mamba_proj_bias": (JAMBA, True), "mlp_layer_types": (GLM_LITE, ["dense", "sparse", "sparse", "sparse"]),
    "moe_k": (ERNIE, 2), "moe_latent_size": (NEMOTRON, 16), "moe_layer_end_index": (ERNIE, 2),
    "moe_layer_interval": (ERNIE, 2), "moe_layer_num_skipped": (HUNYUAN, 1), "moe_layer_start_index": (ERNIE, 2),
    "moe_layers": (LLAMA4, [1, 3]), "moe_num_experts": (ERNIE, 32), "moe_num_shared_experts": (ERNIE, 1),
    "moe_router_enable_expert_bias": (BAILING, True), "moe_shared_expert_intermediate_size": (BAILING, 64),
    "moe_topk": (HUNYUAN, 2), "mtp_num_hidden_layers": (QWEN35, 1), "mtp_transformer_layers": (MTP_M2, 2),
    "multi_query": (FALCON, False), "n_groups": (MAMBA2, 4), "new_decoder_architecture": (FALCON, True),
    "no_rope_layer_interval": (LLAMA4, 2), "no_rope_layers": (LLAMA4, [0, 1, 1, 1]), "num_heads": (MAMBA2, 8),
    "num_kv_heads": (NEW_FALCON, 4), "num_ln_in_parallel_attn": (NEW_FALCON, 1), "num_mtp_modules": (MTP_M2, 1),
    "num_shared_expert": (HUNYUAN, 2), "num_shared_experts": (BAILING, 2), "parallel_attn": (FALCON, False),
    "qk_norm_type": (MINIMAX_M2, "per_head"), "shared_intermediate_size": (GRANITE, 512),
    "sliding_window_pattern": ({**LLAMA, "model_type": "gemma3_text"}, 2), "ssm_state_size": (NEMOTRON, 64),
    "state_size": (MAMBA2, 64), "use_bias": (ERNIE, True), "use_conv_bias": (MAMBA2, False),
    "use_mtp": (MTP_M2, False), "use_qk_norm": (BAILING, True), "use_qkv_bias": (BAILING, True),
    "use_routing_bias": (MINIMAX_M2, False), "ffn_dim": (OPT, 128), "max_position_embeddings": (OPT, 64),
    "word_embed_proj_dim": (OPT, 32), "enable_bias": (OPT, False), "do_layer_norm_before": (OPT, False),
    "layer_norm_elementwise_affine": (OPT, False), "qk_layernorm": (PHI, True),
    "use_parallel_residual": (STABLELM, True),
}  # fmt: skip
"""The same of keys that few families have."""

CONFIGS: Mapping[str, tuple[Mapping[str, Any], Any]] = {
    "model_type": (LLAMA, "mistral"), "hidden_size": (LLAMA, 128), "n_embd": (GPT2, 128),
    "intermediate_size": (LLAMA, 256), "n_inner": (GPT2, 128), "num_hidden_layers": (LLAMA, 5), "n_layer": (GPT2, 5),
    "num_attention_heads": (LLAMA, 4), "n_head": (GPT2, 4), "num_key_value_heads": (LLAMA, 4), "head_dim": (LLAMA, 16),
    "vocab_size": (LLAMA, 1001), "n_positions": (GPT2, 256), "tie_word_embeddings": (LLAMA, True),
    "attention_bias": (LLAMA, True), "qkv_bias": (QWEN2_MOE, False), "mlp_bias": (LLAMA, True),
    "sliding_window": (MISTRAL, 64), "use_sliding_window": (QWEN2, False), "max_window_layers": (QWEN2, 4),
    "layer_types": (LLAMA, ["sliding_attention"] * 4), "num_local_experts": (MIXTRAL, 8),
    "num_experts": (QWEN3_MOE, 8), "n_routed_experts": (DEEPSEEK, 16), "num_experts_per_tok": (MIXTRAL, 1),
    "moe_intermediate_size": (QWEN3_MOE, 64), "shared_expert_intermediate_size": (QWEN2_MOE, 32),
    "n_shared_experts": (DEEPSEEK, 2), "decoder_sparse_step": (QWEN3_MOE, 2), "mlp_only_layers": (QWEN3_MOE, [0]),
    "first_k_dense_replace": (DEEPSEEK, 1), "moe_layer_freq": (DEEPSEEK, 2), "n_group": (DEEPSEEK, 2),
    "topk_group": (DEEPSEEK, 1), "num_nextn_predict_layers": (DEEPSEEK, 0), "q_lora_rank": (DEEPSEEK, None),
    "kv_lora_rank": (DEEPSEEK, 16), "qk_nope_head_dim": (DEEPSEEK, 16), "qk_rope_head_dim": (DEEPSEEK, 8),
    "v_head_dim": (DEEPSEEK, 16),
}  # fmt: skip
"""A configuration, and another value of one of its keys."""

ALL_CONFIGS = {**CONFIGS, **FURTHER_CONFIGS}

CONFIG_NOTED = (
    "torch_dtype dtype quantization_config architectures auto_map _name_or_path name_or_path transformers_version "
    "task_specific_params id2label label2id problem_type is_decoder bos_token_id eos_token_id pad_token_id "
    "sep_token_id decoder_start_token_id hidden_act activation_function initializer_range rms_norm_eps layer_norm_eps "
    "layer_norm_epsilon scale_attn_weights scale_attn_by_inverse_layer_idx reorder_and_upcast_attn rope_theta "
    "rope_scaling rope_parameters rope_interleave partial_rotary_factor n_ctx alibi block_size "
    "attention_dropout attn_pdrop embd_pdrop resid_pdrop hidden_dropout summary_activation summary_first_dropout "
    "summary_proj_to_labels summary_type summary_use_proj use_cache pretraining_tp ep_size _attn_implementation "
    "attn_implementation return_dict output_attentions output_hidden_states output_router_logits "
    "chunk_size_feed_forward norm_topk_prob router_aux_loss_coef router_jitter_noise aux_loss_alpha seq_aux "
    "scoring_func topk_method routed_scaling_factor"
)

PAIR_CASES: Mapping[str, PairCase] = {
    "Cables: NetBox, SONiC, LLDP": PairCase(
        foreign.cables, foreign.CABLE_PAIRS, [foreign.CABLES.replace("speed", "never_heard_of")]
    ),
    "NCCL: measured times": PairCase(foreign.measured, foreign.MEASURED_PAIRS, [foreign.MEASURED_STRANGE]),
    "NCCL: topology": PairCase(
        foreign.nccl, foreign.NCCL_PAIRS, foreign.NCCL_STRANGE, [foreign.NCCL], foreign.NCCL_CHECKED
    ),
    "ns-3: topology text": PairCase(
        foreign.importing("astrasim-network"),
        foreign.NS3_PAIRS,
        [foreign.SIMAI.replace("0.5\n", "0.5 never_heard_of\n"), foreign.SIMAI.replace("H100", "H100 never_heard_of")],
        [foreign.SIMAI],
        frozenset({"nodes", "switches", "links"}),
    ),
    "REPETITA: network and demands": PairCase(
        foreign.repetita,
        foreign.REPETITA_PAIRS,
        [
            (foreign.GRAPH + foreign.DEMANDS).replace(head, f"{head} never_heard_of")
            for head in ("label x y", "bw delay", "dest bw")
        ],
        [foreign.GRAPH + foreign.DEMANDS],
    ),
    "SNDlib: network": PairCase(
        foreign.importing("sndlib", links="bidirected", demands="directed", modules=1),
        foreign.SNDLIB_PAIRS,
        [
            foreign.SNDLIB.replace("unit =", "never_heard_of ="),
            foreign.SNDLIB.replace("133.00 )", "133.00 ) never_heard_of"),
            foreign.SNDLIB.replace("  C\n", "  C never_heard_of\n"),
            foreign.SNDLIB.replace("30.00 UNLIMITED", "30.00 UNLIMITED never_heard_of"),
            foreign.SNDLIB_XML.replace("<meta>", "<meta><never_heard_of/>"),
        ],
        [foreign.SNDLIB],
        frozenset({"node id", "max path length", "admissible paths"}),
    ),
    "SONiC: cross-connects": PairCase(
        foreign.config_db,
        foreign.CONFIG_PAIRS,
        [json.dumps({**foreign.CONFIG_DB, "never_heard_of": {}})],
        [json.dumps(foreign.CONFIG_DB)],
    ),
    "Topology Zoo: network": PairCase(
        foreign.importing("topology-zoo"),
        foreign.ZOO_PAIRS,
        [
            foreign.ONE_FORM.replace("LinkNote", "never_heard_of"),
            foreign.ONE_FORM.replace("hyperedge", "never_heard_of"),
            foreign.ONE_FORM.replace("Network", "never_heard_of"),
        ],
        [foreign.ONE_FORM],
        formal={"id": "links refer to it"},
    ),
    "Calibration: measured runs": PairCase(
        _runs,
        RUN_PAIRS,
        [_table({**RUN, "never_heard_of": 7})],
        [_table({**RUN, "source": "a", "params": 7e10, "peak_gib": 60})],
    ),
    "Demand: table of pairs": PairCase(
        lambda path: (plain(read_csv_matrix(path)), ()),
        {
            **{name: (f"{name},target,demand\n0,2,5\n2,1,6\n", f"{name},target,demand\n1,2,5\n2,1,6\n")
               for name in ("source", "tail", "src", "from")},
            **{name: (f"source,{name},demand\n0,1,5\n1,2,6\n", f"source,{name},demand\n0,2,5\n1,2,6\n")
               for name in ("target", "head", "dst", "destination", "to")},
            **{name: (f"source,target,{name}\n0,1,5\n", f"source,target,{name}\n0,1,6\n")
               for name in ("demand", "value", "amount", "traffic", "volume")},
        },
        ["source,target,demand,never_heard_of\n0,1,5,7\n"],
    ),
    "Hugging Face: config.json": PairCase(
        _model,
        {key: (json.dumps(base), json.dumps({**base, key: value})) for key, (base, value) in ALL_CONFIGS.items()},
        [json.dumps({**base, "never_heard_of": 7}) for base in (LLAMA, GPT2, DEEPSEEK)],
        [json.dumps({**LLAMA, name: "float32"}) for name in CONFIG_NOTED.split()],
        frozenset({"layer_types", "moe_layer_freq", "experts_per_token",
                   "expand", "num_heads", "mamba_d_head", "moe_layer_num_skipped", "qk_norm_type",
                   "word_embed_proj_dim", "qk_layernorm"}),
    ),
    "Network: GraphML": PairCase(
        partial(_graph, use="rates"), GRAPHML_PAIRS, GRAPHML_STRANGE, [GRAPHML_NOTED],
        frozenset({"directed (field of <edge>)"}), GRAPHML_FORMAL,
    ),
    "Network: node-link JSON": PairCase(
        partial(_graph, use="links"), NODE_LINK_PAIRS, NODE_LINK_STRANGE, formal=NODE_LINK_FORMAL
    ),
    "Network: table of links": PairCase(
        partial(_graph, use="links"), COLUMN_PAIRS, ["source,target,never_heard_of\n0,1,7\n"]
    ),
    "Network: nodes and links that carry demand": PairCase(
        partial(_graph, use="links"), LINK_PAIRS, NODE_LINK_STRANGE, [LINKS_NOTED]
    ),
    "Network: nodes and links of collectives": PairCase(
        partial(_graph, use="rates"), RATE_PAIRS,
        ["source,target,rate,never_heard_of\n0,1,2,7\n"], [RATES_NOTED]
    ),
    "Shared cluster: trace of jobs": PairCase(
        lambda path: (plain(read_trace(path, CLASSES)), ()),
        _columns(JOB, {
            "job": ({}, "a", "b"), "arrival_s": ({}, 0, 1), "class": ({}, "x", "y"), "servers": ({}, 4, 5),
            "iterations": ({}, 10, 11),
        }),
        [_table({**JOB, "never_heard_of": 7})],
        checked=frozenset({"servers"}),
    ),
}  # fmt: skip
"""By the name of their table of fields."""
