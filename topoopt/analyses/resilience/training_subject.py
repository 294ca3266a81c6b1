"""A language model in training whose failures are studied, on direct links or behind switches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from solvers.failures.training import TrainingFailures
from solvers.failures.training_links import TrainingEvaluator
from solvers.failures.training_rails import RAIL_FABRICS, RailEvaluator
from topoopt.analyses.resilience.subject import Subject
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.failures import Failure
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import DIRECT_FABRICS, IDEAL_SWITCH, PHOTONIC_RAILS, POD_CIRCUITS, SWITCHED_FABRICS
from topoopt.core.proofs import Tolerance
from topoopt.core.result import Result
from topoopt.kinds.llm_training.figures import FabricFigures, LlmTrainingFigures
from topoopt.verify.checker import Violation, differs
from topoopt.verify.failures import check_training_repair
from topoopt.verify.llm_training.check import check_llm_training

DIRECT_NOTE = (
    "A failed server is evaluated as one that forwards no longer: its GPUs are replaced by those of a spare, which the "
    "circuits stated patch in its place; then an iteration takes the time it took before, as it does where a cube of a "
    "torus is replaced whole. A failed interface is the failure of its link."
)
SWITCHED_NOTE = (
    "Nodes from {hosts} on are switches. A failed interface is the failure of its link. A failed server stops the job "
    "until a spare behind the same switches takes its place, and then changes nothing."
)
RAIL_NOTE = (
    "Switch i is all switches of rail i. A GPU whose interface leads nowhere sends over those of the others in its "
    "server, through the network inside it."
)


@dataclass(frozen=True, eq=False)
class TrainingSubject(Subject):
    """A plan on a network."""

    evaluator: TrainingFailures

    def violations(self, failure: Failure) -> Sequence[Violation]:
        """Routes and rings that run after a failure against the laws."""
        repair, evaluator = self.evaluator.repair(failure), self.evaluator
        if repair.network is None:
            return check_training_repair(evaluator.topology, repair.outcome, {}, ())
        rings = evaluator.reordered(repair)
        spine = isinstance(evaluator, RailEvaluator) and evaluator.spine
        return check_training_repair(evaluator.topology, repair.outcome, evaluator.ways(repair), rings, spine=spine)


def training_subject(
    solution: Result[Any, Any], problem: LlmTrainingProblem | None, fabric: str | None = None
) -> TrainingSubject:
    """The plan on a fabric.

    Args:
        problem: None: as it stands in the solution.
        fabric: None: the first one on whose network anything is sent.

    Raises:
        InputError: there is no such fabric, no instance, or families reduce on schedules.
        CheckError: the solution does not hold for the instance.
    """
    if problem is not None:
        solution = replace(solution, problem=problem)
    if solution.problem is None:
        raise InputError([Problem("no instance stands in the solution", path="--instance", allowed="its file")])
    problem = solution.problem
    if wrong := check_llm_training(problem, solution).violations:
        raise CheckError("\n".join(["the checker rejects the solution:", *map(str, wrong)]))
    chosen = _plan_on(solution, fabric)
    if chosen.plan.network.schedules:
        text = "failures are followed where families reduce on rings"
        raise InputError([Problem(text, path="search.allreduce", allowed="rings")])
    evaluator: TrainingFailures
    if chosen.fabric in RAIL_FABRICS:
        evaluator = RailEvaluator(problem, chosen.plan)
    else:
        evaluator = TrainingEvaluator(problem, chosen.plan)
    if differs(evaluator.nominal, 1e3 * chosen.iteration_time_s, Tolerance.ROUNDING.relative):
        raise CheckError(f"the plan on {chosen.fabric} takes {evaluator.nominal!r} ms, another time stands in its file")
    notes = [f"The plan on {chosen.fabric}."]
    if chosen.fabric in DIRECT_FABRICS:
        notes.append(DIRECT_NOTE)
    else:
        notes.append(SWITCHED_NOTE.format(hosts=evaluator.topology.hosts))
        notes += [RAIL_NOTE] if chosen.fabric in RAIL_FABRICS else []
    return TrainingSubject(solution, evaluator, "iteration_time", "ms", tuple(notes))


def _plan_on(solution: Result[Any, Any], fabric: str | None) -> FabricFigures:
    """What failures are studied of.

    Raises:
        InputError: there is no such plan, or nothing in it that fails.
    """
    option = "fabrics" if fabric is None else "--fabric"
    figures: LlmTrainingFigures = solution.figures
    planned = {one.fabric: one for one in figures.fabrics}
    if fabric is not None and fabric not in planned:
        raise InputError([Problem("no plan on this fabric", path=option, value=fabric, allowed=", ".join(planned))])
    chosen = [one for one in figures.fabrics if fabric in (None, one.fabric)]
    real = [one for one in chosen if one.fabric not in (IDEAL_SWITCH, PHOTONIC_RAILS, POD_CIRCUITS)]
    others = ", ".join(name for name in (*DIRECT_FABRICS, *SWITCHED_FABRICS) if name != IDEAL_SWITCH)
    if not real and chosen[0].fabric == PHOTONIC_RAILS:
        text = "circuits that are set anew: topoopt reconfigure --failed says what dead interfaces do to a step"
        raise InputError([Problem(text, path=option, value=PHOTONIC_RAILS, allowed=f"a plan on one of {others}")])
    if not real and chosen[0].fabric == POD_CIRCUITS:
        text = "failures of circuits between pods are not followed"
        raise InputError([Problem(text, path=option, value=POD_CIRCUITS, allowed=f"a plan on one of {others}")])
    if not real:
        text = "an ideal switch stands for no devices that could fail, nothing fills it"
        raise InputError([Problem(text, path=option, value=IDEAL_SWITCH, allowed=f"a plan on one of {others}")])
    sending = [one for one in real if one.loads]
    if not sending:
        text = "nothing leaves a server in this plan, so no failure of the network delays it"
        raise InputError([Problem(text, path=option, value=real[0].fabric, allowed="a plan that sends")])
    return sending[0]
