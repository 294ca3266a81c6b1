"""Exact methods share the topologies that a problem allows, their lower bounds, proven routings, and results.

Best splittable routing of a small network, with a proof: linear program, repaired flow, lengths from the prices.

Nothing is taken from the solver on trust: the flow is rebuilt as paths that deliver the demand exactly, theta is its
largest load, and the lower bound is theta >= sum D dist_l / sum capacity l for the lengths l read from the prices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from formulations.joint_topology import allowed_arcs, kept_counts
from formulations.programs import Families
from solvers.backends.highs import highs_model
from solvers.network.assembly import switched, topology_plan
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.network import (
    BlockTree,
    LayerPrices,
    LengthCertificate,
    LinkTree,
    RoutingPlan,
    SourceFlow,
    TopologyPlan,
    TopologyProblem,
)
from topoopt.core.process import end_if_left
from topoopt.core.proofs import Argument, Bound, StopReason
from topoopt.core.result import SearchResult
from topoopt.core.topology import Topology

OPTIMALITY = 1e-6
"""Relative gap between the checked theta and the bound below which a result is called optimal."""


@dataclass(frozen=True)
class ExactLimits:
    """How long a method may work.

    Attributes:
        seed: of the local search that gives a first network, and of the solver.
        incumbent: a network already known; methods never return a worse one.
        stop: a deadline and an interrupt shared with others.
        on_incumbent: is told of a network that may be returned if the method is left before its end.
    """

    seed: int = 0
    incumbent: Topology | None = None
    stop: Stop = field(default_factory=Stop)
    on_incumbent: Callable[[SearchResult[TopologyPlan]], None] = lambda result: None


@dataclass(frozen=True, eq=False, kw_only=True)
class TopologyResult(SearchResult[TopologyPlan]):
    """A topology with its routing, and what is proven about every allowed topology.

    Attributes, besides those of `SearchResult`:
        theta: largest link utilisation of the routing, recomputed from topology, demand and flow.
        restricted_bound: lower bound on theta within the family searched, where that is not all topologies (then a note
            names it); equals the bound otherwise.
        work: topologies routed, or programs solved.
    """

    theta: float
    restricted_bound: float
    work: int

    @property
    def bound(self) -> Bound:
        """The tightest of the bounds, whoever says so."""
        return max(self.bounds, key=lambda bound: bound.value)

    @property
    def optimal(self) -> bool:
        """Whether theta equals the bound up to `OPTIMALITY`."""
        return self.theta - self.bound.value <= OPTIMALITY * self.theta


ExactMethod = Callable[[TopologyProblem, ExactLimits], TopologyResult]
"""A method of the table.

It raises InputError for a bad problem, or one outside what it covers; InfeasibleError where no topology satisfies the
constraints; LimitError where the limit came before any topology was found.
"""


def shift_invariant(demand: Floats) -> bool:
    """Whether demand depends, to the last bit, on the displacement alone."""
    n = len(demand)
    return all(np.array_equal(demand[i, i:], demand[0, : n - i]) and
               np.array_equal(demand[i, :i], demand[0, n - i :]) for i in range(1, n))  # fmt: skip


LARGEST_PROGRAM = 100_000
"""Entries of a demand up to which b-matchings are solved, in seconds; beyond, rows or columns alone count."""


def layer_sizes(servers: int, degree: int, links: LinkDirection) -> list[int]:
    """Most servers within 1, 2, ... hops of one server, up to all n - 1 others (Moore).

    Directed: d + d^2 + ...; bidirectional: d + d (d-1) + ..., since one link leads back. With d = 1 (or 2 for fibre
    pairs) layers do not grow, and with d = 1 fibre pairs nobody but the partner is reached: the list then ends early.
    """
    within: list[int] = []
    layer, total = degree, 0
    while total < servers - 1 and layer > 0:
        total = min(servers - 1, total + layer)
        within.append(total)
        layer *= degree if links is LinkDirection.UNIDIRECTIONAL else degree - 1
    return within


def moore_hops(servers: int, degree: int, links: LinkDirection) -> int | None:
    """Smallest diameter the Moore bound allows; None if no such network is connected."""
    within = layer_sizes(servers, degree, links)
    return len(within) if not within or within[-1] == servers - 1 else None


def source_distances(demand: Floats, within: list[int]) -> Floats:
    """float64[n]: least sum_v D[s, v] dist(s, v) of each source: its largest demands are nearest."""
    sorted_rows = -np.sort(-demand, axis=1)
    total = demand.sum(axis=1)
    result = total.copy()
    for reach in within[:-1]:
        result += total - sorted_rows[:, :reach].sum(axis=1)
    return np.asarray(result, dtype=np.float64)


def total_distance(demand: Floats, within: list[int]) -> float:
    """Least sum D dist, see `priced_distance`."""
    return priced_distance(demand, within)[0]


def priced_distance(demand: Floats, within: list[int]) -> tuple[float, LayerPrices]:
    """Least sum D dist: at most within[k] pairs per row and per column are so near (b-matchings, one per layer)."""
    n, total = len(demand), float(demand.sum())
    layers = [most_within(demand, reach) for reach in within if reach < n - 1]
    by_layer = total + sum(total - most for most, _ in layers)
    rows = float(source_distances(demand, within).sum())
    columns = float(source_distances(demand.T, within).sum())
    prices = np.array([price for _, price in layers]).reshape(-1, 2 * n)
    return max(by_layer, rows, columns), LayerPrices(prices[:, :n], prices[:, n:])


def most_within(demand: Floats, reach: int) -> tuple[float, Floats]:
    """Upper bound on the demand of pairs of which every row and column has at most `reach`, and float64[2n] its prices.

    Whatever alpha, beta >= 0 are: reach * sum(alpha + beta) + sum (D - alpha - beta)^+ is one; the solver only
    suggests them.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    end_if_left()
    n = len(demand)
    rows, columns = np.nonzero(demand > 0)
    if not len(rows) or reach >= n - 1:
        return float(demand.sum()), np.zeros(2 * n)
    if len(rows) > LARGEST_PROGRAM or shift_invariant(demand):
        return _nearest(demand, reach)
    every = np.arange(len(rows))
    ends = csr_array(
        (np.ones(2 * len(rows)), (np.concatenate((rows, n + columns)), np.concatenate((every, every)))),
        shape=(2 * n, len(rows)),
    )
    unit = float(demand.max())  # as the tolerances of the solver are absolute
    solution = linprog(
        -demand[rows, columns] / unit, A_ub=ends, b_ub=np.full(2 * n, float(reach)), bounds=(0, 1), method="highs"
    )
    price = np.maximum(-solution.ineqlin.marginals, 0.0) * unit if solution.status == 0 else np.zeros(2 * n)
    over = demand - price[:n, None] - price[None, n:]
    return float(reach * price.sum() + np.maximum(over, 0.0)[demand > 0].sum()), price


def _nearest(demand: Floats, reach: int) -> tuple[float, Floats]:
    """The same by the `reach` largest entries of every row alone, or of every column alone, whichever says more.

    Exact where demand depends on the displacement alone: the largest ones are as many of every column as of every row.
    """
    column = len(demand) - reach
    nothing = np.zeros(len(demand))
    candidates = []
    for first, table in enumerate((demand, demand.T)):
        end_if_left()
        largest = np.partition(table, column, axis=1)
        price = largest[:, column].copy()
        candidates.append((float(largest[:, column:].sum()), (price, nothing) if first == 0 else (nothing, price)))
    most, prices = min(candidates, key=lambda pair: pair[0])
    return most, np.concatenate(prices)


def capacity(problem: TopologyProblem) -> int:
    """Most links a topology has, counting both directions of fibre pairs."""
    ends = problem.servers * problem.degree
    return ends if problem.links is LinkDirection.UNIDIRECTIONAL else ends - ends % 2


def node_cut(problem: TopologyProblem, allowed: Bools) -> float:
    """Largest traffic of a server over its links, no more of them than interfaces or, without parallel links, peers."""
    result = 0.0
    for demand, peers in ((problem.demand, allowed), (problem.demand.T, allowed.T)):
        most = np.full(problem.servers, problem.degree)
        if not problem.parallel_links:
            most = np.minimum(most, peers.sum(axis=1))
        traffic = demand.sum(axis=1)
        used = traffic > 0
        result = max(result, float((traffic[used] / np.maximum(most[used], 1)).max(initial=0.0)))
    return result


def best_bound(problem: TopologyProblem, allowed: Bools) -> tuple[Bound, LayerPrices]:
    """The larger of node cut and layered Moore bound, in units of theta, and the prices of the latter.

    A cut that counts peers where parallel links are forbidden is an argument of its own, as it needs more than d.
    """
    within = layer_sizes(problem.servers, problem.degree, problem.links)
    cut = node_cut(problem, allowed)
    links = capacity(problem)
    far, prices = priced_distance(problem.demand, within)
    moore = far / links if links and within else 0.0
    if moore > cut:
        return Bound(moore, Argument.LAYERED_MOORE), prices
    traffic = max(float(problem.demand.sum(axis=1).max()), float(problem.demand.sum(axis=0).max()))
    peers = cut > traffic / problem.degree * (1 + 1e-12)
    return Bound(cut, Argument.PEER_CUT if peers else Argument.NODE_CUT), prices


Counts = Ints

NEGLIGIBLE = 1e-12
"""Part of a source's demand below which flow on an arc is what a solver left by rounding."""

EXACT = 1e-9
"""Part of one entry of a demand by which a flow may miss it."""

ROUNDING = 2.0**-50
"""Part of what passes a server that sums of doubles may be off there."""


@dataclass(frozen=True, eq=False)
class Routed:
    """Routing of a demand over a network.

    Attributes:
        arcs: int64[m, 2], pairs with links, in order.
        flow: float64[n, m], what each source sends over each arc.
        theta: largest load over links of an arc.
        lengths: float64[m]; bound: what they prove of theta.
    """

    arcs: Counts
    flow: Floats
    theta: float
    lengths: Floats
    bound: float


def distances(lengths: Floats) -> Floats:
    """float64[n, n]: shortest distances from arc lengths float64[n, n], infinite where there is no arc."""
    best = lengths.copy()
    np.fill_diagonal(best, 0.0)
    for k in range(len(best)):
        np.minimum(best, best[:, k, None] + best[None, k], out=best)
    return best


def hop_distances(counts: Counts) -> Floats:
    """float64[n, n]: hops between servers, infinite where there is no path."""
    return distances(np.where(counts > 0, 1.0, np.inf))


def length_bound(demand: Floats, counts: Counts, lengths: Floats) -> float:
    """Lower bound on theta proven by arc lengths float64[n, n] (only those of arcs matter); 0 without lengths."""
    slack = float((counts * np.where(counts > 0, lengths, 0.0)).sum())
    if slack <= 0.0:
        return 0.0
    far = distances(np.where(counts > 0, lengths, np.inf))
    return float((demand[demand > 0] * far[demand > 0]).sum()) / slack


def unit_of(demand: Floats) -> float:
    """A power of two near the largest entry, at most: dividing by it rounds nothing. 1 where there is no demand."""
    largest = float(demand.max(initial=0.0))
    return 2.0 ** np.floor(np.log2(largest)) if largest > 0 else 1.0


def relaxed_theta(demand: Floats, counts: Counts) -> tuple[float, Floats, Floats] | None:
    """Solver's theta, flow float64[n, m] and arc lengths float64[n, n] of a network; None if a demand has no path.

    The program is in units of the demand, as the tolerances of the solver are absolute.
    """
    import highspy

    unit = unit_of(demand)
    demand = demand / unit
    n = len(demand)
    tails, heads = np.nonzero(counts)
    if np.isinf(hop_distances(counts)[demand > 0]).any():
        return None
    arcs = len(tails)
    sources = np.flatnonzero(demand.sum(axis=1) > 0)
    lengths = np.zeros((n, n))
    flow = np.zeros((n, arcs))
    if not len(sources):
        return 0.0, flow, lengths
    made = Families()
    theta, sent = made.columns(1, cost=1.0), made.columns((len(sources), arcs))
    remaining = demand[sources].copy()
    remaining[np.arange(len(sources)), sources] = 0.0
    fit, deliver = made.rows(arcs, -np.inf, 0.0), made.rows(remaining.shape, remaining, remaining)
    for ends, sign in ((heads, 1.0), (tails, -1.0)):
        made.terms(deliver[:, ends], sent, sign, where=ends != sources[:, None])
    made.terms(fit, sent, 1.0)
    made.terms(fit, theta, -counts[tails, heads])
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.passModel(highs_model(made.arrays()))
    solver.run()
    solution = solver.getSolution()
    x, price = np.array(solution.col_value), np.array(solution.row_dual)
    flow[sources] = np.maximum(x[1:], 0.0).reshape(len(sources), arcs)
    lengths[tails, heads] = np.maximum(-price[:arcs], 0.0)
    return float(x[0]) * unit, flow * unit, lengths


def route(demand: Floats, counts: Counts) -> Routed | None:
    """Best routing, repaired and certified; None if a demand has no path."""
    relaxed = relaxed_theta(demand, counts)
    if relaxed is None:
        return None
    arcs = np.argwhere(counts > 0)
    flow = repaired(demand, arcs, relaxed[1])
    return Routed(
        arcs=arcs,
        flow=flow,
        theta=checked_theta(demand, counts, flow),
        lengths=relaxed[2][arcs[:, 0], arcs[:, 1]],
        bound=length_bound(demand, counts, relaxed[2]),
    )


def checked_theta(demand: Floats, counts: Counts, flow: Floats) -> float:
    """Largest load of a flow that delivers the demand.

    Raises:
        AssertionError: the flow is negative somewhere or does not deliver the demand (a bug of ours).
    """
    arcs = np.argwhere(counts > 0)
    n = len(demand)
    net = np.zeros((n, n))
    np.add.at(net.T, arcs[:, 1], flow.T)
    np.subtract.at(net.T, arcs[:, 0], flow.T)
    off = ~np.eye(n, dtype=np.bool_)
    passing = np.zeros((n, n))
    np.add.at(passing.T, arcs[:, 1], flow.T)
    np.add.at(passing.T, arcs[:, 0], flow.T)
    slack = EXACT * demand + ROUNDING * passing
    if (flow < 0.0).any() or (np.abs(net - demand) > slack)[off].any():
        raise AssertionError("a flow does not deliver its demand")
    return float((flow.sum(axis=0) / counts[arcs[:, 0], arcs[:, 1]]).max(initial=0.0))


def repaired(demand: Floats, arcs: Counts, flow: Floats) -> Floats:
    """float64[n, m]: the flow taken apart into paths, each demand met exactly; what is missing takes few hops."""
    result = np.zeros_like(flow)
    n = len(demand)
    leaving: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for a, (i, j) in enumerate(arcs.tolist()):
        leaving[i].append((a, j))
    for s in range(n):
        tolerance = NEGLIGIBLE * demand[s].sum()
        left = np.where(flow[s] > tolerance, flow[s], 0.0)
        for t in np.flatnonzero(demand[s] > 0).tolist():
            need = float(demand[s, t])
            while need > 0.0:
                path = _path(leaving, s, t, left)
                amount = min(need, float(left[path].min())) if path else need
                for a in path or _path(leaving, s, t, None):
                    result[s, a] += amount
                    left[a] = left[a] - amount if left[a] - amount > tolerance else 0.0
                need -= amount
    return result


def _path(leaving: list[list[tuple[int, int]]], source: int, target: int, left: Floats | None) -> list[int]:
    """Arcs of a path of fewest hops, over arcs with flow left if given; empty if there is none."""
    reached: dict[int, tuple[int, int]] = {source: (-1, -1)}
    queue = deque([source])
    while queue and target not in reached:
        node = queue.popleft()
        for a, head in leaving[node]:
            if head not in reached and (left is None or left[a] > 0.0):
                reached[head] = (node, a)
                queue.append(head)
    if target not in reached:
        return []
    path = []
    node = target
    while node != source:
        node, a = reached[node]
        path.append(a)
    return path


@dataclass(frozen=True, eq=False)
class Space:
    """A problem in tables.

    Attributes:
        problem: as stated.
        demand: float64[n, n].
        allowed: bool[n, n], pairs that may have a link.
        kept: int64[n, n], links as they stand, when some must stay; else None.
        bound: lower bound on theta over all topologies.
        layer_prices: what it rests on if it is by layers.
    """

    problem: TopologyProblem
    demand: Floats
    allowed: Bools
    kept: Counts | None
    bound: Bound
    layer_prices: LayerPrices

    @property
    def bidirectional(self) -> bool:
        return self.problem.links is LinkDirection.BIDIRECTIONAL

    @property
    def most_links(self) -> int:
        return self.problem.degree if self.problem.parallel_links else 1

    def changed(self, counts: Counts) -> int:
        """Links of the network as it stands that are given up."""
        if self.kept is None:
            return 0
        lost = int(np.maximum(self.kept - counts, 0).sum())
        return lost // 2 if self.bidirectional else lost

    def fits(self, counts: Counts) -> bool:
        """Whether a table of link counts satisfies every constraint and carries every demand."""
        return self.broken(counts) is None

    def broken(self, counts: Counts) -> str | None:
        """What is wrong with a table of link counts; None where every constraint holds and every demand has a path."""
        problem = self.problem
        if (counts < 0).any() or (counts[~self.allowed] > 0).any():
            return "a link that is not allowed"
        if counts.max(initial=0) > self.most_links:
            return "parallel links"
        if counts.sum(axis=0).max() > problem.degree or counts.sum(axis=1).max() > problem.degree:
            return f"a server with more than {problem.degree} links"
        if self.bidirectional and not np.array_equal(counts, counts.T):
            return "a link of one direction"
        if problem.max_changed is not None and self.changed(counts) > problem.max_changed:
            return f"more than {problem.max_changed} links of the network as it stands given up"
        far = hop_distances(counts)
        if problem.max_hops is not None and far.max() > problem.max_hops:
            return f"servers more than {problem.max_hops} hops apart"
        return "servers with demand that nothing joins" if np.isinf(far[self.demand > 0]).any() else None


def open_space(problem: TopologyProblem) -> Space:
    """Tables of a problem.

    Raises:
        InputError: sizes, demand or links that make no sense; all are listed.
        InfeasibleError: the Moore bound or the number of interfaces already excludes every topology.
    """
    problems = _errors(problem)
    if problems:
        raise InputError(problems)
    n, degree = problem.servers, problem.degree
    needed = moore_hops(n, degree, problem.links)
    joined = bool((problem.demand.sum(axis=1) > 0).all()) and bool((problem.demand > 0).sum() == n * (n - 1))
    if needed is None and (joined or problem.max_hops is not None):
        raise InfeasibleError(f"{n} servers of {degree} interface(s) with {problem.links} links cannot all be joined")
    if problem.max_hops is not None and needed is not None and problem.max_hops < needed:
        raise InfeasibleError(infeasible_hops(problem, "by the Moore bound", None))
    allowed = allowed_arcs(problem)
    kept = kept_counts(problem) if problem.max_changed is not None else None
    demand = np.asarray(problem.demand, dtype=np.float64)
    return Space(problem, demand, allowed, kept, *best_bound(problem, allowed))


def infeasible_hops(problem: TopologyProblem, proof: str, smallest: int | None) -> str:
    """Sentence for a hop limit no topology meets."""
    text = f"no allowed topology has every pair within {problem.max_hops} hops ({proof}); the Moore bound is "
    text += f"{moore_hops(problem.servers, problem.degree, problem.links)} hops"
    return text + (f", the smallest limit known to be feasible {smallest}" if smallest is not None else "")


def as_topology(space: Space, counts: Counts, origin: str) -> Topology:
    """Topology of link counts (which may leave servers without demand apart)."""
    problem = space.problem
    arcs = np.argwhere(counts > 0)
    units = np.repeat(arcs, counts[arcs[:, 0], arcs[:, 1]], axis=0)
    return switched(Topology.of_arcs(problem.servers, units, degree=problem.degree, links=problem.links, origin=origin))


def finish(
    space: Space,
    counts: Counts,
    routed: Routed,
    proven: Bound,
    stopped_by: StopReason,
    method: str,
    work: int,
    restriction: str = "",
    proof: LinkTree | BlockTree | None = None,
) -> TopologyResult:
    """Result with `proven` and the cheap bound; with a restriction, `proven` holds in the family only."""
    proven_bounds = (space.bound,) if restriction else (space.bound, proven)
    bounds = tuple(replace(entry, value=min(entry.value, routed.theta)) for entry in proven_bounds)
    bound = max(entry.value for entry in bounds)
    optimal = routed.theta - bound <= OPTIMALITY * routed.theta
    proofs = [LengthCertificate(routed.lengths).certificate(), space.layer_prices.certificate()]
    if isinstance(proof, LinkTree):
        proofs.append(proof.certificate(min(proven.value, routed.theta)))
    elif proof is not None:
        proofs.append(proof.certificate())
    return TopologyResult(
        plan=topology_plan(as_topology(space, counts, method), RoutingPlan(flows=(SourceFlow(routed.flow),))),
        certificates=tuple(proofs),
        bounds=bounds,
        stopped_by=StopReason.CONVERGED if optimal else stopped_by,
        method=method,
        notes=(f"searched {restriction} only",) if restriction else (),
        theta=routed.theta,
        restricted_bound=max(bound, min(proven.value, routed.theta)),
        work=work,
    )


def routed(space: Space, counts: Counts) -> Routed:
    """A network that carries every demand, routed."""
    routing = route(space.demand, counts)
    assert routing is not None
    return routing


def _errors(problem: TopologyProblem) -> list[Problem]:
    n, demand = problem.servers, np.asarray(problem.demand, dtype=np.float64)
    errors = []
    if n < 2:
        errors.append(Problem("too few servers", path="servers", value=str(n), allowed=">= 2"))
    if problem.degree < 1:
        errors.append(Problem("too few interfaces", path="degree", value=str(problem.degree), allowed=">= 1"))
    if demand.shape != (n, n):
        errors.append(Problem("wrong size", path="demand", value=str(demand.shape), allowed=f"({n}, {n})"))
    elif not np.isfinite(demand).all() or (demand < 0).any():
        errors.append(Problem("demand must be finite and not negative", path="demand"))
    elif np.diagonal(demand).any():
        errors.append(Problem("a server has demand to itself", path="demand"))
    elif not demand.any():
        errors.append(Problem("there is no demand", path="demand"))
    if problem.max_hops is not None and problem.max_hops < 1:
        errors.append(Problem("out of range", path="max_hops", value=str(problem.max_hops), allowed=">= 1"))
    if problem.max_changed is not None and problem.max_changed < 0:
        errors.append(Problem("out of range", path="max_changed", value=str(problem.max_changed), allowed=">= 0"))
    for name, arcs in (("forbidden", problem.forbidden), ("kept", problem.kept)):
        for i, j in arcs:
            if not (0 <= i < n and 0 <= j < n) or i == j:
                errors.append(Problem("no such arc", path=name, value=f"{i} -> {j}"))
    return errors
