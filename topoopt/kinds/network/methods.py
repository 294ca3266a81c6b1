"""The methods of `topoopt solve` on network problems: two literal tables, one for each kind."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from solvers.network.exact.enumeration import covers
from solvers.network.exact.methods import METHODS as EXACT
from solvers.network.exact.result import ExactLimits
from solvers.network.exact.space import open_space
from solvers.network.routing import ROUTING_METHODS as ROUTERS
from solvers.network.routing import RoutingResult, refusal, route
from solvers.network.routing.network import network_of
from solvers.network.worst_case import worst_case
from topoopt.core.errors import InputError, Problem
from topoopt.core.network import EnumerationProof, NetworkProblem, RoutingMode, RoutingProblem, TopologyProblem, single
from topoopt.core.network_solution import FoundNetwork, RoutedNetwork
from topoopt.core.proofs import Argument, Bound
from topoopt.core.verdict import StopReason
from topoopt.kinds.kind import Effort, Method, covers_all, table
from topoopt.kinds.network.heuristics import demand_links, has_single_links, portfolio, seed_topology
from topoopt.kinds.network.robust import robust
from topoopt.kinds.network.sizes import too_large
from topoopt.verify.network.bounds import quick_bound
from topoopt.verify.network.regular_networks import enumeration_bound

ACCURACIES = ((70_000, 1e-6),)
"""Relative gap to prove, by columns of the linear program (sources times arcs): optimal up to about 128 servers."""

COARSE = 1e-3
"""The same beyond: seconds to minutes, not hours."""

WORST = "worst-demand"

MOST_EXACT = 8
"""Servers up to which `auto` proves an optimum in seconds (one more by enumeration); beyond, it can take hours."""


def accuracy_for(problem: RoutingProblem) -> float:
    """Relative gap at which a routing is good enough for its size."""
    columns = problem.topology.servers * len(problem.topology.arcs) * (problem.max_hops or 1)
    return next((accuracy for most, accuracy in ACCURACIES if columns <= most), COARSE)


def routed(problem: RoutingProblem, effort: Effort, method: str) -> FoundNetwork:
    """Route by a method of `solvers.network.routing`."""

    def network(found: RoutingResult) -> FoundNetwork:
        bound = Bound(found.bound, Argument.ARC_LENGTHS)
        return FoundNetwork(found.network(problem.topology), (bound,), found.stopped_by, found.method)

    found = route(
        problem.topology,
        problem.demand,
        method=method,
        accuracy=accuracy_for(problem),
        max_hops=problem.max_hops,
        hop_price=problem.hop_price,
        stop=effort.stop,
        keep=lambda best: effort.keep(lambda: network(best())),
    )
    return network(found)


def exactly(problem: TopologyProblem, effort: Effort, method: str) -> FoundNetwork:
    """Topology by a method of `solvers.network.exact`."""

    def keep(best: FoundNetwork) -> None:
        effort.keep(lambda: best)

    found = EXACT[method].run(problem, ExactLimits(seed=effort.search.seed, stop=effort.stop, keep=keep))
    proof = found.network.enumeration
    if proof is None:
        return found
    listed = effort.optional("listing of all networks", lambda: _proven_again(problem, found.bound, proof))
    if listed is None:
        return replace(found, network=replace(found.network, enumeration=None))
    return replace(found, bounds=(*found.bounds, listed))


def _proven_again(problem: TopologyProblem, bound: Bound, proof: EnumerationProof) -> Bound | None:
    """A bound that stands on networks which the checker can list itself; None where it does not."""
    unit = float(problem.demand[0, 1])
    try:
        proven = unit * enumeration_bound(problem.servers, problem.degree, proof, bound.value / unit)
    except InputError:  # too many to be listed
        return None
    return Bound(proven, Argument.LISTED_NETWORKS) if proven >= bound.value * (1 - 1e-9) else None


def worst_routing(problem: RoutingProblem, effort: Effort) -> FoundNetwork:
    """Least largest theta over several demands."""
    network = worst_case(problem, 0.0, seed=effort.search.seed, stop=effort.stop)
    proof = Argument.ARC_PRICES if problem.routing is RoutingMode.COMMON else Argument.ARC_LENGTHS
    return _found(network, Bound(network.routing_bound, proof), effort)


def worst_topology(problem: TopologyProblem, effort: Effort) -> FoundNetwork:
    """Least largest theta over several demands."""
    bound = worst_bound(problem)
    if has_single_links(problem):
        over = RoutingProblem(
            problem.name, demand_links(problem), problem.demand, search=problem.search, routing=problem.routing
        )
        return replace(worst_routing(over, effort), bounds=(bound,))
    return _found(worst_case(problem, bound.value, seed=effort.search.seed, stop=effort.stop), bound, effort)


def worst_bound(problem: TopologyProblem) -> Bound:
    """What bounds one of several demands bounds the worst."""
    bounds = [quick_bound(single(problem, k)) for k in range(len(problem.demands))]
    return max(bounds, key=lambda each: each.value)


def _found(network: RoutedNetwork, bound: Bound, effort: Effort) -> FoundNetwork:
    return FoundNetwork(network, (bound,), effort.stop.reason() or StopReason.CONVERGED, WORST)


def without_rules(problem: NetworkProblem) -> Problem | None:
    """Several demands take no constraints."""
    rules = problem.rules
    return Problem("not with several demands", path=rules[0], allowed="left out") if rules else None


def choose(problem: TopologyProblem, effort: Effort) -> FoundNetwork:
    """The exact methods where they are quick, the portfolio for all others; robust where that is asked for."""
    return _least_theta(problem, effort) if problem.search.robust is None else _robust(problem, effort)


def _robust(problem: TopologyProblem, effort: Effort) -> FoundNetwork:
    return robust(problem, effort, _least_theta)


def _least_theta(problem: TopologyProblem, effort: Effort) -> FoundNetwork:
    n = problem.servers
    if n <= MOST_EXACT or (n == MOST_EXACT + 1 and covers(open_space(problem))):
        return exactly(problem, effort, "exact")
    return portfolio(problem, effort)


def _router_covers(problem: RoutingProblem, name: str) -> Problem | None:
    if name == "auto":
        return None
    limit = problem.max_hops if problem.max_hops is None or problem.max_hops < problem.topology.servers - 1 else None
    return refusal(network_of(problem.topology, problem.demand), name, limit, problem.hop_price)


def _router(name: str, summary: str) -> Method:
    return Method(name, summary, partial(routed, method=name), partial(_router_covers, name=name))


def _exact(name: str, summary: str) -> Method:
    return Method(name, summary, partial(exactly, method=name))


def _seed(name: str, summary: str) -> Method:
    return Method(name, summary, partial(seed_topology, name=name), covers_all if name == "totient" else too_large)


ROUTING_METHODS = table(
    _router("auto", "by structure, size and accuracy"),
    _router("simplex", "linear program, HiGHS dual simplex"),
    _router("ipx", "linear program, HiGHS interior points without crossover"),
    _router("pdlp", "linear program, first-order method"),
    _router("softmin", "lengths of links by soft shortest paths and L-BFGS, mixtures of routings"),
    _router("frank-wolfe", "block Frank-Wolfe on a softmax potential"),
    _router("circulant", "reduction of circulants with shift-invariant demand"),
    _router("cayley", "reduction of Cayley digraphs with a demand that their translations keep"),
)

TOPOLOGY_METHODS = table(
    Method("auto", "exact when small, else portfolio", choose),
    _exact("exact", "bounds, then the exact method that suits the problem"),
    _exact("milp", "joint topology and routing program by HiGHS, then the same proof"),
    _exact("enumerate", "all regular networks up to renaming; uniform demand, directed links"),
    _exact("branch-and-bound", "all topologies of at most 10 servers, with a proof that the checker evaluates"),
    _exact("circulant", "best circulant; exact among circulants only"),
    Method("portfolio", "best of all seeds, then annealing and polish", portfolio),
    Method("robust", "least theta after the worst single link failure", _robust, too_large),
    _seed("totient", "TotientPerms with the paper's ring distances, routed"),
    _seed("matching", "heaviest matchings of the demand, routed"),
    _seed("kautz", "generalized Kautz graph, routed"),
    _seed("random", "random regular graph, routed"),
)

WORST_ROUTING_METHODS = table(
    Method("auto", "the one method for several demands", worst_routing, without_rules),
    Method(WORST, "least largest theta: linear programs that grow by demands", worst_routing, without_rules),
)

WORST_TOPOLOGY_METHODS = table(
    Method("auto", "the one method for several demands", worst_topology, without_rules),
    Method(
        WORST, "searches for single demands, their mean and envelope, then exchanges", worst_topology, without_rules
    ),
)

UNLISTED = set(ROUTERS) - set(ROUTING_METHODS) | set(EXACT) - set(TOPOLOGY_METHODS)
"""Methods of the solvers without a line here; a test holds it empty."""
