"""A solution whose failures are studied: how they are evaluated, and how their repairs are checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from solvers.failures.damage import PlanTraffic
from solvers.failures.evaluator import Evaluator
from solvers.failures.job import JobEvaluator
from solvers.failures.network import NetworkEvaluator
from solvers.stop import Stop
from topoopt.core.cluster import Cluster
from topoopt.core.errors import CheckError
from topoopt.core.failures import Failure
from topoopt.core.job import CoOptimisation
from topoopt.core.job_solution import JobSolution
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.network_solution import NetworkSolution
from topoopt.kinds.network.check import check_solution as check_network_solution
from topoopt.kinds.network.explain import demand_from_flow
from topoopt.simulate.lower import build_task_graph
from topoopt.verify.failures.laws import check_distances, check_repair, check_rerouted
from topoopt.verify.job.check import check_solution
from topoopt.verify.laws.findings import Violation, ViolationLog

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


class Subject(Protocol):
    """A solution under study."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def objective(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def evaluator(self) -> Evaluator: ...

    def violations(self, failure: Failure) -> Sequence[Violation]:
        """What the checker says of the repair of a failure that was evaluated."""


@dataclass(frozen=True, eq=False)
class JobSubject:
    """The plan of a job."""

    solution: JobSolution
    instance: CoOptimisation | None
    evaluator: JobEvaluator

    @property
    def name(self) -> str:
        """Of the instance."""
        return self.solution.name

    @property
    def kind(self) -> str:
        """Of the instance."""
        return self.solution.kind

    @property
    def objective(self) -> str:
        """What values are."""
        return "busiest_link" if self.instance is None else "iteration_time"

    @property
    def unit(self) -> str:
        """Of values."""
        return "ms"

    @property
    def cluster(self) -> Cluster:
        """Of the solution."""
        return self.solution.cluster

    @property
    def notes(self) -> tuple[str, ...]:
        """What is assumed."""
        return (*((TRAFFIC_NOTE,) if self.instance is None else ()), RELAY_NOTE, PLANE_NOTE)

    def violations(self, failure: Failure) -> Sequence[Violation]:
        """Repaired routes and rings against the laws, or distances alone where nothing can be repaired."""
        repair = self.evaluator.repair(failure)
        if repair.plan is None:
            return _distances_only(self.evaluator, failure)
        plan, demand = repair.plan, self.solution.demand
        return check_repair(
            self.evaluator.topology, demand, repair.outcome, plan.routes, plan.rings, self.cluster.link_bytes_per_ms
        )


@dataclass(frozen=True, eq=False)
class NetworkSubject:
    """The routing of a demand."""

    solution: NetworkSolution
    evaluator: NetworkEvaluator

    @property
    def name(self) -> str:
        """Of the instance."""
        return self.solution.name

    @property
    def kind(self) -> str:
        """Of the instance."""
        return self.solution.kind

    @property
    def objective(self) -> str:
        """What values are."""
        return "theta"

    @property
    def unit(self) -> str:
        """Of values."""
        return "link capacity"

    @property
    def notes(self) -> tuple[str, ...]:
        """What is assumed."""
        hops = self.solution.flow.by_hop is not None or self.solution.objective.name != "theta"
        limits = ("Limits and prices of hops are left out after a failure.",) if hops else ()
        return (DEMAND_NOTE, PLANE_NOTE, *limits)

    def violations(self, failure: Failure) -> Sequence[Violation]:
        """The routing after the failure against the laws."""
        found = self.evaluator.routed(failure)
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


def job_subject(solution: JobSolution, instance: CoOptimisation | None) -> JobSubject:
    """The plan of a job, simulated where its instance is known.

    Raises:
        CheckError: the solution does not hold for the instance.
    """
    graph = None
    if instance is not None:
        _refuse(check_solution(instance, solution))
        graph = build_task_graph(instance.cluster, instance.workload, solution.plan.strategy)
    plan = solution.plan
    traffic = PlanTraffic(plan.topology, plan.routes, plan.rings, solution.demand)
    return JobSubject(solution, instance, JobEvaluator(solution.cluster, traffic, graph))


def network_subject(
    solution: NetworkSolution, problem: RoutingProblem | TopologyProblem | None, stop: Stop | None = None
) -> NetworkSubject:
    """The routing of a demand; without the instance the demand is read off the flow.

    Raises:
        InputError: there are several demands.
        CheckError: the solution does not hold for the instance, or its flow is none.
    """
    solution.one_demand()
    if problem is not None:
        _refuse(check_network_solution(problem, solution))
    demand = demand_from_flow(solution) if problem is None else problem.demand
    return NetworkSubject(solution, NetworkEvaluator(solution.topology, demand, solution.theta, stop))
