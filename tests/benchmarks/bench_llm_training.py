"""Language models in training: strategies a second, the best strategy proven, a schedule evaluated, five fabrics."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

from solvers.llm_training.plan import planned_on
from solvers.llm_training.strategies import Candidates, search
from solvers.stop import Stop
from tests.benchmarks.figures import Figure, best_of
from tests.support.llm_cases import strategy, training
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import PipelineSchedule, PipelineShape, StageCosts
from topoopt.simulate.llm_training.costs import GroupRates
from topoopt.simulate.llm_training.strategies import StrategyColumns, columns_of
from topoopt.simulate.llm_training.times import iteration_times, order_bounds, stage_parts
from topoopt.simulate.pipeline import pipeline_time
from topoopt.workloads.language_models import LANGUAGE_MODELS

COUNT = 4000
"""Strategies evaluated at once: columns that stay in the cache."""

FABRICS = ("direct-connect", "torus-3d", "rail-only", "rail-fat-tree", "ideal-switch")


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
        seconds = best_of(partial(_bounded, own, columns))
        text = f"bounds of orders, {name}, strategies a second"
        found.append(Figure(text, COUNT / seconds, "1/s", 1e6, higher_is_better=True))
    return [*found, *_proofs(), _schedule(), _iteration(), _five_fabrics()]


def _bounded(problem: LlmTrainingProblem, columns: StrategyColumns) -> None:
    rates = GroupRates.of(problem, columns)
    order_bounds(problem, columns, stage_parts(problem, columns, rates))


def _iteration() -> Figure:
    """One strategy on 16 384 GPUs, by the order of its passes."""
    problem = training("llama3-405b", 16384, 2048, 8192)
    columns = columns_of([strategy(tensor=8, pipeline=16, data=128, zero=1)], problem.model.layers)
    seconds = best_of(partial(iteration_times, problem, columns))
    return Figure("an iteration of 16384 GPUs followed", seconds * 1e3, "ms", 50.0)


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


def _five_fabrics() -> Figure:
    """The best strategy with network and map on each of five fabrics: once, as it takes a minute."""
    problem = replace(training("llama3-405b", 1024, 1536, 8192), fabrics=FABRICS)
    return Figure("llama3-405b on five fabrics, 1024 GPUs, processor", fabrics_s(problem), "s", 60.0)


def fabrics_s(problem: LlmTrainingProblem) -> float:
    """Seconds of the processor that the search on all fabrics of a problem takes; ten strategies on the first."""
    began, stop, count = time.process_time(), Stop(), 1 + problem.top
    candidates = Candidates(problem, search(problem, stop, count=count), stop)
    for place, fabric in enumerate(problem.fabrics):
        planned_on(problem, fabric, candidates, stop, 1 if place else count)
    return time.process_time() - began
