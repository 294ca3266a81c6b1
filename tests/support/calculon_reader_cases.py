"""Files of Calculon, and another value for each of their fields that is used."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.llm_cases import execution
from tests.support.reader_cases import Read, ReaderCase
from topoopt.formats.table import IMPORTERS

MODEL = {"hidden": 64, "feedforward": 256, "seq_size": 32, "attn_heads": 4, "attn_size": 16, "num_blocks": 4}
UNIT = {name: {"tflops": 312, "gflops_efficiency": [[1, 0.9], [0, 0.5]]} for name in ("float16", "float8")}
MEMORY = {"GiB": 80, "GBps": 2048, "MB_efficiency": [[10, 0.9], [0, 0.5]]}
NETWORK = {
    "bandwidth": 300, "efficiency": 0.65, "size": 2, "latency": 1e-5, "must_be_filled": True, "processor_usage": 0.1,
    "ops": {"p2p": [1.0, None], "reduce_scatter": [1.0, 0], "all_gather": [1.0, 0], "all_reduce": [2.0, -1]},
}  # fmt: skip
SYSTEM = {
    "matrix": UNIT, "vector": UNIT, "mem1": MEMORY, "mem2": MEMORY, "processing_mode": "roofline",
    "networks": [NETWORK, {**NETWORK, "bandwidth": 25, "size": 64}],
}  # fmt: skip
EXECUTION = execution("2/2/2", "a rs O", batch=8, micro_batch=1, chunks=2)
FILES = {"model": MODEL, "system": SYSTEM, "execution": EXECUTION}
NET = ("networks", 0)
ONE = ("matrix", "float16")
OTHER = ("vector", "float16")


def _importing(role: str) -> Callable[[Path], Read]:
    def read(path: Path) -> Read:
        paths: dict[str, Any] = {name: path.parent / f"{name}.json" for name in FILES}
        made = IMPORTERS["calculon"](**{**paths, role: path}, name="x")
        return made.document, made.notes

    return read


BESIDE = {f"{name}.json": json.dumps(content).encode() for name, content in FILES.items()}

CALCULON_CASES: Mapping[str, ReaderCase] = {
    "Calculon: model": ReaderCase(
        MODEL, _importing("model"), {key: ([key], 2 * value) for key, value in MODEL.items()}, beside=BESIDE
    ),
    "Calculon: system": ReaderCase(
        SYSTEM,
        _importing("system"),
        {
            "matrix.*.tflops": ([*ONE, "tflops"], 320),
            "matrix.*.gflops_efficiency[][]": ([*ONE, "gflops_efficiency"], [[0, 0.5]]),
            "vector.*.tflops": ([*OTHER, "tflops"], 320),
            "vector.*.gflops_efficiency[][]": ([*OTHER, "gflops_efficiency"], [[0, 0.5]]),
            "mem1.GiB": (["mem1", "GiB"], 40),
            "mem1.GBps": (["mem1", "GBps"], 1024),
            "mem1.MB_efficiency[][]": (["mem1", "MB_efficiency"], [[0, 0.5]]),
            "processing_mode": (["processing_mode"], "no_overlap"),
            "networks[].bandwidth": ([*NET, "bandwidth"], 200),
            "networks[].efficiency": ([*NET, "efficiency"], 0.5),
            "networks[].size": ([*NET, "size"], 4),
            "networks[].latency": ([*NET, "latency"], 2e-5),
            "networks[].ops.*[]": ([*NET, "ops", "p2p"], [2.0, 0]),
            "networks[].must_be_filled": ([*NET, "must_be_filled"], False),
            "networks[].processor_usage": ([*NET, "processor_usage"], 0.2),
        },
        beside=BESIDE,
    ),
    "Calculon: execution": ReaderCase(
        EXECUTION,
        _importing("execution"),
        {
            "num_procs": (["num_procs"], 16),
            "tensor_par": (["tensor_par"], 4),
            "pipeline_par": (["pipeline_par"], 4),
            "data_par": (["data_par"], 4),
            "tensor_par_net": (["tensor_par_net"], 1),
            "pipeline_par_net": (["pipeline_par_net"], 0),
            "data_par_net": (["data_par_net"], 0),
            "batch_size": (["batch_size"], 16),
            "microbatch_size": (["microbatch_size"], 2),
            "datatype": (["datatype"], "float8"),
            "fused_activation": (["fused_activation"], True),
            "activation_recompute": (["activation_recompute"], "full"),
            "pipeline_interleaving": (["pipeline_interleaving"], 4),
            "optimizer_sharding": (["optimizer_sharding"], False),
            "tensor_par_comm_type": (["tensor_par_comm_type"], "ar"),
            "seq_par_ag_redo": (["seq_par_ag_redo"], True),
            "data_par_overlap": (["data_par_overlap"], True),
            "attention_type": (["attention_type"], "multiquery"),
            "tensor_par_overlap": (["tensor_par_overlap"], "ring"),
            "weight_offload": (["weight_offload"], True),
            "activations_offload": (["activations_offload"], True),
            "optimizer_offload": (["optimizer_offload"], True),
            "training": (["training"], False),
        },
        frozenset({
            "attention_type", "tensor_par_overlap", "weight_offload", "activations_offload", "optimizer_offload",
            "training",
        }),
        beside=BESIDE,
    ),
}  # fmt: skip
