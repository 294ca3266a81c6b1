"""Shapes of strategies: how GPUs are divided among the dimensions, before schedules, micro-batches and memory.

Each shape stands once: what plays no part has one value (canonical form).
"""

from __future__ import annotations

from collections.abc import Iterator

from topoopt.core.arrays import divisors
from topoopt.core.llm_training import END_SLOTS, LlmTrainingProblem
from topoopt.core.llm_training_plan import StrategyShape


def strategy_shapes(problem: LlmTrainingProblem) -> list[StrategyShape]:
    """All that the rules and the space of the instance allow."""
    space, gpus, batch = problem.space, problem.cluster.gpus, problem.batch
    found = []
    for t in _tensors(problem):
        for c in _allowed(divisors(gpus // t), space.context):
            if c > 1 and batch.length % (2 * c):
                continue
            for p in _allowed(divisors(gpus // (t * c)), space.pipeline):
                d = gpus // (t * c * p)
                if p > problem.model.layers + END_SLOTS or batch.sequences % d or not _allowed([d], space.data):
                    continue
                if problem.pods is None or problem.pods.holds(t, c, gpus // p):
                    found += [StrategyShape(t, c, p, d, x, y) for x, y in _experts(problem, gpus // p)]
    return [shape for shape in found if _pods_hold_experts(problem, shape)]


def _pods_hold_experts(problem: LlmTrainingProblem, shape: StrategyShape) -> bool:
    """Whether pods, where there are any, hold whole groups of experts, or a group fills whole pods."""
    if problem.pods is None:
        return True
    gpus, experts = problem.pods.gpus, shape.expert
    return shape.expert_tensor == 1 and (gpus % experts == 0 or experts % gpus == 0)


def _allowed(values: list[int], stated: tuple[int, ...] | None) -> list[int]:
    return values if stated is None else [value for value in values if value in stated]


def _tensors(problem: LlmTrainingProblem) -> Iterator[int]:
    model = problem.model
    for t in _allowed(divisors(problem.cluster.gpus), problem.space.tensor):
        heads = model.latent is not None or model.kv_heads % t == 0 or t % model.kv_heads == 0
        if heads and not any(whole % t for whole in (model.heads, model.hidden, model.ffn_hidden)):
            yield t


def _experts(problem: LlmTrainingProblem, of_stage: int) -> Iterator[tuple[int, int]]:
    """Experts' parts of the GPUs of a stage."""
    experts, space = problem.model.experts, problem.space
    if experts is None:
        if _allowed([1], space.expert) and _allowed([1], space.expert_tensor):
            yield 1, 1
        return
    for x in _allowed(divisors(experts.count), space.expert):
        for y in _allowed(divisors(experts.hidden), space.expert_tensor):
            if of_stage % (x * y) == 0:
                yield x, y
