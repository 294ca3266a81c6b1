"""The checker of network problems: links, flows, hops, the bound by its argument, and failures of single links.

The bound on theta over all topologies is derived by its argument from the instance and the certificates, no other is
believed. The multipliers of the two-layer formula are too large for a file: whoever checks hands them over as a
certificate, since the formula holds for any.

An argument is added as a row of a table here, and of `docs/checking.md`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.network import (
    BlockTree,
    EnumerationProof,
    LayerPrices,
    LinkTree,
    NetworkProblem,
    RelayCases,
    RobustDesign,
    RoutingPlan,
    RoutingProblem,
    SourceFlow,
    TopologyPlan,
    TopologyProblem,
    TwoLayerMultipliers,
    network_of,
    relay_prices_of,
    single,
)
from topoopt.core.proofs import Argument, Tolerance
from topoopt.core.result import Certificate, Result
from topoopt.core.topology import Topology
from topoopt.verify.checker import CheckDepth, Checker, CheckFindings, Derivation, ViolationLog
from topoopt.verify.laws.networks import check_topology, hop_counts
from topoopt.verify.laws.routing import certified_theta_bound, check_flow, check_hops, generators_of, orbits_of
from topoopt.verify.network.bounds import (
    SEARCHED,
    evaluate_cases,
    evaluate_layered,
    evaluate_relay,
    failed_link_bounds,
    formulas,
    two_layer_from,
)
from topoopt.verify.network.trees import blocks_bound, enumeration_bound, tree_bound

RELATIVE = Tolerance.ROUNDING.relative
"""Rounding forgiven in recomputed figures."""

OPTIMAL = Tolerance.LINEAR_PROGRAM.relative

MAX_MESSAGES = 10
UNIT = 2.0**-52

NetworkResult = Result[NetworkProblem, RoutingPlan]


# Constraints of the links.


def interfaces(problem: TopologyProblem, plan: RoutingPlan) -> Iterator[str]:
    """Circuits make links of the servers and interfaces of the problem, fibre pairs where links are bidirectional.

    Servers without demand between them need not be connected: the flow shows what must be.
    """
    if not isinstance(plan, TopologyPlan):
        yield "a plan without circuits"
        return
    cluster = Cluster(problem.servers, 1, problem.degree, 1.0, links=problem.links)  # rates play no part here
    log = ViolationLog()
    check_topology(log, cluster, network_of(problem, plan))
    yield from (str(violation) for violation in log.violations() if violation.code != "not-connected")


def _link_counts(problem: TopologyProblem, plan: RoutingPlan) -> Ints:
    return network_of(problem, plan).adjacency()


def nothing_forbidden(problem: TopologyProblem, plan: RoutingPlan) -> Iterator[str]:
    """No pair of servers is linked that may not be."""
    links = _link_counts(problem, plan)
    for tail, head in problem.forbidden:
        if links[tail, head]:
            yield f"{links[tail, head]} links {tail} -> {head}, which is forbidden"


def no_parallel_links(problem: TopologyProblem, plan: RoutingPlan) -> Iterator[str]:
    """No pair of servers has two links where one is allowed."""
    if not problem.parallel_links:
        links = _link_counts(problem, plan)
        for tail, head in np.argwhere(links > 1)[:MAX_MESSAGES].tolist():
            yield f"{links[tail, head]} parallel links {tail} -> {head}, at most one allowed"


def links_retained(problem: TopologyProblem, plan: RoutingPlan) -> Iterator[str]:
    """No more links of the network as it stands are given up than may be."""
    if problem.max_changed is None:
        return
    links = _link_counts(problem, plan)
    kept = np.zeros_like(links)
    for tail, head in problem.kept:
        kept[tail, head] += 1
    both = problem.links is LinkDirection.BIDIRECTIONAL
    if both:  # listed in one direction or in both
        kept = np.maximum(kept, kept.T)
    lost = int(np.maximum(kept - links, 0).sum()) // (2 if both else 1)
    if lost > problem.max_changed:
        yield f"{lost} links of the network as it stands given up, at most {problem.max_changed}"


def servers_near(problem: TopologyProblem, plan: RoutingPlan) -> Iterator[str]:
    """Every server is within so many hops of every other."""
    if problem.max_hops is not None:
        hops = hop_counts(_link_counts(problem, plan) > 0)
        for source, target in np.argwhere((hops < 0) | (hops > problem.max_hops))[:MAX_MESSAGES].tolist():
            yield f"server {target} is {hops[source, target]} hops from server {source} (-1: no path)"


# Constraints of the routing.


def all_demand_routed(problem: NetworkProblem, plan: RoutingPlan) -> Iterator[str]:
    """Every demand is carried, and nothing is lost on its path."""
    yield from thetas_of(problem, plan)[1]


def short_paths(problem: RoutingProblem, plan: RoutingPlan) -> Iterator[str]:
    """No path is longer than allowed: a flow is made of simple paths and circles, which have n - 1 hops at most."""
    limit = problem.max_hops
    if limit is not None and limit < problem.topology.servers - 1:
        for flow in plan.flows:
            yield from check_hops(problem.topology, flow, limit)


def thetas_of(problem: NetworkProblem, plan: RoutingPlan) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """theta of every demand, and what is wrong with the routing."""
    topology, demands = network_of(problem, plan), problem.demands
    if problem.common:
        if plan.split is None or plan.flows:
            return (math.inf,) * len(demands), ("the demands need one routing in common",)
        return common_thetas(topology, demands, problem.pairs, plan.split)
    if plan.split is not None or len(plan.flows) != len(demands):
        return (math.inf,) * len(demands), (f"{len(plan.flows)} flows for {len(demands)} demands",)
    checks = [check_flow(topology, demand, flow) for demand, flow in zip(demands, plan.flows, strict=True)]
    names = [f"demand {k}: " for k in range(len(checks))] if len(checks) > 1 else [""]
    wrong = [name + text for name, check in zip(names, checks, strict=True) for text in check.violations]
    return tuple(check.theta for check in checks), tuple(wrong)


def common_thetas(
    topology: Topology, demands: Floats, pairs: Ints, split: Floats
) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """theta of every demand under one split of the pairs, and what is wrong with it: parts lost or negative."""
    n, arcs = topology.servers, topology.arcs
    if split.shape != (len(pairs), len(arcs)) or not np.isfinite(split).all():
        return (math.inf,) * len(demands), (f"parts of shape {split.shape} do not fit, or are not finite",)
    wrong = ["a part is negative"] if (split < 0).any() else []
    for (source, target), row in zip(pairs.tolist(), split, strict=True):
        stays = np.bincount(arcs[:, 1], row, n) - np.bincount(arcs[:, 0], row, n)
        stays[source] += 1.0
        stays[target] -= 1.0
        if np.abs(stays).max() > RELATIVE:
            wrong.append(f"traffic {source} -> {target} is lost on its path")
    loads = demands[:, pairs[:, 0], pairs[:, 1]] @ split / topology.capacity
    return tuple(float(value) for value in loads.max(axis=1, initial=0.0)), tuple(wrong[:MAX_MESSAGES])


# Objective.


def objective_name(problem: NetworkProblem) -> tuple[str, str]:
    if isinstance(problem, RoutingProblem) and problem.hop_price:
        return "completion-time", "time of a unit of demand on a link"
    return ("worst-theta" if problem.several else "theta"), "link capacity"


def objective_value(problem: NetworkProblem, plan: RoutingPlan) -> float:
    """The largest theta, and the price of the mean hops of the demand."""
    value = max(thetas_of(problem, plan)[0])
    if isinstance(problem, RoutingProblem) and problem.hop_price:
        flow = plan.flows[0]
        sent = float(flow.flow.sum()) * (problem.topology.servers // len(flow.flow))
        value += problem.hop_price * sent / float(problem.demand.sum())
    return value


# Bounds of given links.


def routing_bound(problem: NetworkProblem, topology: Topology, certificates: Sequence[Certificate]) -> float:
    """What lengths or prices prove of the largest objective of all demands over given links.

    Raises:
        InputError, InfeasibleError, ValueError: They prove nothing.
    """
    if problem.common:
        prices = required(certificates, Argument.ARC_PRICES).floats("prices", len(problem.demands), -1)
        return common_bound(topology, problem.demands, prices)
    limit, price = (problem.max_hops, problem.hop_price) if isinstance(problem, RoutingProblem) else (None, 0.0)
    proofs = [proof for proof in certificates if proof.argument is Argument.ARC_LENGTHS and "link" not in proof.arrays]
    if len(proofs) != len(problem.demands):
        raise ValueError(f"lengths for {len(proofs)} demands, {len(problem.demands)} expected")
    return max(
        certified_theta_bound(
            topology,
            demand,
            proof.floats("lengths", -1),
            max_hops=limit,
            hop_price=price,
            moves=_moves(topology, demand, proof),
        )
        for demand, proof in zip(problem.demands, proofs, strict=True)
    )


def _moves(topology: Topology, demand: Floats, proof: Certificate) -> Ints | None:
    """Generators of the group that a certificate states; it saves time beyond 128 servers, and must be right below.

    Raises:
        ValueError: They are no permutations that keep links, demand and lengths, with orbits of one size.
    """
    n = topology.servers
    if "generators" in proof.arrays:
        moves = generators_of(n, (), proof.integers("generators", -1, n))
    elif "box" in proof.arrays:
        box = tuple(proof.integers("box", -1).tolist())
        moves = generators_of(n, box) if box else None
    else:
        return generators_of(n, ())  # tried: the certificate states no group
    orbits, lengths = orbits_of(topology, moves), proof.floats("lengths", -1)
    if orbits is None or not len(orbits.moves):
        text = "the generators of the lengths are no permutations that keep the links, with orbits of one size"
        raise ValueError(text)
    if any((demand[np.ix_(move, move)] != demand).any() for move in orbits.moves):
        raise ValueError("the generators of the lengths do not keep the demand")
    if lengths.shape != orbits.arcs.shape or (lengths[orbits.arcs] != lengths).any():
        raise ValueError("the generators do not keep the lengths")
    return moves


def common_bound(topology: Topology, demands: Floats, prices: Floats) -> float:
    """What `prices` (float64[k, m]) prove of every common routing, less a margin for rounding.

    Raises:
        InputError: Prices that are negative, not finite, all 0 or of another shape.
        InfeasibleError: Demand between servers that no path joins.
    """
    n, arcs = topology.servers, topology.arcs
    fits = prices.shape == (len(demands), len(arcs))
    if not fits or not np.isfinite(prices).all() or (prices < 0).any() or not prices.any():
        raise InputError("certificate: prices must fit the matrices and arcs, be finite, not negative, not all 0")
    pairs = np.argwhere(demands.max(axis=0) > 0)
    lengths = demands[:, pairs[:, 0], pairs[:, 1]].T @ prices
    distance = np.full((len(pairs), n), math.inf)
    distance[np.arange(len(pairs)), pairs[:, 0]] = 0.0
    for _ in range(n - 1):
        before = distance.copy()
        for a, (tail, head) in enumerate(arcs.tolist()):
            np.minimum(distance[:, head], distance[:, tail] + lengths[:, a], out=distance[:, head])
        if np.array_equal(before, distance):
            break
    ends = distance[np.arange(len(pairs)), pairs[:, 1]]
    if not np.isfinite(ends).all():
        raise InfeasibleError("demand between servers that no path joins")
    price = float((prices @ topology.capacity).sum())
    terms = len(demands) + n + len(pairs) + prices.size + 8
    return float(ends.sum()) / price * (1.0 - 2.0 * terms * UNIT)


def routing_arguments(problem: RoutingProblem) -> Mapping[Argument, Derivation]:
    """Of the objective on the topology given: duality with lengths or prices."""
    argument = Argument.ARC_PRICES if problem.common else Argument.ARC_LENGTHS
    return {argument: lambda given, certificates: routing_bound(given, given.topology, certificates)}


RELAYS = frozenset({"theta", "price", "relief", "shift", "most"})
ARRAYS: Mapping[Argument, Sequence[frozenset[str]]] = {
    Argument.ARC_LENGTHS: tuple(frozenset({"lengths", *more}) for more in ((), ("box",), ("generators",), ("link",))),
    Argument.ARC_PRICES: (frozenset({"prices"}),),
    Argument.LAYERED_MOORE: (frozenset({"alpha", "beta"}),),
    Argument.TWO_LAYER: (frozenset({"weight", "first_link"}),),
    Argument.RELAY_BLOCKS: (RELAYS,),
    Argument.RELAY_CASES: (RELAYS | {"splits"},),
    Argument.LISTED_NETWORKS: (frozenset({"theta", "heads", "lengths"}),),
    Argument.LINK_TREE: (frozenset({"theta", "order", "multipliers"}),),
    Argument.LINK_BLOCKS: (frozenset({"theta", "parent", "heads", "server", "bar", "price", "relief", "shift"}),),
}
"""What derivations here read of the certificates of each argument."""


def certificates_read(problem: NetworkProblem, result: NetworkResult) -> Iterator[str]:
    """Every certificate has the arrays that are read, no others, and serves the links or proves a bound.

    That of the bound of the objective is read with it; others must prove something that the objective keeps.
    """
    robust = result.plan.robust if isinstance(result.plan, TopologyPlan) else None
    of_links = (Argument.ARC_PRICES, 1) if problem.common else (Argument.ARC_LENGTHS, len(problem.demands))
    derivations = checker_of(problem).arguments(problem)
    bounding = set(derivations) & set(ARRAYS) - {of_links[0], *([Argument.LAYERED_MOORE] if problem.several else [])}
    most = Counter({(of_links[0], False): of_links[1], **{(argument, False): 1 for argument in bounding}})
    if robust is not None and robust.failures:
        most[Argument.ARC_LENGTHS, True] = 1
    count = Counter((proof.argument, "link" in proof.arrays) for proof in result.certificates)
    for (argument, _), number in (count - most).items():
        yield f"{number} certificates for {argument} that nothing here reads"
    for proof in result.certificates:
        argument = proof.argument
        if argument in ARRAYS and set(proof.arrays) not in ARRAYS[argument]:
            yield f"a certificate for {argument} with the arrays {', '.join(sorted(proof.arrays)) or 'none'}"
        elif argument in bounding and argument is not result.bound.argument:
            try:
                proven = derivations[argument](problem, result.certificates)
            except (InputError, InfeasibleError, ValueError) as error:
                yield f"the certificate for {argument} proves nothing: {error}"
                continue
            if not 0 < proven <= result.objective.value * (1 + RELATIVE):
                yield f"the certificate for {argument} proves {proven!r} of an objective {result.objective.value!r}"


# Bounds of all topologies.


def required(certificates: Sequence[Certificate], argument: Argument) -> Certificate:
    """The certificate of an argument.

    Raises:
        ValueError: There is none.
    """
    proof = next((proof for proof in certificates if proof.argument is argument), None)
    if proof is None:
        raise ValueError("its certificate is missing")
    return proof


def largest_formula(problem: TopologyProblem, argument: Argument) -> float:
    """The largest of all demands by a formula without multipliers; what bounds one demand bounds the worst."""
    bounds = [bound for k in range(len(problem.demands)) for bound in formulas(single(problem, k))]
    values = [bound.value for bound in bounds if bound.argument is argument]
    if not values:
        raise InputError("it does not hold for this problem")
    return max(values)


def layered(problem: TopologyProblem, certificates: Sequence[Certificate]) -> float:
    """By the prices of the certificate; without any by those that are searched anew."""
    proof = next((proof for proof in certificates if proof.argument is Argument.LAYERED_MOORE), None)
    if proof is None or problem.several:
        return largest_formula(problem, Argument.LAYERED_MOORE)
    prices = LayerPrices.of(proof, problem.servers)
    return evaluate_layered(problem.servers, problem.degree, problem.demand, prices, problem.links)


def two_layer(problem: TopologyProblem, certificates: Sequence[Certificate]) -> float:
    """By the multipliers that whoever checks hands over."""
    proof, n = required(certificates, Argument.TWO_LAYER), problem.servers
    first = np.asarray(proof["first_link"], dtype=np.float32).reshape(n, n, n)
    multipliers = TwoLayerMultipliers(proof.floats("weight", n, n), first)
    return two_layer_from(n, problem.degree, problem.demand, multipliers)[0]


def relay(problem: TopologyProblem, certificates: Sequence[Certificate]) -> float:
    """By the prices of the certificate; the most around each server is shown by branch and bound."""
    (prices,) = relay_prices_of(required(certificates, Argument.RELAY_BLOCKS), problem.servers)
    return evaluate_relay(problem.servers, problem.degree, problem.demand, prices)


def relay_by_cases(problem: TopologyProblem, certificates: Sequence[Certificate]) -> float:
    """By the prices of every case."""
    cases = RelayCases.of(required(certificates, Argument.RELAY_CASES), problem.servers)
    return evaluate_cases(problem.servers, problem.degree, problem.demand, cases)


def branched(problem: TopologyProblem, certificates: Sequence[Certificate]) -> float:
    """The tree is visited again, and the lengths are held against every leaf."""
    proof = required(certificates, Argument.LINK_TREE)
    return tree_bound(problem, LinkTree.of(proof, problem.servers), proof.scalar("theta"))


def blocks(problem: TopologyProblem, certificates: Sequence[Certificate]) -> float:
    """Every node is looked at again with its prices."""
    return blocks_bound(problem, BlockTree.of(required(certificates, Argument.LINK_BLOCKS), problem.servers))


def listed(problem: TopologyProblem, certificates: Sequence[Certificate]) -> float:
    """The networks are listed again, and what the lengths prove of each is looked at."""
    demand, unit = problem.demand, float(problem.demand[0, 1])
    uniform = unit > 0 and bool((demand[~np.eye(len(demand), dtype=np.bool_)] == unit).all())
    if not uniform or problem.links is not LinkDirection.UNIDIRECTIONAL:
        raise InputError("it needs uniform demand and unidirectional links")
    proof = required(certificates, Argument.LISTED_NETWORKS)
    networks = EnumerationProof.of(proof, problem.servers, problem.degree)
    return unit * enumeration_bound(problem.servers, problem.degree, networks, proof.scalar("theta") / unit)


def topology_arguments(problem: TopologyProblem) -> Mapping[Argument, Derivation]:
    """Of theta over every topology allowed."""
    of_any: dict[Argument, Derivation] = {
        Argument.NODE_CUT: lambda given, _: largest_formula(given, Argument.NODE_CUT),
        Argument.PEER_CUT: lambda given, _: largest_formula(given, Argument.PEER_CUT),
        Argument.LAYERED_MOORE: layered,
    }
    if problem.several:
        return of_any
    return {
        **of_any,
        Argument.TWO_LAYER: two_layer,
        Argument.RELAY_BLOCKS: relay,
        Argument.RELAY_CASES: relay_by_cases,
        Argument.LISTED_NETWORKS: listed,
        Argument.LINK_TREE: branched,
        Argument.LINK_BLOCKS: blocks,
    }


def less_of(argument: Argument) -> Tolerance:
    """By how much less a bound may state than is derived: a little where its multipliers are searched anew."""
    return Tolerance.FORMULA if argument in SEARCHED else Tolerance.ROUNDING


# What a topology states beside its objective.


def check_evidence(log: ViolationLog, problem: TopologyProblem, result: NetworkResult) -> None:
    """The lengths prove something of the links chosen; a robust design stands failures as it says."""
    theta, plan = result.objective.value, result.plan
    topology = network_of(problem, plan)
    try:
        proven = routing_bound(problem, topology, result.certificates)
    except (InputError, InfeasibleError, ValueError) as error:
        log.add("certificate", f"the certificate of these links proves nothing: {error}")
    else:
        if not theta >= proven * (1 - RELATIVE):
            log.add("certificate", f"theta {theta!r} is below what the lengths prove, {proven!r}")
    robust = plan.robust if isinstance(plan, TopologyPlan) else None
    if robust is None:
        if problem.search.robust is not None:
            log.add("robustness", "the instance wants a robust topology, the solution says nothing of failures")
    elif problem.several:
        log.add("robustness", "no robust design for several demands")
    else:
        _check_robust(log, problem, result, robust)


def _check_robust(log: ViolationLog, problem: TopologyProblem, result: NetworkResult, robust: RobustDesign) -> None:
    theta, topology = result.objective.value, network_of(problem, result.plan)
    worst = _worst_failure(log, problem, topology, robust, result.certificates)
    if worst is None:
        return
    formulas_after = failed_link_bounds(problem.servers, problem.degree, problem.links, problem.demand)
    least = max(bound.value for bound in formulas_after)
    for name, low in (("theta without failure", theta), ("what is proven", least)):
        if not worst >= low * (1 - RELATIVE):
            log.add("robustness", f"theta {worst!r} after the worst failure is below {name}, {low!r}")
    if robust.enumerated_theta is not None and not robust.enumerated_theta <= worst * (1 + RELATIVE):
        log.add("robustness", f"{robust.enumerated_theta!r} cannot be the least after a failure: {worst!r} is reached")
    nominal, nominal_worst = robust.nominal_theta, robust.nominal_worst_theta
    goal = problem.search.robust
    within = None if goal is None else goal.within_percent
    limit = nominal * (1 + (within or 0) / 100)
    if within is not None and not theta <= limit + Tolerance.LINEAR_PROGRAM.of(limit):
        log.add("robustness", f"theta {theta!r} is more than {within} % above {nominal!r}")
    if nominal_worst is not None and not nominal_worst >= nominal * (1 - RELATIVE):
        log.add("robustness", f"{nominal!r} without failure falls to {nominal_worst!r}")
    if not nominal >= result.bound.value * (1 - RELATIVE):
        log.add("robustness", f"theta {nominal!r} without failure is below the bound of all topologies")
    reason = "of the topology of least theta, which is not in the file"
    log.leave_out("robust.nominal_theta and nominal_worst_theta", reason)


def _worst_failure(
    log: ViolationLog,
    problem: TopologyProblem,
    topology: Topology,
    robust: RobustDesign,
    certificates: Sequence[Certificate],
) -> float | None:
    """theta after the worst failure, by the routing after each failure, or as it is declared; None if it is neither."""
    declared = (robust.worst_theta, robust.worst_link)
    both = topology.links is LinkDirection.BIDIRECTIONAL
    links = topology.arcs[topology.arcs[:, 0] < topology.arcs[:, 1]] if both else topology.arcs
    if not robust.failures:
        if robust.worst_theta is None or robust.worst_link is None:
            log.add("robustness", "neither routings after failures nor the worst theta")
            return None
        if (topology.arcs == robust.worst_link).all(axis=1).sum() != 1:
            log.add("robustness", f"the worst link {robust.worst_link} is not there")
        reason = "too many links for a routing after each failure in the file"
        log.leave_out("robust.worst_theta", reason)
        return robust.worst_theta
    if declared != (None, None):
        log.add("robustness", "a worst theta beside the routings that it follows from")
    if len(robust.failures) != len(links):
        log.add("robustness", f"{len(robust.failures)} routings after failures of {len(links)} links")
        return None
    thetas = []
    for link, flow in zip(links.tolist(), robust.failures, strict=True):
        theta, wrong = _theta_after(topology, remaining(topology, link), problem.demand, flow)
        thetas.append(theta)
        for message in wrong:
            log.add("robustness", f"link {tuple(link)}: {message}")
    worst = max(thetas)
    _check_lengths_after(log, problem, topology, certificates, worst)
    return worst


def _check_lengths_after(
    log: ViolationLog, problem: TopologyProblem, topology: Topology, certificates: Sequence[Certificate], worst: float
) -> None:
    """Say where nothing proves that the worst failure has no better routing: lengths after its failure do."""
    figure = "robust.worst_theta to its last digits"
    proof = next((proof for proof in certificates if "link" in proof.arrays), None)
    if proof is None:
        log.leave_out(figure, f"a routing of {worst!r} is there, and nothing proves that it is the best")
        return
    link = proof.integers("link", 2).tolist()
    if not (topology.arcs == link).all(axis=1).any():
        log.add("robustness", f"the lengths are of the failure of the link {tuple(link)}, which is not there")
        return
    retained = remaining(topology, link)
    arcs = retained > 0
    try:
        lengths = proof.floats("lengths", len(arcs))[arcs]
        proven = certified_theta_bound(_part(topology, retained), problem.demand, lengths)
    except (InputError, InfeasibleError, ValueError) as error:
        log.add("robustness", f"the lengths prove nothing: {error}")
        return
    if proven > worst * (1 + RELATIVE):
        log.add("robustness", f"the lengths prove {proven!r}, a routing after that failure has {worst!r}")
    elif proven < worst * (1 - OPTIMAL):
        log.leave_out(figure, f"a routing of {worst!r} is there, the lengths prove {proven!r}: it may be less")


def remaining(topology: Topology, link: Sequence[int]) -> Ints:
    """int64[m], links of each arc that are not dark when a link fails."""
    links = topology.multiplicity.astype(np.int64)
    ends = [list(link), list(link)[::-1]] if topology.links is LinkDirection.BIDIRECTIONAL else [list(link)]
    for arc in ends:
        links[(topology.arcs == arc).all(axis=1)] -= 1
    return links


def _part(topology: Topology, links: Ints) -> Topology:
    arcs = links > 0
    dark = np.full_like(topology.switches, -1)
    return Topology(
        topology.servers, topology.degree, topology.links, topology.arcs[arcs], links[arcs].astype(np.int32), dark
    )


def _theta_after(topology: Topology, links: Ints, demand: Floats, flow: Floats) -> tuple[float, tuple[str, ...]]:
    arcs = links > 0
    if flow.shape != (topology.servers, len(links)) or flow[:, ~arcs].any():
        return np.inf, ("a flow of the wrong size, or over the dark link",)
    check = check_flow(_part(topology, links), demand, SourceFlow(flow[:, arcs]))
    return check.theta, check.violations


ROUTING = Checker(
    objective=objective_name,
    constraints=(("flow", all_demand_routed), ("max-hops", short_paths)),
    value=objective_value,
    of_results=(("certificate", certificates_read),),
    arguments=routing_arguments,
)

SEVERAL = Checker(
    objective=objective_name,
    constraints=(
        ("links", interfaces),
        ("forbidden", nothing_forbidden),
        ("parallel", no_parallel_links),
        ("changed", links_retained),
        ("max-hops", servers_near),
        ("flow", all_demand_routed),
    ),
    value=objective_value,
    of_results=(("certificate", certificates_read),),
    arguments=topology_arguments,
    less=less_of,
    evidence=check_evidence,
)

TOPOLOGY = replace(SEVERAL, claims=(Argument.TOPOLOGY_BRANCHING, Argument.TOPOLOGY_ENUMERATION, Argument.OWN_MODEL))


def checker_of(problem: NetworkProblem) -> Checker:
    """The checker of a problem: of given links, of links for several demands, or of links for one."""
    if isinstance(problem, RoutingProblem):
        return ROUTING
    return SEVERAL if problem.several else TOPOLOGY


def check_network(problem: NetworkProblem, result: NetworkResult, depth: CheckDepth) -> CheckFindings:
    """Check a result of any content; never raises."""
    return checker_of(problem)(problem, result, depth)
