"""Traffic of a job on a network: demand, routes, rings of AllReduces, and the loads of links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.data import Shown


@dataclass(frozen=True, eq=False, repr=False)
class PathTable(Shown):
    """Paths between ordered pairs of nodes, traffic of a pair split over its paths.

    Attributes:
        nodes_total: number of nodes (servers, and switches where the fabric has any).
        source, target: int32[m], the ordered pairs, sorted by (source, target), distinct.
        pair_ptr: int64[m+1]; paths of pair i are pair_ptr[i]..pair_ptr[i+1].
        share: float64[P]; fraction of the pair's bytes on the path; sums to 1 per pair.
        path_ptr: int64[P+1]; nodes of path p are node[path_ptr[p]:path_ptr[p+1]], both ends included.
        node: int32[...].
    """

    nodes_total: int
    source: Int32s
    target: Int32s
    pair_ptr: Ints
    share: Floats
    path_ptr: Ints
    node: Int32s

    def path(self, index: int) -> tuple[int, ...]:
        """Nodes of path `index`."""
        return tuple(int(v) for v in self.node[self.path_ptr[index] : self.path_ptr[index + 1]])


@dataclass(frozen=True, repr=False)
class Ring(Shown):
    """One ring order of a group: member order[i] sends to order[i+1] (cyclically) along paths[i].

    Attributes:
        order: the members, each once.
        share: fraction of the group's AllReduce payload carried by this ring.
        paths: k node paths, paths[i] from order[i] to order[(i+1) % k], ends included.
    """

    order: tuple[int, ...]
    share: float
    paths: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, repr=False)
class GroupRings(Shown):
    """The rings that share the AllReduce of one group; shares sum to 1.

    `members` lists the servers of the group; AllReduce tasks refer to it by this exact tuple.
    """

    members: tuple[int, ...]
    rings: tuple[Ring, ...]


@dataclass(frozen=True, repr=False)
class AllReduceDemand(Shown):
    """Total payload (bytes of gradients) all-reduced by one group of servers in an iteration."""

    members: tuple[int, ...]
    payload_bytes: float

    @property
    def wire_bytes_per_member(self) -> float:
        """Bytes each member sends in a ring AllReduce: 2 (k-1)/k * payload."""
        k = len(self.members)
        return 2.0 * (k - 1) / k * self.payload_bytes if k > 1 else 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Demand(Shown):
    """What the network must carry.

    Attributes:
        model_parallel_bytes: float64[n, n], bytes i -> j, forward plus backward; zero diagonal.
        allreduce: one entry per distinct group of two or more servers.
    """

    model_parallel_bytes: Floats
    allreduce: tuple[AllReduceDemand, ...]

    @property
    def servers(self) -> int:
        return int(self.model_parallel_bytes.shape[0])

    @property
    def allreduce_wire_bytes(self) -> float:
        """Bytes sent by all members of all ring AllReduces at one hop."""
        return sum(len(group.members) * group.wire_bytes_per_member for group in self.allreduce)


def ring_pair_bytes(demand: Demand, rings: Sequence[GroupRings], servers: int) -> Floats:
    """float64[n, n]: bytes each ring member sends to the next one, whatever servers forward them on the way.

    A member of a group of k sends 2 (k-1)/k of the payload in all, split over the rings by their shares; groups without
    rings send nothing here.
    """
    matrix = np.zeros((servers, servers))
    rings_of = {group.members: group.rings for group in rings}
    for wanted in demand.allreduce:
        for ring in rings_of.get(wanted.members, ()):
            order = np.array(ring.order, dtype=np.int64)
            np.add.at(matrix, (order, np.roll(order, -1)), wanted.wire_bytes_per_member * ring.share)
    return matrix


@dataclass(frozen=True, eq=False)
class TrafficFigures:
    """Traffic of one iteration on a topology with its routes and rings (TopoOpt, NSDI'23, section 5.4).

    Attributes:
        name: of the job.
        plan: what strategy on which topology, for people.
        servers, degree: of the cluster.
        allreduce_bytes, model_parallel_bytes: demanded, as sent by the members of the rings, and between servers.
        allreduce_link_bytes, model_parallel_link_bytes: float64[L], carried by each link; parallel links are links of
            their own that carry the same.
        byte_hops: float64[h + 1], part of the model-parallel bytes whose path has so many hops; empty without any.
        pair_hops: float64[h + 1], part of the routed ordered pairs whose path (each by its share) has so many hops.
        pair_bytes: float64[n, n], sent from row to column: by AllReduce from a ring member to the next, and
            model-parallel.
    """

    name: str
    plan: str
    servers: int
    degree: int
    allreduce_bytes: float
    model_parallel_bytes: float
    allreduce_link_bytes: Floats
    model_parallel_link_bytes: Floats
    byte_hops: Floats
    pair_hops: Floats
    pair_bytes: Floats

    @property
    def demanded_bytes(self) -> float:
        """Everything the network is asked to deliver."""
        return self.allreduce_bytes + self.model_parallel_bytes

    @property
    def link_bytes(self) -> Floats:
        """float64[L], carried by each link."""
        return self.allreduce_link_bytes + self.model_parallel_link_bytes

    @property
    def bandwidth_tax(self) -> float:
        """Bytes carried over links by bytes demanded; 1 if nothing is demanded."""
        return float(self.link_bytes.sum()) / self.demanded_bytes if self.demanded_bytes > 0 else 1.0

    @property
    def model_parallel_to_allreduce(self) -> float | None:
        """Q / A; None without AllReduce."""
        return self.model_parallel_bytes / self.allreduce_bytes if self.allreduce_bytes > 0 else None

    @property
    def mean_byte_hops(self) -> float | None:
        """Mean hops of a model-parallel byte; None without any."""
        return float(np.arange(len(self.byte_hops)) @ self.byte_hops) if len(self.byte_hops) else None
