"""Language models on servers of eight GPUs, and strategies for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from topoopt.core.arrays import GIB
from topoopt.core.llm_training import GpuCluster, LlmSearchSettings, LlmTrainingProblem, NumberFormats, TrainingBatch
from topoopt.core.llm_training_plan import RankedStrategy
from topoopt.core.parallelism import Overlap, ParallelStrategy, PipelineSchedule, Recompute, StrategySpace
from topoopt.kinds.llm_training.figures import StageFigures
from topoopt.simulate.llm_training.costs import GroupRates
from topoopt.simulate.llm_training.step import estimate
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.workloads.language_models import LANGUAGE_MODELS, TRAINING_DEVICES


def training(model: str, gpus: int, sequences: int, length: int, device: str = "h100") -> LlmTrainingProblem:
    """A model on servers of eight GPUs with an interface of 400 Gbit/s each."""
    cluster = GpuCluster(max(1, gpus // 8), min(8, gpus), device, 80 * GIB, 0, 3600.0, min(8, gpus), True, 400.0)
    return LlmTrainingProblem(
        "case", LANGUAGE_MODELS[model], TrainingBatch(sequences, length), cluster, NumberFormats(), StrategySpace(),
        Overlap(), TRAINING_DEVICES[device], ("ideal-switch",), 10, True, LlmSearchSettings(), "",
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


def stage_figures(problem: LlmTrainingProblem, one: ParallelStrategy) -> StageFigures:
    """The stages of a strategy on an ideal switch."""
    return StageFigures(problem, one, GroupRates.of(problem, columns_of([one], problem.model.layers)))


def ranked(problem: LlmTrainingProblem, one: ParallelStrategy) -> RankedStrategy:
    """A strategy with what it takes on an ideal switch."""
    ideal = estimate(problem, one)
    return RankedStrategy(one, ideal.iteration_time_s, ideal.memory.total)
