"""The methods of `topoopt solve` on network problems: literal tables, one for each kind, and the results they make."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from solvers.network.assembly import topology_plan
from solvers.network.enumeration import covers
from solvers.network.exact import METHODS as EXACT
from solvers.network.flows import RoutingProof, RoutingResult, network_of
from solvers.network.routing import ROUTING_METHODS as ROUTERS
from solvers.network.routing import WORST, refusal, route
from solvers.network.space import ExactLimits, TopologyResult, open_space
from topoopt.core.arrays import Floats
from topoopt.core.data import called_later
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.network import (
    BlockTree,
    EnumerationProof,
    LayerPrices,
    LengthCertificate,
    LinkTree,
    NetworkProblem,
    RelayCases,
    RelayPrices,
    RobustDesign,
    RoutingPlan,
    RoutingProblem,
    SourceFlow,
    TopologyPlan,
    TopologyProblem,
    price_certificate,
    single,
)
from topoopt.core.proofs import Argument, Bound, StopReason
from topoopt.core.result import Certificate, SearchResult
from topoopt.core.topology import Topology, strongly_connected
from topoopt.kinds.kind import (
    Effort,
    Method,
    MethodTables,
    ModelProof,
    PlanModel,
    Solver,
    covers_all,
    table,
)
from topoopt.kinds.network.read import too_large
from topoopt.kinds.pipeline import assembled
from topoopt.verify.checker import BRIEF, CheckFindings
from topoopt.verify.network.bounds import quick_bound
from topoopt.verify.network.checker import NetworkResult, check_network, checker_of

Routing = SearchResult[RoutingPlan]
Search = SearchResult[TopologyPlan]

SEARCHES = "topoopt.kinds.network.search"
"""Loaded by what searches beyond the exact methods."""

worst_case: Callable[..., Routing] = called_later("solvers.network.worst_case", "worst_case")
portfolio: Callable[..., Search] = called_later(SEARCHES, "portfolio")
seed_topology: Callable[..., Search] = called_later(SEARCHES, "seed_topology")
routed_topology: Callable[..., Search] = called_later(SEARCHES, "routed_topology")
robust: Callable[..., Search] = called_later(SEARCHES, "robust")
by_orbits: Callable[..., Search] = called_later(SEARCHES, "by_orbits")
not_uniform: Callable[[TopologyProblem], Problem | None] = called_later(SEARCHES, "not_uniform")
demand_links: Callable[[TopologyProblem], Topology] = called_later(SEARCHES, "demand_links")

ACCURACIES = ((70_000, 1e-6),)
"""Relative gap to prove, by columns of the linear program (sources times arcs): optimal up to about 128 servers."""

COARSE = 1e-3
"""The same beyond: seconds to minutes, not hours."""

MOST_EXACT = 8
"""Servers up to which `auto` proves an optimum in seconds (one more by enumeration); beyond, it can take hours."""


def routed(problem: RoutingProblem, effort: Effort, method: str) -> Routing:
    """Route by a method of `solvers.network.routing`."""

    def searched(result: RoutingResult) -> Routing:
        return SearchResult(
            plan=result.plan,
            certificates=result.certificates,
            bounds=(Bound(result.bound, Argument.ARC_LENGTHS),),
            stopped_by=result.stopped_by,
            method=result.method,
        )

    columns = problem.topology.servers * len(problem.topology.arcs) * (problem.max_hops or 1)
    result = route(
        problem.topology,
        problem.demand,
        method=method,
        accuracy=next((accuracy for most, accuracy in ACCURACIES if columns <= most), COARSE),
        max_hops=problem.max_hops,
        hop_price=problem.hop_price,
        stop=effort.stop,
        on_incumbent=lambda best: effort.keep(lambda: searched(best())),
    )
    return searched(result)


def exactly(problem: TopologyProblem, effort: Effort, method: str) -> Search:
    """Topology by a method of `solvers.network.exact`."""

    def keep(best: Search) -> None:
        effort.keep(lambda: best)

    result = EXACT[method](problem, ExactLimits(seed=effort.search.seed, stop=effort.stop, on_incumbent=keep))
    if not any(proof.argument is Argument.LISTED_NETWORKS for proof in result.certificates):
        return result
    bound = effort.optional("listing of all networks", lambda: _listed_bound(problem, result))
    return result if bound is None else replace(result, bounds=(*result.bounds, bound))


def _listed_bound(problem: TopologyProblem, result: TopologyResult) -> Bound | None:
    """A bound by networks which the checker can list itself; None where it cannot."""
    argument = Argument.LISTED_NETWORKS
    try:
        proven = checker_of(problem).bound(problem, argument, result.certificates)
    except InputError:  # too many to be listed
        return None
    return Bound(proven, argument) if proven >= result.bound.value * (1 - 1e-9) else None


def worst_routing(problem: RoutingProblem, effort: Effort) -> Routing:
    """Least largest theta over several demands."""
    return worst_case(problem, 0.0, seed=effort.search.seed, stop=effort.stop)


def worst_routing_over(problem: TopologyProblem, topology: Topology, effort: Effort) -> Search:
    """The same over links that are given, bounded over all topologies."""
    over = RoutingProblem(problem.name, topology, problem.demand, search=problem.search, routing=problem.routing)
    result = worst_routing(over, effort)
    return _as_topology(topology_plan(topology, result.plan), result, worst_bound(problem))


def _as_topology(plan: TopologyPlan, result: Routing, bound: Bound) -> Search:
    return SearchResult(
        plan=plan,
        certificates=result.certificates,
        bounds=(bound,),
        stopped_by=result.stopped_by,
        method=result.method,
    )


def worst_topology(problem: TopologyProblem, effort: Effort) -> Search:
    """Least largest theta over several demands."""
    if problem.single_links:
        return worst_routing_over(problem, demand_links(problem), effort)
    bound = worst_bound(problem)
    result = worst_case(problem, bound.value, seed=effort.search.seed, stop=effort.stop)
    assert isinstance(result.plan, TopologyPlan)
    return _as_topology(result.plan, result, bound)


def worst_bound(problem: TopologyProblem) -> Bound:
    """What bounds one of several demands bounds the worst."""
    bounds = [quick_bound(single(problem, k)) for k in range(len(problem.demands))]
    return max(bounds, key=lambda bound: bound.value)


def without_rules(problem: NetworkProblem) -> Problem | None:
    """Return the first constraint, which problems of several demands must not have, or None."""
    rules = problem.rules
    return Problem("not with several demands", path=rules[0], allowed="left out") if rules else None


def choose(problem: TopologyProblem, effort: Effort) -> Search:
    """The exact methods where they are quick, the portfolio for all others; robust where that is asked for."""
    return _least_theta(problem, effort) if problem.search.robust is None else _robust(problem, effort)


def _robust(problem: TopologyProblem, effort: Effort) -> Search:
    return robust(problem, effort, _least_theta)


def _least_theta(problem: TopologyProblem, effort: Effort) -> Search:
    if problem.servers <= MOST_EXACT or (problem.servers == MOST_EXACT + 1 and covers(open_space(problem))):
        return exactly(problem, effort, "exact")
    return portfolio(problem, effort) if not_uniform(problem) else by_orbits(problem, effort)


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
    _router("orbits", "exact where a group keeps links and demand: one source of each orbit stands for all"),
)

TOPOLOGY_METHODS = table(
    Method("auto", "exact when small, orbits for uniform demand, else portfolio", choose),
    _exact("exact", "bounds, then the exact method that suits the problem"),
    _exact("milp", "joint topology and routing program by HiGHS, then the same proof"),
    _exact("enumerate", "all regular networks up to renaming; uniform demand, directed links"),
    _exact("branch-and-bound", "all topologies of at most 10 servers, with a proof that the checker evaluates"),
    _exact("circulant", "best circulant; exact among circulants only"),
    Method("portfolio", "best of all seeds, then annealing and polish", portfolio),
    Method("orbits", "orbits of links annealed under imposed groups; uniform demand", by_orbits, not_uniform),
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


# Topologies given by hand, routed anew with a certificate.

BY_HAND = "given"


def given_routing(
    problem: RoutingProblem, effort: Effort, solution: NetworkResult | None, *, topology: Topology | None = None
) -> tuple[RoutingProblem, Routing]:
    """The demand of a problem over another topology: the problem this makes, and its routing.

    Raises:
        InputError: no topology, or one of other servers. InfeasibleError: some demand cannot be routed over it.
    """
    changed = replace(problem, topology=_given(problem.topology.servers, solution, topology), sha256="")
    result = worst_routing(changed, effort) if changed.several else routed(changed, effort, "auto")
    return changed, replace(result, method=BY_HAND)


def given_links(
    problem: TopologyProblem, effort: Effort, solution: NetworkResult | None, *, topology: Topology | None = None
) -> tuple[TopologyProblem, Search]:
    """The demand of a problem over links given by hand, bounded over all topologies.

    Raises:
        InputError: no topology, one of other servers, or one that breaks a constraint of the problem.
    """
    given = _given(problem.servers, solution, topology)
    spaces = [open_space(single(problem, k)) for k in range(len(problem.demands))]
    for space in spaces:
        broken = space.broken(given.adjacency())
        if broken is not None:
            raise InputError([Problem(f"the topology breaks a constraint: {broken}", path="topology")])
    if given.rates is not None:
        text = "the topology has rates of its own"
        raise InputError([Problem(text, path="topology", allowed="links that all have one rate")])
    units = np.repeat(given.arcs, given.multiplicity, axis=0)
    patched = Topology.of_arcs(
        problem.servers, units, degree=problem.degree, links=problem.links, origin=given.origin or BY_HAND
    )
    if not problem.several:
        return problem, routed_topology(spaces[0], patched, BY_HAND, effort.stop)
    return problem, replace(worst_routing_over(problem, patched, effort), method=BY_HAND)


def _given(servers: int, solution: NetworkResult | None, topology: Topology | None) -> Topology:
    given = topology if topology is not None or solution is None else solution.figures.topology
    if given is None:
        raise InputError([Problem("no topology", path="topology", allowed="a topology, or a solution that has one")])
    if given.servers != servers:
        text, value = "another number of servers", str(given.servers)
        raise InputError([Problem(text, path="topology.servers", value=value, allowed=str(servers))])
    return given


# Models that a user may have changed.

MODEL = "model"


def _joint_model(problem: TopologyProblem) -> Any:
    from formulations import joint_topology

    data = joint_topology.joint_topology_data(problem, symmetry=False)
    return joint_topology.joint_topology_pyomo(replace(data, lower=0.0))


def _joint_plan(problem: TopologyProblem, model: Any, effort: Effort, proof: ModelProof) -> Routing:
    n = problem.servers
    counts = np.zeros((n, n), dtype=np.int64)
    for (i, j), variable in model.x.items():
        counts[i, j] = round(variable.value)
    units = np.repeat(np.argwhere(counts > 0), counts[counts > 0], axis=0)
    throughput = float(model.throughput.value)
    if throughput <= 0.0 or not strongly_connected(n, units.astype(np.int32)):
        if proof.stopped_by is not StopReason.CONVERGED:
            raise LimitError("the limit came before the solver found a plan that carries any demand")
        raise InfeasibleError("the solution of the model joins too few servers to carry the demand: throughput is 0")
    topology = Topology.of_arcs(n, units, degree=problem.degree, links=problem.links, origin=MODEL)
    result = routed_topology(open_space(problem), topology, MODEL, effort.stop)
    arcs = [(int(i), int(j)) for i, j in topology.arcs]
    flow = np.array([[_value(model.f, (s, i, j)) / throughput for i, j in arcs] for s in range(n)], dtype=np.float64)
    argument = Argument.OWN_MODEL if proof.restricted else Argument.TOPOLOGY_BRANCHING
    claims = () if proof.bound is None else (Bound(1.0 / proof.bound, argument),)
    return _with_flow(problem, topology, result, flow, claims, proof)


def _flow_model(problem: RoutingProblem) -> Any:
    if problem.max_hops is not None:
        text, value = "this formulation knows no hop limit", str(problem.max_hops)
        raise InputError([Problem(text, path="max_hops", value=value, allowed="left out")])
    from formulations import flow_routing

    return flow_routing.concurrent_flow_pyomo(flow_routing.concurrent_flow_data(problem))


def _flow_plan(problem: RoutingProblem, model: Any, effort: Effort, proof: ModelProof) -> Routing:
    result = routed(problem, effort, "auto")
    servers, arcs = range(problem.topology.servers), range(len(problem.topology.arcs))
    flow = np.array([[_value(model.flow, (s, a)) for a in arcs] for s in servers], dtype=np.float64)
    return _with_flow(problem, problem.topology, result, flow, (), proof)


def _value(variables: Any, index: Any) -> float:
    """Of a variable; 0 where there is none, or it stands in no row."""
    value = variables[index].value if index in variables else None
    return 0.0 if value is None else max(0.0, float(value))


def _with_flow(
    problem: NetworkProblem,
    topology: Topology,
    result: SearchResult[Any],
    flow: Floats,
    claims: tuple[Bound, ...],
    proof: ModelProof,
) -> Routing:
    """The flows of the model, made to deliver the demand to rounding, in place of those of the search; the certificate
    stays: it bounds every routing over these links."""
    exact = RoutingProof(network_of(topology, problem.demand), 1e-6)
    exact.offer_rough_flow(flow, np.ones(len(topology.arcs)))
    assert exact.flow is not None
    return replace(
        result,
        plan=replace(result.plan, flows=(SourceFlow(exact.flow),)),
        bounds=(*result.bounds, *claims),
        stopped_by=proof.stopped_by,
        notes=(*result.notes, *proof.notes),
    )


def models_of(problem: NetworkProblem) -> Mapping[str, PlanModel]:
    """Formulations whose solutions are plans of a problem with one demand; none for several."""
    if problem.several:
        return {}
    if isinstance(problem, RoutingProblem):
        return {"concurrent_flow": (_flow_model, _flow_plan)}
    return {"joint_topology": (_joint_model, _joint_plan)}


# From a search to a result, and solution files of format 2.


def methods_of(problem: NetworkProblem) -> Mapping[str, Method]:
    """The methods for a problem; what they need is loaded here, before the time of a search begins."""
    importlib.import_module("topoopt.kinds.network.figures")
    if isinstance(problem, TopologyProblem) and not (
        problem.servers <= MOST_EXACT and problem.search.method in ("auto", *EXACT) and problem.search.robust is None
    ):
        importlib.import_module(SEARCHES)
    if isinstance(problem, RoutingProblem):
        return WORST_ROUTING_METHODS if problem.several else ROUTING_METHODS
    return WORST_TOPOLOGY_METHODS if problem.several else TOPOLOGY_METHODS


def method_tables(kind: str) -> MethodTables:
    single_demand, several = (
        (ROUTING_METHODS, WORST_ROUTING_METHODS) if kind == "routing" else (TOPOLOGY_METHODS, WORST_TOPOLOGY_METHODS)
    )
    return (("one demand", single_demand), ("several demands", several))


def assemble(problem: NetworkProblem, search: Routing, effort: Effort) -> NetworkResult:
    """The result of a search, with the certificates that its bound and its routing rest on."""
    result = assembled(problem, search, effort, checker_of(problem))
    stored = {Argument.ARC_LENGTHS, Argument.ARC_PRICES, result.bound.argument} - {Argument.TWO_LAYER}
    proofs = [proof for proof in result.certificates if proof.argument in stored]
    return replace(result, certificates=tuple(proofs))


def _checked(problem: NetworkProblem, search: Routing, result: NetworkResult) -> CheckFindings:
    """Check with the multipliers of the search, which are too large for a file."""
    multipliers = [proof for proof in search.certificates if proof.argument is Argument.TWO_LAYER]
    return check_network(problem, replace(result, certificates=(*result.certificates, *multipliers)), BRIEF)


PARTS = 16
"""One row of so many is written to measure how long all take."""


def _excerpt(result: NetworkResult) -> tuple[NetworkResult, int]:
    flows = result.plan.flows
    if not flows or len(flows[0].flow) < PARTS:
        return result, 1
    rows = len(flows[0].flow) // PARTS
    parts = tuple(
        SourceFlow(flow.flow[:rows], None if flow.by_hop is None else flow.by_hop[:, :rows]) for flow in flows
    )
    return replace(result, plan=replace(result.plan, flows=parts)), PARTS


def from_format_2(problem: NetworkProblem, document: Mapping[str, Any]) -> tuple[RoutingPlan, tuple[Certificate, ...]]:
    """Return the plan and the certificates of a solution file of format 2."""
    topology, routing = document["topology"], document["routing"]
    arcs, n = len(topology["arcs"]), topology["servers"]
    if routing["mode"] == "common":
        plan = RoutingPlan(split=_dense(routing["split"], arcs))
        proofs = [price_certificate(np.array(routing["prices"], dtype=np.float64))]
    else:
        boxes = routing.get("boxes") or [[] for _ in routing["flows"]]
        hops = routing.get("hop_flows") or [None for _ in routing["flows"]]
        plan = RoutingPlan(
            flows=tuple(
                SourceFlow(
                    _dense(rows, arcs),
                    None if parts is None else np.array([_dense(part, arcs) for part in parts]),
                    tuple(box),
                )
                for rows, parts, box in zip(routing["flows"], hops, boxes, strict=True)
            )
        )
        lengths = [LengthCertificate(np.array(row, dtype=np.float64)) for row in routing["lengths"]]
        proofs = [proof.certificate(flow) for proof, flow in zip(lengths, plan.flows, strict=True)]
    if isinstance(problem, RoutingProblem):
        return plan, tuple(proofs)
    switches = np.array(topology["switches"], dtype=np.int32).reshape(-1, n)
    if not (switches >= 0).any():
        units = [[tail, head] for tail, head, count in topology["arcs"] for _ in range(count)]
        links = Topology.of_arcs(n, np.array(units), degree=problem.degree, links=problem.links)
        switches = topology_plan(links, plan).circuits
    robust_design, failed = _robust_of(document.get("robustness"), arcs)
    chosen = TopologyPlan(
        flows=plan.flows,
        split=plan.split,
        circuits=switches,
        origin=topology.get("origin", ""),
        robust=robust_design,
    )
    return chosen, (*proofs, *_proofs_of(problem, document), *failed)


def _dense(rows: Sequence[Any], arcs: int) -> Floats:
    table = np.zeros((len(rows), arcs))
    for row, (used, amounts) in enumerate(rows):
        table[row, used] = amounts
    return table


def _robust_of(part: Mapping[str, Any] | None, arcs: int) -> tuple[RobustDesign | None, tuple[Certificate, ...]]:
    if part is None:
        return None, ()
    claimed, link = part.get("claimed_bound"), part["worst_link"]
    failures = tuple(_dense(rows, arcs) for _, _, rows in part["failures"])
    design = RobustDesign(
        nominal_theta=part["nominal_theta"],
        nominal_worst_theta=part["nominal_worst_theta"],
        failures=failures,
        worst_theta=None if failures else part["worst_theta"],
        worst_link=None if failures else tuple(link),
        enumerated_theta=None if claimed is None else claimed["value"],
    )
    if part.get("lengths") is None:
        return design, ()
    arrays = {"lengths": np.array(part["lengths"], dtype=np.float64), "link": np.array(link, dtype=np.int64)}
    return design, (Certificate(Argument.ARC_LENGTHS, arrays),)


def _proofs_of(problem: TopologyProblem, document: Mapping[str, Any]) -> Iterator[Certificate]:
    theta = document["bound"]["value"]
    if (networks := document.get("enumeration")) is not None:
        heads = np.array([network["heads"] for network in networks], dtype=np.int64)
        lengths = np.array([network["lengths"] for network in networks], dtype=np.float64)
        yield EnumerationProof(heads, lengths).certificate(theta)
    if (tree := document.get("tree")) is not None:
        order = np.array(tree["order"], dtype=np.int64)
        yield LinkTree(order, np.array(tree["multipliers"], dtype=np.int64)).certificate(theta)
    if (nodes := document.get("blocks")) is not None:
        tables = {name: np.array(nodes[name], dtype=np.int64) for name in nodes if name != "theta"}
        yield BlockTree(theta=nodes["theta"], **tables).certificate()
    if (layers := document.get("layer_prices")) is not None:
        yield LayerPrices(*(np.array(layers[name], dtype=np.float64) for name in ("alpha", "beta"))).certificate()
    if (relay := document.get("relay_prices")) is not None:
        yield _relay_of(relay).certificate()
    if (cases := document.get("relay_cases")) is not None:
        splits = np.array(cases["splits"], dtype=np.int64).reshape(-1, 3)
        yield RelayCases(splits, tuple(_relay_of(prices) for prices in cases["prices"])).certificate()


def _relay_of(part: Mapping[str, Any]) -> RelayPrices:
    names = ("price", "relief", "shift", "most")
    return RelayPrices(part["theta"], *(np.array(part[name], dtype=np.float64) for name in names))


SOLVER = Solver(methods_of, assemble, method_tables, _checked, models=models_of, excerpt=_excerpt)
