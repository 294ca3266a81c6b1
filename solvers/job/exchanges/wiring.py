"""Links of a topology with the paths that go over them, and exchanges of link ends that keep every degree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from solvers.network.constructions.graph import ArcGraph, row_ptr
from topoopt.core.arrays import Floats, Ints
from topoopt.core.demand import Demand
from topoopt.core.routing import GroupRings, PathTable
from topoopt.core.topology import Topology
from topoopt.simulate.hops import hop_distances

Arc = tuple[int, int]
Path = tuple[int, ...]
Paths = tuple[tuple[float, Path], ...]
"""Shares and nodes of the paths of a pair."""


@dataclass(frozen=True)
class LinkMove:
    """Link ends that are patched elsewhere.

    Attributes:
        removed, added: unit arcs; those of fibre pairs both ways.
        swapped: two servers that take each other's place, all links of both exchanged; the arcs are then left out.
    """

    removed: tuple[Arc, ...] = ()
    added: tuple[Arc, ...] = ()
    swapped: tuple[int, int] | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """The same for exchanges that come to the same."""
        return self.swapped, tuple(sorted(self.removed)), tuple(sorted(self.added))

    def counts(self, before: Ints) -> Ints:
        """int64[n, n]: links from each server (row) to each other, afterwards."""
        after = before.copy()
        if self.swapped is not None:
            one, other = self.swapped
            after[[one, other]] = after[[other, one]]
            after[:, [one, other]] = after[:, [other, one]]
        for arc in self.removed:
            after[arc] -= 1
        for arc in self.added:
            after[arc] += 1
        return after


@dataclass(frozen=True, eq=False)
class Wiring:
    """Links, and the paths of the traffic of one strategy.

    Attributes:
        counts: int64[n, n], links from each server (row) to each other.
        routes: of the ordered pairs with transfers.
        rings: of the groups that reduce over the network.
        traffic: of the strategy.
    """

    counts: Ints
    routes: Mapping[Arc, Paths]
    rings: tuple[GroupRings, ...]
    traffic: Demand

    @cached_property
    def arcs(self) -> Ints:
        """int64[m, 2], rows (tail, head) that at least one link joins, ascending."""
        return np.argwhere(self.counts > 0)

    @cached_property
    def graph(self) -> ArcGraph:
        """Of the links, as the routing loops see it; hops are -1 where there is no path."""
        n, (tail, head) = len(self.counts), self.arcs.T
        by_head = np.argsort(head, kind="stable")
        hops_to = hop_distances(row_ptr(head, n), np.ascontiguousarray(tail[by_head]), n).astype(np.int32)
        inverse = 1.0 / self.counts[tail, head]
        return ArcGraph(row_ptr(tail, n), np.ascontiguousarray(tail), np.ascontiguousarray(head), inverse, hops_to)

    @property
    def connected(self) -> bool:
        """Whether every server reaches every other."""
        return bool((self.graph.hops_to >= 0).all())

    @cached_property
    def wire_bytes(self) -> Mapping[tuple[int, ...], float]:
        """What a member of each group sends in all."""
        return {group.members: group.wire_bytes_per_member for group in self.traffic.allreduce}

    @cached_property
    def load(self) -> Floats:
        """float64[n, n]: bytes over each arc."""
        load = np.zeros(self.counts.shape)
        for (source, target), paths in self.routes.items():
            amount = float(self.traffic.model_parallel_bytes[source, target])
            for share, path in paths:
                add_path(load, path, share * amount)
        for group in self.rings:
            for ring in group.rings:
                for path in ring.paths:
                    add_path(load, path, ring.share * self.wire_bytes[group.members])
        return load

    @cached_property
    def pairs_over(self) -> Mapping[Arc, tuple[Arc, ...]]:
        """The pairs with a path over each arc."""
        over: dict[Arc, dict[Arc, None]] = {}
        for pair, paths in self.routes.items():
            for _, path in paths:
                for arc in pairwise(path):
                    over.setdefault(arc, {})[pair] = None
        return {arc: tuple(pairs) for arc, pairs in over.items()}

    @cached_property
    def rings_over(self) -> Mapping[Arc, frozenset[tuple[int, int]]]:
        """The rings over each arc, by the places of group and ring."""
        over: dict[Arc, set[tuple[int, int]]] = {}
        for g, group in enumerate(self.rings):
            for r, ring in enumerate(group.rings):
                for path in ring.paths:
                    for arc in pairwise(path):
                        over.setdefault(arc, set()).add((g, r))
        return {arc: frozenset(rings) for arc, rings in over.items()}

    def path_table(self) -> PathTable:
        """The routes as simulators take them."""
        pairs = sorted(self.routes)
        paths = [path for pair in pairs for _, path in self.routes[pair]]
        return PathTable(
            nodes_total=len(self.counts),
            source=np.array([source for source, _ in pairs], dtype=np.int32),
            target=np.array([target for _, target in pairs], dtype=np.int32),
            pair_ptr=_starts([len(self.routes[pair]) for pair in pairs]),
            share=np.array([share for pair in pairs for share, _ in self.routes[pair]], dtype=np.float64),
            path_ptr=_starts([len(path) for path in paths]),
            node=np.array([node for path in paths for node in path], dtype=np.int32),
        )


def _starts(lengths: list[int]) -> Ints:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def add_path(load: Floats, path: Path, amount: float) -> None:
    """Add bytes to float64[n, n] along a path."""
    for arc in pairwise(path):
        load[arc] += amount


def wiring_of(topology: Topology, routes: PathTable, rings: tuple[GroupRings, ...], traffic: Demand) -> Wiring:
    """Of a topology with routes of all pairs and rings of all groups; those without traffic are left out."""
    own: dict[Arc, Paths] = {}
    wanted = traffic.model_parallel_bytes[routes.source, routes.target] > 0
    for index in np.flatnonzero(wanted).tolist():
        rows = range(int(routes.pair_ptr[index]), int(routes.pair_ptr[index + 1]))
        pair = (int(routes.source[index]), int(routes.target[index]))
        own[pair] = tuple((float(routes.share[p]), routes.path(p)) for p in rows)
    used = {group.members for group in traffic.allreduce}
    return Wiring(topology.adjacency(), own, tuple(group for group in rings if group.members in used), traffic)
