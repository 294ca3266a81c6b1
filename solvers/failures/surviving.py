"""What survives of a topology after a failure: arcs with links left, hop counts, and graphs to route on.

Arc ids stay those of the whole topology. A dead arc points back to its own server, so that no shortest path takes it.
A server that no longer forwards (`relays`) still sends and receives: no path may pass through it, which is so when the
arcs into it are dead for every target but itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from solvers.failures.listing import links_left
from solvers.network.constructions.graph import ArcGraph, row_ptr
from topoopt import native
from topoopt.core.arrays import Bools, Int32s, Ints
from topoopt.core.failures import Failure
from topoopt.core.topology import Topology


@dataclass(frozen=True, eq=False)
class Surviving:
    """A damaged topology.

    Attributes:
        topology: before the failure.
        left: int32[m], links left of each arc.
        relays: servers that send and receive but forward no longer.
    """

    topology: Topology
    left: Int32s
    relays: tuple[int, ...] = ()
    _graphs: dict[int, ArcGraph] = field(default_factory=dict)

    def graph(self, target: int) -> ArcGraph:
        """Arcs that may lead to a target; hops of -1 where nothing does."""
        key = target if target in self.relays else -1
        if key not in self._graphs:
            self._graphs[key] = _graph(self.topology, np.where(_usable(self, key), self.left, 0))
        return self._graphs[key]

    def hops(self) -> Int32s:
        """int32[n, n]: fewest hops from i (row) to j, -1 where there is no way."""
        hops = self.graph(-1).hops_to.T.copy()
        for target in self.relays:
            hops[:, target] = self.graph(target).hops_to[target]
        return hops

    def without(self, arcs: Ints) -> Surviving:
        """The same with more arcs dead."""
        left = self.left.copy()
        left[arcs] = 0
        return Surviving(self.topology, left, self.relays)


def _usable(surviving: Surviving, target: int) -> Bools:
    alive = surviving.left > 0
    closed = [server for server in surviving.relays if server != target]
    if closed:
        alive &= ~np.isin(surviving.topology.arcs[:, 1], closed)
    return alive


def _graph(topology: Topology, left: Int32s) -> ArcGraph:
    n = topology.servers
    tail = topology.arcs[:, 0].astype(np.int64)
    head = np.where(left > 0, topology.arcs[:, 1], topology.arcs[:, 0]).astype(np.int64)
    by_head = np.argsort(head, kind="stable")
    hops_to = native.graph.hop_distances(row_ptr(head, n), np.ascontiguousarray(tail[by_head]), n).astype(np.int32)
    capacity = left.astype(np.float64)
    inverse = np.divide(1.0, capacity, out=np.zeros_like(capacity), where=capacity > 0)
    return ArcGraph(row_ptr(tail, n), tail, head, inverse, hops_to)


def after(topology: Topology, failure: Failure) -> Surviving:
    """The topology without what failed; failed servers have no arcs left."""
    return Surviving(topology, links_left(topology, failure))


def not_forwarding(topology: Topology, failure: Failure) -> Surviving:
    """As `after`, but failed servers keep their arcs and merely forward nothing."""
    links_only = Failure(links=failure.links, planes=failure.planes)
    return Surviving(topology, links_left(topology, links_only), failure.servers)


@dataclass(frozen=True)
class Reach:
    """Distances over the servers that work.

    Attributes:
        disconnected_pairs: ordered pairs without a path.
        diameter, mean_hops: None if there are any.
    """

    disconnected_pairs: int
    diameter: int | None
    mean_hops: float | None


def reach(surviving: Surviving, failed_servers: tuple[int, ...] = ()) -> Reach:
    """Distances of a damaged topology over all servers but the failed ones."""
    works = np.arange(surviving.topology.servers) < surviving.topology.hosts
    works[list(failed_servers)] = False
    hops = surviving.hops()[np.ix_(works, works)]
    count = len(hops)
    lost = int((hops < 0).sum())
    if lost:
        return Reach(lost, None, None)
    pairs = count * (count - 1)
    return Reach(0, int(hops.max(initial=0)), float(hops.sum() / pairs) if pairs else 0.0)
