"""Strategies of a solution: each of the space of the instance, and once in its list."""

from __future__ import annotations

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import StrategyShape
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.parallelism import RANK_ORDERS, ParallelStrategy
from topoopt.verify.laws.findings import ViolationLog
from topoopt.verify.llm_training.divisions import layers_of, row_in
from topoopt.verify.llm_training.lines import shape_of
from topoopt.verify.llm_training.space import BALANCED, orders_of, records_of, shapes_of, strategies_of
from topoopt.verify.llm_training.work import WorkBudget

LISTED = 1.0
"""Events for each strategy that is listed."""


def check_strategies(
    findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution, budget: WorkBudget
) -> None:
    """Each is of the space, and stands once in its list."""
    shapes = set(shapes_of(problem))
    listed: dict[StrategyShape, set[tuple[float, ...]]] = {}

    def of_space(one: ParallelStrategy) -> bool:
        shape = shape_of(one)
        if shape not in shapes:
            return False
        if shape not in listed:
            rows = strategies_of(problem, shape)
            budget.take(LISTED * len(rows))
            listed[shape] = set(map(tuple, rows.tolist()))
        return row_in(problem, one) in listed[shape]

    lists = {"ranked": [one.strategy for one in solution.ranked]}
    for place, fabric in enumerate(solution.fabrics):
        lists[f"fabrics[{place}]"] = [fabric.plan.strategy, *(one.strategy for one in fabric.next)]
        if fabric.pods is not None:
            lists[f"fabrics[{place}].pods"] = [one.strategy for one in fabric.pods.tried]
    for where, strategies in lists.items():
        seen = set()
        for place, one in enumerate(strategies):
            wrong = "stands twice" if one in seen else _outside(problem, one)
            seen.add(one)
            if not wrong and not of_space(one):
                wrong = "is none of the space"
            if wrong:
                findings.add("strategy", f"{where}: strategy {place} {wrong}")


def _outside(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> str:
    """What is wrong with the layers of its chunks or its order."""
    p, v = strategy.pipeline, strategy.chunks
    if len(strategy.stage_layers) != p * v or sum(strategy.stage_layers) != problem.model.layers:
        return "does not have all layers on all chunks"
    own = [strategy.stage_layers[rank::p] for rank in range(p)]
    if any(max(chunks) - min(chunks) > 1 for chunks in own):
        return "has chunks of a rank that differ by more than a layer"
    due = [sorted(chunks) for chunks in own]
    if p > 1:
        due[-1] = [*due[-1][1:], due[-1][0]]
    between = [sum(chunks) for chunks in own[1:-1]]
    balanced = row_in(problem, strategy)[-2] == BALANCED
    if due != [list(chunks) for chunks in own] or (not balanced and between != sorted(between, reverse=True)):
        return "has its long chunks at other turns than all ranks"
    if balanced and strategy.stage_layers != _balanced(problem, strategy):
        return f"has layers {' '.join(map(str, strategy.stage_layers))}, which are not balanced"
    if RANK_ORDERS.index(strategy.order) not in orders_of(problem, shape_of(strategy)):
        return "has another order of ranks"
    return ""


def _balanced(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> tuple[int, ...]:
    due = layers_of(problem, records_of([row_in(problem, strategy)]), strategy.pipeline, strategy.chunks)
    return tuple(int(one) for one in due[:, 0])
