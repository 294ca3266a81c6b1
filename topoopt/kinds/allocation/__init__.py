"""Bandwidth allocation without files or command line, from a problem to a checked solution.

A problem is a `topoopt.core.allocation.AllocationProblem` of transfers with routes, which `ShortestRoutes`,
`path_route` and `mixed_route` make; `solve_allocation` solves and checks it, and
`check_allocation` judges a solution without a solver. `methods` holds the literal table.
"""

from topoopt.kinds.allocation.methods import ALLOCATION_METHODS
from topoopt.kinds.allocation.solve import search_problems, solve_allocation
from topoopt.workloads.transfer_routes import ShortestRoutes, mixed_route, path_route

__all__ = [
    "ALLOCATION_METHODS",
    "ShortestRoutes",
    "mixed_route",
    "path_route",
    "search_problems",
    "solve_allocation",
]
