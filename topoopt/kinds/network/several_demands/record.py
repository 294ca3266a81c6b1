"""The kind `robust-network`."""

from __future__ import annotations

from topoopt.core.robust_network import RobustProblem, RobustSolution
from topoopt.kinds.kind import Kind, Pages, Solver
from topoopt.kinds.network.several_demands.read import read_robust_network
from topoopt.kinds.network.several_demands.schema import RobustFile
from topoopt.kinds.network.several_demands.solution_file import read_robust_solution, write_robust_solution
from topoopt.verify.network.robust_check import check_robust


def _solver() -> Solver:
    from topoopt.kinds.network.several_demands.solve import SOLVER

    return SOLVER


def _pages() -> Pages:
    from topoopt.kinds.network.several_demands.show import PAGES

    return PAGES


RECORDS = (
    Kind(
        name="robust-network",
        summary="one topology and routing for several demands",
        problem=RobustProblem,
        solution=RobustSolution,
        schema=RobustFile,
        read=read_robust_network,
        read_solution=read_robust_solution,
        write_solution=write_robust_solution,
        check=check_robust,
        solver=_solver,
        pages=_pages,
    ),
)
