"""The methods of `topoopt solve` on network problems: two literal tables, one for each kind."""

from __future__ import annotations

from functools import partial

from solvers.network.exact import METHODS as EXACT
from solvers.network.exact import ExactLimits, TopologyResult
from solvers.network.exact.enumeration import covers
from solvers.network.exact.space import open_space
from solvers.network.routing import ROUTING_METHODS as ROUTERS
from solvers.network.routing import route
from topoopt.core.errors import InputError
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.solution import Argument, Bound, Proof
from topoopt.kinds.kind import Effort, Method, table
from topoopt.kinds.network.heuristics import portfolio, seed_topology
from topoopt.kinds.network.outcome import Outcome
from topoopt.kinds.network.robust import robust
from topoopt.verify.network.regular_networks import enumeration_bound

ACCURACIES = ((70_000, 1e-6), (300_000, 1e-3))
"""Relative gap to prove, by columns of the linear program (sources times arcs): optimal up to about 128 servers."""

COARSE = 1e-2
"""The same beyond: seconds to minutes, not hours."""

LISTED = "link lengths of all networks with few hops"
"""Name of a bound by enumeration that the checker lists and proves again."""

BY_LENGTHS = "lengths of the arcs (linear-programming duality)"

MOST_EXACT = 8
"""Servers up to which `auto` proves an optimum in seconds (one more by enumeration); beyond, it can take hours."""


def accuracy_for(problem: RoutingProblem) -> float:
    """Relative gap at which a routing is good enough for its size."""
    columns = problem.topology.servers * len(problem.topology.arcs) * (problem.max_hops or 1)
    return next((accuracy for most, accuracy in ACCURACIES if columns <= most), COARSE)


def routed(problem: RoutingProblem, effort: Effort, method: str) -> Outcome:
    """Route by a method of `solvers.network.routing`."""
    found = route(
        problem.topology,
        problem.demand,
        method=method,
        accuracy=accuracy_for(problem),
        max_hops=problem.max_hops,
        hop_price=problem.hop_price,
        stop=effort.stop,
    )
    return Outcome(
        topology=problem.topology,
        flow=found.flow,
        certificate=found.certificate,
        routing_bound=found.bound,
        bound=Bound(found.bound, BY_LENGTHS),
        stopped_by=found.stopped_by,
        method=found.method,
    )


def exactly(problem: TopologyProblem, effort: Effort, method: str) -> Outcome:
    """Topology by a method of `solvers.network.exact`."""
    found = EXACT[method].run(problem, ExactLimits(seed=effort.search.seed, stop=effort.stop))
    bound = _proven_again(problem, found)
    notes = (f"searched {found.restriction} only",) if found.restriction else ()
    return Outcome(
        topology=found.topology,
        flow=found.flow,
        certificate=found.certificate,
        routing_bound=found.routing_bound,
        bound=bound,
        stopped_by=found.stopped_by,
        method=found.method,
        notes=notes,
        enumeration=None if bound.proof is None else found.enumeration,
    )


def _proven_again(problem: TopologyProblem, found: TopologyResult) -> Bound:
    """The bound of an exact method; under another name where it stands on networks that the checker can list itself."""
    bound = Bound(found.bound, found.proved_by)
    if found.enumeration is None:
        return bound
    unit = float(problem.demand[0, 1])
    try:
        proven = unit * enumeration_bound(problem.servers, problem.degree, found.enumeration, found.bound / unit)
    except InputError:  # too many to be listed
        return bound
    return Bound(proven, LISTED, Proof(Argument.LISTED_NETWORKS)) if proven >= found.bound * (1 - 1e-9) else bound


def choose(problem: TopologyProblem, effort: Effort) -> Outcome:
    """The exact methods where they are quick, the portfolio for all others; robust where that is asked for."""
    return _least_theta(problem, effort) if problem.search.robust is None else _robust(problem, effort)


def _robust(problem: TopologyProblem, effort: Effort) -> Outcome:
    return robust(problem, effort, _least_theta)


def _least_theta(problem: TopologyProblem, effort: Effort) -> Outcome:
    n = problem.servers
    if n <= MOST_EXACT or (n == MOST_EXACT + 1 and covers(open_space(problem))):
        return exactly(problem, effort, "exact")
    return portfolio(problem, effort)


def _router(name: str, summary: str) -> Method:
    return Method(name, summary, partial(routed, method=name))


def _exact(name: str, summary: str) -> Method:
    return Method(name, summary, partial(exactly, method=name))


def _seed(name: str, summary: str) -> Method:
    return Method(name, summary, partial(seed_topology, name=name))


ROUTING_METHODS = table(
    _router("auto", "by structure, size and accuracy"),
    _router("simplex", "linear program, HiGHS dual simplex"),
    _router("ipx", "linear program, HiGHS interior points without crossover"),
    _router("pdlp", "linear program, first-order method"),
    _router("frank-wolfe", "block Frank-Wolfe on a softmax potential"),
    _router("column-generation", "source trees priced one by one"),
    _router("path-generation", "paths priced one by one"),
    _router("circulant", "reduction of circulants with shift-invariant demand"),
)

TOPOLOGY_METHODS = table(
    Method("auto", "exact when small, else portfolio", choose),
    _exact("exact", "bounds, then the exact method that suits the problem"),
    _exact("milp", "joint topology and routing program by HiGHS"),
    _exact("enumerate", "all regular networks up to renaming; uniform demand, directed links"),
    _exact("brute-force", "all topologies of at most 5 servers"),
    _exact("circulant", "best circulant; exact among circulants only"),
    Method("portfolio", "best of all seeds, then annealing and polish", portfolio),
    Method("robust", "least theta after the worst single link failure", _robust),
    _seed("totient", "TotientPerms with the paper's ring distances, routed"),
    _seed("matching", "heaviest matchings of the demand, routed"),
    _seed("kautz", "generalized Kautz graph, routed"),
    _seed("random", "random regular graph, routed"),
)

UNLISTED = set(ROUTERS) - set(ROUTING_METHODS) | set(EXACT) - set(TOPOLOGY_METHODS)
"""Methods of the solvers without a line here; a test holds it empty."""
