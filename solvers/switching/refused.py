"""Why no strategy of a space can stand on rails."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from solvers.llm_training.records import rows_of_shape
from solvers.llm_training.row_strategies import strategy_of
from solvers.llm_training.shapes import strategy_shapes
from topoopt.core.errors import InputError
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import IDEAL_SWITCH
from topoopt.simulate.switching import rail_job

MOST_ASKED = 200
"""Strategies that are asked why, one of a shape."""


def reasons_off_rails(problem: LlmTrainingProblem) -> tuple[int, tuple[str, ...]]:
    """How many strategies were asked, one of each shape, and what keeps them off the rails, the most common first.

    0: the space is empty without rails too.
    """
    settings, anywhere = problem.switching, replace(problem, fabrics=(IDEAL_SWITCH,), switching=None)
    assert settings is not None
    asked, found = 0, Counter[str]()
    for shape in strategy_shapes(anywhere):
        rows = rows_of_shape(anywhere, shape)
        if asked == MOST_ASKED:
            break
        if not len(rows):
            continue
        asked += 1
        try:
            rail_job(problem, strategy_of(anywhere, shape, rows[0]), settings)
        except InputError as error:
            found.update({f"{one.message} ({one.path}: {one.value}; allowed: {one.allowed})" for one in error.problems})
    return asked, tuple(text for text, _ in found.most_common())
