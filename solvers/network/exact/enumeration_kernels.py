"""Compiled search through regular directed multigraphs, one per isomorphism class, of few hops in all.

Rows (the heads of servers 0, 1, ...) are filled in the numbering of a breadth-first search from server 0: a head is a
server found before or the next number. `excess` of a server is its sum of hops to all others beyond the Moore bound.
Cut off when even the most favourable completion has too much of it, and, at the leaves, unless the table of rows is
the smallest (lexicographically) among all breadth-first numberings from servers of least excess.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.simulate.jit import kernel, piece


@kernel
def hops_excess(
    n: int, degree: int, masks: Ints, used: Ints, takers: np.int64, start: int, moore: int
) -> int:  # pragma: no cover - compiled
    """Least excess of `start`: arcs of masks[v] are certain, degree - used[v] more may lead to any server of `takers`.

    Servers outside the certain ones are counted as new wherever an arc may lead to some; no more of them than can be
    reached if all arcs that may lead anywhere led everywhere. Both only lower the sum.

    Args:
        takers: bits of the servers that have interfaces left.
    """
    seen = np.int64(1) << start
    frontier = seen
    wide = seen
    wide_front = seen
    phantoms = 0
    phantom_total = 0
    found = 1
    total = 0
    while found < n:
        total += n - found
        after = np.int64(0)
        fresh = degree * phantoms
        rest = frontier
        while rest:
            low = rest & -rest
            v = 0
            while (low >> v) != 1:
                v += 1
            rest ^= low
            after |= masks[v]
            fresh += degree - used[v]
        frontier = after & ~seen
        seen |= frontier
        if frontier == 0 and fresh == 0:
            return n * n
        after = np.int64(0)
        rest = wide_front
        while rest:
            low = rest & -rest
            v = 0
            while (low >> v) != 1:
                v += 1
            rest ^= low
            after |= masks[v]
            if used[v] < degree:
                after |= takers
        wide_front = after & ~wide
        wide |= wide_front
        most = 0
        rest = wide & ~seen
        while rest:
            rest &= rest - 1
            most += 1
        phantoms = min(fresh, most)
        phantom_total = min(phantom_total + phantoms, most)
        if wide_front == 0 and wide != (np.int64(1) << n) - 1:
            return n * n
        found = phantom_total
        rest = seen
        while rest:
            rest &= rest - 1
            found += 1
    return total - moore


@piece
def is_smallest(n: int, degree: int, heads: Ints, excess: Ints, work: Ints) -> bool:  # pragma: no cover - compiled
    """Whether heads[n * degree] is the smallest table among all breadth-first numberings from least-excess servers.

    The order in which a server's newly found heads are numbered is counted through like an odometer (`digit` of each
    server's choice, `radix` the number of orders). work: int64[5, n + degree] scratch.
    """
    label, order, fresh, digit, radix = work[0], work[1], work[2], work[3], work[4]
    row = np.empty(degree, dtype=np.int64)
    for root in range(n):
        if excess[root] > excess[0]:
            continue
        digit[:] = 0
        while True:
            label[:] = -1
            label[root] = 0
            order[0] = root
            reached = 1
            deepest = n - 1
            compare = 0
            for position in range(n):
                u = order[position]
                count = 0
                for k in range(degree):
                    v = heads[u * degree + k]
                    if label[v] < 0:
                        label[v] = n  # found, not numbered yet
                        fresh[count] = v
                        count += 1
                ways = 1
                for k in range(2, count + 1):
                    ways *= k
                radix[position] = ways
                code = digit[position]
                for k in range(count):
                    ways //= count - k
                    pick = k + code // ways
                    code %= ways
                    chosen = fresh[pick]
                    while pick > k:
                        fresh[pick] = fresh[pick - 1]
                        pick -= 1
                    fresh[k] = chosen
                    label[chosen] = reached
                    order[reached] = chosen
                    reached += 1
                for k in range(degree):
                    value = label[heads[u * degree + k]]
                    slot = k
                    while slot > 0 and row[slot - 1] > value:
                        row[slot] = row[slot - 1]
                        slot -= 1
                    row[slot] = value
                for k in range(degree):
                    own = heads[position * degree + k]
                    if row[k] != own:
                        compare = -1 if row[k] < own else 1
                        break
                if compare != 0:
                    deepest = position
                    break
            if compare < 0:
                return False
            position = deepest
            while position >= 0:
                digit[position] += 1
                if digit[position] < radix[position]:
                    break
                digit[position] = 0
                position -= 1
            if position < 0:
                break
            for k in range(position + 1, n):
                digit[k] = 0
    return True


@kernel
def enumerate_rows(
    n: int,
    degree: int,
    moore: int,
    least: int,
    most: int,
    root_most: int,
    steps: int,
    state: Ints,
    choice: Ints,
    reached: Ints,
    found: Ints,
) -> int:  # pragma: no cover - compiled
    """Go on with the search for at most `steps` choices; graphs of total excess in least..most go to found.

    Args:
        moore: least sum of hops of one server; root_most: most excess of server 0.
        state: int64[1], position in `choice`; -1: the search is over.
        choice, reached: int64[n * degree], heads chosen so far (-1: none yet) and servers found before each.
        found: int64[k, n * degree], one row per graph.

    Returns the number of rows of `found` filled.
    """
    slots = n * degree
    out_masks = np.zeros(n, dtype=np.int64)
    in_masks = np.zeros(n, dtype=np.int64)
    out_used = np.zeros(n, dtype=np.int64)
    in_used = np.zeros(n, dtype=np.int64)
    excess = np.zeros(n, dtype=np.int64)
    work = np.zeros((5, n + degree), dtype=np.int64)
    filled = 0
    at = state[0]
    if at >= 0:
        for p in range(at + 1):
            if choice[p] >= 0:
                in_used[choice[p]] += 1
    for _ in range(steps):
        if at < 0 or filled == found.shape[0]:
            break
        server = at // degree
        k = at % degree
        before = choice[at]
        if before >= 0:
            in_used[before] -= 1
            head = before + 1
        else:
            head = choice[at - 1] if k > 0 else 0
        most_head = min(reached[at], n - 1)
        while head <= most_head and (head == server or in_used[head] == degree):
            head += 1
        if head > most_head:
            choice[at] = -1
            at -= 1
            continue
        choice[at] = head
        in_used[head] += 1
        now = reached[at] + (1 if head == reached[at] else 0)
        if k < degree - 1:
            at += 1
            reached[at] = now
            choice[at] = -1
            continue
        if now < n and now < server + 2:
            continue
        # The row is whole: bound the excess from both sides.
        out_masks[:] = 0
        in_masks[:] = 0
        out_used[:] = 0
        for p in range(at + 1):
            out_masks[p // degree] |= np.int64(1) << choice[p]
            in_masks[choice[p]] |= np.int64(1) << (p // degree)
            out_used[p // degree] += 1
        in_free = np.int64(0)
        out_free = np.int64(0)
        for v in range(n):
            if in_used[v] < degree:
                in_free |= np.int64(1) << v
            if out_used[v] < degree:
                out_free |= np.int64(1) << v
        total = 0
        for v in range(n):
            excess[v] = hops_excess(n, degree, out_masks, out_used, in_free, v, moore)
            total += excess[v]
        if total > most or excess[0] > root_most:
            continue
        if at < slots - 1:
            total = 0
            for v in range(n):
                total += hops_excess(n, degree, in_masks, in_used, out_free, v, moore)
            if total > most:
                continue
            at += 1
            reached[at] = now
            choice[at] = -1
            continue
        if total < least:
            continue
        root_is_least = True
        for v in range(n):
            if excess[v] < excess[0]:
                root_is_least = False
        if root_is_least and is_smallest(n, degree, choice, excess, work):
            found[filled] = choice
            filled += 1
    state[0] = at
    return filled
