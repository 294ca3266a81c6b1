"""Routes that no solution file holds, told before work begins."""

from __future__ import annotations

import numpy as np

from topoopt.core.errors import Problem
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.files.solution_format import LIMITS

MOST = LIMITS.json_nodes


def routing_problems(problem: RoutingProblem) -> list[Problem]:
    """A number for each source and link, unless one source stands for all."""
    topology = problem.topology
    if topology.servers * len(topology.arcs) <= MOST or _alike(problem):
        return []
    value = f"{topology.servers} servers, {len(topology.arcs)} links in one direction"
    allowed = f"{MOST} at most if multiplied, or links and demand that look the same from every server"
    return [Problem("more routes than a solution file holds", path="topology", value=value, allowed=allowed)]


def _alike(problem: RoutingProblem) -> bool:
    from solvers.network.routing import one_row  # compiled, and rarely needed

    free = problem.max_hops is None and not problem.hop_price
    return free and all(one_row(problem.topology, demand) for demand in problem.demands)


def circulants_only(problem: TopologyProblem) -> bool:
    """Whether only routes of which one row stands for all are written: whatever the links, each pair with demand takes
    a link into its destination, so an arc and an amount."""
    return 2 * int(np.count_nonzero(problem.demands)) > MOST


def topology_problems(problem: TopologyProblem) -> list[Problem]:
    """Demand of too many pairs, unless it looks the same from every server and nothing speaks against circulants."""
    if not circulants_only(problem):
        return []
    from solvers.network.routing.circulant import shift_invariant  # compiled, and rarely needed

    if not problem.several and not problem.rules and shift_invariant(problem.demand):
        return []
    text, value = "more routes than a solution file holds", f"{np.count_nonzero(problem.demands)} entries above 0"
    allowed = f"{MOST // 2} at most, or one matrix that looks the same from every server, and no constraints"
    return [Problem(text, path="demand", value=value, allowed=allowed)]


def too_large(problem: TopologyProblem) -> Problem | None:
    """Why a method that makes other networks than circulants does not cover a problem, or None."""
    if not circulants_only(problem):
        return None
    text = "its routes are more than a solution file holds"
    return Problem(text, path="search.method", value=problem.search.method, allowed="auto, portfolio, totient")
