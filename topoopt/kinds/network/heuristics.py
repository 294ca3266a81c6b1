"""Heuristic topologies, routed and bounded: single seeds, and the portfolio of seeds with search."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from solvers.network.exact.space import Space, as_topology, open_space
from solvers.network.routing import RoutingResult, route, shift_invariant
from solvers.network.search import SEEDS, TopologySearchResult, budget_of, search_topology
from solvers.network.search.relay_cases import cases_of
from solvers.stop import Stop, first_part
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.network import TopologyProblem
from topoopt.core.network_solution import FoundNetwork
from topoopt.core.proofs import Argument, Bound
from topoopt.core.topology import Topology
from topoopt.core.verdict import StopReason
from topoopt.kinds.kind import Effort
from topoopt.kinds.network.bounds import formula_bound
from topoopt.kinds.network.sizes import circulants_only
from topoopt.verify.network.bounds import quick_bound

BOUND_SHARE = 0.2
"""Part of a time limit that bounds may take at most."""

FINE_SERVERS = 64
"""Up to here the last routing is solved to optimality; beyond, that takes longer than the search."""


def seed_topology(problem: TopologyProblem, effort: Effort, name: str) -> FoundNetwork:
    """One seed, routed.

    Raises:
        InputError: there is no such seed of this size, or it breaks a constraint, which seeds know nothing of.
        InfeasibleError: no topology satisfies the constraints.
    """
    space = open_space(problem)
    broken = None
    try:
        topology = SEEDS[name](
            problem.servers, problem.degree, problem.links, problem.demand, np.random.default_rng(effort.search.seed)
        )
    except InfeasibleError as error:  # of this method, which says nothing of the problem
        broken = f"this method makes no topology here: {error}"
    else:
        why = space.broken(topology.adjacency())
        broken = None if why is None else f"the topology of this method breaks a constraint: {why}"
    if broken is not None:
        raise InputError([Problem(broken, path="search.method", value=name, allowed="auto, exact, milp")])
    return routed_topology(space, topology, name, effort.stop)


def _for_bounds(stop: Stop) -> Stop:
    """Bounds are cut short only where there is a limit, so that results without one stay reproducible."""
    return stop if stop.deadline is None else first_part(stop, BOUND_SHARE, math.inf)


def routed_topology(space: Space, topology: Topology, method: str, stop: Stop) -> FoundNetwork:
    """A topology that the space allows, its demand routed, bounded over all topologies."""
    found = route(topology, space.problem.demand, stop=stop)
    early = found.stopped_by in (StopReason.TIME, StopReason.INTERRUPTED)
    bounds = (space.bound, quick_bound(space.problem))
    network = replace(found.network(topology), layer_prices=space.layer_prices)
    return FoundNetwork(network, bounds, found.stopped_by if early else StopReason.CONVERGED, method)


def _offer_first(problem: TopologyProblem, effort: Effort) -> None:
    """Offer what is there at once, before bounds are looked for: TotientPerms with a first flow, bounded by a cut."""
    try:
        topology = SEEDS["totient"](
            problem.servers, problem.degree, problem.links, problem.demand, np.random.default_rng(effort.search.seed)
        )
    except InfeasibleError:
        return
    busiest = max(problem.demand.sum(axis=0).max(), problem.demand.sum(axis=1).max())
    cut = Bound(float(busiest) / problem.degree, Argument.NODE_CUT)

    def keep(best: Callable[[], RoutingResult]) -> None:
        effort.keep(lambda: FoundNetwork(best().network(topology), (cut,), StopReason.TIME, "portfolio"), rough=True)

    method = "circulant" if shift_invariant(problem.demand) else "frank-wolfe"
    route(topology, problem.demand, method=method, accuracy=1.0, stop=effort.stop, keep=keep)


def has_single_links(problem: TopologyProblem) -> bool:
    """Whether a server has one fibre pair, and so one peer."""
    return problem.degree == 1 and problem.links is LinkDirection.BIDIRECTIONAL and problem.servers > 2


def demand_links(problem: TopologyProblem) -> Topology:
    """With one fibre pair a server, demand says all that matters: who sends to whom is linked to it.

    Links of the network as it stands are left to servers without demand.

    Raises:
        InfeasibleError: no topology satisfies the constraints.
    """
    most = problem.demands.max(axis=0)
    space = open_space(replace(problem, demand=most))
    counts = ((most > 0) | (most > 0).T).astype(np.int64)
    for tail, head in problem.kept:
        if not counts[[tail, head]].any():
            counts[[tail, head], [head, tail]] = 1
    broken = space.broken(counts)
    if broken is not None:
        raise InfeasibleError(f"with one link a server the demand needs {broken}")
    return as_topology(space, counts, "links of the demand")


def portfolio(problem: TopologyProblem, effort: Effort) -> FoundNetwork:
    """All seeds, annealing on hops, polish on theta, exact link counts; ends early when a bound is reached.

    Ctrl-C and the time limit end bounds and search, and the best so far is returned.

    Raises:
        InfeasibleError: no topology satisfies the constraints. LimitError: none of those met does.
    """
    if has_single_links(problem):
        return routed_topology(open_space(problem), demand_links(problem), "portfolio", effort.stop)
    if effort.stop.deadline is not None and not problem.rules:
        _offer_first(problem, effort)
    cases = cases_of(problem.servers, effort.search.budget)
    formula = formula_bound(problem, cases=cases, stop=_for_bounds(effort.stop))
    space = open_space(problem)
    bounds = (space.bound, formula.bound)
    goal = max(bound.value for bound in bounds)
    budget = budget_of(
        problem.servers,
        effort.search.budget,
        accuracy=1e-6 if problem.servers <= FINE_SERVERS else 1e-4,
        circulants_only=circulants_only(problem),
    )

    def network(found: TopologySearchResult) -> FoundNetwork:
        routed = found.routing.network(found.topology)
        routed = replace(routed, layer_prices=space.layer_prices, relay_prices=formula.relay, relay_cases=formula.cases)
        return FoundNetwork(routed, bounds, found.stopped_by, "portfolio", multipliers=formula.multipliers)

    return network(
        search_topology(
            problem,
            seed=effort.search.seed,
            budget=budget,
            goal=goal,
            stop=effort.stop,
            keep=lambda best: effort.keep(lambda: network(best())),
            jobs=effort.options.jobs,
        )
    )
