"""The methods of `topoopt solve` on language models in training: one literal table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial

from solvers.llm_training.network.fabrics import fabric_problems
from solvers.llm_training.network.plan import best_on_fabric
from solvers.llm_training.search import SearchedSpace, search
from solvers.stop import Stop
from topoopt.core.errors import InfeasibleError, LimitError, Problem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import IDEAL_SWITCH, FabricOutcome, RankedStrategy
from topoopt.core.units import GIB
from topoopt.kinds.kind import Effort, Method, table

MORE = 64
"""Strategies that are ranked when those known are not enough."""


@dataclass(frozen=True)
class FoundTraining:
    """What a method found.

    Attributes:
        space: on an ideal switch.
        fabrics: on the other fabrics, in the order of the instance.
    """

    space: SearchedSpace
    fabrics: tuple[FabricOutcome, ...] = ()


def _branch_and_bound(problem: LlmTrainingProblem, effort: Effort) -> FoundTraining:
    def tell(found: SearchedSpace, done: int, total: int) -> None:
        effort.tell("shapes of strategies", done, total)
        if found.ranked:
            effort.keep(partial(FoundTraining, found))

    space = search(problem, effort.stop, count=1 + problem.top, tell=tell)
    if not space.ranked:
        raise _nothing(problem, space)
    others = [name for name in problem.fabrics if name != IDEAL_SWITCH]
    found = FoundTraining(space)
    for done, name in enumerate(others):
        effort.tell("fabrics", done, len(others))
        if effort.stop.reason() is not None:
            return replace(found, space=replace(space, stopped_by=effort.stop.reason() or space.stopped_by))
        outcome = best_on_fabric(problem, name, lambda: _candidates(problem, space, effort.stop), effort.stop)
        found = replace(found, fabrics=(*found.fabrics, outcome))
        effort.keep(partial(FoundTraining, space, found.fabrics))
    return found


def _candidates(problem: LlmTrainingProblem, space: SearchedSpace, stop: Stop) -> Iterator[RankedStrategy]:
    """Strategies by their time on an ideal switch: those that are known, then as many as are asked for."""
    seen = 0
    while True:
        yield from space.ranked[seen:]
        if len(space.ranked) == seen or stop.reason() is not None:
            return
        seen = len(space.ranked)
        space = search(problem, stop, count=max(MORE, 4 * seen))


def _nothing(problem: LlmTrainingProblem, found: SearchedSpace) -> Exception:
    if found.left:
        return LimitError(f"no strategy was found to fit in {found.records} of them when the limit came")
    if not found.records:
        return InfeasibleError("the rules and the instance leave no strategy at all")
    least, shape = min((line.least_bytes or 0.0, line.shape) for line in found.shapes)
    usable = (problem.cluster.usable_bytes or 0) / GIB
    parts = ", ".join(f"{name} {value}" for name, value in asdict(shape).items() if value > 1) or "one GPU"
    return InfeasibleError(
        f"none of {found.records} strategies fits in the {usable:.4g} GiB of a GPU that training may take; "
        f"the smallest takes {least / GIB:.4g} GiB ({parts})"
    )


def _covers(problem: LlmTrainingProblem) -> Problem | None:
    if problem.calculon is not None:
        text, allowed = "not searched with a proof", "roofline; topoopt evaluate --best goes through all executions"
        return Problem(text, path="time_model", value=problem.time_model, allowed=allowed)
    wrong = fabric_problems(problem.cluster, problem.fabrics)
    if not wrong and problem.fabrics[0] != IDEAL_SWITCH:
        text, allowed = "all others are held against it", f"{IDEAL_SWITCH} first, others behind it"
        return Problem(text, path="fabrics[0]", value=problem.fabrics[0], allowed=allowed)
    return wrong[0] if wrong else None


LLM_TRAINING_METHODS = table(
    Method("auto", "branch and bound over the ways to divide the GPUs", _branch_and_bound, _covers),
    Method("branch-and-bound", "the same", _branch_and_bound, _covers),
)
