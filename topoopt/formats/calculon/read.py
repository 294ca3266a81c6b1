"""Files of Calculon: a model, a system and an execution (JSON), checked."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from topoopt.core.errors import InputError, Problem
from topoopt.files.checked_file import read_checked
from topoopt.files.faults import Fault, nearest_text, value_text
from topoopt.formats.calculon.fields import COVERED

ELEMENT_BYTES = {"float8": 1, "float16": 2, "bfloat16": 2, "float32": 4}
Count = Annotated[int, Field(ge=1, le=2**40)]
Positive = Annotated[float, Field(gt=0, le=1e12)]
Rows = list[Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=2, max_length=2)]]


class CalculonModel(BaseModel):
    """Part of a file of Calculon; the tables of fields name keys that it does not use."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True, hide_input_in_errors=True)


class ApplicationJson(CalculonModel):
    """A model."""

    hidden: Count
    feedforward: Count
    seq_size: Count
    attn_heads: Count
    attn_size: Count
    num_blocks: Annotated[int, Field(ge=1, le=10_000)]


class UnitJson(CalculonModel):
    """A unit of a GPU for one format of numbers."""

    tflops: Positive
    gflops_efficiency: Rows


class MemoryJson(CalculonModel):
    """A memory."""

    GiB: Annotated[float, Field(ge=0)]
    GBps: Positive
    MB_efficiency: Rows


class NetworkJson(CalculonModel):
    """A network."""

    bandwidth: Positive
    efficiency: Annotated[float, Field(gt=0, le=1)]
    size: Count
    latency: Annotated[float, Field(ge=0, le=1)]
    ops: dict[Literal["p2p", "reduce_scatter", "all_gather", "all_reduce"], list[float | None]]
    must_be_filled: bool
    processor_usage: Annotated[float, Field(ge=0, lt=1)]


class SystemJson(CalculonModel):
    """A machine."""

    matrix: dict[str, UnitJson]
    vector: dict[str, UnitJson]
    mem1: MemoryJson
    processing_mode: Literal["no_overlap", "roofline"]
    networks: Annotated[list[NetworkJson], Field(min_length=1, max_length=16)]


class ExecutionJson(CalculonModel):
    """How the model is run."""

    num_procs: Count
    tensor_par: Count
    pipeline_par: Count
    data_par: Count
    tensor_par_net: Annotated[int, Field(ge=0)]
    pipeline_par_net: Annotated[int, Field(ge=0)]
    data_par_net: Annotated[int, Field(ge=0)]
    batch_size: Count
    microbatch_size: Count
    datatype: str
    fused_activation: bool
    attention_type: str
    activation_recompute: Literal["none", "attn_only", "full"]
    pipeline_interleaving: Count
    optimizer_sharding: bool
    tensor_par_comm_type: Literal["ar", "p2p_rs_ag", "rs_ag"]
    tensor_par_overlap: str
    seq_par_ag_redo: bool
    data_par_overlap: bool
    weight_offload: bool
    activations_offload: bool
    optimizer_offload: bool
    training: bool


def _execution_faults(execution: ExecutionJson) -> list[Fault]:
    found = [
        Fault((key,), "not covered", value_text(getattr(execution, key)), value_text(value))
        for key, value in COVERED.items()
        if getattr(execution, key) != value
    ]
    if execution.datatype not in ELEMENT_BYTES:
        allowed = nearest_text(execution.datatype, ELEMENT_BYTES)
        found.append(Fault(("datatype",), "unknown", value_text(execution.datatype), allowed))
    if execution.seq_par_ag_redo and execution.tensor_par_comm_type != "rs_ag":
        found.append(Fault(("seq_par_ag_redo",), "only with rs_ag", "true", "false"))
    if execution.seq_par_ag_redo and execution.activation_recompute == "full":
        found.append(Fault(("seq_par_ag_redo",), "full recomputation gathers again already", "true", "false"))
    if execution.data_par == 1:
        found += [
            Fault((key,), "plays no part with one replica", "true", "false")
            for key in ("optimizer_sharding", "data_par_overlap")
            if getattr(execution, key)
        ]
    return found


def read_execution(path: str | os.PathLike[str]) -> ExecutionJson:
    """An execution that is covered.

    Raises:
        InputError: everything wrong with the file.
    """
    return read_checked(path, ExecutionJson, _execution_faults)


def read_application(path: str | os.PathLike[str]) -> ApplicationJson:
    """A model.

    Raises:
        InputError: everything wrong with the file.
    """
    return read_checked(path, ApplicationJson)


def system_section(path: str | os.PathLike[str], execution: ExecutionJson) -> tuple[SystemJson, dict[str, Any]]:
    """The machine, and the section `calculon` of an instance.

    Raises:
        InputError: everything wrong with the file, or a format of numbers or a network that it lacks.
    """

    def faults(system: SystemJson) -> list[Fault]:
        found = [
            Fault((unit,), "no such format of numbers", execution.datatype, ", ".join(getattr(system, unit)))
            for unit in ("matrix", "vector")
            if execution.datatype not in getattr(system, unit)
        ]
        for place, network in enumerate(system.networks):
            missing = [op for op in ("p2p", "reduce_scatter", "all_gather", "all_reduce") if op not in network.ops]
            if missing:
                found.append(Fault(("networks", place, "ops"), "missing", ", ".join(missing)))
            for op, cost in network.ops.items():
                if len(cost) != 2 or cost[0] is None or cost[0] <= 0:
                    found.append(Fault(("networks", place, "ops", op), "not a scalar above 0 and an offset"))
        return found

    system = read_checked(path, SystemJson, faults)
    places = (execution.tensor_par_net, execution.pipeline_par_net, execution.data_par_net)
    if max(places) >= len(system.networks):
        allowed = f"networks 0 to {len(system.networks) - 1} of {path}"
        raise InputError([Problem("no such network", path="*_par_net", value=str(max(places)), allowed=allowed)])
    section: dict[str, Any] = {
        "matrix": system.matrix[execution.datatype].model_dump(),
        "vector": system.vector[execution.datatype].model_dump(),
        "memory": {
            "gib": system.mem1.GiB,
            "gbytes_per_s": system.mem1.GBps,
            "mb_efficiency": system.mem1.MB_efficiency,
        },
        "element_bytes": ELEMENT_BYTES[execution.datatype],
        "processing": system.processing_mode,
        "networks": [_network(network) for network in system.networks],
        "tensor_network": places[0],
        "pipeline_network": places[1],
        "data_network": places[2],
        "transfers": execution.tensor_par_comm_type,
        "redo": execution.seq_par_ag_redo,
        "fused": execution.fused_activation,
    }
    return system, section


def _network(network: NetworkJson) -> dict[str, Any]:
    return {
        "gbytes_per_s": network.bandwidth,
        "efficiency": network.efficiency,
        "size": network.size,
        "latency_s": network.latency,
        "ops": dict(network.ops),
        "must_be_filled": network.must_be_filled,
        "processor_usage": network.processor_usage,
    }
