"""A language model in training whose failures are studied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvers.failures.training import TrainingEvaluator
from topoopt.analyses.resilience.subject import Subject
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.failures import Failure
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import DIRECT_FABRICS
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.verdict import Tolerance
from topoopt.files.documents import Document
from topoopt.kinds.llm_training.read import read_llm_training
from topoopt.verify.failures.training import check_training_repair
from topoopt.verify.laws.findings import Violation, differs
from topoopt.verify.llm_training.check import check_llm_training

NOTES = (
    "A failed server is evaluated as one that forwards no longer: its GPUs are replaced by those of a spare, which the "
    "circuits stated patch in its place; then an iteration takes the time it took before, as it does where a cube of a "
    "torus is replaced whole. A failed interface is the failure of its link.",
)


@dataclass(frozen=True, eq=False)
class TrainingSubject(Subject):
    """A plan on direct links."""

    evaluator: TrainingEvaluator

    def violations(self, failure: Failure) -> Sequence[Violation]:
        """Routes and rings that run after a failure against the laws."""
        repair, evaluator = self.evaluator.repair(failure), self.evaluator
        if repair.network is None:
            return check_training_repair(evaluator.topology, repair.outcome, {}, ())
        table = repair.network.routes
        routes: dict[tuple[int, int], list[tuple[tuple[int, ...], float]]] = {}
        for place, (source, target) in enumerate(zip(table.source.tolist(), table.target.tolist(), strict=True)):
            paths = range(int(table.pair_ptr[place]), int(table.pair_ptr[place + 1]))
            routes[source, target] = [(table.path(path), float(table.share[path])) for path in paths]
        rings = [
            (tuple(before[0]), tuple(ring))
            for family, classes in repair.network.orders.items()
            for now, own in zip(classes, evaluator.orders[family], strict=True)
            for group, before in zip(now.tolist(), np.asarray(own).tolist(), strict=True)
            for ring in group
        ]
        return check_training_repair(evaluator.topology, repair.outcome, routes, rings)


def training_subject(solution: LlmTrainingSolution, problem: LlmTrainingProblem | None) -> TrainingSubject:
    """The plan on the first fabric of direct links.

    Args:
        problem: None: as it stands in the solution.

    Raises:
        InputError: there is no such fabric, no instance, or families reduce on schedules.
        CheckError: the solution does not hold for the instance.
    """
    if problem is None:
        if solution.instance is None:
            raise InputError([Problem("no instance stands in the solution", path="--instance", allowed="its file")])
        problem = read_llm_training(Document("solution#/instance", solution.instance, lambda _: {}))
    if wrong := check_llm_training(problem, solution).violations:
        raise CheckError("\n".join(["the checker rejects the solution:", *map(str, wrong)]))
    direct = [one for one in solution.fabrics if one.fabric in DIRECT_FABRICS and one.plan.network.loads]
    if not direct:
        text = "no plan on direct links between servers"
        raise InputError([Problem(text, path="fabrics", allowed=f"one of {', '.join(DIRECT_FABRICS)}")])
    first = direct[0]
    if first.plan.network.schedules:
        text = "failures are followed where families reduce on rings"
        raise InputError([Problem(text, path="search.allreduce", allowed="rings")])
    evaluator = TrainingEvaluator(problem, first.plan)
    if differs(evaluator.nominal, 1e3 * first.iteration_time_s, Tolerance.ROUNDING.relative):
        raise CheckError(f"the plan on {first.fabric} takes {evaluator.nominal!r} ms, another time stands in its file")
    notes = (f"The plan on {first.fabric}.", *NOTES)
    return TrainingSubject(solution, evaluator, "iteration_time", "ms", notes)
