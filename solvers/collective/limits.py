"""Integer maximum flows give the best rates of collectives on any network, and certificates of what limits them.

Maximum flows in integers, many on one network, and the cut that limits an AllGather most.

The ratio of an AllGather is the largest |S n ranks| / (rate out of S) over sets of nodes S that hold not all ranks:
what S holds must leave it for the ranks outside, so that an AllGather of M bytes over N ranks takes at least (M/N)
ratio. Spanning trees from every rank reach it (Edmonds), with switches too (ForestColl, arXiv 2402.06787).

Best rates of collectives on any network, and certificates of what limits them.

An AllGather is limited by a cut, an AllReduce by multipliers of its program over roots, whose rows of sets are added
where they are violated, an All-to-All by lengths of links. All certificates are in whole numbers or rationals.

Lengths for many ranks come from smoothed shortest distances: lambda <= sum of units times lengths / sum of distances
over ordered pairs, whatever the lengths (linear programming duality); the least such bound is the optimum. The sum of
distances has corners wherever two paths are equally long. Smoothed by inverse temperature beta it has none (free energy
distance of randomised shortest paths: Kivimaki, Shimbo, Saerens, Physica A 393, 2014): with W = P exp(-beta length), P
= 1/2 of 1 / links out of the tail, and Z = (I - W)^-1,

    distance(s, t) = -(log Z[s,t] - log Z[t,t]) / beta

and its derivative by the length of a link is how often random walks from s to t, which prefer short ways, take it: a
flow from s to t. So one inverse and a few products of matrices tell the bound, its slope, and the load of every link by
flows of all pairs, whose fullest link is a rate that is reached. Descent (L-BFGS) makes the bound least at one beta
after another, twice the one before; since lengths differ from the best ones by about as much as 1 / beta, those of two
betas are extrapolated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.collective_rates import (
    all_to_all_rate_arrays,
    allreduce_roots_arrays,
    build_straight_allreduce,
    set_row,
)
from solvers.backends import SOLVERS, SolverLimits
from solvers.backends.highs import load
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Int32s, Ints, offsets
from topoopt.core.collective import (
    AllReduceProof,
    CollectiveOp,
    CollectiveProblem,
    WeightedSet,
    cut_certificate,
    lengths_certificate,
    roots_certificate,
)
from topoopt.core.errors import LimitError
from topoopt.core.proofs import StopReason
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.result import Certificate

if TYPE_CHECKING:
    import highspy


class TreesDoNotFitError(Exception):
    """Whole capacities that do not carry so many trees, or not through their switches."""


class FlowNetwork:
    """A network whose flows are asked for again and again.

    Args:
        nodes: number of nodes.
        tails, heads: int32[m].
        capacities: int64[m], changed by `set_capacities`.
    """

    def __init__(self, nodes: int, tails: Int32s, heads: Int32s, capacities: Ints) -> None:
        from ortools.graph.python import max_flow

        self.nodes = nodes
        self.solver = max_flow.SimpleMaxFlow()
        self.arcs = self.solver.add_arcs_with_capacity(tails, heads, capacities)

    def set_capacities(self, capacities: Ints) -> None:
        """New capacities of all arcs, int64[m]."""
        self.solver.set_arcs_capacity(self.arcs, capacities)

    def value(self, source: int, sink: int) -> int:
        status = self.solver.solve(source, sink)
        if status != self.solver.OPTIMAL:
            raise OverflowError(f"maximum flow {source} -> {sink}: {status}")
        return int(self.solver.optimal_flow())

    def cut(self, source: int, sink: int) -> tuple[int, Bools]:
        """The same with the smallest set of nodes around the source that cuts it, bool[nodes]."""
        value = self.value(source, sink)
        side = np.zeros(self.nodes, dtype=np.bool_)
        side[self.solver.get_source_side_min_cut()] = True
        return value, side

    def cut_around_sink(self, source: int, sink: int) -> Bools:
        """bool[nodes], the side of the source where the smallest set around the sink is cut off."""
        self.value(source, sink)
        side = np.ones(self.nodes, dtype=np.bool_)
        side[self.solver.get_sink_side_min_cut()] = False
        return side

    def flows(self) -> Ints:
        """int64[m], of the last question."""
        return np.asarray(self.solver.flows(self.arcs), dtype=np.int64)


RatioCut = tuple[Fraction, Bools]
"""The ratio of a network, ranks inside over the rate out, in 1 / `unit_gbytes_per_s`; bool[V], a set that has it."""


def cut_ratio(network: RatedNetwork, side: Bools) -> Fraction:
    """Ranks inside a set over the units out of it.

    Raises:
        ValueError: nothing leaves the set.
    """
    out = int(network.units[side[network.arcs[:, 0]] & ~side[network.arcs[:, 1]]].sum())
    inside = int((side & ~network.is_switch).sum())
    if out == 0:
        raise ValueError("nothing leaves the set")
    return Fraction(inside, out)


def ratio_cut(network: RatedNetwork) -> RatioCut:
    """The largest ratio of a cut.

    Starts from all nodes but one rank; while a cut with a larger ratio exists, the largest found over all ranks comes
    next. Every round is a test of one rate x = 1 / ratio: a super source sends x to every rank, and each rank must be
    able to receive N x.

    Raises:
        ValueError: fewer than two ranks, or a rank that another cannot reach.
    """
    ranks = network.ranks
    if len(ranks) < 2:
        raise ValueError("a collective needs two ranks")
    best = max((_all_but(network, int(rank)) for rank in ranks), key=itemgetter(0))
    source = network.nodes
    tails = np.concatenate((network.arcs[:, 0], np.full(len(ranks), source))).astype(np.int32)
    heads = np.concatenate((network.arcs[:, 1], ranks)).astype(np.int32)
    flow = FlowNetwork(source + 1, tails, heads, np.ones(len(tails), dtype=np.int64))
    while True:
        inside, out = best[0].as_integer_ratio()
        flow.set_capacities(np.concatenate((network.units * inside, np.full(len(ranks), out, dtype=np.int64))))
        larger = best
        for rank in ranks:
            if flow.value(source, int(rank)) >= len(ranks) * out:
                continue
            side = flow.cut_around_sink(source, int(rank))[:-1]
            cut = (cut_ratio(network, side), side)
            larger = max(larger, cut, key=itemgetter(0))
        if larger is best:
            return best
        best = larger


def _all_but(network: RatedNetwork, rank: int) -> RatioCut:
    side = np.ones(network.nodes, dtype=np.bool_)
    side[rank] = False
    if not (network.arcs[:, 1] == rank).any():
        raise ValueError(f"nothing reaches {network.names[rank]}")
    return (cut_ratio(network, side), side)


CLOSE = 1e-6
"""Part between bound and rate at which there is nothing more to do."""

FIRST_BETA = 6.0
"""First inverse temperature, in logarithms of the most links of a node over the mean distance."""

STAY = 0.5
"""Part of the walks that go on after each link, so that they end where all lengths are 0."""

MOST_STEPS = 200
"""Of the descent at one beta."""


def descended_lengths(network: RatedNetwork, stop: Stop) -> tuple[float, float, Floats]:
    """Lengths of links that bound the rate of an All-to-All closely; those found so far where it is stopped.

    Returns:
        The bound on the rate of every ordered pair, in units of the network; the rate that flows on the way reach; and
        float64[m], the lengths that prove the bound.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):  # threads of matrix products only wait for each other on a busy machine
        return _descended(_Descent(network), stop)


def _descended(descent: _Descent, stop: Stop) -> tuple[float, float, Floats]:
    beta, earlier = float(FIRST_BETA * np.log(descent.most_out + 1) / descent.distances(descent.lengths()).mean()), None
    while True:
        descent.least_at(beta, stop)
        now = descent.lengths()
        descent.offer(now)
        if earlier is not None:
            descent.offer(np.maximum(2 * now - earlier, 0.0))
        best = descent.bound, descent.reached, descent.best
        if stop.reason() is not None or descent.bound <= descent.reached * (1 + CLOSE):
            return best
        earlier, beta = now, 2 * beta
        if beta * descent.farthest(now) > 600.0:  # Z above the least float64
            return best


class _Descent:
    """Parts of the bound that the links have, and the best of what they led to; capacities are parts of the largest."""

    def __init__(self, network: RatedNetwork) -> None:
        self.network, self.unit = network, float(network.units.max())
        self.capacity = network.units / self.unit
        self.tails, self.heads = network.arcs.T
        ranks, n = network.ranks, network.nodes
        self.pairs = np.zeros((n, n), dtype=np.bool_)
        self.pairs[np.ix_(ranks, ranks)] = True
        np.fill_diagonal(self.pairs, val=False)
        self.sources = self.pairs.sum(axis=0).astype(np.float64)
        self.most_out = int(np.bincount(self.tails).max())
        self.chance = STAY / np.bincount(self.tails, minlength=n)[self.tails]
        self.parts = np.full(len(self.capacity), 1.0 / len(self.capacity))
        self.bound, self.reached, self.best = np.inf, 0.0, self.lengths()
        self.offer(self.best)

    def lengths(self) -> Floats:
        """float64[m], such that capacities times lengths sum to 1."""
        return np.asarray(self.parts / self.parts.sum() / self.capacity, dtype=np.float64)

    def distances(self, lengths: Floats) -> Floats:
        """float64[pairs], of ordered pairs of ranks."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        links = csr_array((lengths, (self.tails, self.heads)), shape=self.pairs.shape)
        return np.asarray(dijkstra(links, indices=self.network.ranks)[self.pairs[self.network.ranks]])

    def farthest(self, lengths: Floats) -> float:
        return float(self.distances(lengths).max())

    def offer(self, lengths: Floats) -> None:
        """Keep lengths if they prove more than those before."""
        bound = float(self.capacity @ lengths / self.distances(lengths).sum()) * self.unit
        if bound < self.bound:
            self.bound, self.best = bound, lengths

    def least_at(self, beta: float, stop: Stop) -> None:
        """Descend until the smoothed bound is least."""
        from scipy.optimize import minimize

        def look(_: Any) -> None:
            if stop.reason() is not None:
                raise StopIteration

        options = {"maxiter": MOST_STEPS, "maxcor": 30, "gtol": 1e-11, "ftol": 1e-15}
        minimum = minimize(
            self._smoothed, self.parts * len(self.parts), (beta,), "L-BFGS-B", jac=True, callback=look,
            bounds=[(0.0, None)] * len(self.parts), options=options,
        )  # fmt: skip
        self.parts = minimum.x / minimum.x.sum()

    def _smoothed(self, parts: Floats, beta: float) -> tuple[float, Floats]:
        """Minus the logarithm of the smoothed sum of distances, and its slope by the parts."""
        self.parts = parts
        whole = parts.sum()
        if whole <= 0:
            return np.inf, np.zeros(len(parts))
        length = self.lengths()
        weight = self.chance * np.exp(-beta * length)
        walks = np.zeros(self.pairs.shape)
        walks[self.tails, self.heads] = weight
        visits = np.linalg.inv(np.eye(len(walks)) - walks)
        if visits[self.pairs].min() < 1e-300:
            return np.inf, np.zeros(len(length))
        own = np.diag(visits).copy()
        total = (self.sources @ np.log(own) - np.log(visits[self.pairs]).sum()) / beta
        over = np.where(self.pairs, 1.0 / np.where(self.pairs, visits, 1.0), 0.0)
        passes = visits.T @ (over @ visits.T) - visits.T @ ((self.sources / own)[:, None] * visits.T)
        load = passes[self.tails, self.heads] * weight
        self.reached = max(self.reached, float(self.unit / (load / self.capacity).max()))
        slope = -load / self.capacity / total
        return -float(np.log(total)), (slope - slope @ parts / whole) / whole


@dataclass(frozen=True, eq=False)
class AllToAllRate:
    """What linear programming finds.

    Attributes:
        units: lambda, rate of every ordered pair, in units of the network.
        flow: float64[sources, m], units that each source (row) has on each arc.
        lengths: int64[m], of links: lambda <= sum of units times lengths / sum of distances over ordered pairs.
        stopped_by: CONVERGED where the program was solved.
    """

    units: float
    flow: Floats
    lengths: Ints
    stopped_by: StopReason


def all_to_all_rate(
    network: RatedNetwork, stop: Stop, *, relaying: bool = True, source: int | None = None
) -> AllToAllRate:
    """Solve the program.

    Args:
        relaying: whether ranks pass on what is not for them.
        source: the only rank that sends; None: all do.

    Raises:
        LimitError: stopped before a rate was found.
    """
    unit = float(network.units.max())
    program, columns = all_to_all_rate_arrays(network, network.units / unit, relaying=relaying, source=source)
    result = SOLVERS["highs"](program, SolverLimits(time_s=stop.remaining_s(), feasibility=1e-9))
    if result.raw_x is None or result.row_dual is None:
        raise LimitError("no rate of All-to-All was found in time")
    if result.raw_x[-1] <= 0.0 and result.stopped_by is not StopReason.CONVERGED:  # it stands where it began
        raise LimitError("no rate of All-to-All above 0 was found in time")
    used = columns >= 0
    flow = np.where(used, result.raw_x[np.where(used, columns, 0)], 0.0).clip(min=0.0)
    lengths = whole_lengths(result.row_dual[: len(network.arcs)])
    return AllToAllRate(float(result.raw_x[-1]) * unit, flow * unit, lengths, result.stopped_by)


def all_to_all_bound(network: RatedNetwork, stop: Stop) -> tuple[Ints, float]:
    """The best bound: by linear programming, of large networks by descent, which comes close; stopped, a weaker one.

    Returns:
        int64[m], lengths of links that prove the bound; and a rate of every ordered pair that is reached, in units.
    """
    if len(network.ranks) * len(network.arcs) <= 4_000:  # ranks times links up to which linear programming is quick
        with contextlib.suppress(LimitError):  # lengths of any descent prove a bound as well
            rate = all_to_all_rate(network, stop)
            return rate.lengths, rate.units
    _, reached, lengths = descended_lengths(network, stop)
    return whole_lengths(-lengths), reached


def straight_allreduce_lengths(network: RatedNetwork, stop: Stop) -> Ints:
    """int64[m], lengths of links that bound an AllReduce in which ranks do not relay.

    Raises:
        LimitError: stopped before they were found.
    """
    program = build_straight_allreduce(network, network.units / float(network.units.max()))
    result = SOLVERS["highs"](program, SolverLimits(time_s=stop.remaining_s(), feasibility=1e-9))
    if result.row_dual is None:
        raise LimitError("no bound of an AllReduce without relays was found in time")
    return whole_lengths(result.row_dual[: len(network.arcs)])


def whole_lengths(dual: Floats) -> Ints:
    """Lengths in whole numbers from the multipliers of the links."""
    lengths = np.maximum(-dual, 0.0)
    longest = float(lengths.max())
    if longest <= 0:
        return np.ones(len(dual), dtype=np.int64)
    return np.asarray(np.round(lengths / longest * (1 << 32)), dtype=np.int64)  # the longest link


FINE = 1 << 30
"""Units of a flow that stand for the largest capacity."""


@dataclass(frozen=True, eq=False)
class AllReduceRate:
    """What roots used unequally reach.

    Attributes:
        units: X, rate of the vector reduced, in units of the network, of the last program.
        roots: float64[N], the rate rooted at each rank.
        broadcast, reduce: float64[m], units on each arc.
        proof: multipliers of the upper bound.
        rounds: programs solved.
        stopped_by: CONVERGED when no row is violated; then `units` is reached.
    """

    units: float
    roots: Floats
    broadcast: Floats
    reduce: Floats
    proof: AllReduceProof
    rounds: int
    stopped_by: StopReason


def allreduce_rate(network: RatedNetwork, cut: Bools, stop: Stop) -> AllReduceRate:
    """Solve to optimality, unless stopped.

    Args:
        network: with two ranks or more, each reachable from each.
        cut: bool[V], the set that limits AllGather, a first row.
        stop: asked between rounds.
    """
    import highspy

    unit = float(network.units.max())
    solver = highspy.Highs()
    for name, value in (("output_flag", False), ("threads", 1), ("presolve", "off"),
                        ("primal_feasibility_tolerance", 1e-9), ("dual_feasibility_tolerance", 1e-9)):  # fmt: skip
        solver.setOptionValue(name, value)
    first = allreduce_roots_arrays(network, network.units / unit)
    load(solver, first)
    rows = _Rows(network, solver, first.rows)
    for rank in network.ranks.tolist():
        others = np.arange(network.nodes) != rank
        rows.add(others, reduce=False)
        rows.add(others, reduce=True)
    rows.add(cut, reduce=False)
    rows.add(~cut, reduce=True)
    separation = (_separation(network, backward=False), _separation(network, backward=True))
    m, rounds = len(network.arcs), 0
    while True:
        rows.hand_over()
        solver.run()
        rounds += 1
        x = np.array(solver.getSolution().col_value)
        added, roots = 0, x[2 * m :]
        for reduce, own in enumerate(separation):
            load_of = x[reduce * m : (reduce + 1) * m]
            for side in own(load_of, roots):
                added += rows.add(side, reduce=bool(reduce))
        reason = StopReason.CONVERGED if not added else stop.reason()
        if reason is not None:
            break
    dual = np.array(solver.getSolution().row_dual)
    return AllReduceRate(
        float(roots.sum()) * unit, roots * unit, x[:m] * unit, x[m : 2 * m] * unit, rows.proof(dual), rounds, reason
    )


class _Rows:
    def __init__(self, network: RatedNetwork, solver: highspy.Highs, first: int) -> None:
        self.network, self.solver, self.first = network, solver, first
        self.sets: dict[tuple[bool, bytes], Bools] = {}
        self.waiting: list[tuple[Floats, Floats]] = []

    def add(self, side: Bools, *, reduce: bool) -> bool:
        """Add the row of a set that does not hold all ranks; whether it is new."""
        key = (reduce, side.tobytes())
        if key in self.sets or side[self.network.ranks].all() or not side[self.network.ranks].any():
            return False
        self.sets[key] = side
        self.waiting.append(set_row(self.network, side, reduce=reduce))
        return True

    def hand_over(self) -> None:
        """Give the solver the rows that were added since the last time, all at once."""
        if not self.waiting:
            return
        count = len(self.waiting)
        columns, values = (np.concatenate(part) for part in zip(*self.waiting, strict=True))
        starts = offsets([len(own) for own, _ in self.waiting])[:-1]
        low, high = np.zeros(count), np.full(count, np.inf)
        self.solver.addRows(count, low, high, len(columns), starts.astype(np.int32), columns.astype(np.int32), values)
        self.waiting.clear()

    def proof(self, dual: Floats) -> AllReduceProof:
        """The rounded multipliers that prove most."""
        network = self.network
        m, switches = len(network.arcs), np.flatnonzero(network.is_switch)
        potentials = dual[m : m + 2 * len(switches)].reshape(2, -1)
        weights = dual[self.first :]
        best: tuple[Fraction, AllReduceProof] | None = None
        for denominator in (64, 4096, 1_000_000):

            def rounded(value: float, most: int = denominator) -> Fraction:
                return Fraction(value).limit_denominator(most)

            sets: tuple[list[WeightedSet], list[WeightedSet]] = ([], [])
            # Where the solver was stopped, the last sets are not in the program yet and have no weight.
            for ((reduce, _), side), weight in zip(self.sets.items(), weights, strict=False):
                own = rounded(max(float(weight), 0.0))
                if own > 0:
                    sets[reduce].append((tuple(np.flatnonzero(side).tolist()), own))
            potential = [[Fraction(0)] * network.nodes for _ in range(2)]
            for own_potential, values in zip(potential, potentials, strict=True):
                for node, value in zip(switches.tolist(), values, strict=True):
                    own_potential[node] = rounded(float(value))
            proof = AllReduceProof(tuple(sets[0]), tuple(sets[1]), tuple(potential[0]), tuple(potential[1]))
            value = proven_units(network, proof)
            if value is not None and (best is None or value < best[0]):
                best = value, proof
        assert best is not None
        return best[1]


def proven_units(network: RatedNetwork, proof: AllReduceProof) -> Fraction | None:
    """The bound that multipliers prove; None: some rank is in no set."""
    cover = [Fraction(0)] * network.nodes
    price: list[list[Fraction]] = []
    tails, heads = network.arcs[:, 0], network.arcs[:, 1]
    for sets, potential, forward in (
        (proof.broadcast, proof.broadcast_potential, True),
        (proof.reduce, proof.reduce_potential, False),
    ):
        own = [potential[tail] - potential[head] for tail, head in network.arcs]
        for nodes, weight in sets:
            side = np.zeros(network.nodes, dtype=np.bool_)
            side[list(nodes)] = True
            for node in nodes:
                cover[node] += weight
            crossing = side[tails] & ~side[heads] if forward else ~side[tails] & side[heads]
            for arc in np.flatnonzero(crossing):
                own[arc] += weight
        price.append(own)
    least = min(cover[rank] for rank in network.ranks)
    if least <= 0:
        return None
    prices = [max(row, into, Fraction(0)) for row, into in zip(*price, strict=True)]
    total = sum((int(units) * own for units, own in zip(network.units, prices, strict=True)), Fraction(0))
    bound: Fraction = total / least
    return bound


def _separation(network: RatedNetwork, *, backward: bool) -> Callable[[Floats, Floats], list[Bools]]:
    """What gives sets, bool[V], in which more is rooted than the loads of links let out (in, backward)."""
    ranks, source = network.ranks, network.nodes
    ends = network.arcs[:, ::-1] if backward else network.arcs
    tails = np.concatenate((ends[:, 0], np.full(len(ranks), source))).astype(np.int32)
    heads = np.concatenate((ends[:, 1], ranks)).astype(np.int32)
    flow = FlowNetwork(source + 1, tails, heads, np.ones(len(tails), dtype=np.int64))

    def violated(carried: Floats, roots: Floats) -> list[Bools]:
        links = np.maximum(np.round(carried * FINE), 0).astype(np.int64)
        sent = np.maximum(np.round(roots * FINE), 0).astype(np.int64)
        flow.set_capacities(np.concatenate((links, sent)))
        total, sides = int(sent.sum()), {}
        for rank in ranks.tolist():
            if flow.value(source, rank) < total * (1 - 1e-7):
                side = flow.cut_around_sink(source, rank)[:-1]
                sides[side.tobytes()] = side
        return list(sides.values())

    return violated


def limiting(problem: CollectiveProblem, stop: Stop) -> tuple[Certificate, ...]:
    """Return the certificates of a problem; weaker ones where the search is stopped.

    Those of an AllReduce are the multipliers, which prove the bound, and the cut that limits an AllGather.

    Raises
    ------
    LimitError
        The search was stopped before anything about an All-to-All was proven.
    """
    network, collective = problem.network, problem.collective
    if collective is CollectiveOp.ALL_TO_ALL or not (problem.relaying or problem.multicast):
        return (lengths_certificate(pair_lengths(problem, stop)),)
    if collective in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE):
        forward = network if collective is CollectiveOp.BROADCAST else network.transposed()
        return (_cut(root_cut(forward, int(network.ranks[problem.root]))),)
    if collective is CollectiveOp.ALLREDUCE and problem.multicast:
        return (_cut(least_cut(network)),)
    if collective is CollectiveOp.REDUCE_SCATTER:
        return (_cut(ratio_cut(network.transposed())[1]),)
    _, cut = ratio_cut(network)
    if collective is CollectiveOp.ALLGATHER:
        return (_cut(cut),)
    return roots_certificate(allreduce_rate(network, cut, stop).proof), _cut(cut)


def pair_lengths(problem: CollectiveProblem, stop: Stop) -> Ints:
    """int64[m], lengths of links for what ranks send each other, or one of them all."""
    network, wanted = problem.network, problem.collective
    single = wanted in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE)
    root = int(network.ranks[problem.root]) if single else None
    if wanted is CollectiveOp.ALLREDUCE:
        return straight_allreduce_lengths(network, stop)
    if problem.relaying and not single:
        return all_to_all_bound(network, stop)[0]
    if wanted is not CollectiveOp.REDUCE:
        return all_to_all_rate(network, stop, relaying=problem.relaying, source=root).lengths
    turned = np.lexsort((network.arcs[:, 0], network.arcs[:, 1]))
    lengths = np.empty(len(turned), dtype=np.int64)
    lengths[turned] = all_to_all_rate(network.transposed(), stop, relaying=problem.relaying, source=root).lengths
    return lengths


def root_cut(network: RatedNetwork, root: int) -> Bools:
    """The set around a root that least leaves."""
    flow = FlowNetwork(network.nodes, network.arcs[:, 0], network.arcs[:, 1], network.units)
    others = [rank for rank in network.ranks.tolist() if rank != root]
    return flow.cut(root, min(others, key=lambda rank: flow.value(root, rank)))[1]


def least_cut(network: RatedNetwork) -> Bools:
    """The set with ranks inside and outside that least leaves, or enters (then its complement)."""
    root = int(network.ranks[0])
    forward = root_cut(network, root)
    backward = ~root_cut(network.transposed(), root)
    return min(forward, backward, key=lambda side: _leaving(network, side))


def _leaving(network: RatedNetwork, side: Bools) -> int:
    return int(network.units[side[network.arcs[:, 0]] & ~side[network.arcs[:, 1]]].sum())


def _cut(side: Bools) -> Certificate:
    return cut_certificate(np.flatnonzero(side).tolist())
