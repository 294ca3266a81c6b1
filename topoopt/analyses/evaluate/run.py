"""The strategy that is evaluated, and its figures for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoopt.core.calculon import TensorTransfers
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.llm_training import LlmTrainingProblem, StepEstimate
from topoopt.core.parallelism import ParallelStrategy, Recompute, StrategySpace
from topoopt.core.pipeline import PipelineSchedule
from topoopt.core.units import GIB
from topoopt.simulate.llm_training.calculon import calculon_step
from topoopt.simulate.llm_training.calculon_records import CalculonRecords
from topoopt.simulate.llm_training.calculon_space import calculon_space


def chosen_strategy(problem: LlmTrainingProblem, given: Mapping[str, Any]) -> ParallelStrategy:
    """The strategy of options, else of what the instance pins, else the plainest that is allowed.

    Args:
        given: parts of a strategy by name; None: not given.

    Raises:
        InputError: the GPUs left over are no whole number of replicas.
    """
    stated = {name: value for name, value in given.items() if value is not None}
    first = {part.name: getattr(problem.space, part.name) for part in fields(StrategySpace)}
    parts = {name: values[0] for name, values in first.items() if values is not None and len(values) == 1} | stated

    def default(name: str, value: Any) -> None:
        if name not in parts:
            allowed = first.get(name)
            parts[name] = value if allowed is None or value in allowed else allowed[0]

    for name in ("tensor", "context", "pipeline", "chunks", "expert", "expert_tensor", "micro_batch"):
        default(name, 1)
    others = parts["tensor"] * parts["context"] * parts["pipeline"]
    if "data" not in parts and problem.cluster.gpus % others:
        text = "tensor x context x pipeline does not divide the number of GPUs"
        raise InputError([Problem(text, path="tensor", value=str(others), allowed=str(problem.cluster.gpus))])
    default("data", problem.cluster.gpus // others)
    default("zero", 1 if parts["data"] * parts["context"] > 1 else 0)
    default("sequence", parts["tensor"] > 1 and _splits(problem))
    default("schedule", PipelineSchedule.INTERLEAVED if parts["chunks"] > 1 else PipelineSchedule.ONE_F_ONE_B)
    default("recompute", Recompute.NONE)
    return replace(ParallelStrategy(), **parts)


def _splits(problem: LlmTrainingProblem) -> bool:
    """Whether what lies between matrices is split over the GPUs that share them."""
    return problem.calculon is None or problem.calculon.transfers is TensorTransfers.SEQUENCE


def estimate_document(problem: LlmTrainingProblem, strategy: ParallelStrategy, found: StepEstimate) -> dict[str, Any]:
    """All figures, for programs."""
    seconds = found.iteration_time_s
    gpus = problem.cluster.gpus
    flops = found.model_flops / seconds / gpus
    usable = problem.cluster.usable_bytes
    memory = {part: size / GIB for part, size in asdict(found.memory).items()}
    return {
        "name": problem.name,
        "time_model": problem.time_model,
        "strategy": asdict(strategy),
        "iteration_time_s": seconds,
        "breakdown_s": asdict(found.breakdown),
        "memory_gib": {**memory, "total": found.memory.total / GIB},
        "mfu": flops / found.peak_flops,
        "tflops_per_gpu": flops / 1e12,
        "tokens_per_s_per_gpu": problem.batch.tokens / seconds / gpus,
        "fits": usable is None or found.memory.total <= usable,
        "detail": dict(found.detail),
    }


def best_of_calculon(problem: LlmTrainingProblem) -> dict[str, Any]:
    """The fastest execution that fits, of all that the search of Calculon goes through and the instance allows.

    Raises:
        InputError: another time model.
        InfeasibleError: none fits.
    """
    settings = problem.calculon
    if settings is None:
        text = "only the space of time_model: calculon is gone through whole"
        raise InputError(
            [
                Problem(
                    text,
                    path="time_model",
                    value=problem.time_model,
                    allowed="calculon; topoopt solve searches with roofline",
                )
            ]
        )
    batch, first = problem.batch, settings.machine.networks[settings.tensor_network]
    records = calculon_space(problem.model, batch.length, batch.sequences, problem.cluster.gpus, first)
    step = calculon_step(problem.model, batch.length, settings, records)
    allowed = _allowed(problem.space, records)
    fits = allowed & step.fits
    if not fits.any():
        raise InfeasibleError(f"none of {int(allowed.sum())} executions fits the memory of a GPU")
    best = int(np.where(fits, step.total, np.inf).argmin())
    return {
        "name": problem.name,
        "time_model": problem.time_model,
        "records": int(allowed.sum()),
        "fitting": int(fits.sum()),
        "iteration_time_s": float(step.total[best]),
        "memory_gib": float(step.memory[best]) / GIB,
        "execution": {part.name: getattr(records, part.name)[best].item() for part in fields(CalculonRecords)},
    }


def _allowed(space: StrategySpace, records: CalculonRecords) -> NDArray[np.bool_]:
    """Records whose parts the instance allows."""
    allowed = np.ones(len(records.tensor), dtype=bool)
    columns = (
        (space.tensor, records.tensor),
        (space.pipeline, records.pipeline),
        (space.chunks, records.chunks),
        (space.data, records.data),
        (space.micro_batch, records.micro_batch),
        (space.zero, records.sharded.astype(np.int64)),
        (space.recompute, records.recompute),
        (space.sequence, (records.transfers == TensorTransfers.SEQUENCE) & (records.tensor > 1)),
    )
    for values, column in columns:
        if values is not None:
            allowed &= np.isin(column, values)
    return allowed
