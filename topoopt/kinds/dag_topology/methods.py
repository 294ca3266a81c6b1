"""The methods of `topoopt solve` on graphs of jobs: one literal table."""

from __future__ import annotations

from collections.abc import Callable

from solvers.dag_topology.box import refuse_crowded
from solvers.dag_topology.matrices import MATRIX_METHODS, by_matrix
from solvers.dag_topology.search import FoundCircuits, search
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.kinds.kind import Effort, Method, table


def _branching(problem: DagTopologyProblem, effort: Effort) -> FoundCircuits:
    refuse_crowded(problem)
    return search(problem, effort.stop, effort.tell, effort.keep)


def _by_matrix(name: str) -> Callable[[DagTopologyProblem, Effort], FoundCircuits]:
    def run(problem: DagTopologyProblem, effort: Effort) -> FoundCircuits:
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
