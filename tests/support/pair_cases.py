"""Readers of tables, and of configurations of several families: for each field two files that differ in it alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.support import foreign_network_cases as foreign
from tests.support.llm_cases import training
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
    found = read_runs(path, training("llama3-70b", 16, 32, 2048))
    return [(run.source, plain(run)) for run in found], ()


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
RUN = {"source": "a", "run": "r", "seconds": 1}
STAGES, EXPERTS = {"pipeline": 2}, {"model": "mixtral-8x22b"}
RUN_PAIRS = _columns(
    RUN,
    {
        "source": ({}, "a", "b"), "run": ({}, "r", "s"), "seconds": ({}, 1, 2), "held_out": ({}, 0, 1),
        "model": ({}, "llama3-70b", "mixtral-8x22b"), "gpus": ({}, 8, 16), "sequences": ({}, 32, 64),
        "length": ({}, 2048, 4096), "fp8": ({}, 0, 1), "fp8_dispatch": ({}, 0, 1), "gradient_bytes": ({}, 2, 4),
        "tiled_attention": ({}, 0, 1), "hidden_tensor": ({}, 0, 0.5), "hidden_expert": ({}, 0, 0.5),
        "hidden_data": ({}, 0, 1), "hidden_pipeline": ({}, 0, 1),
        "tensor": ({}, 1, 2), "context": ({}, 1, 2), "pipeline": ({}, 1, 2), "chunks": (STAGES, 1, 2),
        "data": ({}, 16, 8), "expert": (EXPERTS, 1, 2), "expert_tensor": (EXPERTS, 1, 2), "zero": ({}, 0, 1),
        "micro_batch": ({}, 1, 2), "sequence": ({"tensor": 2}, 0, 1), "schedule": (STAGES, "1f1b", "gpipe"),
        "recompute": ({}, "none", "full"),
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

CONFIG_NOTED = (
    "torch_dtype dtype quantization_config architectures auto_map _name_or_path name_or_path transformers_version "
    "task_specific_params id2label label2id problem_type is_decoder bos_token_id eos_token_id pad_token_id "
    "sep_token_id decoder_start_token_id hidden_act activation_function initializer_range rms_norm_eps layer_norm_eps "
    "layer_norm_epsilon scale_attn_weights scale_attn_by_inverse_layer_idx reorder_and_upcast_attn rope_theta "
    "rope_scaling rope_parameters rope_interleave partial_rotary_factor max_position_embeddings n_ctx "
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
        checked=frozenset({"data"}),
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
        {key: (json.dumps(base), json.dumps({**base, key: value})) for key, (base, value) in CONFIGS.items()},
        [json.dumps({**base, "never_heard_of": 7}) for base in (LLAMA, GPT2, DEEPSEEK)],
        [json.dumps({**LLAMA, name: "float32"}) for name in CONFIG_NOTED.split()],
        frozenset({"attention_bias", "mlp_bias", "layer_types", "decoder_sparse_step", "moe_layer_freq"}),
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
