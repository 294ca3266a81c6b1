"""Exact methods for the joint choice of topology and routing, behind one signature, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from solvers.network.exact.brute_force import MOST_SERVERS, solve_brute_force
from solvers.network.exact.circulants import solve_circulant
from solvers.network.exact.enumeration import covers, solve_enumerate
from solvers.network.exact.local import known_by_lifts, local_search, refuse_large
from solvers.network.exact.milp import solve_milp
from solvers.network.exact.result import ExactLimits, ExactMethod, TopologyResult
from solvers.network.exact.routed import route
from solvers.network.exact.space import as_topology, finish, open_space
from solvers.stop import first_part
from topoopt.core.network import TopologyProblem
from topoopt.core.verdict import StopReason


@dataclass(frozen=True)
class ExactTopologyMethod:
    """A line of the table: what it does, for people, and how it is run."""

    summary: str
    run: ExactMethod


def solve_exact(problem: TopologyProblem, limits: ExactLimits) -> TopologyResult:
    """Bounds and a short search first; then whichever exact method suits the problem.

    Raises:
        InputError, InfeasibleError, LimitError: see `ExactMethod`.
    """
    space = open_space(problem)
    if not covers(space):
        refuse_large(space)
    if limits.incumbent is None:
        # Work limits end these searches long before the clock does, so that results stay reproducible.
        early = first_part(limits.stop, 0.2, 20.0)
        if covers(space):
            found = known_by_lifts(space, np.random.default_rng(limits.seed), early)
        else:
            found = local_search(space, limits.seed, early)
        if found is not None:
            routed = route(space.demand, found[0])
            assert routed is not None
            if routed.theta <= space.bound.value * (1 + 1e-6):
                return finish(space, found[0], routed, space.bound, StopReason.CONVERGED, "bounds", 0)
            limits = replace(limits, incumbent=as_topology(space, found[0], "local search"))
    if covers(space):
        return solve_enumerate(problem, limits)
    if problem.servers < MOST_SERVERS:
        return solve_brute_force(problem, limits)
    return solve_milp(problem, limits)


METHODS: Mapping[str, ExactTopologyMethod] = {
    "exact": ExactTopologyMethod("bounds, then the exact method that suits the problem", solve_exact),
    "milp": ExactTopologyMethod("joint topology and routing program by HiGHS", solve_milp),
    "enumerate": ExactTopologyMethod(
        "all regular networks up to renaming; uniform demand, directed links", solve_enumerate
    ),
    "brute-force": ExactTopologyMethod("all topologies of at most 5 servers", solve_brute_force),
    "circulant": ExactTopologyMethod("best circulant; exact among circulants only", solve_circulant),
}

__all__ = ["METHODS", "ExactLimits", "ExactMethod", "ExactTopologyMethod", "TopologyResult", "solve_exact"]
