"""Network problems without a job: route a demand over a topology, or find the topology as well.

Demand is float64[n, n] in units of the capacity of one link; theta is the largest link utilisation of a routing (to be
minimised), lambda = 1/theta the largest common factor by which all demand can be scaled (concurrent flow). Of several
demands, float64[k, n, n], one is there at a time, and the largest theta of all counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.search_settings import SearchSettings
from topoopt.core.shown import Shown
from topoopt.core.stated import Stated
from topoopt.core.topology import Topology
from topoopt.core.turned_rows import Turns, turns_of


class RoutingMode(StrEnum):
    """Who knows which of several demands is there: `common`: nobody, one routing for all; `adapted`: the routing."""

    COMMON = "common"
    ADAPTED = "adapted"


class WithDemand(Stated):
    """What problems of both kinds have: one demand matrix, or several."""

    demand: Floats

    @property
    def demands(self) -> Floats:
        """float64[k, n, n], a set of one where there is one matrix."""
        return self.demand[None] if self.demand.ndim == 2 else self.demand

    @property
    def several(self) -> bool:
        """Whether the demand is a set of matrices, the worst of which counts."""
        return self.demand.ndim == 3


@dataclass(frozen=True, eq=False, repr=False)
class RoutingProblem(WithDemand):
    """Kind `routing`: splittable routing of least theta on a fixed topology.

    Attributes:
        name: of the instance.
        topology: arcs with multiplicities; an arc's capacity is its multiplicity.
        demand: float64[n, n] or float64[k, n, n], zero diagonals, not negative.
        max_hops: longest path allowed; None for any.
        link_gbps: rate of one link; None where the instance gives none. Demand is in units of a link all the same.
        hop_price: time of one hop in the unit of theta. The objective is theta + hop_price * mean hops of the demand
            (`completion-time`); 0: theta alone (`throughput`).
        routing: of several demands.
        step_ms: time each of several demands stands for; theta times this is the time its traffic takes. None: unknown.
    """

    name: str
    topology: Topology
    demand: Floats
    max_hops: int | None = None
    hop_price: float = 0.0
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()
    link_gbps: float | None = None
    routing: RoutingMode = RoutingMode.COMMON
    step_ms: float | None = None

    kind = "routing"

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the constraints and prices that are set; several demands take none."""
        given = {"max_hops": self.max_hops is not None, "hop_price": self.hop_price > 0}
        return tuple(name for name, here in given.items() if here)


@dataclass(frozen=True, eq=False, repr=False)
class TopologyProblem(WithDemand):
    """Kind `topology`: links and routing of least theta.

    Attributes:
        name: of the instance.
        servers, degree, links: n, d, and whether links are fibre pairs or single fibres.
        demand: float64[n, n] or float64[k, n, n], zero diagonals, not negative.
        max_hops: every ordered pair must be within so many hops; None for no such limit.
        forbidden: arcs (tail, head) that may not be used.
        kept: arcs, repeated for parallel links, of the network as it stands; empty for a new one.
        max_changed: most links of `kept` that may be given up; None for any number.
        parallel_links: whether more than one link may join a pair.
        link_gbps: rate of one link; None where the instance gives none.
        routing, step_ms: as of kind `routing`.
    """

    name: str
    servers: int
    degree: int
    links: LinkDirection
    demand: Floats
    max_hops: int | None = None
    forbidden: tuple[tuple[int, int], ...] = ()
    kept: tuple[tuple[int, int], ...] = ()
    max_changed: int | None = None
    parallel_links: bool = True
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()
    link_gbps: float | None = None
    routing: RoutingMode = RoutingMode.COMMON
    step_ms: float | None = None

    kind = "topology"

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the constraints that are set; several demands take none."""
        given = {
            "max_hops": self.max_hops is not None,
            "forbidden": self.forbidden,
            "kept": self.kept,
            "parallel_links": not self.parallel_links,
            "search.robust": self.search.robust is not None,
        }
        return tuple(name for name, here in given.items() if here)


NetworkProblem = RoutingProblem | TopologyProblem
EitherProblem = TypeVar("EitherProblem", RoutingProblem, TopologyProblem)


def single(problem: EitherProblem, matrix: int) -> EitherProblem:
    """The problem of one of several demands alone."""
    return replace(problem, demand=problem.demands[matrix])


@dataclass(frozen=True, eq=False)
class LayerPrices:
    """What a layered Moore bound rests on, beside sums of rows and columns; any prices, not negative, prove a bound.

    Attributes:
        alpha, beta: float64[layers, n], prices of rows and columns of the demand, for layers short of all servers.
    """

    alpha: Floats
    beta: Floats


@dataclass(frozen=True, eq=False)
class RelayPrices:
    """What a bound by relay blocks rests on (`topoopt.verify.network.topology_bounds.relay_blocks`).

    Attributes:
        theta: what the prices prove of every topology.
        price: float64[n, n], not negative, of a unit of flow over a link i -> j.
        relief: float64[n, n], not negative, what a unit of demand i -> j is excused for going over one link or two.
        shift: float64[n, n], of the worth of a link i -> j from its tail to its head.
        most: float64[n], the most that the links around each server are worth.
    """

    theta: float
    price: Floats
    relief: Floats
    shift: Floats
    most: Floats


@dataclass(frozen=True, eq=False, repr=False)
class SourceFlow(Shown):
    """A splittable routing, aggregated by source; in one of two forms, which its methods give alike.

    Attributes:
        flow: float64[n, m]; flow[s, a] is what source s sends over arc a (arcs of the topology, in order). Or
            float64[1, m], the row of source 0 alone, where the arcs look the same from every server and each source
            sends the same, seen from itself: s sends over i + s -> j + s what 0 sends over i -> j.
        by_hop: float64[h, n, m], the same split by place on the way, so that sum over h is `flow`: by_hop[k, s, a] goes
            over arc a as hop k + 1 at the latest. Shows that all paths have at most h hops; None where hops are free.
        dims: of the box of servers in which i + s is added, each dimension a ring; none: modulo n.
    """

    flow: Floats
    by_hop: Floats | None = None
    dims: tuple[int, ...] = ()

    @property
    def turned(self) -> bool:
        """Whether the row of source 0 stands for all; no network has one server only."""
        return len(self.flow) == 1

    def rows(self, topology: Topology) -> Iterator[Floats]:
        """float64[m] of every source."""
        return self._turns(topology).rows(self.flow[0]) if self.turned else iter(self.flow)

    def load(self, topology: Topology) -> Floats:
        """float64[m]: what all sources send over each arc."""
        return self._turns(topology).load(self.flow[0]) if self.turned else np.asarray(self.flow.sum(axis=0))

    def _turns(self, topology: Topology) -> Turns:
        turns = turns_of(topology.arcs, topology.servers, self.dims)
        if turns is None:
            raise InputError([Problem("one row stands for no others: the servers differ in their arcs", path="flow")])
        return turns

    def staying(self, topology: Topology) -> Floats:
        """float64[n, n]: what of each source's flow (row) stays at each server, the demand served; diagonal 0."""
        tails, heads = topology.arcs[:, 0], topology.arcs[:, 1]
        stays = np.empty((topology.servers, topology.servers))
        for source, row in enumerate(self.rows(topology)):
            stays[source] = np.bincount(heads, row, topology.servers) - np.bincount(tails, row, topology.servers)
        np.fill_diagonal(stays, 0.0)
        return stays

    def passing(self, topology: Topology) -> Floats:
        """float64[n, n]: all that comes and all that leaves of each source's flow (row) at each server."""
        ends = topology.arcs.T.ravel()
        return np.array([np.bincount(ends, np.tile(row, 2), topology.servers) for row in self.rows(topology)])


@dataclass(frozen=True, eq=False, repr=False)
class LengthCertificate(Shown):
    """Proof of theta >= sum_ij D_ij dist_l(i, j) / sum_a capacity_a l_a (linear-programming duality).

    With a hop limit, dist is over paths within it; with a price of hops, every arc is longer by
    hop_price / |D| * sum_a capacity_a l_a, and theta + hop_price * mean hops is bounded.

    Attributes:
        lengths: float64[m], not negative, one per arc of the topology.
    """

    lengths: Floats


@dataclass(frozen=True, eq=False, repr=False)
class TwoLayerMultipliers(Shown):
    """What the two-layer bound on theta is evaluated with; any values prove something, good ones prove more.

    Attributes:
        weight: float64[n, n], of each pair of servers.
        first_link: float32[n, n, n], the part of weight[i, j] charged to the first link of i -> k -> j, at [i, k, j].
    """

    weight: Floats
    first_link: NDArray[np.float32]


@dataclass(frozen=True, eq=False, repr=False)
class AdaptedRouting(Shown):
    """A routing for each demand, with the lengths that prove how good each can be."""

    flows: tuple[SourceFlow, ...]
    certificates: tuple[LengthCertificate, ...]


@dataclass(frozen=True, eq=False, repr=False)
class CommonRouting(Shown):
    """One routing for several demands, and prices that prove how good it can be.

    For prices w[k, a] >= 0 with C = sum_ka capacity_a w[k, a] > 0, any common routing has theta >= (1/C) sum_p dist_p,
    where dist_p is the shortest way of pair p by the lengths sum_k D[k, p] w[k, a] of the arcs: C theta is at least the
    priced load, and what a pair pays of it is a mean over its ways.

    Attributes:
        pairs: int64[P, 2], ordered pairs with demand in some matrix.
        amounts: float64[k, P], their demand in each.
        split: float64[P, m], part of each pair's traffic over each arc.
        prices: float64[k, m], not negative.
    """

    pairs: Ints
    amounts: Floats
    split: Floats
    prices: Floats

    def flow(self, matrix: int, servers: int) -> SourceFlow:
        """The flow of one of the demands."""
        flow = np.zeros((servers, self.split.shape[1]))
        np.add.at(flow, self.pairs[:, 0], self.amounts[matrix][:, None] * self.split)
        return SourceFlow(flow)


@dataclass(frozen=True, eq=False, repr=False)
class EnumerationProof(Shown):
    """Networks that a bound by enumeration rests on: all that have few hops, with lengths that bound each from below.

    Attributes:
        heads: int64[k, n, d], heads of every server's links in each network.
        lengths: float64[k, n, d], not negative, of these links.
    """

    heads: Ints
    lengths: Floats
