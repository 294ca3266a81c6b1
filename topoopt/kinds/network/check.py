"""The checker of network solutions with the hints it asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.network_solution import NetworkSolution
from topoopt.core.proofs import Argument
from topoopt.verify.network.check import check_network

if TYPE_CHECKING:
    from topoopt.verify.laws.findings import CheckFindings


def check_solution(problem: RoutingProblem | TopologyProblem, solution: NetworkSolution) -> CheckFindings:
    """Violations of a solution; multipliers that its bound rests on are searched again, which may take seconds."""
    bound = solution.bound
    if bound.argument is not Argument.TWO_LAYER or isinstance(problem, RoutingProblem):
        return check_network(problem, solution)
    from topoopt.kinds.network.bounds import multipliers_of  # loads a compiled search

    return check_network(problem, solution, multipliers_of(problem, bound))
