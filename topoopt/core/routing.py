"""Routes of model-parallel traffic and rings of AllReduce traffic."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.shown import Shown


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
