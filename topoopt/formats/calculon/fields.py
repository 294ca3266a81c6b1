"""What becomes of the fields of Calculon's files: a model, a system, an execution."""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.files.known_fields import noted, used
from topoopt.files.reader_fields import ANY_OTHER, FieldTable

_OTHER = {ANY_OTHER: noted("its name")}
_OF_FORMAT = "those of the format of numbers that the execution names"

MODEL_FIELDS: FieldTable = {
    "hidden": used("width h"),
    "feedforward": used("inner width of the MLP"),
    "seq_size": used("length of a sequence, and learned positions"),
    "attn_heads": used("heads"),
    "attn_size": used("of a head"),
    "num_blocks": used("layers"),
    **_OTHER,
}

SYSTEM_FIELDS: FieldTable = {
    **{
        field: row
        for unit in ("matrix", "vector")
        for field, row in (
            (f"{unit}.*.tflops", used(f"peak; {_OF_FORMAT}")),
            (f"{unit}.*.gflops_efficiency[][]", used(f"part of the peak, from a size on; {_OF_FORMAT}")),
        )
    },
    "mem1.GiB": used("memory of a GPU"),
    "mem1.GBps": used("its bandwidth"),
    "mem1.MB_efficiency[][]": used("part of the bandwidth, from a size on"),
    "mem2": noted("memory for what is offloaded, which is not covered"),
    "processing_mode": used("whether compute and memory overlap"),
    "networks[].bandwidth": used("GB/s"),
    "networks[].efficiency": used("part of the bandwidth"),
    "networks[].size": used("GPUs it joins"),
    "networks[].latency": used("seconds"),
    "networks[].ops.*[]": used("scalar and offset of an operation"),
    "networks[].must_be_filled": used("whether a group takes all of it"),
    "networks[].processor_usage": used("part of a GPU that communication takes"),
    **_OTHER,
}

COVERED: Mapping[str, object] = {
    "attention_type": "multihead",
    "tensor_par_overlap": "none",
    "weight_offload": False,
    "activations_offload": False,
    "optimizer_offload": False,
    "training": True,
}
"""Keys of an execution with the one value that is covered."""

EXECUTION_FIELDS: FieldTable = {
    "num_procs": used("GPUs"),
    "tensor_par": used("GPUs that share each matrix"),
    "pipeline_par": used("stages"),
    "data_par": used("replicas"),
    "tensor_par_net": used("network of the system, by number, that tensor parallelism runs on"),
    "pipeline_par_net": used("network of the stages"),
    "data_par_net": used("network of the replicas"),
    "batch_size": used("sequences of an iteration"),
    "microbatch_size": used("sequences of a micro-batch"),
    "datatype": used("format of numbers"),
    "fused_activation": used("whether activation functions are fused"),
    "activation_recompute": used("what is computed again: none, attn_only, full"),
    "pipeline_interleaving": used("runs of layers a stage has"),
    "optimizer_sharding": used("whether replicas share out the states of the optimiser"),
    "tensor_par_comm_type": used("ar, p2p_rs_ag, rs_ag"),
    "seq_par_ag_redo": used("whether what was split is gathered again"),
    "data_par_overlap": used("whether gradients are added up during the backward pass"),
    **{key: used(f"only {str(value).lower()} is covered") for key, value in COVERED.items()},
    **_OTHER,
}
