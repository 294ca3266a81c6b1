"""What lengths of the classes of arcs of a circulant prove of its routing, without a solver."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError
from topoopt.verify.laws.routing import integer_lengths

FAR = np.int64(2**62)


def certified_circulant_bound(offsets: Ints, capacity: Floats, weight: Floats, lengths: Floats) -> float:
    """Bound that lengths prove for a circulant of any size: every server sends weight[j] to the server j further on.

    Args:
        offsets, capacity, lengths: of the classes of arcs v -> v + offset.
        weight: float64[n].

    Raises:
        InputError: lengths that are no lengths. InfeasibleError: a displacement with demand out of reach.
    """
    n = len(weight)
    scaled = integer_lengths(n, lengths)
    distance = np.full(n, FAR)
    distance[0] = 0
    for p, length in zip(offsets.tolist(), scaled.tolist(), strict=True):
        cosets = math.gcd(n, p)
        size = n // cosets
        where = (np.arange(cosets)[:, None] + p * np.arange(size, dtype=np.int64)) % n
        ring = distance[where]
        # from the nearest element once round: dist[k] = min over i <= k of ring[i] + (k - i) length
        turn = (ring.argmin(axis=1)[:, None] + np.arange(size)) % size
        ring = np.take_along_axis(ring, turn, axis=1)
        walked = np.arange(size) * length
        best = np.minimum.accumulate(np.where(ring < FAR, ring, FAR) - walked, axis=1) + walked
        best = np.where(ring.min(axis=1)[:, None] < FAR, best, FAR)
        distance[np.take_along_axis(where, turn, axis=1)] = best
    served = weight > 0
    if (distance[served] >= FAR).any():
        raise InfeasibleError(f"displacement {int(np.flatnonzero(served & (distance >= FAR))[0])} is out of reach")
    total = math.fsum((weight[served] * distance[served]).tolist())  # products err by 2^-53 each, the sum once more
    price = sum(Fraction(float(c)) * int(length) for c, length in zip(capacity, scaled, strict=True))
    return float(total / float(price) * (1 - 8 * 2.0**-53))
