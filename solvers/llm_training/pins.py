"""Why a space holds no strategy: the pins of an instance that, dropped alone, leave some."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from solvers.llm_training.records import rows_of_shape
from solvers.llm_training.shapes import strategy_shapes
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import StrategyShape

SHOWN = 3
"""Values that a part could have, at most."""


def pins_in_the_way(problem: LlmTrainingProblem) -> list[str]:
    """Each part of the space that leaves no strategy, and values of shapes that would."""
    found = []
    for field in fields(problem.space):
        if not getattr(problem.space, field.name) or field.name == "layers":
            continue
        free: dict[str, Any] = {field.name: () if field.name == "short_ends" else None}
        freed = replace(problem, space=replace(problem.space, **free))
        shapes = list(_held(freed))
        if shapes:
            values = sorted({getattr(one, field.name) for one in shapes if hasattr(one, field.name)})
            told = ", ".join(map(str, values[:SHOWN])) + (", ..." if len(values) > SHOWN else "")
            found.append(f"strategy.{field.name} were {told or 'otherwise'}")
    return found


def _held(problem: LlmTrainingProblem) -> Iterator[StrategyShape]:
    """Shapes of which there is a strategy."""
    return (shape for shape in strategy_shapes(problem) if len(rows_of_shape(problem, shape, free=True)))
