"""The methods of kind `dag-topology`, and the result that circuits amount to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from solvers.dag_topology.branching import refuse_crowded
from solvers.dag_topology.search import MATRIX_METHODS, SearchedCircuits, by_matrix, search
from topoopt.core.dag_topology import (
    CircuitProof,
    DagTopologyPlan,
    DagTopologyProblem,
    DagTopologyResult,
    PathMean,
    branching_certificate,
)
from topoopt.core.proofs import Argument, Bound
from topoopt.core.result import Certificate, SearchResult
from topoopt.kinds.kind import Effort, Method, Solver, table
from topoopt.kinds.pipeline import assembled
from topoopt.simulate.dag import StepGraph, followed
from topoopt.verify.dag_topology import CHECKER

SAME = 1e-12
"""Part of a time that is rounding."""

Circuits = SearchResult[DagTopologyPlan]


def _branching(problem: DagTopologyProblem, effort: Effort) -> Circuits:
    refuse_crowded(problem)
    return _result(
        problem,
        search(problem, effort.stop, effort.tell, lambda make: effort.keep(lambda: _result(problem, make(), effort))),
        effort,
    )


def _by_matrix(name: str) -> Callable[[DagTopologyProblem, Effort], Circuits]:
    def run(problem: DagTopologyProblem, effort: Effort) -> Circuits:
        refuse_crowded(problem)
        return _result(problem, by_matrix(name, problem, effort.stop), effort)

    return run


def _result(problem: DagTopologyProblem, searched: SearchedCircuits, effort: Effort) -> Circuits:
    """Return the plan, with the fastest one where it is done earlier."""
    graph = StepGraph.of(problem)
    makespan, fastest = (
        float(followed(graph, circuits, problem.rate)[1].max()) for circuits in (searched.circuits, searched.fastest)
    )
    earlier = fastest < makespan * (1 - SAME)
    return SearchResult(
        plan=DagTopologyPlan(searched.circuits, searched.fastest if earlier else None),
        certificates=(branching_certificate(searched.bound, searched.proof, problem.pods),),
        bounds=(Bound(searched.bound, Argument.CIRCUIT_BRANCHING),),
        stopped_by=searched.stopped_by,
        method=effort.search.method,
    )


DAG_TOPOLOGY_METHODS = table(
    Method("auto", "branch and bound on circuits: least makespan, then fewest circuits", _branching),
    Method("branching", "the same", _branching),
    *(
        Method(name, f"circuits {words}; the bound of the root", _by_matrix(name))
        for name, (words, _) in MATRIX_METHODS.items()
    ),
)


def from_format_2(
    problem: DagTopologyProblem, document: Mapping[str, Any]
) -> tuple[DagTopologyPlan, tuple[Certificate, ...]]:
    """Return the plan and the certificate of a solution file of format 2."""
    proof, fastest = document["proof"], document.get("fastest")
    means = [
        PathMean(tuple((path, weight) for path, weight in weights), tuple(prices)) for weights, prices in proof["means"]
    ]
    trees = CircuitProof(
        tuple(map(tuple, proof["makespan_tree"])),
        proof["circuits_bound"],
        tuple(map(tuple, proof["circuits_tree"])),
        tuple(tuple(map(tuple, path)) for path in proof["paths"]),
        tuple(means),
    )
    plan = DagTopologyPlan(
        np.array([count for _, _, count in document["circuits"]], dtype=np.int64),
        None if fastest is None else np.array(fastest, dtype=np.int64),
    )
    return plan, (branching_certificate(float(document["bound"]["value"]), trees, problem.pods),)


def _assemble(problem: DagTopologyProblem, circuits: Circuits, effort: Effort) -> DagTopologyResult:
    return assembled(problem, circuits, effort, CHECKER)


SOLVER = Solver(
    methods=lambda _: DAG_TOPOLOGY_METHODS, assemble=_assemble, tables=lambda _: (("", DAG_TOPOLOGY_METHODS),)
)
