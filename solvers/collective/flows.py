"""Maximum flows in integers, many on one network, and the cut that limits an AllGather most.

The ratio of an AllGather is the largest |S n ranks| / (rate out of S) over sets of nodes S that hold not all ranks:
what S holds must leave it for the ranks outside, so that an AllGather of M bytes over N ranks takes at least (M/N)
ratio. Spanning trees from every rank reach it (Edmonds), with switches too (ForestColl, arXiv 2402.06787).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from topoopt.core.arrays import Bools, Int32s, Ints
from topoopt.core.rated_network import RatedNetwork


class TreesDoNotFitError(Exception):
    """Whole capacities that do not carry so many trees, or not through their switches."""


@dataclass(frozen=True)
class MinimumCut:
    """Value of a maximum flow, and the nodes on the side of its source."""

    value: int
    side: Bools


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
        """The maximum flow between two nodes."""
        status = self.solver.solve(source, sink)
        if status != self.solver.OPTIMAL:
            raise OverflowError(f"maximum flow {source} -> {sink}: {status}")
        return int(self.solver.optimal_flow())

    def cut(self, source: int, sink: int) -> MinimumCut:
        """The same with the smallest set of nodes around the source that cuts it."""
        value = self.value(source, sink)
        side = np.zeros(self.nodes, dtype=np.bool_)
        side[self.solver.get_source_side_min_cut()] = True
        return MinimumCut(value, side)

    def cut_around_sink(self, source: int, sink: int) -> MinimumCut:
        """The same with the smallest set of nodes around the sink; `side` is still that of the source."""
        value = self.value(source, sink)
        side = np.ones(self.nodes, dtype=np.bool_)
        side[self.solver.get_sink_side_min_cut()] = False
        return MinimumCut(value, side)

    def flows(self) -> Ints:
        """int64[m], of the last question."""
        return np.asarray(self.solver.flows(self.arcs), dtype=np.int64)


@dataclass(frozen=True)
class RatioCut:
    """The ratio of a network, and a cut that has it.

    Attributes:
        ratio: ranks inside over the rate out, in 1 / `unit_gbytes_per_s`.
        side: bool[V], the set S.
    """

    ratio: Fraction
    side: Bools


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
    best = max((_all_but(network, int(rank)) for rank in ranks), key=lambda candidate: candidate.ratio)
    source = network.nodes
    tails = np.concatenate((network.arcs[:, 0], np.full(len(ranks), source))).astype(np.int32)
    heads = np.concatenate((network.arcs[:, 1], ranks)).astype(np.int32)
    flow = FlowNetwork(source + 1, tails, heads, np.ones(len(tails), dtype=np.int64))
    while True:
        inside, out = best.ratio.numerator, best.ratio.denominator
        flow.set_capacities(np.concatenate((network.units * inside, np.full(len(ranks), out, dtype=np.int64))))
        larger = best
        for rank in ranks:
            if flow.value(source, int(rank)) >= len(ranks) * out:
                continue
            side = flow.cut_around_sink(source, int(rank)).side[:-1]
            cut = RatioCut(cut_ratio(network, side), side)
            larger = max(larger, cut, key=lambda candidate: candidate.ratio)
        if larger is best:
            return best
        best = larger


def _all_but(network: RatedNetwork, rank: int) -> RatioCut:
    side = np.ones(network.nodes, dtype=np.bool_)
    side[rank] = False
    if not (network.arcs[:, 1] == rank).any():
        raise ValueError(f"nothing reaches {network.names[rank]}")
    return RatioCut(cut_ratio(network, side), side)
