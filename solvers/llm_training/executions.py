"""The best executions of the Calculon model, by going through all of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import numpy as np

from solvers.llm_training.search import SearchedSpace
from solvers.stop import Stop
from topoopt.core.llm_training import LlmTrainingProblem, TrainingMemory
from topoopt.core.llm_training_plan import RankedStrategy, ShapeOutcome, ShapeVerdict, StrategyShape
from topoopt.core.verdict import StopReason
from topoopt.simulate.llm_training.calculon_estimate import calculon_estimate, calculon_steps
from topoopt.simulate.llm_training.calculon_space import calculon_shapes, executions

BLOCK = 1 << 14
"""Executions that are evaluated together."""


def search_executions(
    problem: LlmTrainingProblem,
    stop: Stop,
    *,
    count: int,
    tell: Callable[[SearchedSpace, int, int], None] | None = None,
) -> SearchedSpace:
    """Go through the space of an instance with `time_model: calculon`.

    The bound of a shape is its fastest execution, whether it fits or not; 0 of those that a limit left.

    Args:
        count: how many executions are ranked: by time, then memory, then their order in the space.
        tell: called with what is found, shapes that are done, and of how many, after each shape.
    """
    assert problem.calculon is not None
    shapes = calculon_shapes(problem, problem.calculon)
    ranked: tuple[RankedStrategy, ...] = ()
    lines: list[ShapeOutcome] = []
    found = SearchedSpace((), (), StopReason.CONVERGED)
    for done, shape in enumerate(shapes):
        reason = stop.reason()
        if reason is not None:
            left = (ShapeOutcome(one, ShapeVerdict.LEFT, 0.0) for one in shapes[done:])
            return SearchedSpace(ranked, (*lines, *left), reason)
        line, best = _of_shape(problem, shape, count)
        if line is not None:
            lines.append(line)
        ranked = _fastest((*ranked, *best), count)
        found = SearchedSpace(ranked, tuple(lines), StopReason.CONVERGED)
        if tell is not None:
            left = (ShapeOutcome(one, ShapeVerdict.LEFT, 0.0) for one in shapes[done + 1 :])
            tell(SearchedSpace(ranked, (*lines, *left), StopReason.TIME), done + 1, len(shapes))
    return found


def _of_shape(
    problem: LlmTrainingProblem, shape: StrategyShape, count: int
) -> tuple[ShapeOutcome | None, tuple[RankedStrategy, ...]]:
    """What is known of a shape, None where it has no execution, and its fastest that fit."""
    records = fitting = 0
    fastest = least = np.inf
    best: tuple[RankedStrategy, ...] = ()
    usable = np.inf if problem.usable_bytes is None else problem.usable_bytes
    rest = executions(problem, shape)
    while block := tuple(islice(rest, BLOCK)):
        step = calculon_steps(problem, block)
        seconds, memory = step.total, step.memory
        fits = memory <= usable
        records, fitting = records + len(block), fitting + int(fits.sum())
        fastest, least = min(fastest, float(seconds.min())), min(least, float(memory.min()))
        order = np.lexsort((memory[fits], seconds[fits]))[:count]
        places = np.flatnonzero(fits)[order]
        own = (RankedStrategy(block[place], float(seconds[place]), float(memory[place])) for place in places)
        best = _fastest((*best, *own), count)
    if not records:
        return None, ()
    verdict = ShapeVerdict.SEARCHED if fitting else ShapeVerdict.MEMORY
    return ShapeOutcome(shape, verdict, fastest, records, fitting, least), best


def _fastest(found: tuple[RankedStrategy, ...], count: int) -> tuple[RankedStrategy, ...]:
    return tuple(sorted(found, key=lambda one: (one.iteration_time_s, one.memory_bytes))[:count])


def least_memory_of_executions(problem: LlmTrainingProblem, shape: StrategyShape) -> TrainingMemory:
    """Bytes of a GPU under the execution of a shape that takes least."""
    known = tuple(executions(problem, shape))
    return calculon_estimate(problem, known[int(calculon_steps(problem, known).memory.argmin())]).memory
