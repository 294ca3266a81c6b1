"""From circuits to the solution they amount to."""

from __future__ import annotations

from typing import Any

from solvers.dag_topology.forwarding import FoundRoutes
from solvers.dag_topology.route_choice import RoutedPlan
from solvers.dag_topology.search import FoundCircuits
from topoopt.core.arrays import Floats
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.dag_topology_solution import DagTopologySolution, ForwardedPlan, PairCircuits, Route, StepSpan
from topoopt.core.proofs import Argument, Bound
from topoopt.core.solution import UNCHECKED, Objective
from topoopt.core.verdict import Tolerance, settle
from topoopt.core.versions import versions
from topoopt.kinds.dag_topology.methods import DAG_TOPOLOGY_METHODS
from topoopt.kinds.kind import Effort, Solver
from topoopt.simulate.dag.forwarded_circuits import RoutedJob
from topoopt.simulate.dag.shared_circuits import StepGraph, followed

SAME = 1e-12
"""Part of a time that is rounding."""


def assemble(problem: DagTopologyProblem, found: FoundCircuits | FoundRoutes, effort: Effort) -> DagTopologySolution:
    """The solution that circuits, and routes over them, amount to."""
    start, end, plan = _over_routes(problem, found) if isinstance(found, FoundRoutes) else _direct(problem, found)
    ends = [(m.source, m.target) for m in problem.transfers] + [(-1, -1)] * len(problem.tasks)
    objective = Objective("makespan", float(end.max()), problem.time_unit)
    bound = Bound(found.bound, Argument.ROUTE_BRANCHING if problem.forwarding else Argument.CIRCUIT_BRANCHING)
    verdict = settle(objective.value, (bound,), Tolerance.EVENTS, rounding=Tolerance.EVENTS)
    return DagTopologySolution(
        name=problem.name,
        status=verdict.status,
        stopped_by=found.stopped_by,
        objective=objective,
        bound=verdict.bound,
        check=UNCHECKED,
        seed=effort.search.seed,
        method=effort.search.method,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=problem.notes,
        pods=problem.pods,
        ports=problem.ports,
        slack_percent=problem.slack_percent,
        compute_time=problem.compute_time,
        steps=tuple(
            StepSpan(name, *pods, *times)
            for name, pods, *times in zip(problem.names, ends, start.tolist(), end.tolist(), strict=True)
        ),
        proof=found.proof,
        max_hops=problem.max_hops,
        **plan,
    )


def _direct(problem: DagTopologyProblem, found: FoundCircuits) -> tuple[Floats, Floats, dict[str, Any]]:
    """(start, end) of the steps over circuits of their own pairs; the plan."""
    graph = StepGraph.of(problem)
    start, end = followed(graph, found.circuits, problem.rate)
    earlier = float(followed(graph, found.fastest, problem.rate)[1].max()) < float(end.max()) * (1 - SAME)
    circuits = tuple(
        PairCircuits(one, other, count)
        for (one, other), count in zip(problem.pairs, found.circuits.tolist(), strict=True)
    )
    return start, end, {"circuits": circuits, "fastest": tuple(found.fastest.tolist()) if earlier else None}


def _over_routes(problem: DagTopologyProblem, found: FoundRoutes) -> tuple[Floats, Floats, dict[str, Any]]:
    """(start, end) of the steps over routes; the plan."""
    job = RoutedJob.of(problem)
    start, end = job.followed(found.plan.circuits, found.plan.routes)
    earlier = found.fastest.value < float(end.max()) * (1 - SAME)
    own, fastest = (_forwarded(job, plan) for plan in (found.plan, found.fastest))
    plan = {"circuits": own.circuits, "routes": own.routes, "fastest": None}
    return start, end, plan | {"fastest_forwarded": fastest if earlier else None}


def _forwarded(job: RoutedJob, plan: RoutedPlan) -> ForwardedPlan:
    counts = zip(job.pairs, plan.circuits.tolist(), strict=True)
    circuits = tuple(PairCircuits(one, other, count) for (one, other), count in counts if count)
    return ForwardedPlan(circuits, tuple(sorted((route for route in plan.routes if len(route) > 2), key=_ends)))


def _ends(route: Route) -> tuple[int, int]:
    return route[0], route[-1]


SOLVER = Solver(
    methods=lambda _: DAG_TOPOLOGY_METHODS, assemble=assemble, tables=lambda _: (("", DAG_TOPOLOGY_METHODS),)
)
