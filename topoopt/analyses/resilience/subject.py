"""A solution whose failures are studied: how they are evaluated, and how their repairs are checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from solvers.failures.damage import PlanTraffic
from solvers.failures.evaluator import Evaluator
from solvers.failures.job import JobEvaluator
from solvers.failures.network import NetworkEvaluator
from solvers.stop import Stop
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.failures import Failure
from topoopt.core.job import CoOptimisation, JobPlan
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.result import Result, SolutionHead
from topoopt.kinds.network import check as check_network
from topoopt.kinds.network.figures import NetworkFigures
from topoopt.simulate.lower import build_task_graph
from topoopt.verify.checker import BRIEF, Violation, ViolationLog
from topoopt.verify.failures import check_distances, check_repair, check_rerouted
from topoopt.verify.job.check import CHECKER
from topoopt.verify.network.checker import NetworkResult

RELAY_NOTE = (
    "A failed server is evaluated as one that forwards no longer: it computes, sends and receives as before. Should "
    "the whole server fail, the job stops until a spare is patched in its place by the circuits stated, and then takes "
    "the time it took before. Distances and disconnected pairs are those of the servers left."
)
TRAFFIC_NOTE = (
    "Without the instance the iteration cannot be simulated: values are the time the busiest link carries traffic. "
    "Give --instance FILE for iteration times."
)
DEMAND_NOTE = "Demand from and to failed servers goes with them; all other demand is routed anew."
PLANE_NOTE = "A failed optical switch takes one interface of every server: the arcs of its permutation."


@dataclass(frozen=True, eq=False)
class Subject(ABC):
    """A solution under study.

    Attributes:
        solution: whose failures are studied.
        evaluator: of failures.
        objective, unit: of values.
        notes: what is assumed.
    """

    solution: SolutionHead
    evaluator: Evaluator
    objective: str
    unit: str
    notes: tuple[str, ...]

    @abstractmethod
    def violations(self, failure: Failure) -> Sequence[Violation]:
        """What the checker says of the repair of a failure that was evaluated."""


@dataclass(frozen=True, eq=False)
class JobSubject(Subject):
    """The plan of a job; `instance` where it is known."""

    solution: Result[CoOptimisation, JobPlan]
    evaluator: JobEvaluator
    instance: CoOptimisation | None

    def violations(self, failure: Failure) -> Sequence[Violation]:
        """Repaired routes and rings against the laws, or distances alone where nothing can be repaired."""
        repair = self.evaluator.repair(failure)
        if repair.plan is None:
            return _distances_only(self.evaluator, failure)
        plan, rate = repair.plan, self.solution.figures.cluster.link_bytes_per_ms
        return check_repair(
            self.evaluator.topology, self.solution.figures.demand, repair.outcome, plan.routes, plan.rings, rate
        )


@dataclass(frozen=True, eq=False)
class NetworkSubject(Subject):
    """The routing of a demand."""

    solution: NetworkResult
    evaluator: NetworkEvaluator

    def violations(self, failure: Failure) -> Sequence[Violation]:
        """The routing after the failure against the laws."""
        found = self.evaluator.repair(failure)
        if found.routing is None:
            return _distances_only(self.evaluator, failure)
        return check_rerouted(
            self.evaluator.topology,
            self.evaluator.demand,
            found.outcome,
            found.topology,
            found.routing.flow,
            found.routing.certificate,
        )


def _distances_only(evaluator: Evaluator, failure: Failure) -> Sequence[Violation]:
    findings = ViolationLog()
    check_distances(findings, evaluator.topology, evaluator.outcome(failure))
    return findings.violations()


def _refuse(violations: Sequence[Violation]) -> None:
    if violations:
        text = "\n".join(f"{violation.code}: {violation.message}" for violation in violations)
        raise CheckError(f"the checker rejects the solution:\n{text}")


def job_subject(solution: Result[CoOptimisation, JobPlan], instance: CoOptimisation | None) -> JobSubject:
    """The plan of a job, simulated where its instance is known.

    Raises:
        CheckError: the solution does not hold for the instance.
        InputError: AllReduces run on schedules.
    """
    graph = None
    if instance is not None:
        _refuse(CHECKER(instance, solution, BRIEF).violations)
        solution = replace(solution, problem=instance)
        graph = build_task_graph(instance.cluster, instance.workload, solution.plan.strategy)
    plan, figures = solution.plan, solution.figures
    plan.require_rings("failures")
    traffic = PlanTraffic(plan.topology, plan.routes, plan.rings, figures.demand)
    evaluator = JobEvaluator(figures.cluster, traffic, graph)
    if instance is None:
        return JobSubject(solution, evaluator, "busiest_link", "ms", (TRAFFIC_NOTE, RELAY_NOTE, PLANE_NOTE), None)
    return JobSubject(solution, evaluator, "iteration_time", "ms", (RELAY_NOTE, PLANE_NOTE), instance)


def network_subject(
    solution: NetworkResult, problem: RoutingProblem | TopologyProblem | None, stop: Stop | None = None
) -> NetworkSubject:
    """The routing of a demand, of the instance that is given or of its own.

    Raises:
        InputError: there are several demands, no instance, or links with rates of their own.
        CheckError: the solution does not hold for the instance, or its flow is none.
    """
    if problem is not None:
        solution = replace(solution, problem=problem)
    figures: NetworkFigures = solution.figures
    figures.one_demand()
    if figures.topology.rates is not None:
        text = "failures of links that have rates of their own are not known here"
        raise InputError([Problem(text, path="topology.rates", allowed="links of one rate")])
    if problem is not None:
        _refuse(check_network(problem, solution, BRIEF).violations)
    hops = figures.flow.by_hop is not None or solution.objective.name != "theta"
    limits = ("Limits and prices of hops are left out after a failure.",) if hops else ()
    evaluator = NetworkEvaluator(figures.topology, figures.problem.demand, figures.theta, stop)
    return NetworkSubject(solution, evaluator, "theta", "link capacity", (DEMAND_NOTE, PLANE_NOTE, *limits))
