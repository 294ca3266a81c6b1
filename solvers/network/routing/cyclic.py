"""Compiled shortest paths on circulants: one cyclic min-plus pass per class of arcs, O(n) each."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.simulate.jit import kernel


@kernel
def cyclic_distances(offsets: Ints, lengths: Floats, distance: Floats, steps: Int32s) -> None:
    """Shortest distance of every displacement, and how many arcs of each class it takes.

    Fills `distance` float64[n] (inf: out of reach) and `steps` int32[d, n]. steps[c, j] is meant for the displacement
    that is left after the classes behind c are taken off: to unroll j, take steps[d-1, j] arcs of the last class off,
    then what the class before says of the rest, and so on. A pass walks each coset of the class once round from its
    nearest element, which no walk round the coset can improve as lengths are not negative.
    """
    n = len(distance)
    distance[:] = np.inf
    distance[0] = 0.0
    for c in range(len(offsets)):
        p, length, taken = offsets[c], lengths[c], steps[c]
        cosets, rest = n, p
        while rest:
            cosets, rest = rest, cosets % rest
        size = n // cosets
        for first in range(cosets):
            nearest, least = first, np.inf
            j = first
            for _ in range(size):
                if distance[j] < least:
                    nearest, least = j, distance[j]
                j += p
                if j >= n:
                    j -= n
            count = 0
            reach = distance[nearest]
            j = nearest
            for _ in range(size):
                through = reach + length
                if through < distance[j]:
                    distance[j] = through
                    reach = through
                    count += 1
                else:
                    reach = distance[j]
                    count = 0
                taken[j] = count
                j += p
                if j >= n:
                    j -= n


@kernel
def cyclic_loads(offsets: Ints, weight: Floats, steps: Int32s, mass: Floats) -> Floats:
    """float64[d]: load of each class when every displacement j with demand weight[j] takes its shortest path.

    `mass` is scratch of n.
    """
    n = len(weight)
    load = np.zeros(len(offsets))
    mass[:] = weight
    for c in range(len(offsets) - 1, -1, -1):
        total = 0.0
        for j in range(n):
            count = np.int64(steps[c, j])
            if count > 0 and mass[j] != 0.0:
                total += mass[j] * count
                mass[(j - count * offsets[c]) % n] += mass[j]  # where a walk begins no step of this class is taken
                mass[j] = 0.0
        load[c] = total
    return load


@kernel
def cyclic_flow(offsets: Ints, weight: Floats, steps: Int32s) -> Floats:
    """float64[d, n]: flow of source 0 over the arc v -> v + offsets[c], everything on its shortest path."""
    n = len(weight)
    flow = np.zeros((len(offsets), n))
    mass = weight.copy()
    for c in range(len(offsets) - 1, -1, -1):
        p = offsets[c]
        for j in range(n):
            count = np.int64(steps[c, j])
            if count > 0 and mass[j] != 0.0:
                v = j
                for _ in range(count):
                    v -= p
                    if v < 0:
                        v += n
                    flow[c, v] += mass[j]
                mass[v] += mass[j]
                mass[j] = 0.0
    return flow
