"""Hop distances: the one compiled breadth-first search, and what topologies need of it."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Int32s, Ints
from topoopt.core.topology import Topology
from topoopt.simulate.jit import kernel


@kernel
def hop_distances(first: Ints, head: Int32s | Ints, n: int) -> Ints:
    """int64[n, n]: hops between all pairs, -1 where there is no path."""
    hops = np.full((n, n), -1, dtype=np.int64)
    queue = np.empty(n, dtype=np.int64)
    for source in range(n):
        row = hops[source]
        row[source] = 0
        queue[0] = source
        begin, end = 0, 1
        while begin < end:
            v = queue[begin]
            begin += 1
            for arc in range(first[v], first[v + 1]):
                if row[head[arc]] < 0:
                    row[head[arc]] = row[v] + 1
                    queue[end] = head[arc]
                    end += 1
    return hops


@kernel
def breadth_first_trees(first: Ints, head: Ints, n: int) -> tuple[Ints, Ints]:
    """From every server: int64[n, n] all servers as they are found, itself first and unreachable ones last; int64[n, n]
    the last arc of the first shortest path to each, -1 for itself and where there is no path."""
    order, via = np.empty((n, n), dtype=np.int64), np.full((n, n), -1, dtype=np.int64)
    for source in range(n):
        order[source, 0] = source
        begin, end = 0, 1
        while begin < end:
            v = order[source, begin]
            begin += 1
            for arc in range(first[v], first[v + 1]):
                if head[arc] != source and via[source, head[arc]] < 0:
                    via[source, head[arc]] = arc
                    order[source, end] = head[arc]
                    end += 1
        for v in range(n):
            if v != source and via[source, v] < 0:
                order[source, end] = v
                end += 1
    return order, via


def hop_matrix(topology: Topology) -> Int32s:
    """int32[n, n]: hops from i to j over the arcs; -1 where there is no path."""
    n, arcs = topology.servers, topology.arcs
    first = np.concatenate(([0], np.cumsum(np.bincount(arcs[:, 0], minlength=n)))).astype(np.int64)
    head = arcs[np.argsort(arcs[:, 0], kind="stable"), 1].astype(np.int32)
    return np.asarray(hop_distances(first, head, n)).astype(np.int32)
