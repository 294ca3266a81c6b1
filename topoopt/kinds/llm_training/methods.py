"""The methods of `topoopt solve` on language models in training: one literal table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial

from solvers.llm_training.search import SearchedSpace, search
from topoopt.core.errors import InfeasibleError, LimitError, Problem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import IDEAL_SWITCH, FabricOutcome
from topoopt.core.units import GIB
from topoopt.kinds.kind import Effort, Method, table


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
    return FoundTraining(space)


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
    others = [name for name in problem.fabrics if name != IDEAL_SWITCH]
    if others:
        text = "strategies are searched on an ideal switch only"
        return Problem(text, path="fabrics", value=", ".join(others), allowed=IDEAL_SWITCH)
    return None


LLM_TRAINING_METHODS = table(
    Method("auto", "branch and bound over the ways to divide the GPUs", _branch_and_bound, _covers),
    Method("branch-and-bound", "the same", _branch_and_bound, _covers),
)
