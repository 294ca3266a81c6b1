"""Files of Calculon, and executions whose figures its code printed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from topoopt.core.llm_training import GpuCluster, LlmTrainingProblem, NumberFormats, TrainingBatch
from topoopt.core.llm_training_plan import RankedStrategy
from topoopt.core.parallelism import Overlap, ParallelStrategy, Recompute, StrategySpace
from topoopt.core.pipeline import PipelineSchedule
from topoopt.core.search_settings import SearchSettings
from topoopt.core.units import GIB
from topoopt.simulate.llm_training.estimate import estimate
from topoopt.workloads.llm_training.devices import TRAINING_DEVICES
from topoopt.workloads.llm_training.presets import LANGUAGE_MODELS

CALCULON = Path(__file__).parents[3] / "shared" / "data" / "calculon"
needs_calculon = pytest.mark.skipif(not CALCULON.is_dir(), reason="../shared/data/calculon is not there")

AGAIN = {"f": "full", "a": "attn_only", "n": "none"}
TRANSFERS = {"ar": "ar", "p2p": "p2p_rs_ag", "rs": "rs_ag"}


def execution(shape: str, flags: str, *, batch: int, micro_batch: int, chunks: int, **changes: Any) -> dict[str, Any]:
    """An execution file: `8/8/1`, and letters: recomputation (f a n), transfers (ar p2p rs), O, V, G, F."""
    t, p, d = (int(size) for size in shape.split("/"))
    recompute, transfers, *more = flags.split()
    return {
        "num_procs": t * p * d,
        "tensor_par": t,
        "pipeline_par": p,
        "data_par": d,
        "tensor_par_net": 0,
        "pipeline_par_net": 1,
        "data_par_net": 1,
        "batch_size": batch,
        "microbatch_size": micro_batch,
        "datatype": "float16",
        "fused_activation": "F" in more,
        "attention_type": "multihead",
        "activation_recompute": AGAIN[recompute],
        "pipeline_interleaving": chunks,
        "optimizer_sharding": "O" in more,
        "tensor_par_comm_type": TRANSFERS[transfers],
        "tensor_par_overlap": "none",
        "seq_par_ag_redo": "G" in more,
        "data_par_overlap": "V" in more,
        "weight_offload": False,
        "activations_offload": False,
        "optimizer_offload": False,
        "training": True,
        **changes,
    }


def imported(folder: Path, model: str, system: str, run: dict[str, Any]) -> dict[str, Any]:
    """The instance document of a model and a system of Calculon under an execution."""
    from topoopt.formats.calculon.importer import import_execution

    file = folder / "execution.json"
    file.write_text(json.dumps(run))
    made = import_execution(CALCULON / f"models/{model}.json", CALCULON / f"systems/{system}.json", file)
    return made.document


def training(model: str, gpus: int, sequences: int, length: int, device: str = "h100") -> LlmTrainingProblem:
    """A model on servers of eight GPUs with an interface of 400 Gbit/s each."""
    cluster = GpuCluster(max(1, gpus // 8), min(8, gpus), device, 80 * GIB, 0, 3600.0, min(8, gpus), True, 400.0)
    return LlmTrainingProblem(
        "case", LANGUAGE_MODELS[model], TrainingBatch(sequences, length), cluster, NumberFormats(), StrategySpace(),
        Overlap(), "roofline", None, TRAINING_DEVICES[device], ("ideal-switch",), 10, True, SearchSettings(), "",
    )  # fmt: skip


def strategy(**parts: Any) -> ParallelStrategy:
    """A strategy: names for schedule and recomputation; sequence parallelism beside tensor parallelism."""
    parts["recompute"] = Recompute(parts.get("recompute", "none"))
    usual = "interleaved" if parts.get("chunks", 1) > 1 else "1f1b"
    parts["schedule"] = PipelineSchedule(parts.get("schedule", usual))
    return ParallelStrategy(**{"sequence": parts.get("tensor", 1) > 1, **parts})


def plain(problem: LlmTrainingProblem, **changes: Any) -> LlmTrainingProblem:
    """Interfaces serve all GPUs of a server."""
    return replace(problem, cluster=replace(problem.cluster, per_gpu=False, **changes))


def ranked(problem: LlmTrainingProblem, one: ParallelStrategy) -> RankedStrategy:
    """A strategy with what it takes on an ideal switch."""
    ideal = estimate(problem, one)
    return RankedStrategy(one, ideal.iteration_time_s, ideal.memory.total)
