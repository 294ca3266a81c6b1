"""Hamiltonian cycles that together use every link of a circulant, also those of distances not coprime to n.

The links of one distance p form gcd(p, n) cycles: one ring over all servers only when p is coprime to n. Exchanging the
alternating links of a square between two distances (i, i+p, i+p+q, i+q) keeps every server at two links of each, and
joins cycles; repeated, all of them become Hamiltonian. (A connected 4-regular Cayley graph of an abelian group always
splits into two Hamiltonian cycles: Bermond, Favaron, Maheo 1989; the general case is Alspach's conjecture.) With them
an AllReduce over all servers fills all links, where rings of a single distance leave the others idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np
from numpy.typing import NDArray

from topoopt.simulate.jit import kernel

TRIES_PER_SERVER = 400


def hamiltonian_cycles(n: int, distances: Sequence[int], *, seed: int = 1) -> tuple[tuple[int, ...], ...] | None:
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
    if not _join_kernel(factors, n * TRIES_PER_SERVER, seed):
        return None
    return tuple(_walk(factor) for factor in factors)


def _walk(factor: NDArray[np.int64]) -> tuple[int, ...]:
    order = [0]
    before, node = -1, 0
    while True:
        a, b = int(factor[node, 0]), int(factor[node, 1])
        before, node = node, (b if a == before else a)
        if node == 0:
            return tuple(order)
        order.append(node)


@kernel
def _cycles(factor: NDArray[np.int64], seen: NDArray[np.bool_]) -> int:  # pragma: no cover - compiled
    n = factor.shape[0]
    seen[:] = False
    count = 0
    for s in range(n):
        if seen[s]:
            continue
        count += 1
        before, node = np.int64(-1), np.int64(s)
        while not seen[node]:
            seen[node] = True
            after = factor[node, 1] if factor[node, 0] == before else factor[node, 0]
            before, node = node, after
    return count


@kernel
def _replace(factor: NDArray[np.int64], node: int, old: int, new: int) -> None:  # pragma: no cover - compiled
    if factor[node, 0] == old:
        factor[node, 0] = new
    else:
        factor[node, 1] = new


@kernel
def _join_kernel(factors: NDArray[np.int64], tries: int, seed: int) -> bool:  # pragma: no cover - compiled
    """Exchange squares between 2-factors while the number of cycles does not grow; True once all are Hamiltonian."""
    m, n = factors.shape[0], factors.shape[1]
    seen = np.zeros(n, dtype=np.bool_)
    cycles = np.empty(m, dtype=np.int64)
    for f in range(m):
        cycles[f] = _cycles(factors[f], seen)
    state = np.uint64(seed * 2 + 88172645463325253)
    for _ in range(tries):
        if np.sum(cycles) == m:
            return True
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        draw = np.int64(state >> np.uint64(2))
        a = draw % m
        b = (draw // m) % m
        if a == b or cycles[a] + cycles[b] == 2:
            continue
        u = (draw // (m * m)) % n
        v = factors[a, u, (draw // 7) % 2]
        x = factors[b, u, (draw // 11) % 2]
        if v == x:
            continue
        for side in range(2):
            w = factors[b, v, side]
            if w in (u, x) or not (factors[a, w, 0] == x or factors[a, w, 1] == x):
                continue
            # a holds u-v and w-x, b holds v-w and u-x: exchange them.
            for f, p, q in ((a, v, x), (b, x, v)):
                _replace(factors[f], u, p, q)
                _replace(factors[f], p, u, w)
                _replace(factors[f], w, q, p)
                _replace(factors[f], q, w, u)
            after_a = _cycles(factors[a], seen)
            after_b = _cycles(factors[b], seen)
            if after_a + after_b <= cycles[a] + cycles[b]:
                cycles[a], cycles[b] = after_a, after_b
            else:
                for f, p, q in ((a, x, v), (b, v, x)):
                    _replace(factors[f], u, p, q)
                    _replace(factors[f], p, u, w)
                    _replace(factors[f], w, q, p)
                    _replace(factors[f], q, w, u)
            break
    return bool(np.sum(cycles) == m)
