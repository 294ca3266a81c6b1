"""From circuits to the solution they amount to."""

from __future__ import annotations

from solvers.dag_topology.search import FoundCircuits
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.dag_topology_solution import DagTopologySolution, PairCircuits, StepSpan
from topoopt.core.proofs import Argument, Bound
from topoopt.core.solution import UNCHECKED, Objective
from topoopt.core.verdict import Tolerance, settle
from topoopt.core.versions import versions
from topoopt.kinds.dag_topology.methods import DAG_TOPOLOGY_METHODS
from topoopt.kinds.kind import Effort, Solver
from topoopt.simulate.dag.shared_circuits import StepGraph, followed

SAME = 1e-12
"""Part of a time that is rounding."""


def assemble(problem: DagTopologyProblem, found: FoundCircuits, effort: Effort) -> DagTopologySolution:
    """The solution that circuits amount to."""
    graph = StepGraph.of(problem)
    start, end = followed(graph, found.circuits, problem.rate)
    earlier = float(followed(graph, found.fastest, problem.rate)[1].max()) < float(end.max()) * (1 - SAME)
    ends = [(m.source, m.target) for m in problem.transfers] + [(-1, -1)] * len(problem.tasks)
    objective = Objective("makespan", float(end.max()), problem.time_unit)
    bound = Bound(found.bound, Argument.CIRCUIT_BRANCHING)
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
        circuits=tuple(
            PairCircuits(one, other, count)
            for (one, other), count in zip(problem.pairs, found.circuits.tolist(), strict=True)
        ),
        fastest=tuple(found.fastest.tolist()) if earlier else None,
        steps=tuple(
            StepSpan(name, *pods, *times)
            for name, pods, *times in zip(problem.names, ends, start.tolist(), end.tolist(), strict=True)
        ),
        proof=found.proof,
    )


SOLVER = Solver(
    methods=lambda _: DAG_TOPOLOGY_METHODS, assemble=assemble, tables=lambda _: (("", DAG_TOPOLOGY_METHODS),)
)
