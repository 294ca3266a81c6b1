"""Network problems without a job: route a demand over a topology, or find the topology as well.

Demand is float64[n, n] in units of the capacity of one link; theta is the largest link utilisation of a routing (to be
minimised), lambda = 1/theta the largest common factor by which all demand can be scaled (concurrent flow).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from topoopt.core.cluster import LinkDirection
from topoopt.core.search_settings import SearchSettings
from topoopt.core.shown import Displayed, Shown
from topoopt.core.topology import Topology


@dataclass(frozen=True, eq=False, repr=False)
class RoutingProblem(Displayed):
    """Kind `routing`: splittable routing of least theta on a fixed topology.

    Attributes:
        name: of the instance.
        topology: arcs with multiplicities; an arc's capacity is its multiplicity.
        demand: float64[n, n], zero diagonal, not negative.
        max_hops: longest path allowed; None for any.
        link_gbps: rate of one link; None where the instance gives none. Demand is in units of a link all the same.
        hop_price: time of one hop in the unit of theta. The objective is theta + hop_price * mean hops of the demand
            (`completion-time`); 0: theta alone (`throughput`).
    """

    name: str
    topology: Topology
    demand: NDArray[np.float64]
    max_hops: int | None = None
    hop_price: float = 0.0
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()
    link_gbps: float | None = None

    kind = "routing"


@dataclass(frozen=True, eq=False, repr=False)
class TopologyProblem(Displayed):
    """Kind `topology`: links and routing of least theta.

    Attributes:
        name: of the instance.
        servers, degree, links: n, d, and whether links are fibre pairs or single fibres.
        demand: float64[n, n], zero diagonal, not negative.
        max_hops: every ordered pair must be within so many hops; None for no such limit.
        forbidden: arcs (tail, head) that may not be used.
        kept: arcs, repeated for parallel links, of the network as it stands; empty for a new one.
        max_changed: most links of `kept` that may be given up; None for any number.
        parallel_links: whether more than one link may join a pair.
        link_gbps: rate of one link; None where the instance gives none.
    """

    name: str
    servers: int
    degree: int
    links: LinkDirection
    demand: NDArray[np.float64]
    max_hops: int | None = None
    forbidden: tuple[tuple[int, int], ...] = ()
    kept: tuple[tuple[int, int], ...] = ()
    max_changed: int | None = None
    parallel_links: bool = True
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()
    link_gbps: float | None = None

    kind = "topology"


@dataclass(frozen=True, eq=False, repr=False)
class SourceFlow(Shown):
    """A splittable routing, aggregated by source.

    Attributes:
        flow: float64[n, m]; flow[s, a] is what source s sends over arc a (arcs of the topology, in order).
        by_hop: float64[h, n, m], the same split by place on the way, so that sum over h is `flow`: by_hop[k, s, a] goes
            over arc a as hop k + 1 at the latest. Shows that all paths have at most h hops; None where hops are free.
    """

    flow: NDArray[np.float64]
    by_hop: NDArray[np.float64] | None = None

    def staying(self, topology: Topology) -> NDArray[np.float64]:
        """float64[n, n]: what of each source's flow (row) stays at each server, the demand served; diagonal 0."""
        tails, heads = topology.arcs[:, 0], topology.arcs[:, 1]
        stays = np.empty((len(self.flow), topology.servers))
        for source, row in enumerate(self.flow):
            stays[source] = np.bincount(heads, row, topology.servers) - np.bincount(tails, row, topology.servers)
        np.fill_diagonal(stays, 0.0)
        return stays


@dataclass(frozen=True, eq=False, repr=False)
class LengthCertificate(Shown):
    """Proof of theta >= sum_ij D_ij dist_l(i, j) / sum_a capacity_a l_a (linear-programming duality).

    With a hop limit, dist is over paths within it; with a price of hops, every arc is longer by
    hop_price / |D| * sum_a capacity_a l_a, and theta + hop_price * mean hops is bounded.

    Attributes:
        lengths: float64[m], not negative, one per arc of the topology.
    """

    lengths: NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class TwoLayerMultipliers(Shown):
    """What the two-layer bound on theta is evaluated with; any values prove something, good ones prove more.

    Attributes:
        weight: float64[n, n], of each pair of servers.
        first_link: float32[n, n, n], the part of weight[i, j] charged to the first link of i -> k -> j, at [i, k, j].
    """

    weight: NDArray[np.float64]
    first_link: NDArray[np.float32]


@dataclass(frozen=True, eq=False, repr=False)
class EnumerationProof(Shown):
    """Networks that a bound by enumeration rests on: all that have few hops, with lengths that bound each from below.

    Attributes:
        heads: int64[k, n, d], heads of every server's links in each network.
        lengths: float64[k, n, d], not negative, of these links.
    """

    heads: NDArray[np.int64]
    lengths: NDArray[np.float64]
