"""Hamiltonian cycles that together use every link of a circulant, also those of distances not coprime to n.

The links of one distance p form gcd(p, n) cycles: one ring over all servers only when p is coprime to n. With cycles
joined across distances an AllReduce over all servers fills all links, where rings of a single distance leave the others
idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np

from topoopt.simulate.network import joined_cycles


def circulant_cycles(n: int, distances: Sequence[int], *, seed: int = 1) -> tuple[tuple[int, ...], ...] | None:
    """One Hamiltonian cycle per ring distance, link-disjoint, over the undirected circulant; None when not found.

    Args:
        n: servers, at least 3.
        distances: ring distances 1 <= p < n/2, repeated for parallel links, with gcd(n, all) = 1.
        seed: of the search.
    """
    if n < 3 or not distances or gcd(n, *distances) != 1:
        return None
    start = np.arange(n, dtype=np.int64)
    factors = np.array([np.column_stack(((start + p) % n, (start - p) % n)) for p in distances], dtype=np.int64)
    return joined_cycles(factors, seed=seed)
