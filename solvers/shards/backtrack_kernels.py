"""Compiled depth-first search: ranks to classes of servers, one after the other."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Bools, Ints
from topoopt.simulate.jit import kernel

FOUND, EXHAUSTED, CUT_OFF = 1, 0, -1


@kernel
def seat(
    switch: Ints, component: Ints, size: Ints, counts: Ints, room: Ints, alike: Bools, preference: Ints,
    nodes: int, seated: Ints,
) -> int:  # fmt: skip
    """Give every rank a class so that each component stays under one switch.

    A component keeps room for all its ranks under its switch as soon as its first rank is seated. Ranks alike take
    classes in the order of preference, which leaves out equal seatings.

    Args:
        switch: int64[L, C], switch of a class in the planes of a line.
        component: int64[L, K], component of each rank on a line, -1: dark; numbers run on from line to line.
        size: int64[E], ranks of each component.
        counts: int64[C], free servers; used up.
        room: int64[L, S], free servers under each switch; used up.
        alike: bool[K], the rank stands in the same components as the one before it.
        preference: int64[C], classes in the order they are tried, after the class of the rank before.
        nodes: seats tried before the search is cut off.
        seated: int64[K], class of each rank: the answer.

    Returns:
        FOUND, EXHAUSTED (there is no seating) or CUT_OFF.
    """
    lines, ranks = component.shape
    classes = len(counts)
    place = np.empty(classes, dtype=np.int64)
    for i in range(classes):
        place[preference[i]] = i
    fixed = np.full(len(size), -1, dtype=np.int64)
    setter = np.full(len(size), -1, dtype=np.int64)
    tried = np.zeros(ranks, dtype=np.int64)
    t = 0
    if alike[0]:
        return EXHAUSTED
    while True:
        first = place[seated[t - 1]] if t > 0 and alike[t] else 0
        chosen = -1
        while chosen < 0:
            # without a rank alike before, place 0 is the class of the rank before, then all others in turn
            i = tried[t]
            tried[t] += 1
            if t > 0 and not alike[t]:
                if i > classes:
                    break
                c = seated[t - 1] if i == 0 else preference[i - 1]
                if i > 0 and c == seated[t - 1]:
                    continue
            else:
                if first + i >= classes:
                    break
                c = preference[first + i]
            if counts[c] == 0:
                continue
            good = True
            for line in range(lines):
                e, s = component[line, t], switch[line, c]
                if e < 0:
                    good = room[line, s] >= 1
                elif fixed[e] >= 0:
                    good = fixed[e] == s
                else:
                    good = room[line, s] >= size[e]
                if not good:
                    break
            if good:
                chosen = c
        if chosen >= 0:
            nodes -= 1
            if nodes < 0:
                return CUT_OFF
            seated[t] = chosen
            counts[chosen] -= 1
            for line in range(lines):
                e, s = component[line, t], switch[line, chosen]
                if e < 0:
                    room[line, s] -= 1
                elif fixed[e] < 0:
                    fixed[e] = s
                    setter[e] = t
                    room[line, s] -= size[e]
            t += 1
            if t == ranks:
                return FOUND
            tried[t] = 0
            continue
        if t == 0:
            return EXHAUSTED
        t -= 1
        c = seated[t]
        counts[c] += 1
        for line in range(lines):
            e, s = component[line, t], switch[line, c]
            if e < 0:
                room[line, s] += 1
            elif setter[e] == t:
                fixed[e] = -1
                setter[e] = -1
                room[line, s] += size[e]
