"""The methods of kind `dag-topology`, and the result that circuits amount to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from solvers.dag_topology.branching import refuse_crowded
from solvers.dag_topology.search import MATRIX_METHODS, Circuits, by_matrix, search
from topoopt.core.dag_topology import (
    CircuitProof,
    DagTopologyPlan,
    DagTopologyProblem,
    DagTopologyResult,
    PathMean,
    branching_certificate,
)
from topoopt.core.result import Certificate
from topoopt.kinds.kind import Effort, Method, Solver, table
from topoopt.kinds.pipeline import assembled
from topoopt.verify.dag_topology import CHECKER


def _branching(problem: DagTopologyProblem, effort: Effort) -> Circuits:
    refuse_crowded(problem)
    return search(problem, effort.search.method, effort.stop, effort.tell, effort.keep)


def _by_matrix(name: str) -> Callable[[DagTopologyProblem, Effort], Circuits]:
    def run(problem: DagTopologyProblem, effort: Effort) -> Circuits:
        refuse_crowded(problem)
        return by_matrix(name, problem, effort.stop)

    return run


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
