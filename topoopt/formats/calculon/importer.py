"""A model, a system and an execution of Calculon as an instance of kind `llm-training`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.core.errors import InputError, Problem
from topoopt.files.documents import parse_document
from topoopt.files.reader_fields import notes_of
from topoopt.formats.calculon.fields import EXECUTION_FIELDS, MODEL_FIELDS, SYSTEM_FIELDS
from topoopt.formats.calculon.read import (
    ApplicationJson,
    ExecutionJson,
    SystemJson,
    read_application,
    read_execution,
    system_section,
)
from topoopt.formats.importer import Imported, Importer, NameOption, name_of
from topoopt.workloads.llm_training.devices import TRAINING_DEVICES

RECOMPUTE = {"none": "none", "attn_only": "selective", "full": "full"}
VOCABULARY = 51200
"""What Calculon takes when it counts the parameters of a model; its times know no vocabulary."""


def import_execution(
    model: Annotated[Path, typer.Option("--model", help="Model (JSON): hidden, num_blocks, ...")],
    system: Annotated[Path, typer.Option("--system", help="System (JSON): matrix, vector, mem1, networks, ...")],
    execution: Annotated[Path, typer.Option("--execution", help="Execution (JSON): tensor_par, ...")],
    device: Annotated[str | None, typer.Option(help="GPU of the system; default: by its peak.")] = None,
    name: NameOption = None,
) -> Imported:
    """A model, a machine and an execution of Calculon, for time_model: calculon."""
    run = read_execution(execution)
    application = read_application(model)
    machine, section = system_section(system, run)
    document = {
        "schema_version": 1,
        "kind": "llm-training",
        "name": name or name_of(execution),
        "model": _model(application),
        "batch": {"sequences": run.batch_size, "length": application.seq_size},
        "cluster": _cluster(machine, run, device or _device(machine, run.datatype)),
        "strategy": _strategy(run),
        "overlap": {"tensor": 0.0, "data": run.data_par_overlap, "pipeline": False},
        "time_model": "calculon",
        "calculon": section,
        "fabrics": ["ideal-switch"],
    }
    figures = {"gpus": run.num_procs, "layers": application.num_blocks}
    line = f"{figures['layers']} layers on {figures['gpus']} GPUs"
    files = ((model, MODEL_FIELDS), (system, SYSTEM_FIELDS), (execution, EXECUTION_FIELDS))
    notes = (
        f"a vocabulary of {VOCABULARY} is assumed: it counts in model flops, not in times",
        *(f"{file.name}: {note}" for file, table in files for note in notes_of(parse_document(file), table)),
    )
    return Imported(document, line, figures, notes)


def _model(application: ApplicationJson) -> dict[str, Any]:
    return {
        "layers": application.num_blocks,
        "hidden": application.hidden,
        "ffn_hidden": application.feedforward,
        "heads": application.attn_heads,
        "head_size": application.attn_size,
        "vocabulary": VOCABULARY,
        "positions": application.seq_size,
        "gated": False,
        "biases": True,
        "tied": True,
    }


def _device(machine: SystemJson, datatype: str) -> str:
    """The device whose peak is that of the system.

    Raises:
        InputError: none is within a tenth.
    """
    peak = machine.matrix[datatype].tflops
    for name, device in TRAINING_DEVICES.items():
        if any(abs(peak - own) <= 0.1 * own for own in (device.matrix_tflops, device.fp8_tflops) if own is not None):
            return name
    allowed = f"one of {', '.join(TRAINING_DEVICES)}"
    raise InputError([Problem("no device has this peak", path="--device", value=f"{peak:g} TFLOP/s", allowed=allowed)])


def _cluster(machine: SystemJson, run: ExecutionJson, device: str) -> dict[str, Any]:
    """Servers as large as the first network, as far as they divide the GPUs; the last network joins them."""
    inner, outer = machine.networks[0], machine.networks[-1]
    size = math.gcd(run.num_procs, inner.size)
    return {
        "servers": run.num_procs // size,
        "gpus_per_server": size,
        "device": device,
        "gpu_memory_gib": machine.mem1.GiB,
        "intra_server_gbps": 8.0 * inner.bandwidth,
        "degree": size,
        "interfaces": "per-gpu",
        "link_gbps": 8.0 * outer.bandwidth,
    }


def _strategy(run: ExecutionJson) -> dict[str, Any]:
    return {
        "tensor": run.tensor_par,
        "sequence": run.tensor_par_comm_type == "rs_ag" and run.tensor_par > 1,
        "context": 1,
        "pipeline": run.pipeline_par,
        "chunks": run.pipeline_interleaving,
        "data": run.data_par,
        "expert": 1,
        "zero": 1 if run.optimizer_sharding else 0,
        "micro_batch": run.microbatch_size,
        "schedule": "interleaved" if run.pipeline_interleaving > 1 else "1f1b",
        "recompute": RECOMPUTE[run.activation_recompute],
    }


IMPORTER: Importer = import_execution
