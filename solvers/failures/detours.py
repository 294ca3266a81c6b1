"""Several ways round a lost link that share no arc."""

from __future__ import annotations

import numpy as np

from solvers.failures.surviving import Surviving


def disjoint_detours(surviving: Surviving, source: int, target: int) -> list[tuple[int, ...]]:
    """Shortest surviving path, then the shortest without its arcs, and so on: at most one per interface.

    Parallel links count as one arc. Empty if no path is left.
    """
    graph = surviving.graph(target)
    ptr, head = graph.ptr, graph.head
    used = np.zeros(len(head), dtype=bool)
    found: list[tuple[int, ...]] = []
    while True:
        via = {source: -1}
        layer = [source]
        while layer and target not in via:
            following = []
            for u in layer:
                for a in range(int(ptr[u]), int(ptr[u + 1])):
                    v = int(head[a])
                    if not used[a] and v not in via:
                        via[v] = a
                        following.append(v)
            layer = following
        if target not in via:
            return found
        way, v = [target], target
        while v != source:
            used[via[v]] = True
            v = int(graph.tail[via[v]])
            way.append(v)
        found.append(tuple(reversed(way)))
