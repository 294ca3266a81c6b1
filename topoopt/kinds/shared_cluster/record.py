"""The kind `shared-cluster`."""

from __future__ import annotations

from topoopt.core.errors import Problem
from topoopt.core.shared_cluster import SharedCluster
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.kinds.kind import Kind, Pages, Solver
from topoopt.kinds.shared_cluster.read import read_shared_cluster
from topoopt.kinds.shared_cluster.schema import SharedClusterFile
from topoopt.kinds.shared_cluster.solution_file import SOLUTION_FILE
from topoopt.verify.shared_cluster.check import check_shared_cluster


def _solver() -> Solver:
    from topoopt.kinds.shared_cluster.solve import SOLVER

    return SOLVER


def _pages() -> Pages:
    from topoopt.kinds.shared_cluster.show import PAGES

    return PAGES


def _problems(problem: SharedCluster) -> list[Problem]:
    if not problem.at_once:
        return []
    from topoopt.kinds.shared_cluster.at_once import problems_at_once

    return problems_at_once(problem)


RECORDS = (
    Kind(
        name="shared-cluster",
        summary="jobs that share servers and network, arriving or at once",
        problem=SharedCluster,
        solution=SharedClusterSolution,
        schema=SharedClusterFile,
        read=read_shared_cluster,
        read_solution=SOLUTION_FILE.read,
        write_solution=SOLUTION_FILE.write,
        document=SOLUTION_FILE.document,
        check=check_shared_cluster,
        problems=_problems,
        solver=_solver,
        pages=_pages,
    ),
)
