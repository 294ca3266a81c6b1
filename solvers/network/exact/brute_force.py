"""Every topology of at most five servers, for any demand and any constraints.

Only networks to which no allowed link can be added are visited: one more link neither lowers what fits, nor lengthens a
path, nor gives a kept link up. Each is skipped only if a cut from prices (`local.price_cut`, valid for every network)
or its sum of demand times hops over links proves that it is not better than the best found.
"""

from __future__ import annotations

import numpy as np

from solvers.network.exact.brute_force_kernels import maximal_tables
from solvers.network.exact.local import price_cut
from solvers.network.exact.result import ExactLimits, TopologyResult
from solvers.network.exact.routed import Counts, length_bound, relaxed_theta, route
from solvers.network.exact.space import Space, finish, infeasible_hops, open_space
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.network import TopologyProblem
from topoopt.core.proofs import Argument, Bound
from topoopt.core.verdict import StopReason

MOST_SERVERS = 5
MOST_NETWORKS = 400_000


def solve_brute_force(problem: TopologyProblem, limits: ExactLimits) -> TopologyResult:
    """Best of all topologies.

    Raises:
        InputError: bad problem, more than `MOST_SERVERS` servers or `MOST_NETWORKS` networks.
        InfeasibleError: no topology satisfies the constraints.
        LimitError: the time limit came before any network was routed.
    """
    space = open_space(problem)
    if problem.servers > MOST_SERVERS:
        raise InputError(
            [Problem("too many servers for `brute-force`", path="servers", value=str(problem.servers), allowed="<= 5")]
        )
    stop = limits.stop
    networks = maximal_networks(space)
    table = networks.reshape(len(networks), -1).astype(np.float64)
    limit = np.full(len(networks), 1.0 / max(space.bound.value, 1e-300))
    best: tuple[float, Counts] | None = None
    proven = np.inf
    work = 0
    stopped = StopReason.CONVERGED
    while len(networks):
        k = int(np.argmax(limit))
        if np.isneginf(limit[k]) or (best is not None and limit[k] <= (1 + 1e-9) / best[0]):
            break
        if (reason := stop.reason()) is not None:
            stopped = reason
            break
        counts = networks[k]
        relaxed = relaxed_theta(space.demand, counts) if space.fits(counts) else None
        work += 1
        limit[k] = -np.inf
        if relaxed is None:
            continue
        proven = min(proven, length_bound(space.demand, counts, relaxed[2]))
        cut = price_cut(space.demand, counts, relaxed[2])
        if cut is not None:
            np.minimum(limit, table @ cut.ravel(), out=limit)
        if best is None or relaxed[0] < best[0]:
            best = (relaxed[0], counts)
    if best is None:
        if stopped is not StopReason.CONVERGED:
            raise LimitError("the time limit came before any topology was routed")
        why = "no allowed topology carries every demand (all were tried)"
        raise InfeasibleError(infeasible_hops(problem, "all were tried", None) if problem.max_hops else why)
    routed = route(space.demand, best[1])
    assert routed is not None
    rest = float(limit.max())
    bound = min(proven, 1.0 / rest if rest > 0 else np.inf)
    return finish(space, best[1], routed, Bound(bound, Argument.TOPOLOGY_ENUMERATION), stopped, "brute-force", work)


def maximal_networks(space: Space) -> Counts:
    """int64[k, n, n]: all link counts within the degrees to which no allowed link can be added.

    Raises:
        InputError: there are more than `MOST_NETWORKS`.
    """
    n = space.problem.servers
    tails, heads = np.nonzero(np.triu(space.allowed) if space.bidirectional else space.allowed)
    found = np.empty((MOST_NETWORKS, n, n), dtype=np.int8)
    degree = space.problem.degree
    number = maximal_tables(n, degree, space.most_links, space.bidirectional, tails, heads, found)
    if number > MOST_NETWORKS:
        raise InputError([Problem("too many topologies for `brute-force`", allowed=f"<= {MOST_NETWORKS}")])
    return found[:number].astype(np.int64)
