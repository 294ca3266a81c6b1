"""Ring distances of circulants (TotientPerms, TopoOpt): the candidates, the best sets, and the choice for groups of
servers.

TotientPerms: ring distances for n servers, and how far apart they leave the servers.

A distance p coprime to n links server i to i + p mod n in one Hamiltonian ring; a multiple of n/k coprime to it in Z_k
makes n/k disjoint rings of k servers (TopoOpt, NSDI'23, section 4.3 and Algorithm 1).

Interfaces: a bidirectional ring takes two of each server, and p and n - p are the same ring; the antipodal distance
n/2 is a perfect matching and takes one. A unidirectional ring takes one. An odd degree with bidirectional links
therefore adds n/2 when n is even, and leaves one interface free when n is odd.

Ring distances of least diameter, then least mean hops: all sets when they are few, else seeded local search.

Every set that contains a distance coprime to n becomes, multiplied by its inverse, one that contains 1 with the same
hop counts, so only sets with 1 are searched. Distances are coprime to n (each a Hamiltonian ring) while there are
enough; then the others join in, which shortens paths where parallel links would not. Effort is counted in steps of the
breadth-first search, never in seconds, so a seed gives the same set everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, islice
from math import comb, gcd

import numpy as np

from topoopt.core.arrays import Bools, Floats, Int32s, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.process import end_if_left
from topoopt.native import graph


@dataclass(frozen=True)
class TotientResult:
    """Ring distances of all servers and the hop counts they give.

    Attributes:
        servers, degree, links, selection: as asked for.
        distances: the chosen ring distances with repetition (a repeated one is a parallel link).
        offsets: every displacement of one hop, ascending (p and n - p for bidirectional links), without repetition.
        diameter: most hops between two servers.
        mean_hops: over the n - 1 non-zero displacements; 0 for one server.
        diameter_bound: d * n^(1/d), the paper's bound for d directed rings.
        ring_bound: r * n^(1/r) for the r rings there are, the same bound when each ring is used both ways.
        hop_histogram: entry h - 1 counts the displacements h hops away.
    """

    servers: int
    degree: int
    links: LinkDirection
    selection: Selection
    distances: tuple[int, ...]
    offsets: tuple[int, ...]
    diameter: int
    mean_hops: float
    diameter_bound: float
    ring_bound: float
    hop_histogram: tuple[int, ...]


def hop_table(n: int, offsets: Sequence[int]) -> Int32s:
    """int32[n]: fewest hops from any server i to i + j mod n, by displacement j; -1 where unreachable.

    `offsets` are the displacements of one hop (for bidirectional links both p and n - p).
    """
    return graph.circulant_hops(n, np.array(sorted({p % n for p in offsets} - {0}), dtype=np.int64))


def select_offsets(
    n: int, degree: int, links: LinkDirection | str, selection: Selection | str, *, seed: int = 0
) -> tuple[int, ...]:
    """Ring distances (with repetition) that use the interfaces of n servers and connect them all.

    Raises:
        InputError: n or degree below 1, an unknown link direction or selection.
        InfeasibleError: one bidirectional interface cannot connect more than two servers.
    """
    links, selection = _direction(links), _selection(selection)
    check_connectable(n, degree, links)
    if n == 1:
        return ()
    if n == 2:
        return (1,) * degree
    if links is LinkDirection.UNIDIRECTIONAL:
        return select_distances(n, n, degree, links, selection, seed=seed)
    antipodal = (n // 2,) if degree % 2 and n % 2 == 0 else ()
    return (*select_distances(n, n, degree // 2, links, selection, fixed=antipodal, seed=seed), *antipodal)


def check_connectable(n: int, degree: int, links: LinkDirection) -> None:
    """Raise unless some topology of this degree connects n servers."""
    problems = []
    if n < 1:
        problems.append(Problem("number of servers is too small", path="servers", value=str(n), allowed=">= 1"))
    if degree < 1:
        problems.append(Problem("degree is too small", path="degree", value=str(degree), allowed=">= 1"))
    if problems:
        raise InputError(problems)
    if links is LinkDirection.BIDIRECTIONAL and degree == 1 and n > 2:
        raise InfeasibleError(
            f"one bidirectional interface per server (degree 1) cannot connect {n} servers; degree 2 can"
        )


def totient(
    servers: int, degree: int, links: LinkDirection | str, selection: Selection | str, *, seed: int = 0
) -> TotientResult:
    """Ring distances of a full set of rings, with diameter, mean hops and the hop histogram.

    Raises:
        InputError, InfeasibleError: see `select_offsets`.
    """
    links, selection = _direction(links), _selection(selection)
    distances = select_offsets(servers, degree, links, selection, seed=seed)
    offsets = coins_of(servers, distances, links)
    histogram = np.bincount(hop_table(servers, offsets))[1:]
    total = int(np.dot(histogram, np.arange(1, len(histogram) + 1)))
    rings = max(len(distances), 1)
    return TotientResult(
        servers=servers,
        degree=degree,
        links=links,
        selection=selection,
        distances=distances,
        offsets=offsets,
        diameter=len(histogram),
        mean_hops=total / (servers - 1) if servers > 1 else 0.0,
        diameter_bound=degree * servers ** (1.0 / degree),
        ring_bound=rings * servers ** (1.0 / rings),
        hop_histogram=tuple(int(v) for v in histogram),
    )


def generates(n: int, distances: Sequence[int]) -> bool:
    """Whether the distances connect all n servers."""
    return gcd(n, *distances) == 1


def _direction(links: LinkDirection | str) -> LinkDirection:
    allowed = ", ".join(LinkDirection)
    if links not in list(LinkDirection):
        raise InputError([Problem("unknown link direction", path="links", value=str(links), allowed=allowed)])
    return LinkDirection(links)


def _selection(selection: Selection | str) -> Selection:
    allowed = ", ".join(Selection)
    if selection not in list(Selection):
        raise InputError([Problem("unknown selection", path="selection", value=str(selection), allowed=allowed)])
    return Selection(selection)


EXHAUSTIVE_STEPS = 60_000_000
LOCAL_STEPS = 300_000_000
LOCAL_SETS = 40_000
BATCH = 64


def best_distances(
    n: int, count: int, links: LinkDirection, *, fixed: Sequence[int] = (), seed: int = 0
) -> tuple[int, ...]:
    """`count` distances on Z_n, ascending, containing 1; repeated only when there are fewer than `count` in all.

    `fixed` distances are present in addition to the chosen ones. When there are too few, the antipodal n/2 comes in,
    twice where the others take two interfaces.
    """
    bidirectional = links is LinkDirection.BIDIRECTIONAL
    if n <= 2 or count <= 1:
        return (1,) * count
    everything = np.arange(1, (n - 1) // 2 + 1 if bidirectional else n, dtype=np.int64)
    coprime = everything[np.gcd(everything, n) == 1]
    others = (coprime if len(coprime) >= count else everything)[1:]
    if len(others) < count:
        pool = [1, *others.tolist()]
        spare = count - len(pool)
        # The antipodal matching twice takes the two interfaces of one ring.
        antipodal = [n // 2] * 2 if bidirectional and n % 2 == 0 and spare else []
        repeats = [pool[i % len(pool)] for i in range(spare - len(antipodal) // 2)]
        return tuple(sorted(pool + repeats + antipodal))
    search = _DistanceSearch(n, bidirectional, tuple(fixed))
    steps_per_set = n * len(search.coins(np.array([[1, *others[: count - 1]]]))[0])
    if comb(len(others), count - 1) * steps_per_set <= EXHAUSTIVE_STEPS:
        return search.exhaustive(others, count - 1)
    return search.local(others, count - 1, min(LOCAL_SETS, LOCAL_STEPS // steps_per_set), np.random.default_rng(seed))


class _DistanceSearch:
    """Scores distance sets of one n; a set is an ascending row of distances without the leading 1."""

    def __init__(self, n: int, bidirectional: bool, fixed: tuple[int, ...]) -> None:
        self.n = n
        self.bidirectional = bidirectional
        self.fixed = np.array(fixed, dtype=np.int64)

    def coins(self, rows: Ints) -> Ints:
        """One-hop displacements of each row of distances."""
        rows = np.hstack((rows, np.tile(self.fixed, (len(rows), 1))))
        return np.ascontiguousarray(np.hstack((rows, self.n - rows)) if self.bidirectional else rows)

    def scores(self, rows: Ints) -> Floats:
        """float64[rows]: diameter + (sum of hops) / n^2, which orders like diameter, then mean hops."""
        ones = np.ones((len(rows), 1), dtype=np.int64)
        diameter, total = graph.circulant_scores(self.n, self.coins(np.hstack((ones, rows)))).T
        return np.asarray(diameter + total / float(self.n) ** 2, dtype=np.float64)

    def exhaustive(self, others: Ints, count: int) -> tuple[int, ...]:
        """Best of all sets, the first in lexicographic order on a tie."""
        sets = combinations(others.tolist(), count)
        best: tuple[float, tuple[int, ...]] | None = None
        while chunk := list(islice(sets, 4096)):
            end_if_left()
            scores = self.scores(np.array(chunk, dtype=np.int64))
            index = int(np.argmin(scores))
            if best is None or scores[index] < best[0]:
                best = (float(scores[index]), chunk[index])
        assert best is not None
        return (1, *best[1])

    def local(self, others: Ints, count: int, budget: int, rng: np.random.Generator) -> tuple[int, ...]:
        """Replace one distance at a time, from geometric and random starts, until `budget` sets are scored."""
        budget = max(budget, 8)
        starts = _starts(self.n, others, count, min(BATCH // 2, max(4, budget // 4)), rng)
        scores = self.scores(others[starts])
        budget -= len(starts)
        order = np.argsort(scores, kind="stable")
        best_score, best = float(scores[order[0]]), starts[order[0]]
        score, current = best_score, best
        stale, next_start = 0, 1
        while budget > 0:
            end_if_left()
            trial = np.array([_replace_one(current, len(others), rng) for _ in range(min(BATCH, budget))])
            values = self.scores(others[trial])
            budget -= len(trial)
            index = int(np.argmin(values))
            if values[index] < score:
                score, current, stale = float(values[index]), trial[index], 0
            else:
                stale += 1
            if score < best_score:
                best_score, best = score, current
            if stale >= 2 * count:
                pick = order[next_start % len(order)]
                score, current, stale, next_start = float(scores[pick]), starts[pick], 0, next_start + 1
        return (1, *sorted(int(p) for p in others[best]))


def _starts(n: int, others: Ints, count: int, total: int, rng: np.random.Generator) -> Ints:
    """Rows of indices into `others`: geometric sequences of several ratios, then random sets."""
    rows = []
    top = float(others[-1])
    for scale in np.linspace(0.5, 2.0, total // 2):
        wanted = np.minimum((float(n) ** (1.0 / (count + 1)) * scale) ** np.arange(1, count + 1), top)
        rows.append(_distinct(np.searchsorted(others, wanted), len(others)))
    rows += [np.sort(rng.choice(len(others), size=count, replace=False)) for _ in range(total - len(rows))]
    return np.array(rows, dtype=np.int64)


def _distinct(indices: Ints, size: int) -> Ints:
    taken: set[int] = set()
    for value in indices:
        index = min(int(value), size - 1)
        while index in taken:
            index = (index + 1) % size
        taken.add(index)
    return np.array(sorted(taken), dtype=np.int64)


def _replace_one(current: Ints, size: int, rng: np.random.Generator) -> Ints:
    row = current.copy()
    position = int(rng.integers(len(row)))
    if rng.random() < 0.6:
        reach = max(1, size // 50)
        row[position] = np.clip(row[position] + int(rng.integers(-reach, reach + 1)), 0, size - 1)
    else:
        row[position] = rng.integers(size)
    return _distinct(np.sort(row), size)


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
