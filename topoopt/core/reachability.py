"""Who reaches whom over directed links.

Readers and the first step of every search ask this; SciPy's searches would answer, but take longer to load than all of
these questions together to answer.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Bools, Int32s, Ints


def strongly_connected(n: int, arcs: Int32s | Ints) -> bool:
    """Whether a directed path leads from every node to every other.

    Args:
        n: nodes 0..n-1.
        arcs: int[m, 2], rows (tail, head).
    """
    return unreachable_pair(n, arcs) is None


def unreachable_pair(n: int, arcs: Int32s | Ints) -> tuple[int, int] | None:
    """An ordered pair without a path from the first to the second, None if there is none such; arguments as above."""
    for tails, heads, backwards in ((arcs[:, 0], arcs[:, 1], False), (arcs[:, 1], arcs[:, 0], True)):
        missing = np.flatnonzero(~_reached(n, tails, heads))
        if len(missing):
            return (int(missing[0]), 0) if backwards else (0, int(missing[0]))
    return None


def _reached(n: int, tails: Int32s | Ints, heads: Int32s | Ints) -> Bools:
    """bool[n], what can be reached from node 0, itself included."""
    ends = heads[np.argsort(tails, kind="stable")].tolist()
    first = np.concatenate(([0], np.cumsum(np.bincount(tails, minlength=n)))).tolist()
    seen = bytearray(n)
    seen[0] = 1
    found = [0]
    for node in found:
        for end in ends[first[node] : first[node + 1]]:
            if not seen[end]:
                seen[end] = 1
                found.append(end)
    return np.frombuffer(seen, dtype=np.bool_)
