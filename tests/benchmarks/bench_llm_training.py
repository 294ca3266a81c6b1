"""Language models in training: strategies a second, the best strategy proven, a schedule evaluated."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from solvers.llm_training.search import search
from solvers.stop import Stop
from tests.benchmarks.figures import Figure, best_of
from tests.support.llm_cases import strategy, training
from topoopt.core.pipeline import PipelineSchedule, PipelineShape, StageCosts
from topoopt.simulate.llm_training.roofline import roofline_columns
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.pipeline import pipeline_time
from topoopt.workloads.llm_training.presets import LANGUAGE_MODELS

COUNT = 4000
"""Strategies evaluated at once: columns that stay in the cache."""


def llm_training_figures() -> list[Figure]:
    """Records a second of a dense model and of one of experts."""
    problem = training("llama3-70b", 512, 512, 4096)
    tried = [
        strategy(tensor=t, pipeline=p, data=512 // t // p, zero=zero, micro_batch=b)
        for t in (1, 2, 4, 8) for p in (1, 2, 4, 8, 16) for zero in (0, 1) for b in (1, 2)
    ]  # fmt: skip
    found = []
    for name in ("llama3-70b", "deepseek-v3"):
        own = replace(problem, model=LANGUAGE_MODELS[name])
        columns = columns_of((tried * (COUNT // len(tried)))[:COUNT], own.model.layers)
        device = own.device
        seconds = best_of(partial(roofline_columns, own, device, columns))
        text = f"closed form, {name}, strategies a second"
        found.append(Figure(text, COUNT / seconds, "1/s", 1e6, higher_is_better=True))
    return [*found, *_proofs(), _schedule()]


def _proofs() -> list[Figure]:
    """The best strategy on an ideal switch, every other one seen."""
    cases = (("llama3-405b", 1024, 1536, 8192, 1.0), ("deepseek-v3", 16384, 16384, 4096, 5.0))
    return [
        Figure(
            f"proven strategy, {name}, {gpus} GPUs",
            best_of(partial(search, training(name, gpus, sequences, length), Stop(), count=10), repeats=2),
            "s",
            goal,
        )
        for name, gpus, sequences, length, goal in cases
    ]


def _schedule() -> Figure:
    """All passes of an interleaved pipeline, order and times."""
    shape = PipelineShape(16, 64, 4)
    costs = StageCosts.uniform(shape, 1.0, 1.0, 1.0, transfer_s=0.1)
    seconds = best_of(partial(pipeline_time, PipelineSchedule.INTERLEAVED, shape, costs, whole=True))
    return Figure("schedule of 16 ranks, 64 micro-batches, 4 chunks", seconds * 1e3, "ms", 0.5)
