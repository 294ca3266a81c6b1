"""Surgery on a table of routes: paths over dead arcs are replaced, all others stay as they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.failures.surviving import Surviving
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.routing import PathTable
from topoopt.native import routing

DUST = 1e-6
"""Bytes of a demand without traffic, against the largest one: it is spread, too, but never decides."""


@dataclass(frozen=True, eq=False)
class ArcPaths:
    """Paths as arcs: path k is arc[ptr[k]:ptr[k + 1]]."""

    ptr: Ints
    arc: Ints

    def nodes(self, k: int, source: int, heads: Ints) -> tuple[int, ...]:
        """Servers of a path, its source first."""
        return (source, *heads[self.arc[self.ptr[k] : self.ptr[k + 1]]].tolist())


def least_loaded(surviving: Surviving, source: Ints, target: Ints, amount: Floats, load: Floats) -> ArcPaths | None:
    """Shortest surviving paths, heaviest demand first, each the least loaded given `load`, which grows by them.

    None if some demand has no path.
    """
    count = len(source)
    hops = np.array([surviving.graph(t).hops_to[t, s] for s, t in zip(source.tolist(), target.tolist(), strict=True)])
    if count and hops.min() < 0:
        return None
    ptr = np.concatenate(([0], np.cumsum(hops, dtype=np.int64))).astype(np.int64)
    arcs = np.empty(int(ptr[-1]), dtype=np.int64)
    heavy = np.maximum(amount, DUST * max(float(amount.max(initial=0.0)), 1e-300))
    special = np.isin(target, surviving.relays)
    order = np.argsort(-heavy, kind="stable").astype(np.int64)
    rounds = [order[~special[order]], *(order[target[order] == relay] for relay in surviving.relays)]
    for chosen in rounds:
        if len(chosen) == 0:
            continue
        graph = surviving.graph(int(target[chosen[0]]))
        routing.route_demands(
            chosen, source, target, heavy, graph.ptr, graph.head, graph.hops_to, graph.inverse_capacity, load, ptr,
            arcs, False,
        )  # fmt: skip
    return ArcPaths(ptr, arcs)


def without_paths(routes: PathTable, dead: Ints, paths: ArcPaths, heads: Ints) -> PathTable:
    """The table with paths `dead` (ascending) replaced by `paths`, one each."""
    if len(dead) == 0:
        return routes
    length = np.diff(routes.path_ptr)
    length[dead] = np.diff(paths.ptr) + 1
    path_ptr = np.concatenate(([0], np.cumsum(length))).astype(np.int64)
    node = np.empty(int(path_ptr[-1]), dtype=np.int32)
    stays = np.ones(len(length), dtype=bool)
    stays[dead] = False
    old = np.repeat(stays, np.diff(routes.path_ptr))
    new = np.repeat(stays, length)
    node[new] = routes.node[old]
    first = path_ptr[dead]
    node[first] = routes.node[routes.path_ptr[dead]]
    inner = ~new
    inner[first] = False
    node[inner] = heads[paths.arc]
    return PathTable(
        nodes_total=routes.nodes_total,
        source=routes.source,
        target=routes.target,
        pair_ptr=routes.pair_ptr,
        share=routes.share,
        path_ptr=path_ptr,
        node=node,
    )


def without_pairs(routes: PathTable, gone: Bools) -> PathTable:
    """The table without some of its pairs (bool[m])."""
    if not gone.any():
        return routes
    per_pair = np.diff(routes.pair_ptr)
    stays_path = np.repeat(~gone, per_pair)
    length = np.diff(routes.path_ptr)
    return PathTable(
        nodes_total=routes.nodes_total,
        source=routes.source[~gone],
        target=routes.target[~gone],
        pair_ptr=np.concatenate(([0], np.cumsum(per_pair[~gone]))).astype(np.int64),
        share=routes.share[stays_path],
        path_ptr=np.concatenate(([0], np.cumsum(length[stays_path]))).astype(np.int64),
        node=routes.node[np.repeat(stays_path, length)],
    )
