"""Who reaches whom over directed links, and in how many hops.

Readers and the first step of every search ask this; SciPy's searches would answer, but take longer to load than all of
these questions together to answer.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Int32s, Ints


def strongly_connected(n: int, arcs: Int32s | Ints) -> bool:
    """Whether a directed path leads from every node to every other.

    Args:
        n: nodes 0..n-1.
        arcs: int[m, 2], rows (tail, head).
    """
    return unreachable_pair(n, arcs) is None


def unreachable_pair(n: int, arcs: Int32s | Ints) -> tuple[int, int] | None:
    """An ordered pair without a path from the first to the second, None if there is none such; arguments as above."""
    for rows, backwards in ((arcs, False), (arcs[:, ::-1], True)):
        missing = np.flatnonzero(found_from(n, rows)[1] < 0)
        if len(missing):
            return (int(missing[0]), 0) if backwards else (0, int(missing[0]))
    return None


def found_from(n: int, arcs: Int32s | Ints, source: int = 0) -> tuple[Ints, Ints]:
    """A breadth-first search.

    Args:
        n: nodes 0..n-1.
        arcs: int[m, 2], rows (tail, head); those of a tail are looked at in their order.
        source: where it begins.

    Returns:
        The nodes reached, int64, in the order in which they are found, the source first; int64[n], hops to every node,
        -1 where there is no path.
    """
    ends = arcs[np.argsort(arcs[:, 0], kind="stable"), 1].tolist()
    first = np.concatenate(([0], np.cumsum(np.bincount(arcs[:, 0], minlength=n)))).tolist()
    hops = [-1] * n
    hops[source] = 0
    found = [source]
    for node in found:
        for end in ends[first[node] : first[node + 1]]:
            if hops[end] < 0:
                hops[end] = hops[node] + 1
                found.append(end)
    return np.array(found, dtype=np.int64), np.array(hops, dtype=np.int64)
