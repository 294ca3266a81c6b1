"""Ring distances for groups of servers: the candidates, and the ways to pick among them (TotientPerms, TopoOpt)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from solvers.network.constructions.best_distances import best_distances
from topoopt.core.arrays import Bools, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem


class Selection(StrEnum):
    """How distances are picked from the candidates.

    `paper`: candidates nearest to a geometric sequence 1, x, x^2, ... with x = k^(1/r) for r rings of k servers
    (TopoOpt, SelectPermutations). The paper rounds x down; unrounded it gives the paper's own example (+1, +3, +7 on 16
    servers) and keeps the diameter within r * n^(1/r), which rounding down does not (n = 251, r = 8: twice that).
    `flexnet`: the released code's sequence of ratio (largest/smallest candidate)^(1/r), rounded up to candidates.
    `best`: searched for least diameter, then mean hops.
    """

    PAPER = "paper"
    FLEXNET = "flexnet"
    BEST = "best"


def candidate_distances(n: int, size: int) -> tuple[int, ...]:
    """Distances that make rings of `size` servers each: (n/size) q, q coprime to size, ascending.

    Raises:
        InputError: `size` is below 2 or does not divide n.
    """
    if size < 2 or n % size:
        raise InputError(
            [Problem("ring size must divide the number of servers", value=str(size), allowed=f">= 2, | {n}")]
        )
    q = np.arange(1, size + 1, dtype=np.int64)
    return tuple((q[np.gcd(q, size) == 1] * (n // size)).tolist())


def interfaces_of(n: int, distance: int, links: LinkDirection) -> int:
    """Interfaces of each server that links of this ring distance take."""
    if links is LinkDirection.UNIDIRECTIONAL or 2 * distance % n == 0:
        return 1
    return 2


def coins_of(n: int, distances: Sequence[int], links: LinkDirection) -> tuple[int, ...]:
    """All displacements of one hop given ring distances, ascending, without repetition."""
    coins = {p % n for p in distances}
    if links is LinkDirection.BIDIRECTIONAL:
        coins |= {(n - p) % n for p in distances}
    return tuple(sorted(coins - {0}))


def select_distances(
    n: int,
    size: int,
    count: int,
    links: LinkDirection,
    selection: Selection,
    *,
    fixed: Sequence[int] = (),
    seed: int = 0,
) -> tuple[int, ...]:
    """`count` ring distances for groups of `size` servers, in the order chosen; repeated when candidates run out.

    `fixed` are distances present anyway, which `best` takes into account.
    """
    if count <= 0:
        return ()
    step = n // size
    if selection is Selection.BEST:
        inner = best_distances(size, count, links, fixed=[p // step for p in fixed if p % step == 0], seed=seed)
        return tuple(step * p for p in inner)
    candidates = candidate_distances(n, size)
    bidirectional = links is LinkDirection.BIDIRECTIONAL
    if selection is Selection.PAPER:
        if bidirectional and size > 2:
            candidates = candidates[: (len(candidates) + 1) // 2]
        ratio = size ** (1.0 / count)
    else:
        exponent = count if bidirectional else count - 1
        ratio = (candidates[-1] / candidates[0]) ** (1.0 / exponent) if exponent else 1.0
    pool = np.array(candidates, dtype=np.int64)
    free = np.ones(len(pool), dtype=bool)
    chosen: list[int] = []
    target = float(pool[0])
    for _ in range(count):
        if not free.any():
            free[:] = True
        index = _nearest(pool, free, target) if selection is Selection.PAPER else _next(pool, free, target)
        free[index] = False
        chosen.append(int(pool[index]))
        target *= ratio
    return tuple(chosen)


def _nearest(pool: Ints, free: Bools, target: float) -> int:
    """Free candidate nearest to the target, the smaller one on a tie."""
    gap = np.where(free, np.abs(pool - target), np.inf)
    # The target is a product of rounded powers: a tie may be off in the last digits.
    return int(np.flatnonzero(gap <= gap.min() + 1e-9 * target)[0])


def _next(pool: Ints, free: Bools, target: float) -> int:
    """Smallest free candidate not below the target; past the end, the smallest free one."""
    # The target is a product of rounded powers: forgive the last digits.
    above = np.flatnonzero(free & (pool >= target * (1.0 - 1e-12)))
    return int(above[0]) if len(above) else int(np.flatnonzero(free)[0])
