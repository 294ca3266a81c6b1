"""The methods of `topoopt solve` on language models in training: one literal table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial

from solvers.collective.group_options import too_many_servers
from solvers.dag_topology.pod_search import FoundInPods
from solvers.llm_training.candidates import Candidates
from solvers.llm_training.pins import pins_in_the_way
from solvers.llm_training.planned import Planned, planned_on, planned_problems
from solvers.llm_training.search import SearchedSpace, least_memory, search
from solvers.stop import Stop, first_part
from solvers.switching.refused import reasons_off_rails
from solvers.switching.strategies import FoundOnRails
from topoopt.core.errors import InfeasibleError, LimitError, Problem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import DIRECT_FABRICS, IDEAL_SWITCH, PHOTONIC_RAILS
from topoopt.core.units import GIB
from topoopt.core.verdict import StopReason
from topoopt.kinds.kind import Effort, Method, table

SEARCH_SHARE = 0.5
"""Of the time of a limit, for strategies on an ideal switch; the rest is for networks that carry them."""


SHOWN_REASONS = 3
"""Of those that keep strategies off rails."""


@dataclass(frozen=True)
class FoundTraining:
    """What a method found.

    Attributes:
        space: on an ideal switch.
        networks: on the first fabrics of the instance, in its order.
        stopped_by: why no more.
    """

    space: SearchedSpace
    networks: tuple[Planned, ...]
    stopped_by: StopReason


def _branch_and_bound(problem: LlmTrainingProblem, effort: Effort) -> FoundTraining:
    count = 1 + problem.top
    network_first = problem.fabrics[0] != IDEAL_SWITCH

    def tell(found: SearchedSpace, done: int, total: int) -> None:
        effort.tell("shapes of strategies", done, total)
        if found.ranked:
            effort.keep(_in_haste(problem, found, effort.stop), rough=network_first)

    left_s = effort.stop.remaining_s()
    first = first_part(effort.stop, SEARCH_SHARE, left_s) if network_first and left_s is not None else effort.stop
    space = search(problem, first, count=count, tell=tell)
    if not space.ranked:
        raise nothing_found(problem, space)
    candidates = Candidates(problem, space, effort.stop)
    networks: tuple[Planned, ...] = ()
    for done, name in enumerate(problem.fabrics):
        effort.tell("fabrics", done, len(problem.fabrics))
        if networks and effort.stop.reason() is not None:
            break
        wanted = 1 if networks else count
        networks += (planned_on(problem, name, candidates, effort.stop, wanted),)
        effort.keep(partial(_found, problem, candidates.space, networks, count, effort.stop))
    return _found(problem, candidates.space, networks, count, effort.stop)


def _in_haste(problem: LlmTrainingProblem, space: SearchedSpace, stop: Stop) -> Callable[[], FoundTraining]:
    """What a search that is left amounts to: the first fabric alone, with the strategies that are known."""

    def made() -> FoundTraining:
        first = problem.fabrics[0]
        network = planned_on(problem, first, space.ranked[:1], stop)
        return _found(problem, space, (network,), len(space.ranked), stop)

    return made


def _found(
    problem: LlmTrainingProblem, space: SearchedSpace, networks: tuple[Planned, ...], count: int, stop: Stop
) -> FoundTraining:
    """With as many strategies as are asked for, or as say what circuits cannot better."""
    rails = [one for one in networks if isinstance(one, FoundOnRails)]
    limited = stop.reason() if any(networks) else None
    limited = next((one.limited for one in networks if isinstance(one, FoundOnRails | FoundInPods)), limited)
    if len(networks) < len(problem.fabrics):  # asked for by a search that is left, maybe before its own time is over
        limited = limited or stop.reason() or StopReason.TIME
    count = max([count, *(1 + len(one.plan.bounds_s) for one in rails)])
    return FoundTraining(replace(space, ranked=space.ranked[:count]), networks, limited or space.stopped_by)


def nothing_found(problem: LlmTrainingProblem, found: SearchedSpace) -> Exception:
    """Why a search found nothing: a limit, no strategy, or the memory that the smallest takes."""
    if found.left:
        return LimitError(f"no strategy was found to fit in {found.records} of them when the limit came")
    if not found.records:
        asked, known = reasons_off_rails(problem) if PHOTONIC_RAILS in problem.fabrics else (0, ())
        if not asked:
            pods = "" if problem.pods is None else f", or none that pods of {problem.pods.gpus} GPUs hold"
            return InfeasibleError(f"the rules and the instance leave no strategy at all{pods}{_instead(problem)}")
        reasons = "; ".join(known[:SHOWN_REASONS]) or "passes gather weights over the rail, or hold the model twice"
        return InfeasibleError(f"no strategy of the instance can stand on rails: {reasons}")
    least, shape = min((line.least_bytes or 0.0, line.shape) for line in found.shapes)
    usable = (problem.usable_bytes or 0) / GIB
    parts = ", ".join(f"{name} {value}" for name, value in asdict(shape).items() if value > 1) or "one GPU"
    held = asdict(least_memory(problem, shape))
    why = ", ".join(f"{name} {value / GIB:.4g}" for name, value in sorted(held.items(), key=lambda one: -one[1]))
    enough = math.ceil((least + problem.cluster.headroom_bytes) / GIB * 100) / 100
    return InfeasibleError(
        f"none of {found.records} strategies fits in the {usable:.4g} GiB of a GPU that training may take; "
        f"the smallest takes {least / GIB:.4g} GiB ({parts}): {why}; gpu_memory_gib: {enough:.10g} would do"
    )


def _instead(problem: LlmTrainingProblem) -> str:
    """What of an instance, changed alone, leaves a strategy."""
    cluster, batch = problem.cluster, problem.batch
    if pins := pins_in_the_way(problem):
        return f" on {cluster.gpus} GPUs; they would if {', or '.join(pins)}"
    return (
        f"; no pin alone is in the way, of {cluster.gpus} GPUs and {batch.sequences} sequences of {batch.length} tokens"
    )


def _covers(problem: LlmTrainingProblem) -> Problem | None:
    wrong = planned_problems(problem.cluster, problem.fabrics)
    if not wrong and any(name in DIRECT_FABRICS for name in problem.fabrics):
        wrong = too_many_servers(problem.search.allreduce, problem.cluster.servers)
    return wrong[0] if wrong else None


LLM_TRAINING_METHODS = table(
    Method("auto", "branch-and-bound", _branch_and_bound, _covers),
    Method("branch-and-bound", "branch and bound over the ways to divide the GPUs", _branch_and_bound, _covers),
)
