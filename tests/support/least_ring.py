"""Lower bounds on the length of a ring through all members of a group, in exact integers.

Up to `EXACT_SIZE` members the shortest ring itself (dynamic programming over subsets; Held and Karp, J. SIAM 1962).
Beyond, the assignment bound: in a ring every member has one successor and one predecessor, so prices u, v with
u_i + v_j <= W_ij for all i != j prove that no ring is shorter than sum u + sum v.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

EXACT_SIZE = 16
_FAR = np.int64(2**61)

Lengths = NDArray[np.int64]


def least_ring_bound(length: Lengths) -> int:
    """Lower bound on sum length[order[i], order[i+1]] over all cyclic orders; exact up to `EXACT_SIZE` members.

    Args:
        length: int64[k, k] from member to member, not negative, each at most 2^52; the diagonal does not count.
    """
    size = len(length)
    if size < 2:
        return 0
    return _shortest_ring(length) if size <= EXACT_SIZE else _assignment_bound(length)


def _shortest_ring(length: Lengths) -> int:
    """Length of the shortest ring; best[set, v] is the shortest path from the last member through the set to v."""
    rest = len(length) - 1
    inner, out, back = length[:rest, :rest], length[rest, :rest], length[:rest, rest]
    sets = np.arange(1 << rest)
    members = (sets[:, None] >> np.arange(rest)) & 1 == 1
    counts = members.sum(axis=1)
    best = np.full((1 << rest, rest), _FAR, dtype=np.int64)
    best[1 << np.arange(rest), np.arange(rest)] = out
    for size in range(2, rest + 1):
        level = sets[counts == size]
        for v in range(rest):
            having = level[members[level, v]]
            before = best[having ^ (1 << v)]
            best[having, v] = np.minimum((before + inner[:, v]).min(axis=1), _FAR)
    return int((best[-1] + back).min())


def _assignment_bound(length: Lengths) -> int:
    """Value of feasible prices by shortest augmenting paths; repaired if they should not be feasible."""
    size = len(length)
    cost = length.astype(np.int64).copy()
    # Staying put must never pay: dearer than any whole assignment of other pairs.
    np.fill_diagonal(cost, min(int(length.max()) * (size + 1) + 1, 2**56))
    row_price, column_price = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    owner = np.full(size, -1, dtype=np.int64)  # of each column
    for row in range(size):
        distance = np.full(size, _FAR, dtype=np.int64)
        parent = np.full(size, -1, dtype=np.int64)
        done = np.zeros(size, dtype=np.bool_)
        at, column, reach = row, -1, np.int64(0)
        while True:
            through = reach + cost[at] - row_price[at] - column_price
            nearer = ~done & (through < distance)
            distance[nearer] = through[nearer]
            parent[nearer] = column
            column = int(np.argmin(np.where(done, _FAR, distance)))
            reach = distance[column]
            if owner[column] < 0:
                break
            done[column] = True
            at = int(owner[column])
        row_price[row] += reach
        row_price[owner[done]] += reach - distance[done]
        column_price[done] -= reach - distance[done]
        while column >= 0:
            previous = int(parent[column])
            owner[column] = row if previous < 0 else owner[previous]
            column = previous
    slack = length - row_price[:, None] - column_price[None, :]
    np.fill_diagonal(slack, 0)
    row_price += np.minimum(slack.min(axis=1), 0)
    return max(0, sum(row_price.tolist()) + sum(column_price.tolist()))
