"""The methods of `topoopt solve` on graphs of jobs: one literal table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from solvers.dag_topology.matrices import MATRIX_METHODS, by_matrix
from solvers.dag_topology.search import FoundCircuits, search
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.errors import InfeasibleError
from topoopt.kinds.kind import Effort, Method, table


def _refuse_crowded(problem: DagTopologyProblem) -> None:
    """Every pair that something is transferred between needs a circuit of its own.

    Raises:
        InfeasibleError: a pod has fewer ports than such pairs.
    """
    degree = np.bincount(np.array(problem.pairs).ravel(), minlength=problem.pods)
    short = [pod for pod in range(problem.pods) if degree[pod] > problem.ports[pod]]
    if short:
        rows = [
            f"pod {pod} transfers to or from {degree[pod]} others and has {problem.ports[pod]}" for pod in short[:5]
        ]
        more = f", and {len(short) - 5} more" if len(short) > 5 else ""
        raise InfeasibleError(f"too few ports for a circuit to every peer: {'; '.join(rows)}{more}")


def _branching(problem: DagTopologyProblem, effort: Effort) -> FoundCircuits:
    _refuse_crowded(problem)
    return search(problem, effort.stop, effort.tell, effort.keep)


def _by_matrix(name: str) -> Callable[[DagTopologyProblem, Effort], FoundCircuits]:
    def run(problem: DagTopologyProblem, effort: Effort) -> FoundCircuits:
        _refuse_crowded(problem)
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
