"""Ring distances of least diameter, then least mean hops: all sets when they are few, else seeded local search.

Every set that contains a distance coprime to n becomes, multiplied by its inverse, one that contains 1 with the same
hop counts, so only sets with 1 are searched. Distances are coprime to n (each a Hamiltonian ring) while there are
enough; then the others join in, which shortens paths where parallel links would not. Effort is counted in steps of the
breadth-first search, never in seconds, so a seed gives the same set everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, islice
from math import comb

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.process import end_if_left
from topoopt.native import graph

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
    """Move equal indices apart, within range."""
    taken: set[int] = set()
    for value in indices:
        index = min(int(value), size - 1)
        while index in taken:
            index = (index + 1) % size
        taken.add(index)
    return np.array(sorted(taken), dtype=np.int64)


def _replace_one(current: Ints, size: int, rng: np.random.Generator) -> Ints:
    """Move one index a little or anywhere."""
    row = current.copy()
    position = int(rng.integers(len(row)))
    if rng.random() < 0.6:
        reach = max(1, size // 50)
        row[position] = np.clip(row[position] + int(rng.integers(-reach, reach + 1)), 0, size - 1)
    else:
        row[position] = rng.integers(size)
    return _distinct(np.sort(row), size)
