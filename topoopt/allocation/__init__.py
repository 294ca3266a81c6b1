"""Bandwidth allocation without files or command line, from a problem to a checked solution.

`problem.allocation_problem` builds a problem from a topology and transfers, `solve.solve_allocation` solves and checks
it, `topoopt.verify.allocation.check_allocation` judges a solution without a solver.
"""

from topoopt.allocation.methods import ALLOCATION_METHODS
from topoopt.allocation.solve import search_problems, solve_allocation
from topoopt.workloads.transfer_routes import ShortestRoutes, mixed_route, path_route

__all__ = [
    "ALLOCATION_METHODS",
    "ShortestRoutes",
    "mixed_route",
    "path_route",
    "search_problems",
    "solve_allocation",
]
