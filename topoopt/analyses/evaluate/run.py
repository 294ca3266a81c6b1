"""The strategy that is evaluated, and its figures for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from solvers.llm_training.space import with_layers
from topoopt.core.arrays import GIB
from topoopt.core.errors import InputError, Problem
from topoopt.core.llm_training import LlmTrainingProblem, StepEstimate
from topoopt.core.parallelism import ParallelStrategy, PipelineSchedule, Recompute, StrategySpace
from topoopt.simulate.llm_training.strategies import strategy_problems
from topoopt.workloads.language_models import active_parameters, parameters


def chosen_strategy(problem: LlmTrainingProblem, given: Mapping[str, Any]) -> ParallelStrategy:
    """The strategy of options, else of what the instance pins, else the plainest that is allowed.

    Args:
        given: parts of a strategy by name; None: not given.

    Raises:
        InputError: the GPUs left over are no whole number of replicas, or its layers cannot be divided as pinned.
    """
    stated = {name: value for name, value in given.items() if value is not None}
    space = [part.name for part in fields(StrategySpace) if part.name not in ("layers", "short_ends")]
    first = {name: getattr(problem.space, name) for name in space}
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
    default("sequence", parts["tensor"] > 1)
    default("schedule", PipelineSchedule.INTERLEAVED if parts["chunks"] > 1 else PipelineSchedule.ONE_F_ONE_B)
    default("recompute", Recompute.NONE)
    chosen = replace(ParallelStrategy(), **parts)
    return chosen if strategy_problems(problem, chosen) else with_layers(problem, chosen)


def estimate_document(problem: LlmTrainingProblem, strategy: ParallelStrategy, found: StepEstimate) -> dict[str, Any]:
    """All figures, for programs."""
    seconds = found.iteration_time_s
    gpus = problem.cluster.gpus
    flops = found.model_flops / seconds / gpus
    usable = problem.usable_bytes
    memory = {part: size / GIB for part, size in asdict(found.memory).items()}
    return {
        "name": problem.name,
        "strategy": asdict(strategy),
        "iteration_time_s": seconds,
        "breakdown_s": asdict(found.breakdown),
        "memory_gib": {**memory, "total": found.memory.total / GIB},
        "mfu": flops / found.peak_flops,
        "tflops_per_gpu": flops / 1e12,
        "tokens_per_s_per_gpu": problem.batch.tokens / seconds / gpus,
        "fits": usable is None or found.memory.total <= usable,
        "parameters": parameters(problem.model),
        "met_parameters": active_parameters(problem.model),
        "detail": dict(found.detail),
        "notes": list(problem.notes),
    }
