"""Bytes that members of rings send each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.demand import Demand
from topoopt.core.routing import GroupRings


def ring_pair_bytes(demand: Demand, rings: Sequence[GroupRings], servers: int) -> Floats:
    """float64[n, n]: bytes each ring member sends to the next one, whatever servers forward them on the way.

    A member of a group of k sends 2 (k-1)/k of the payload in all, split over the rings by their shares; groups without
    rings send nothing here.
    """
    matrix = np.zeros((servers, servers))
    known = {group.members: group.rings for group in rings}
    for wanted in demand.allreduce:
        for ring in known.get(wanted.members, ()):
            order = np.array(ring.order, dtype=np.int64)
            np.add.at(matrix, (order, np.roll(order, -1)), wanted.wire_bytes_per_member * ring.share)
    return matrix
