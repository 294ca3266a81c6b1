"""Bounds on theta over all topologies by formulas, which the checker derives again."""

from __future__ import annotations

import re

from solvers.network.search.two_layer import default_iterations, two_layer_multipliers
from solvers.stop import Stop
from topoopt.core.network import TopologyProblem
from topoopt.core.solution import Bound
from topoopt.verify.network.topology_bounds import best_topology_bound, two_layer_from

TWO_LAYER = "two-layer distances"
"""Begin of the name of the one formula that takes long on large problems (some ten seconds at 128 servers)."""

TWO_LAYER_SERVERS = 160
"""Above this its n^3 arrays are too large."""

LISTED = "link lengths of all networks with few hops"
"""Name of a bound by enumeration that the checker lists and proves again."""

_NAME = re.compile(re.escape(TWO_LAYER) + r" \((\d{1,6}) iterations\)")


def quick_bound(problem: TopologyProblem) -> Bound:
    """Cuts and layered Moore distances, which hold for every topology of the degree."""
    return best_topology_bound(problem.servers, problem.degree, problem.demand, two_layer_iterations=0)


def formula_bound(problem: TopologyProblem, *, stop: Stop | None = None, iterations: int | None = None) -> Bound:
    """The best of all formulas, the two-layer bound included where it fits and `stop` leaves time for it.

    Its multipliers come from a compiled search outside of the checker; the formula holds for any.

    Args:
        iterations: of that search; None: by size, which is the most there are. How many were made stands in
            the bound's name, so that the same bound can be found again.
    """
    quick = quick_bound(problem)
    n = problem.servers
    if n > TWO_LAYER_SERVERS or n < 3:
        return quick
    most = default_iterations(n) if iterations is None else min(iterations, default_iterations(n))
    weight, first_link, done = two_layer_multipliers(problem.degree, problem.demand, most, stop=stop)
    if done == 0:
        return quick
    value = two_layer_from(n, problem.degree, problem.demand, weight, first_link)[0]
    return Bound(value, f"{TWO_LAYER} ({done} iterations)") if value > quick.value else quick


def stated_iterations(proved_by: str) -> int | None:
    """Iterations behind a two-layer bound, read from its name; None for all other bounds."""
    match = _NAME.fullmatch(proved_by)
    return None if match is None else int(match[1])
