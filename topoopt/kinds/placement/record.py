"""The kind `placement`."""

from __future__ import annotations

from topoopt.core.placement import PlacementProblem
from topoopt.core.placement_solution import PlacementSolution
from topoopt.kinds.kind import Kind, Pages, Solver
from topoopt.kinds.placement.read import read_placement
from topoopt.kinds.placement.schema import PlacementFile
from topoopt.kinds.placement.solution_file import SOLUTION_FILE
from topoopt.verify.placement.check import check_placement


def _solver() -> Solver:
    from topoopt.kinds.placement.solve import SOLVER

    return SOLVER


def _pages() -> Pages:
    from topoopt.kinds.placement.show import PAGES

    return PAGES


RECORDS = (
    Kind(
        name="placement",
        summary="operators of a graph on devices, for throughput or latency",
        problem=PlacementProblem,
        solution=PlacementSolution,
        schema=PlacementFile,
        read=read_placement,
        read_solution=SOLUTION_FILE.read,
        write_solution=SOLUTION_FILE.write,
        document=SOLUTION_FILE.document,
        check=check_placement,
        solver=_solver,
        pages=_pages,
        takes_budget=True,
    ),
)
