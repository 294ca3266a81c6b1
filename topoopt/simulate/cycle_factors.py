"""Hamiltonian cycles out of cycle factors, that is of links of which each server has two, one factor an interface pair.

Exchanging the alternating links of a square between two factors (u-v and w-x of one, v-w and u-x of the other) keeps
every server at two links of each, and joins cycles; repeated, all of them become Hamiltonian. That this can succeed is
known for two factors of a connected Cayley graph of an abelian group (Bermond, Favaron, Maheo 1989), so for circulants
and 2-D tori, and for tori of any dimension (Aubert and Schneider 1982); the general case is Alspach's conjecture.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Bools, Ints
from topoopt.simulate.jit import kernel

TRIES_PER_SERVER = 400
SEEDS = range(1, 4)


def joined_cycles(factors: Ints, *, seed: int = 1) -> tuple[tuple[int, ...], ...] | None:
    """One Hamiltonian cycle for each factor, together over the same links; None when not found.

    Args:
        factors: int64[m, n, 2], the two neighbours of each server in each factor (twice the same for parallel links).
        seed: of the search.
    """
    mine = factors.copy()
    if not _join_kernel(mine, factors.shape[1] * TRIES_PER_SERVER, seed):
        return None
    return tuple(_walk(factor) for factor in mine)


def most_cycles(factors: Ints) -> tuple[tuple[int, ...], ...]:
    """Hamiltonian cycles over the links of all factors, else of all but one; none where neither is found.

    Not all can be used always: on a prism over an odd cycle with doubled rungs each of two cycles would cross each rung
    once, and so end on the wrong side.
    """
    fewer = [np.delete(factors, place, axis=0) for place in range(len(factors)) if len(factors) > 1]
    for chosen in (factors, *fewer):
        for seed in SEEDS:
            found = joined_cycles(chosen, seed=seed)
            if found is not None:
                return found
    return ()


def _walk(factor: Ints) -> tuple[int, ...]:
    order = [0]
    before, node = -1, 0
    while True:
        a, b = int(factor[node, 0]), int(factor[node, 1])
        before, node = node, (b if a == before else a)
        if node == 0:
            return tuple(order)
        order.append(node)


@kernel
def _cycles(factor: Ints, seen: Bools) -> int:  # pragma: no cover - compiled
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
def _replace(factor: Ints, node: int, old: int, new: int) -> None:  # pragma: no cover - compiled
    if factor[node, 0] == old:
        factor[node, 0] = new
    else:
        factor[node, 1] = new


@kernel
def _join_kernel(factors: Ints, tries: int, seed: int) -> bool:  # pragma: no cover - compiled
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
