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
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter
from typing import Any

import numpy as np

from formulations.flow_routing import (
    all_to_all_rate_arrays,
    allreduce_roots_arrays,
    build_straight_allreduce,
    set_row,
)
from solvers.backends import SOLVERS, SolverLimits
from solvers.backends.highs import load
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Int32s, Ints, offsets
from topoopt.core.errors import LimitError
from topoopt.core.proofs import StopReason
from topoopt.core.rated_network import RatedNetwork
from topoopt.native import graph


class TreesDoNotFitError(Exception):
    """Whole capacities that do not carry so many trees, or not through their switches."""


def rank_cuts(
    nodes: int, arcs: Ints | Int32s, capacity: Ints, ranks: Ints, sent: Ints, sinks: Ints, *, around_sinks: bool = False
) -> tuple[Ints, Bools]:
    """Least cuts between a super source, which sends so much to each rank, and sinks.

    Args:
        nodes: number of nodes.
        arcs: [m, 2], tails and heads.
        capacity: int64[m].
        ranks: int64[N], and `sent`, int64[N], what they get from the source.
        sinks: int64[k].
        around_sinks: the smallest sets around the sinks are cut off; else the smallest around the source.

    Returns:
        int64[k], values; bool[k, nodes], the sides of the source, empty where all that is sent comes through.
    """
    tail, head, rank, sink = (
        np.ascontiguousarray(row, dtype=np.int32) for row in (arcs[:, 0], arcs[:, 1], ranks, sinks)
    )
    units, amounts = (np.ascontiguousarray(row, dtype=np.int64) for row in (capacity, sent))
    value, sides = graph.rank_cuts(nodes, tail, head, units, rank, amounts, sink, around_sinks)
    return value, sides.view(np.bool_)


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


def ratio_cut(network: RatedNetwork, sinks: Ints | None = None) -> RatioCut:
    """The largest ratio of a cut.

    Starts from all nodes but one rank; while a cut with a larger ratio exists, the largest over all sinks comes next.
    Every round is a test of one rate x = 1 / ratio: a super source sends x to every rank, and each sink must be able to
    receive N x.

    Args:
        network: the network.
        sinks: ranks that cuts part from others, one of each orbit of symmetries; None: all.

    Raises:
        ValueError: fewer than two ranks, or a rank that another cannot reach.
    """
    ranks = network.ranks
    if len(ranks) < 2:
        raise ValueError("a collective needs two ranks")
    sinks = ranks if sinks is None else sinks
    best = max((_all_but(network, int(rank)) for rank in sinks), key=itemgetter(0))
    while True:
        inside, out = best[0].as_integer_ratio()
        sent = np.full(len(ranks), out)
        value, sides = rank_cuts(
            network.nodes, network.arcs, network.units * inside, ranks, sent, sinks, around_sinks=True
        )
        broken = sides[value < len(ranks) * out]
        larger = max([best, *((cut_ratio(network, side), side) for side in broken)], key=itemgetter(0))
        if larger[0] <= best[0]:
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
    descent = _descended(network, stop)
    return descent.bound, descent.reached, descent.best


def descended_rate(network: RatedNetwork, stop: Stop) -> tuple[AllToAllRate, float]:
    """Return the rate and the flows of the best descent, and the bound that its lengths prove, in units."""
    descent = _descended(network, stop)
    reason = stop.reason() or StopReason.CONVERGED
    return AllToAllRate(descent.reached, descent.flow(), whole_lengths(-descent.best), reason), descent.bound


def _descended(network: RatedNetwork, stop: Stop) -> _Descent:
    from threadpoolctl import threadpool_limits

    descent = _Descent(network)
    with threadpool_limits(limits=1):  # threads of matrix products only wait for each other on a busy machine
        _descend(descent, stop)
    return descent


def _descend(descent: _Descent, stop: Stop) -> None:
    beta, earlier = float(FIRST_BETA * np.log(descent.most_out + 1) / descent.distances(descent.lengths()).mean()), None
    while True:
        descent.least_at(beta, stop)
        now = descent.lengths()
        descent.offer(now)
        if earlier is not None:
            descent.offer(np.maximum(2 * now - earlier, 0.0))
        if stop.reason() is not None or descent.bound <= descent.reached * (1 + CLOSE):
            return
        earlier, beta = now, 2 * beta
        if beta * descent.farthest(now) > 600.0:  # Z above the least float64
            return


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
        self.walks: tuple[Floats, Floats] | None = None
        self.offer(self.best)

    def lengths(self) -> Floats:
        """float64[m], such that capacities times lengths sum to 1."""
        return np.asarray(self.parts / self.parts.sum() / self.capacity, dtype=np.float64)

    def flow(self) -> Floats:
        """float64[N, m], units that every rank has on each arc at the rate that was reached."""
        ranks = self.network.ranks
        if self.walks is None:
            return np.zeros((len(ranks), len(self.tails)))
        visits, weight = self.walks
        own = np.diag(visits)[ranks]
        over = np.where(self.pairs, 1.0 / np.where(self.pairs, visits, 1.0), 0.0)[ranks]
        onward = (over @ visits.T)[:, self.heads]  # to all others, each walk from here being one
        back = np.einsum("it,jt->ij", visits[ranks].T, visits[:, ranks] / own)[self.tails, self.heads]
        home = visits[ranks][:, self.tails] * visits[:, ranks].T[:, self.heads] / own[:, None]
        flow: Floats = (visits[ranks][:, self.tails] * onward - back + home) * weight * self.reached
        return np.maximum(flow, 0.0)

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
        reached = float(self.unit / (load / self.capacity).max())
        if reached > self.reached:
            self.reached, self.walks = reached, (np.asarray(visits, dtype=np.float64), weight)
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

FEW_RANKS = 32
"""Ranks up to which cuts are separated to the last digits."""


@dataclass(frozen=True, eq=False)
class AllReduceRate:
    """What roots used unequally reach.

    Attributes:
        units: X, rate of the vector reduced, in units of the network, that the loads carry.
        roots: float64[N], the rate rooted at each rank.
        broadcast, reduce: float64[m], units on each arc.
        lengths: int64[m], of links, which prove the upper bound of the last program.
        rounds: programs solved.
        stopped_by: CONVERGED when no row is violated; then `units` is reached.
    """

    units: float
    roots: Floats
    broadcast: Floats
    reduce: Floats
    lengths: Ints
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
    load(solver, allreduce_roots_arrays(network, network.units / unit))
    m, ranks, rounds = len(network.arcs), network.ranks, 0
    slack = 1e-7 if len(ranks) <= FEW_RANKS else 2e-5
    seen: set[tuple[int, bytes]] = set()

    def add(sides: Iterable[Bools], reduce: int) -> int:
        """Add the rows of sets that do not hold all ranks; how many of them are new."""
        new = [side for side in sides if 0 < int(side[ranks].sum()) < len(ranks)]
        new = [side for side in new if (reduce, side.tobytes()) not in seen]
        seen.update((reduce, side.tobytes()) for side in new)
        if new:
            rows = [set_row(network, side, reduce=bool(reduce)) for side in new]
            columns, values = (np.concatenate(part) for part in zip(*rows, strict=True))
            starts = offsets([len(own) for own, _ in rows])[:-1].astype(np.int32)
            low, high = np.zeros(len(new)), np.full(len(new), np.inf)
            solver.addRows(len(new), low, high, len(columns), starts, columns.astype(np.int32), values)
        return len(new)

    others = [np.arange(network.nodes) != rank for rank in ranks.tolist()]
    add([*others, cut], 0)
    add([*others, *(~side for side in others), ~cut], 1)
    while True:
        solver.run()
        rounds += 1
        x = np.array(solver.getSolution().col_value)
        sent = np.maximum(np.floor(x[2 * m :] * FINE), 0).astype(np.int64)
        added, total, carried = 0, int(sent.sum()), 1.0
        for reduce, ends in enumerate((network.arcs, network.arcs[:, ::-1])):
            links = np.maximum(np.round(x[reduce * m : (reduce + 1) * m] * FINE), 0).astype(np.int64)
            flows, sides = rank_cuts(network.nodes, ends, links, ranks, sent, ranks, around_sinks=True)
            carried = min(carried, float(flows.min()) / total)
            added += add({side.tobytes(): side for side in sides[flows < total * (1 - slack)]}.values(), reduce)
        reason = StopReason.CONVERGED if not added else stop.reason()
        if reason is not None:
            break
    lengths = whole_lengths(-np.abs(np.array(solver.getSolution().row_dual)[:m]))
    carried = 1.0 if carried > 1 - 2e-7 else carried
    roots = x[2 * m :] * unit * carried
    return AllReduceRate(float(roots.sum()), roots, x[:m] * unit, x[m : 2 * m] * unit, lengths, rounds, reason)
