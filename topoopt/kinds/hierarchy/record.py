"""The kind `hierarchical-bandwidth`."""

from __future__ import annotations

from topoopt.core.hierarchy import HierarchicalProblem
from topoopt.core.hierarchy_solution import HierarchicalSolution
from topoopt.kinds.hierarchy.read import read_hierarchical
from topoopt.kinds.hierarchy.schema import HierarchicalFile
from topoopt.kinds.hierarchy.solution_file import SOLUTION_FILE
from topoopt.kinds.kind import Kind, Pages, Solver
from topoopt.verify.hierarchy.check import check_hierarchical


def _solver() -> Solver:
    from topoopt.kinds.hierarchy.solve import SOLVER

    return SOLVER


def _pages() -> Pages:
    from topoopt.kinds.hierarchy.show import PAGES

    return PAGES


RECORDS = (
    Kind(
        name="hierarchical-bandwidth",
        summary="bandwidth of every dimension of a hierarchical network",
        problem=HierarchicalProblem,
        solution=HierarchicalSolution,
        schema=HierarchicalFile,
        read=read_hierarchical,
        read_solution=SOLUTION_FILE.read,
        write_solution=SOLUTION_FILE.write,
        document=SOLUTION_FILE.document,
        check=check_hierarchical,
        solver=_solver,
        pages=_pages,
    ),
)
