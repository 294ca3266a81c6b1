"""The best rate of AllReduce on any network, by rows of sets where they are violated, and its proof in rationals."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from formulations.collective.allreduce_roots import build_arrays, set_row
from solvers.backends.highs import load
from solvers.collective.max_flow import FlowNetwork
from solvers.collective.ratio import RatioCut
from solvers.stop import Stop
from topoopt.core.allreduce_bound import AllReduceProof, WeightedSet
from topoopt.core.arrays import Bools, Floats
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.verdict import StopReason

if TYPE_CHECKING:
    import highspy

FINE = 1 << 30
"""Units of a flow that stand for the largest capacity."""

WORTH = 1e-7
"""Part of the rate by which a row must be violated to be added."""

DENOMINATORS = (64, 4096, 1_000_000)
"""Multipliers are rounded to fractions with denominators up to these; the least of the bounds they prove counts."""


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


def allreduce_rate(network: RatedNetwork, cut: RatioCut, stop: Stop) -> AllReduceRate:
    """Solve to optimality, unless stopped.

    Args:
        network: with two ranks or more, each reachable from each.
        cut: the one that limits AllGather, a first row.
        stop: asked between rounds.
    """
    import highspy

    unit = float(network.units.max())
    solver = highspy.Highs()
    for name, value in (("output_flag", False), ("threads", 1), ("presolve", "off"),
                        ("primal_feasibility_tolerance", 1e-9), ("dual_feasibility_tolerance", 1e-9)):  # fmt: skip
        solver.setOptionValue(name, value)
    first = build_arrays(network, network.units / unit)
    load(solver, first)
    rows = _Rows(network, solver, first.rows)
    for rank in network.ranks.tolist():
        others = np.arange(network.nodes) != rank
        rows.add(others, reduce=False)
        rows.add(others, reduce=True)
    rows.add(cut.side, reduce=False)
    rows.add(~cut.side, reduce=True)
    separation = (_Separation(network, backward=False), _Separation(network, backward=True))
    m, rounds = len(network.arcs), 0
    while True:
        rows.hand_over()
        solver.run()
        rounds += 1
        x = np.array(solver.getSolution().col_value)
        added, roots = 0, x[2 * m :]
        for reduce, own in enumerate(separation):
            load_of = x[reduce * m : (reduce + 1) * m]
            for side in own.violated(load_of, roots):
                added += rows.add(side, reduce=bool(reduce))
        reason = StopReason.CONVERGED if not added else stop.reason()
        if reason is not None:
            break
    dual = np.array(solver.getSolution().row_dual)
    return AllReduceRate(
        float(roots.sum()) * unit, roots * unit, x[:m] * unit, x[m : 2 * m] * unit, rows.proof(dual), rounds, reason
    )


class _Rows:
    """The rows of sets in the solver, each once."""

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
        starts = np.concatenate(([0], np.cumsum([len(own) for own, _ in self.waiting])))[:-1]
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
        for denominator in DENOMINATORS:

            def rounded(value: float, most: int = denominator) -> Fraction:
                return Fraction(value).limit_denominator(most)

            sets: tuple[list[WeightedSet], list[WeightedSet]] = ([], [])
            # Where the solver was stopped, the last sets are not in the program yet and have no weight.
            for ((reduce, _), side), weight in zip(self.sets.items(), weights, strict=False):
                own = rounded(max(float(weight), 0.0))
                if own > 0:
                    sets[reduce].append(WeightedSet(tuple(np.flatnonzero(side).tolist()), own))
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
        for one in sets:
            side = np.zeros(network.nodes, dtype=np.bool_)
            side[list(one.nodes)] = True
            for node in one.nodes:
                cover[node] += one.weight
            crossing = side[tails] & ~side[heads] if forward else ~side[tails] & side[heads]
            for place in np.flatnonzero(crossing):
                own[place] += one.weight
        price.append(own)
    least = min(cover[rank] for rank in network.ranks)
    if least <= 0:
        return None
    prices = [max(one, other, Fraction(0)) for one, other in zip(*price, strict=True)]
    total = sum((int(units) * own for units, own in zip(network.units, prices, strict=True)), Fraction(0))
    bound: Fraction = total / least
    return bound


class _Separation:
    """Finds sets whose ranks send out more than the links carry."""

    def __init__(self, network: RatedNetwork, *, backward: bool) -> None:
        self.network = network
        ranks, source = network.ranks, network.nodes
        ends = network.arcs[:, ::-1] if backward else network.arcs
        tails = np.concatenate((ends[:, 0], np.full(len(ranks), source))).astype(np.int32)
        heads = np.concatenate((ends[:, 1], ranks)).astype(np.int32)
        self.flow = FlowNetwork(source + 1, tails, heads, np.ones(len(tails), dtype=np.int64))

    def violated(self, carried: Floats, roots: Floats) -> list[Bools]:
        """Sets, bool[V], in which more is rooted than leaves them (enters them, backward)."""
        network = self.network
        links = np.maximum(np.round(carried * FINE), 0).astype(np.int64)
        sent = np.maximum(np.round(roots * FINE), 0).astype(np.int64)
        self.flow.set_capacities(np.concatenate((links, sent)))
        due, found = int(sent.sum()), {}
        for rank in network.ranks.tolist():
            if self.flow.value(network.nodes, rank) < due * (1 - WORTH):
                side = self.flow.cut_around_sink(network.nodes, rank).side[:-1]
                found[side.tobytes()] = side
        return list(found.values())
