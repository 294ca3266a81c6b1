"""Why the theta of a network is what it is, and what would change it: dual prices, checked by routing again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from solvers.network.space import distances
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import CheckError, InfeasibleError, InputError, LimitError, Problem, raise_rejected
from topoopt.core.network import LengthCertificate, NetworkProblem, RoutingProblem, TopologyProblem
from topoopt.core.proofs import Argument, Bound, Status, StopReason
from topoopt.core.topology import Topology
from topoopt.files.results import bound_document
from topoopt.kinds.network import check
from topoopt.kinds.network.figures import NetworkFigures
from topoopt.kinds.network.search import best_multipliers
from topoopt.kinds.pipeline import Explanation, Question, solve
from topoopt.verify.checker import BRIEF
from topoopt.verify.network.bounds import dual_cut, evaluate_cut_mixture, node_cut_bound, topology_bounds
from topoopt.verify.network.checker import NetworkResult

RELATIVE = 1e-6
"""Part of the bound that a simpler explanation may lose."""

KEEP = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 0.0)


@dataclass(frozen=True)
class ServerCut:
    """Servers whose demand to all others must cross the links that leave them.

    Attributes:
        senders: S, ascending.
        demand, capacity: of all pairs, and of all links, from S to the rest, in units of a link.
        arcs: positions of those links in the topology.
    """

    senders: tuple[int, ...]
    demand: float
    capacity: float
    arcs: tuple[int, ...]

    @property
    def theta(self) -> float:
        """Least utilisation that the cut allows."""
        return self.demand / self.capacity


@dataclass(frozen=True, eq=False)
class Bottleneck:
    """What limits a routing.

    Attributes:
        bound: what `lengths` prove of theta.
        lengths: float64[m], sum of capacity times length 1; dust removed, the bound recomputed.
        arcs: positions of the arcs of positive length, dearest first.
        distance: float64[n, n] by these lengths; infinite where there is no path.
        cuts: sets of servers whose cut alone proves the bound, among those looked at, closest to `arcs` first.
        hop_total: sum of demand times hops, if it alone proves the bound (all links alike); else None.
    """

    bound: float
    lengths: Floats
    arcs: tuple[int, ...]
    distance: Floats
    cuts: tuple[ServerCut, ...]
    hop_total: float | None


def find_bottleneck(topology: Topology, demand: Floats, lengths: Floats) -> Bottleneck:
    """Read lengths that prove something (not all 0); `demand` is float64[n, n] in units of a link's capacity."""
    bound, clean, distance = _cleaned(topology, demand, lengths)
    order = np.argsort(-clean, kind="stable")
    arcs = tuple(int(a) for a in order[: int((clean > 0).sum())])
    hops_bound, _ = length_bound(topology, demand, np.ones(len(clean)))
    flat = hops_bound >= bound * (1 - RELATIVE)
    return Bottleneck(
        bound=bound,
        lengths=clean,
        arcs=arcs,
        distance=distance,
        cuts=_cuts(topology, demand, np.array(arcs), bound),
        hop_total=hops_bound * float(topology.capacity.sum()) if flat else None,
    )


def length_bound(topology: Topology, demand: Floats, lengths: Floats) -> tuple[float, Floats]:
    """What lengths (not all 0) prove of theta, and the distances float64[n, n] they give."""
    table = np.full((topology.servers, topology.servers), np.inf)
    table[topology.arcs[:, 0], topology.arcs[:, 1]] = lengths
    distance = distances(table)
    demanded = demand > 0
    return float((demand[demanded] * distance[demanded]).sum() / (topology.capacity @ lengths)), distance


def _cleaned(topology: Topology, demand: Floats, lengths: Floats) -> tuple[float, Floats, Floats]:
    """The lengths without those that matter least, as long as the bound stays, scaled to a total price of 1."""
    full, _ = length_bound(topology, demand, lengths)
    for keep in KEEP:
        kept = np.where(lengths >= keep * lengths.max(), lengths, 0.0)
        bound, _ = length_bound(topology, demand, kept)
        if bound >= full * (1 - RELATIVE):
            break
    scaled = kept / float(topology.capacity @ kept)
    bound, distance = length_bound(topology, demand, scaled)
    return bound, scaled, distance


def _cuts(topology: Topology, demand: Floats, arcs: Ints, bound: float) -> tuple[ServerCut, ...]:
    candidates = [cut for senders in _likely_sets(topology, arcs) if (cut := _cut_of(topology, demand, senders))]
    proving = [cut for cut in candidates if cut.theta >= bound * (1 - RELATIVE)]
    priced = set(arcs.tolist())
    return tuple(sorted(proving, key=lambda cut: (len(set(cut.arcs) ^ priced), len(cut.senders), cut.senders)))


def averaged(topology: Topology, first: Floats, other: Floats) -> Floats:
    """Lengths half-way between two, each scaled to a total price of 1; distances are concave in the lengths.

    So if both prove a bound, their average does, with the arcs of both.
    """
    return (first / float(topology.capacity @ first) + other / float(topology.capacity @ other)) / 2


def _cut_of(topology: Topology, demand: Floats, senders: Bools) -> ServerCut | None:
    leaving = np.flatnonzero(senders[topology.arcs[:, 0]] & ~senders[topology.arcs[:, 1]])
    if not len(leaving):
        return None
    return ServerCut(
        senders=tuple(int(v) for v in np.flatnonzero(senders)),
        demand=float(demand[np.ix_(senders, ~senders)].sum()),
        capacity=float(topology.capacity[leaving].sum()),
        arcs=tuple(int(a) for a in leaving),
    )


def _likely_sets(topology: Topology, arcs: Ints) -> list[Bools]:
    """bool[n] sets: what the tails of the priced arcs reach over free ones, what free links join, single servers."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    n = topology.servers
    free = np.ones(len(topology.arcs), dtype=np.bool_)
    free[arcs] = False
    tail, head = topology.arcs[free, 0], topology.arcs[free, 1]
    graph = csr_array((np.ones(len(tail)), (tail, head)), shape=(n, n))
    reached = np.zeros(n, dtype=np.bool_)
    for start in np.unique(topology.arcs[arcs, 0]).tolist():
        if not reached[start]:
            reached[breadth_first_order(graph, start, return_predecessors=False)] = True
    sets = [reached]
    for connection in ("strong", "weak"):
        groups, label = connected_components(graph, directed=True, connection=connection)
        sets += [label == group for group in range(groups)]
    sets += list(np.eye(n, dtype=np.bool_))
    unique = {chosen.tobytes(): chosen for group in sets for chosen in (group, ~group)}
    return [chosen for chosen in unique.values() if 0 < int(chosen.sum()) < n]


SAME = 1e-6
"""Relative difference of theta that counts as none."""


@dataclass(frozen=True)
class Gain:
    """One change and what it does to theta.

    Attributes:
        pairs: (tail, head) of the arcs that get more.
        added: capacity that each gets, in units of a link.
        predicted: theta is proven not to fall below this.
        theta, bound: of the changed network, routed again and checked; None if not routed.
        lengths: of its arcs, that prove `bound`; None if not routed.
    """

    pairs: tuple[tuple[int, int], ...]
    added: Fraction
    predicted: float
    theta: float | None = None
    bound: float | None = None
    lengths: Floats | None = field(default=None, repr=False, compare=False)


LinkGains = tuple[tuple[Gain, ...], int, bool]
"""Positions for one more link, best first; how many there are; whether the first is proven to be the best of all."""


def routed_again(problem: RoutingProblem, effort: Question) -> NetworkResult | None:
    """The problem solved anew and checked; None when the time is up."""
    if effort.left_s() == 0.0:
        return None
    result: NetworkResult = solve(problem, effort.options("auto"))
    if not result.check.ok:
        raise CheckError("the checker rejects a routing of the changed network: " + "; ".join(result.check.violations))
    if result.stopped_by is StopReason.TIME:
        effort.late = True
    return result


def best_links(problem: RoutingProblem, bottleneck: Bottleneck, effort: Question, allowed: Bools) -> LinkGains:
    """Where one more link gains most; a link between a pair adds both arcs where links are fibre pairs.

    Args:
        allowed: bool[n, n], pairs that may have one.
    """
    topology = problem.topology
    both = topology.links is LinkDirection.BIDIRECTIONAL
    tails, heads = np.nonzero(np.triu(allowed | allowed.T) if both else allowed)
    if not len(tails):
        return (), 0, True
    predicted = _predicted(topology, topology, problem.demand, bottleneck.distance, tails, heads, both)
    floor = predicted.copy()
    checked: dict[int, NetworkResult] = {}
    best = np.inf
    proven = False
    while True:
        open_floor = np.where(np.isin(np.arange(len(tails)), list(checked)), np.inf, floor)
        position = int(np.argmin(open_floor))
        if open_floor[position] >= best * (1 - SAME):
            proven = True
            break
        if len(checked) >= effort.checks:
            break
        changed = with_more(topology, _pairs(tails, heads, position, both), Fraction(1))
        result = routed_again(replace(problem, topology=changed), effort)
        if result is None:
            break
        checked[position] = result
        best = min(best, result.figures.theta)
        _, distance = length_bound(changed, problem.demand, result.figures.lengths)
        floor = np.maximum(floor, _predicted(topology, changed, problem.demand, distance, tails, heads, both))
    order = sorted(checked, key=lambda position: (checked[position].figures.theta, position))
    order += [position for position in np.argsort(floor, kind="stable").tolist() if position not in checked]
    gains = []
    for position in order[:SHOWN]:
        result = checked.get(position)
        theta, bound = (None, None) if result is None else (result.figures.theta, result.bound.value)
        gains.append(Gain(_pairs(tails, heads, position, both), Fraction(1), float(predicted[position]), theta, bound))
    return tuple(gains), len(tails), proven


def _pairs(tails: Ints, heads: Ints, position: int, both: bool) -> tuple[tuple[int, int], ...]:
    tail, head = int(tails[position]), int(heads[position])
    return ((tail, head), (head, tail)) if both else ((tail, head),)


def _predicted(
    base: Topology, priced: Topology, demand: Floats, distance: Floats, tails: Ints, heads: Ints, both: bool
) -> Floats:
    """Floor under theta of `base` with one more link at each place, by the distances of lengths on `priced`."""
    demanded = demand > 0
    # No demand is farther than this, so an arc of this length shortens no distance of a demand.
    capped = np.minimum(distance, float(distance[demanded].max()))
    total = float((demand[demanded] * distance[demanded]).sum())
    volume = float((capped[base.arcs[:, 0], base.arcs[:, 1]] * base.capacity).sum())
    extra = capped[tails, heads] + (capped[heads, tails] if both else 0.0)
    return np.asarray(total / np.maximum(volume + extra, 1e-300), dtype=np.float64)


def with_more(topology: Topology, pairs: tuple[tuple[int, int], ...], added: Fraction) -> Topology:
    """The topology with more capacity from tail to head of each pair, in units of 1 / denominator of `added`.

    Arcs that are new are put in their place; demand must be scaled by the same denominator. Switches are left dark.
    """
    links = {(int(i), int(j)): float(c) for (i, j), c in zip(topology.arcs, topology.capacity, strict=True)}
    scaled = {arc: capacity * added.denominator for arc, capacity in links.items()}
    for pair in pairs:
        scaled[pair] = scaled.get(pair, 0.0) + added.numerator
    order = sorted(scaled)
    capacity = np.array([scaled[arc] for arc in order])
    rated = topology.rates is not None
    return replace(
        topology,
        arcs=np.array(order, dtype=np.int32),
        multiplicity=np.ones(len(order), dtype=np.int32) if rated else capacity.astype(np.int32),
        rates=capacity if rated else None,
        switches=np.full_like(topology.switches, -1),
        offsets=(),
        origin="changed",
    )


def more_capacity(
    problem: RoutingProblem, bottleneck: Bottleneck, arcs: tuple[int, ...], added: Fraction, effort: Question
) -> Gain:
    """What more capacity on each of these arcs of the topology gains."""
    topology = problem.topology
    pairs = tuple((int(topology.arcs[a, 0]), int(topology.arcs[a, 1])) for a in arcs)
    # With the same lengths the price of all capacity grows from 1 by what is added.
    predicted = bottleneck.bound / (1.0 + float(added) * float(bottleneck.lengths[list(arcs)].sum()))
    changed = replace(
        problem, topology=with_more(topology, pairs, added), demand=problem.demand * float(added.denominator)
    )
    result = routed_again(changed, effort)
    if result is None:
        return Gain(pairs, added, predicted)
    return Gain(pairs, added, predicted, result.figures.theta, result.bound.value, result.figures.lengths)


EXACT_SERVERS = 8
"""Up to here the best topology of one more interface is searched for by the exact methods; beyond, only bounded."""

TWO_LAYER_SERVERS = 64
"""Up to here the two-layer bound is evaluated (about two seconds)."""


@dataclass(frozen=True)
class DegreeGain:
    """Bounds on theta over all topologies, by argument, for the degree and for one interface more.

    Attributes:
        degree: d of the problem.
        bounds: formulas at degree d, largest first.
        node: the server whose own demand makes the node cut, whether it sends, and that demand.
        more_bounds: formulas at degree d + 1, and this topology's dual cut, largest first.
        theta, bound: of the best topology found at degree d + 1; None if not searched.
        optimal: whether that one is proven.
        note: why it was not searched, or not to the end; empty otherwise.
    """

    degree: int
    bounds: tuple[Bound, ...]
    node: tuple[int, bool, float]
    more_bounds: tuple[Bound, ...]
    theta: float | None = None
    bound: float | None = None
    optimal: bool = False
    note: str = ""


def degree_gain(
    problem: TopologyProblem, topology: Topology, lengths: LengthCertificate, effort: Question
) -> DegreeGain:
    """Bounds by formulas now and with one more interface per server, and the exact answer where it is quick."""
    n, d, demand = problem.servers, problem.degree, problem.demand
    bounds, more = _formulas(problem), _formulas(replace(problem, degree=d + 1))
    try:
        cut = dual_cut(topology, demand, lengths)
        more.append(Bound(evaluate_cut_mixture(n, d + 1, (cut,), np.ones(1)), Argument.DUAL_CUT))
    except InputError:  # servers that nothing joins: the lengths say nothing of other topologies
        pass
    senders = node_cut_bound(n, d, demand)[1]
    sends = len(senders) == 1
    server = senders[0] if sends else next(v for v in range(n) if v not in senders)
    demanded = float(demand[server].sum() if sends else demand[:, server].sum())
    gain = DegreeGain(
        degree=d,
        bounds=tuple(sorted(bounds, key=lambda bound: -bound.value)),
        node=(server, sends, demanded),
        more_bounds=tuple(sorted(more, key=lambda bound: -bound.value)),
    )
    if n > EXACT_SERVERS:
        return replace(gain, note=f"more than {EXACT_SERVERS} servers: a bound only, not searched")
    return _searched(problem, gain, effort)


def _formulas(problem: TopologyProblem) -> list[Bound]:
    multipliers = best_multipliers(problem) if problem.servers <= TWO_LAYER_SERVERS else None
    return list(topology_bounds(problem.servers, problem.degree, problem.demand, multipliers, problem.links))


def _searched(problem: TopologyProblem, gain: DegreeGain, effort: Question) -> DegreeGain:
    if effort.left_s() == 0.0:
        return replace(gain, note="time limit: not searched")
    try:
        result = solve(replace(problem, degree=problem.degree + 1), effort.options("exact"))
    except (InputError, InfeasibleError, LimitError) as error:
        effort.late = effort.late or isinstance(error, LimitError)
        return replace(gain, note=f"not searched: {error}")
    if not result.check.ok:
        raise CheckError(
            "the checker rejects the topology of one more interface: " + "; ".join(result.check.violations)
        )
    optimal = result.status is Status.OPTIMAL
    effort.late = effort.late or result.stopped_by is StopReason.TIME
    note = "" if optimal else "the search did not end: the best found, and a bound"
    return replace(gain, theta=result.figures.theta, bound=result.bound.value, optimal=optimal, note=note)


ROUNDS = 6
"""Most prices looked at for one bottleneck."""

GBPS = 100
"""Gbit/s added to the bottleneck by default, where the rate of a link is known."""


Payment = tuple[int, int, float, float]
"""A pair (source, target) that pays for the bottleneck, its demand, and the least price of a path between the two;
demand times price, summed over all pairs, is the bound on theta."""


@dataclass(frozen=True, eq=False)
class NetworkExplanation:
    """What `topoopt explain` says of a network solution.

    Attributes:
        solution: what is explained.
        theta: of the best routing known, that of the solution or of a better one found on the way.
        demand: float64[n, n].
        bottleneck: what limits it.
        payments: demands that cross the bottleneck, those that pay most first.
        links: positions for one more link.
        everywhere: more capacity on all links of the bottleneck.
        single: more capacity on its dearest link alone; None where that is all of it.
        degree: one more interface per server; None for kind `routing`.
        late: whether the time limit left anything unchecked.
    """

    solution: NetworkResult
    theta: float
    demand: Floats
    bottleneck: Bottleneck
    payments: tuple[Payment, ...]
    links: LinkGains
    everywhere: Gain
    single: Gain | None
    degree: DegreeGain | None
    late: bool


def explain_network(
    solution: NetworkResult,
    *,
    added: Fraction | None = None,
    checks: int = 8,
    stop: Stop | None = None,
) -> NetworkExplanation:
    """Explain a solution of kind `routing` or `topology`.

    Args:
        added: capacity to add to the bottleneck, in units of a link; None: 100 Gbit/s where the rate is known, else 1.
        checks: positions for one more link to route again at most.
        stop: of everything that is routed again.

    Raises:
        InputError: a hop limit, or another objective.
        CheckError: the solution does not hold.
    """
    solution = _checked(solution)
    figures: NetworkFigures = solution.figures
    if figures.flow.by_hop is not None or solution.objective.name != "theta":
        text = "hop limits and prices of hops are not explained: link prices are read for paths of any length"
        raise InputError([Problem(text, path="solution", value=solution.objective.name, allowed="theta, hops free")])
    effort = Question(checks=checks, stop=stop or Stop())
    problem = figures.problem
    demand, topology = problem.demand, figures.topology
    base = RoutingProblem(
        name=solution.name,
        topology=topology,
        demand=demand,
        max_hops=problem.max_hops if isinstance(problem, RoutingProblem) else None,
    )
    theta, lengths, bound = figures.theta, figures.lengths, figures.routing_bound
    if theta - bound > 1e-6 * theta:
        sharper = routed_again(base, effort)
        if sharper is not None:
            theta = min(theta, sharper.figures.theta)
            if sharper.bound.value > bound:
                lengths = sharper.figures.lengths
    if added is None:
        added = Fraction(1) if problem.link_gbps is None else _parts(GBPS / problem.link_gbps)
    bottleneck, everywhere = _whole_bottleneck(base, lengths, theta, added, effort)
    single = None
    if len(bottleneck.arcs) > 1:
        single = more_capacity(base, bottleneck, bottleneck.arcs[:1], added, effort)
    links = best_links(base, bottleneck, effort, _allowed(problem, topology))
    degree = None
    if isinstance(problem, TopologyProblem):
        degree = degree_gain(problem, topology, figures.certificate, effort)
    return NetworkExplanation(
        solution=solution,
        theta=theta,
        demand=demand,
        bottleneck=bottleneck,
        payments=_payments(demand, bottleneck),
        links=links,
        everywhere=everywhere,
        single=single,
        degree=degree,
        late=effort.late,
    )


def _whole_bottleneck(
    problem: RoutingProblem, lengths: Floats, theta: float, added: Fraction, effort: Question
) -> tuple[Bottleneck, Gain]:
    """The bottleneck, and what more capacity on all of it gains.

    Prices are often not unique, and those at hand may leave out links that are just as tight: then more capacity gains
    nothing, and the prices of the changed network, which prove the same bound, name the others.
    """
    topology = problem.topology
    for _ in range(ROUNDS):
        bottleneck = find_bottleneck(topology, problem.demand, lengths)
        everywhere = more_capacity(problem, bottleneck, bottleneck.arcs, added, effort)
        if everywhere.lengths is None or everywhere.theta is None or everywhere.theta < theta * (1 - SAME):
            break
        lengths = averaged(topology, bottleneck.lengths, everywhere.lengths)
    return bottleneck, everywhere


def _parts(amount: float) -> Fraction:
    """A capacity as a fraction of whole parts of a link, at least one part."""
    return max(Fraction(amount).limit_denominator(1000), Fraction(1, 1000))


def _checked(solution: NetworkResult) -> NetworkResult:
    """The solution with its instance, for which it holds."""
    problem = solution.figures.problem
    raise_rejected(check(problem, solution, BRIEF).violations)
    return replace(solution, problem=problem)


def _allowed(problem: NetworkProblem, topology: Topology) -> Bools:
    """bool[n, n]: pairs that may get one more link."""
    allowed = ~np.eye(topology.servers, dtype=np.bool_)
    if isinstance(problem, TopologyProblem):
        for tail, head in problem.forbidden:
            allowed[tail, head] = False
        if not problem.parallel_links:
            allowed[topology.arcs[:, 0], topology.arcs[:, 1]] = False
    return allowed


def _payments(demand: Floats, bottleneck: Bottleneck) -> tuple[Payment, ...]:
    demanded = (demand > 0) & (bottleneck.distance > 0)
    paid = np.where(demanded, demand, 0.0) * np.where(demanded, bottleneck.distance, 0.0)
    order = np.argsort(-paid, axis=None, kind="stable")[: int(demanded.sum())]
    n = len(demand)
    return tuple((int(k) // n, int(k) % n, float(demand.flat[k]), float(bottleneck.distance.flat[k])) for k in order)


SHOWN = 5


def explanation_lines(explanation: NetworkExplanation) -> list[str]:
    """The whole explanation, a sentence or two a line."""
    theta, figures = explanation.theta, explanation.solution.figures
    better = "" if theta >= figures.theta * (1 - SAME) else f" (routed again: the solution has {figures.theta:.6g})"
    lines = [
        f"theta {theta:.6g}, lambda {1 / theta:.6g}: the busiest links are asked for {theta:.6g} times what they carry"
        f"{better}.",
        *_bottleneck(explanation),
        *_gains(explanation),
        *([] if explanation.degree is None else _degree(explanation, explanation.degree)),
    ]
    if figures.problem.link_gbps is None:
        rated, unit = figures.topology.rates is not None, "units of one link's capacity"
        lines.append(f"Demand and capacity are in {'one unit' if rated else unit}.")
    if explanation.late:
        lines.append("The time limit left some of this unchecked.")
    return lines


def server_list(servers: Iterable[int]) -> str:
    """Return servers in words: `server 3`, or `servers 0-3, 7`."""
    runs: list[list[int]] = []
    for server in sorted(servers):
        if runs and server == runs[-1][1] + 1:
            runs[-1][1] = server
        else:
            runs.append([server, server])
    words = ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)
    return f"server{'' if len(runs) == 1 and runs[0][0] == runs[0][1] else 's'} {words}"


def _amount(explanation: NetworkExplanation, units: float) -> str:
    rate = explanation.solution.figures.problem.link_gbps
    return f"{units:.6g}" if rate is None else f"{units * rate:.6g} Gbit/s"


def _some(words: Sequence[str], total: int) -> str:
    return ", ".join(words) + (f" and {total - len(words)} more" if total > len(words) else "")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _bottleneck(explanation: NetworkExplanation) -> list[str]:
    bottleneck, topology = explanation.bottleneck, explanation.solution.figures.topology
    lines = []
    if bottleneck.cuts:
        lines.append(f"Bottleneck: {_cut(explanation, bottleneck.cuts[0])}, however it is routed.")
        others = [_cut(explanation, cut) for cut in bottleneck.cuts[1:SHOWN]]
        lines += [f"Just as tight: {other}." for other in others]
        if len(bottleneck.cuts) > SHOWN:
            lines.append(f"And {_counted(len(bottleneck.cuts) - SHOWN, 'more cut')} as tight.")
    elif bottleneck.hop_total is not None:
        count, total = int(topology.multiplicity.sum()), float(topology.capacity.sum())
        lines.append(
            f"Bottleneck: all {count} links alike. Demand times hops, {bottleneck.hop_total:.6g}, has to fit "
            f"a capacity of {total:.6g}: theta ≥ {bottleneck.bound:.6g}. Only shorter ways or more links help."
        )
    else:
        lines.append(
            f"Bottleneck: {_counted(len(bottleneck.arcs), 'arc')} with a price, dearest first: "
            f"{_arcs(explanation, bottleneck.arcs)}. No single set of servers was found behind it; the prices prove "
            f"theta ≥ {bottleneck.bound:.6g} on this topology, however it is routed."
        )
    pays = explanation.payments[:SHOWN]
    words = [f"{source} → {target} ({_amount(explanation, demand)})" for source, target, demand, _ in pays]
    count = len(explanation.payments)
    lines.append(f"{_counted(count, 'pair')} of servers cannot avoid it, those that weigh most: {_some(words, count)}.")
    idle = len(topology.arcs) - len(bottleneck.arcs)
    if idle:
        gap = explanation.theta - bottleneck.bound
        gains = "nothing" if gap <= SAME * explanation.theta else f"at most {gap / explanation.theta:.2%}"
        lines.append(f"More capacity on any of the other {_counted(idle, 'arc')} gains {gains}: their price is 0.")
    return lines


def _arcs(explanation: NetworkExplanation, positions: Sequence[int]) -> str:
    arcs = explanation.solution.figures.topology.arcs
    return _some([f"{arcs[a, 0]} → {arcs[a, 1]}" for a in positions[: 2 * SHOWN]], len(positions))


def _cut(explanation: NetworkExplanation, cut: ServerCut) -> str:
    inside = set(cut.senders)
    rest = [v for v in range(explanation.solution.figures.topology.servers) if v not in inside]
    if len(inside) == 1:
        name = f"what leaves {server_list(inside)}"
    elif len(rest) == 1:
        name = f"what enters {server_list(rest)}"
    else:
        name = f"the cut from {server_list(inside)} to {server_list(rest)}"
    return (
        f"{name} ({_counted(len(cut.arcs), 'arc')}: "
        f"{_arcs(explanation, cut.arcs)}), {_amount(explanation, cut.demand)} of demand over a capacity of "
        f"{_amount(explanation, float(cut.capacity))}: theta ≥ {cut.theta:.6g} on this topology"
    )


def _change(explanation: NetworkExplanation, gain: Gain) -> str:
    best = f"at best {gain.predicted:.6g} by the prices"
    if gain.theta is None:
        return f"theta {best}, not checked"
    lower = 1 - gain.theta / explanation.theta
    word = "no gain" if abs(lower) <= SAME else f"{lower:.2%} less" if lower > 0 else f"{-lower:.2%} more"
    open_gap = gain.bound is not None and gain.bound < gain.theta * (1 - 1e-3)
    least = f", at least {gain.bound:.6g}" if open_gap else ""
    return f"theta {best}; routed again {gain.theta:.6g}{least} ({word}), checked"


def _gains(explanation: NetworkExplanation) -> list[str]:
    positions, candidates, best_proven = explanation.links
    lines = []
    single, everywhere = explanation.single, explanation.everywhere
    count = float(everywhere.added)
    rate = explanation.solution.figures.problem.link_gbps
    added = f"{count:.6g} link{'' if count == 1 else 's'}{'' if rate is None else f' ({count * rate:.6g} Gbit/s)'}"
    rated = explanation.solution.figures.topology.rates is not None
    if rated:
        added = f"{count:.6g}" if rate is None else f"{count * rate:.6g} Gbit/s"
    if single is not None:
        tail, head = single.pairs[0]
        lines.append(f"{added} more capacity on {tail} → {head} alone: {_change(explanation, single)}.")
    where = "each arc with a price" if single is not None else f"{everywhere.pairs[0][0]} → {everywhere.pairs[0][1]}"
    lines.append(f"{added} more capacity on {where}: {_change(explanation, everywhere)}.")
    if positions:
        best = positions[0].theta
        if best_proven and best is not None and best >= explanation.theta * (1 - SAME):
            proven = f"none of the {candidates} gains anything, as the prices prove"
        elif best_proven:
            proven = f"no other of the {candidates} positions is better, as the prices prove"
        else:
            proven = f"of {candidates} positions; not proven best"
        lines.append(f"One more link{' of capacity 1' if rated else ''}, best positions ({proven}):")
        for gain in positions:
            sign = "<->" if len(gain.pairs) == 2 else "->"
            lines.append(f"  {gain.pairs[0][0]} {sign} {gain.pairs[0][1]}: {_change(explanation, gain)}")
    return lines


def _degree(explanation: NetworkExplanation, gain: DegreeGain) -> list[str]:
    server, sends, demanded = gain.node
    proved = explanation.solution.bound
    formulas = ", ".join(f"{bound.proved_by} {bound.value:.6g}" for bound in gain.bounds)
    met = explanation.theta - proved.value <= SAME * explanation.theta
    verdict = "met, so no topology is better" if met else f"{1 - proved.value / explanation.theta:.2%} below theta"
    verb = "sends" if sends else "receives"
    lines = [
        f"Every topology of degree {gain.degree}: theta ≥ {proved.value:.6g} by {proved.proved_by} ({verdict}). "
        f"By formulas: {formulas}; the node cut is server {server}, which {verb} {_amount(explanation, demanded)} over "
        f"{gain.degree} links."
    ]
    more = gain.more_bounds[0]
    text = f"One more interface per server: theta at best {more.value:.6g} ({more.proved_by})"
    if gain.theta is not None and gain.bound is not None:
        kind = "the optimum, " if gain.optimal else f"bound {gain.bound:.6g}, "
        text += f"; solved again {gain.theta:.6g} ({kind}{1 - gain.theta / explanation.theta:.2%} less), checked"
    lines.append(f"{text}{f'; {gain.note}' if gain.note else ''}.")
    return lines


def explain(solution: NetworkResult, question: Question) -> Explanation:
    """What limits a network, and what more links would gain.

    Raises:
        InputError: the solution is not one of this instance.
    """
    explanation = explain_network(solution, added=question.added_links, checks=question.checks, stop=question.stop)
    return Explanation(tuple(explanation_lines(explanation)), _document(explanation), late=explanation.late)


def _document(explanation: NetworkExplanation) -> dict[str, Any]:
    solution, bottleneck = explanation.solution, explanation.bottleneck
    arcs, (positions, candidates, best_proven) = solution.figures.topology.arcs, explanation.links

    def priced(priced_arcs: tuple[int, ...]) -> list[dict[str, Any]]:
        return [
            {
                "tail": int(arcs[a, 0]),
                "head": int(arcs[a, 1]),
                "links": int(solution.figures.topology.multiplicity[a]),
                "price": float(bottleneck.lengths[a]),
            }
            for a in priced_arcs
        ]

    return {
        "theta": explanation.theta,
        "lambda": 1.0 / explanation.theta,
        "bound": bound_document(solution.bound),
        "link_gbps": solution.figures.problem.link_gbps,
        "bottleneck": {
            "routing_bound": bottleneck.bound,
            "arcs": priced(bottleneck.arcs),
            "cuts": [
                {
                    "senders": list(cut.senders),
                    "demand": cut.demand,
                    "capacity": cut.capacity,
                    "theta": cut.theta,
                    "arcs": priced(cut.arcs),
                }
                for cut in bottleneck.cuts
            ],
            "hop_total": bottleneck.hop_total,
            "pairs": len(explanation.payments),
            "demands": [
                dict(zip(("source", "target", "demand", "price"), payment, strict=True))
                for payment in explanation.payments[:100]
            ],
        },
        "more_capacity": {
            "everywhere": _gain(explanation, explanation.everywhere),
            "dearest_arc": None if explanation.single is None else _gain(explanation, explanation.single),
        },
        "one_more_link": {
            "candidates": candidates,
            "best_proven": best_proven,
            "positions": [_gain(explanation, gain) for gain in positions],
        },
        "one_more_interface": None if explanation.degree is None else _degree_document(explanation.degree),
    }


def _gain(explanation: NetworkExplanation, gain: Gain) -> dict[str, Any]:
    rate = explanation.solution.figures.problem.link_gbps
    return {
        "arcs": [list(pair) for pair in gain.pairs],
        "added_links": float(gain.added),
        "added_gbps": None if rate is None else float(gain.added) * rate,
        "predicted_theta": gain.predicted,
        "checked_theta": gain.theta,
        "checked_bound": gain.bound,
        "checked": gain.theta is not None,
    }


def _degree_document(gain: DegreeGain) -> dict[str, Any]:
    return {
        "degree": gain.degree + 1,
        "bounds_now": [bound_document(bound) for bound in gain.bounds],
        "bounds": [bound_document(bound) for bound in gain.more_bounds],
        "checked_theta": gain.theta,
        "checked_bound": gain.bound,
        "optimal": gain.optimal,
        "note": gain.note,
    }
