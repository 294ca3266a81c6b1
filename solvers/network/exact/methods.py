"""Exact methods for the joint choice of topology and routing, behind one signature, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from solvers.network.exact.branching import (
    LOCAL_MOST_S,
    LOCAL_SHARE,
    branch_and_bound,
    concluded,
    first_network,
    routed,
    solve_branching,
)
from solvers.network.exact.circulants import solve_circulant
from solvers.network.exact.enumeration import covers, solve_enumerate
from solvers.network.exact.local import known_by_lifts, refuse_large
from solvers.network.exact.milp import by_program, solve_milp
from solvers.network.exact.result import OPTIMALITY, ExactLimits, ExactMethod, TopologyResult
from solvers.network.exact.space import Space, as_topology, finish, open_space
from solvers.network.exact.tree_nodes import too_many_choices
from solvers.stop import first_part
from topoopt.core.network import TopologyProblem
from topoopt.core.proofs import StopReason


@dataclass(frozen=True)
class ExactTopologyMethod:
    """A line of the table: what it does, for people, and how it is run."""

    summary: str
    run: ExactMethod


TREE_SHARE = 0.5
"""Of the time left, what branch and bound with a proof has before HiGHS is asked."""


def solve_exact(problem: TopologyProblem, limits: ExactLimits) -> TopologyResult:
    """Bounds and a short search first; then whichever exact method suits the problem.

    Raises:
        InputError, InfeasibleError, LimitError: see `ExactMethod`.
    """
    space = open_space(problem)
    if covers(space):
        return _uniform(space, limits)
    refuse_large(space)
    first = first_network(space, limits)
    if first is not None and first[1].theta <= space.bound.value * (1 + OPTIMALITY):
        return finish(space, *first, space.bound, StopReason.CONVERGED, "bounds", 0)
    if not too_many_choices(space):
        outcome = branch_and_bound(space, first, first_part(limits.stop, TREE_SHARE, inf), limits.seed)
        if outcome.bound > 0 or limits.stop.reason() is not None:
            return concluded(space, first, outcome)
        if outcome.counts is not None:
            first = outcome.counts, routed(space, outcome.counts)
    return by_program(space, first, limits)


def _uniform(space: Space, limits: ExactLimits) -> TopologyResult:
    """Enumeration up to renaming, unless one of the networks that look alike everywhere meets a bound."""
    if limits.incumbent is None:
        # Work limits end this search long before the clock does, so that results stay reproducible.
        early = first_part(limits.stop, LOCAL_SHARE, LOCAL_MOST_S)
        found = known_by_lifts(space, np.random.default_rng(limits.seed), early)
        if found is not None:
            known = routed(space, found[0])
            if known.theta <= space.bound.value * (1 + OPTIMALITY):
                return finish(space, found[0], known, space.bound, StopReason.CONVERGED, "bounds", 0)
            limits = replace(limits, incumbent=as_topology(space, found[0], "local search"))
    return solve_enumerate(space.problem, limits)


METHODS: Mapping[str, ExactTopologyMethod] = {
    "exact": ExactTopologyMethod("bounds, then the exact method that suits the problem", solve_exact),
    "milp": ExactTopologyMethod("joint topology and routing program by HiGHS", solve_milp),
    "enumerate": ExactTopologyMethod(
        "all regular networks up to renaming; uniform demand, directed links", solve_enumerate
    ),
    "branch-and-bound": ExactTopologyMethod(
        "all topologies of at most 10 servers, with a proof that the checker evaluates", solve_branching
    ),
    "circulant": ExactTopologyMethod("best circulant; exact among circulants only", solve_circulant),
}
