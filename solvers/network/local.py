"""A first network for the exact methods: exchanges of link ends on the true theta, screened by cuts from prices.

The lengths l that prove theta of one network X give Y with sum_ij Y_ij X'_ij >= lambda(X') for every network X': put
Y = l / tot on links of X and W / tot elsewhere, W the shortest distances under l and tot = sum D W. With lengths
tot Y on X' no distance falls below W, so theta(X') >= tot / sum(tot Y X').
Moves whose bound does not beat the best lambda known need no routing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from solvers.network.space import (
    Counts,
    ExactLimits,
    Routed,
    Space,
    distances,
    finish,
    hop_distances,
    relaxed_theta,
    routed,
)
from solvers.stop import Stop, first_part
from topoopt.core.arrays import Bools, Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.proofs import StopReason


def price_cut(demand: Floats, counts: Counts, lengths: Floats) -> Floats | None:
    """float64[n, n]: Y with lambda(X') <= sum Y X' for every X'; None when the lengths prove nothing."""
    span = distances(np.where(counts > 0, lengths, np.inf))
    if np.isinf(span[demand > 0]).any():
        return None
    total = float((demand[demand > 0] * span[demand > 0]).sum())
    if total <= 0.0:
        return None
    # An arc that helps nobody may have any length: unreachable pairs get the longest that matters.
    longest = float(span[np.isfinite(span)].max())
    rest = np.where(np.isinf(span), longest, span)
    cut = np.where(counts > 0, lengths, rest) / total
    np.fill_diagonal(cut, 0.0)
    return np.asarray(cut, dtype=np.float64)


MOST_BYTES = 1 << 30
"""Memory that the networks one exchange away may take, each in two tables of eight bytes a pair."""


def refuse_large(space: Space) -> None:
    """Raise InputError for problems whose neighbouring networks do not fit into memory (53 servers at degree 4 do)."""
    n, degree = space.problem.servers, space.problem.degree
    if 8 * (n * degree) ** 2 * n**2 > MOST_BYTES:
        most = int((MOST_BYTES / 8) ** 0.25 / degree**0.5)
        text = "too many servers for the exact methods"
        raise InputError([Problem(text, path="servers", value=str(n), allowed=f"<= {most}, or method portfolio")])


LOCAL_SHARE, LOCAL_MOST_S = 0.2, 20.0  # a work limit ends the search long before, so that results are reproducible


def first_network(space: Space, limits: ExactLimits) -> tuple[Counts, Routed] | None:
    """The best network known or met by a short search, routed; None if there is none."""
    incumbent = None if limits.incumbent is None else limits.incumbent.adjacency()
    result = local_search(space, limits.seed, first_part(limits.stop, LOCAL_SHARE, LOCAL_MOST_S), incumbent)
    if result is None:
        return None
    first = result[0], routed(space, result[0])
    limits.on_incumbent(finish(space, *first, space.bound, StopReason.TIME, "local search", 0))
    return first


def local_search(space: Space, seed: int, stop: Stop, incumbent: Counts | None = None) -> tuple[Counts, float] | None:
    """Best network found and the solver's theta of it; None if no allowed network was found.

    Ends early at the bound of the space. Deterministic by seed unless `stop` ends it, which it does
    only once there is a network: at most `_ROUTINGS` are routed.
    """
    rng = np.random.default_rng(seed)
    best: tuple[Counts, float] | None = None
    cuts: list[Floats] = []
    routings = 0
    if incumbent is None and _uniform(space):
        best = best_lift(space, rng, stop)
        if best is not None and best[1] <= space.bound.value * (1 + 1e-9):
            return best
        incumbent = None if best is None else best[0]
    for start in _starts(space, rng, incumbent):
        current: tuple[Counts, float] | None = None
        moves = Moves([start], cuts)
        while routings < _ROUTINGS and (best is None or stop.reason() is None):
            counts = moves.next_above(0.0 if current is None else (1 + 1e-9) / current[1])
            if counts is None:
                break
            if not space.fits(counts):
                continue
            relaxed = relaxed_theta(space.demand, counts)
            routings += 1
            if relaxed is None:
                continue
            cut = price_cut(space.demand, counts, relaxed[2])
            if cut is not None:
                cuts.append(cut)
            if current is None or relaxed[0] < current[1] * (1 - 1e-9):
                current = (counts, relaxed[0])
                if best is None or relaxed[0] < best[1]:
                    best = current
                if best[1] <= space.bound.value * (1 + 1e-9):
                    return best
                moves = Moves(neighbours(space, counts), cuts)
        if routings >= _ROUTINGS or (best is not None and stop.reason() is not None):
            break
    return best


_ROUTINGS = 400


class Moves:
    """Networks to try, the most promising first, each once.

    Args:
        networks: of one size.
        cuts: that bound lambda; those that are appended later count, too.
        limits: (float64[k, n^2] link counts, a cut) -> float64[k], what the cut allows at most.
    """

    def __init__(
        self,
        networks: Sequence[Counts] | Counts,
        cuts: list[Floats],
        limits: Callable[[Floats, Floats], Floats] = lambda table, cut: table @ cut.ravel(),
    ) -> None:
        self.networks, self.cuts, self.limits, self.used = networks, cuts, limits, 0
        self.table = np.array([counts.ravel() for counts in networks], dtype=np.float64)
        self.limit = np.full(len(networks), np.inf)

    def next_above(self, throughput: float) -> Counts | None:
        """The untried network of the largest bound on lambda, if above `throughput`."""
        if not len(self.networks):
            return None
        for cut in self.cuts[self.used :]:
            np.minimum(self.limit, self.limits(self.table, cut), out=self.limit)
        self.used = len(self.cuts)
        k = int(np.argmax(self.limit))
        if self.limit[k] <= throughput:
            return None
        self.limit[k] = -np.inf
        return self.networks[k]


def best_lift(space: Space, rng: np.random.Generator, stop: Stop) -> tuple[Counts, float] | None:
    """Best of many random cyclic lifts: m copies of a small graph, permuted cyclically along its links.

    Uniform demand likes networks that look alike from many servers; these do, from every copy of a server.
    """
    n, degree = space.problem.servers, space.problem.degree
    if space.bidirectional and degree % 2:
        return None
    sizes = [m for m in range(2, n + 1) if n % m == 0]
    best: tuple[Counts, float] | None = None
    links = n * degree
    routings = 0
    for _ in range(3000):
        if routings >= 300 or stop.reason() is not None:
            break
        size = sizes[rng.integers(len(sizes))]
        counts = _lift(rng, n, degree // 2 if space.bidirectional else degree, size)
        if space.bidirectional:
            counts = counts + counts.T
        if counts.diagonal().any() or not space.fits(counts):
            continue
        floor = float((space.demand * hop_distances(counts)).sum()) / links
        if best is not None and floor >= best[1] * (1 - 1e-9):
            continue
        relaxed = relaxed_theta(space.demand, counts)
        routings += 1
        if relaxed is not None and (best is None or relaxed[0] < best[1] * (1 - 1e-9)):
            best = (counts, relaxed[0])
            if best[1] <= space.bound.value * (1 + 1e-9):
                break
    return best


def _lift(rng: np.random.Generator, n: int, permutations: int, size: int) -> Counts:
    orbits = n // size
    counts = np.zeros((n, n), dtype=np.int64)
    copy = np.arange(size)
    for _ in range(permutations):
        heads = rng.permutation(orbits)
        for orbit, shift in enumerate(rng.integers(size, size=orbits).tolist()):
            counts[orbit * size + copy, heads[orbit] * size + (copy + shift) % size] += 1
    return counts


def _uniform(space: Space) -> bool:
    off = space.demand[~np.eye(space.problem.servers, dtype=np.bool_)]
    return bool((off == off[0]).all())


def neighbours(space: Space, counts: Counts) -> list[Counts]:
    """Networks one exchange of two link ends, one redirected end or one more link away."""
    result = []
    step = 1 if not space.bidirectional else 2
    spare_out = space.problem.degree - counts.sum(axis=1)
    spare_in = space.problem.degree - counts.sum(axis=0)
    arcs = [(int(i), int(j)) for i, j in np.argwhere(counts > 0)]
    n = space.problem.servers

    def changed(add: list[tuple[int, int]], drop: list[tuple[int, int]]) -> None:
        fresh = counts.copy()
        for sign, pairs in ((1, add), (-1, drop)):
            for i, j in pairs:
                fresh[i, j] += sign
                if step == 2:
                    fresh[j, i] += sign
        fine = all(space.allowed[pair] and fresh[pair] <= space.most_links for pair in add)
        if fine and (fresh >= 0).all():
            result.append(fresh)

    for a, (i, j) in enumerate(arcs):
        for k, h in arcs[a + 1 :]:
            if i not in (h, k) and j not in (h, k):
                changed([(i, h), (k, j)], [(i, j), (k, h)])
        for v in range(n):
            if spare_in[v] > 0 and v not in (i, j):
                changed([(i, v)], [(i, j)])
            if step == 1 and spare_out[v] > 0 and v not in (i, j):
                changed([(v, j)], [(i, j)])
    for i in range(n):
        for j in range(n):
            if i != j and spare_out[i] > 0 and spare_in[j] > 0:
                changed([(i, j)], [])
    return result


def _starts(space: Space, rng: np.random.Generator, incumbent: Counts | None) -> Iterator[Counts]:
    """The network known, the one that stands, one shaped like a Kautz network, then random ones."""
    n, degree = space.problem.servers, space.problem.degree
    if incumbent is not None:
        yield incumbent
    if space.kept is not None:
        yield filled(space, np.minimum(space.kept, np.where(space.allowed, space.most_links, 0)), rng)
    if not space.bidirectional:
        kautz = np.zeros((n, n), dtype=np.int64)
        for i in range(n):
            for k in range(1, degree + 1):
                kautz[i, (-degree * i - k) % n] += 1
        yield filled(space, np.minimum(kautz, np.where(space.allowed, space.most_links, 0)), rng)
    for _ in range(20):
        ring = rng.permutation(n)
        counts = np.zeros((n, n), dtype=np.int64)
        counts[ring, np.roll(ring, -1)] = 1
        if space.bidirectional:
            counts = np.minimum(counts + counts.T, 1)
        counts[~space.allowed] = 0
        if (counts.sum(axis=1) > degree).any():
            counts[:] = 0
        yield filled(space, counts, rng)


def filled(space: Space, counts: Counts, rng: np.random.Generator) -> Counts:
    """Links added at random, where allowed, until none fits."""
    counts = counts.copy()
    degree = space.problem.degree
    while True:
        free: Bools = space.allowed & (counts < space.most_links)
        free &= (counts.sum(axis=1) < degree)[:, None] & (counts.sum(axis=0) < degree)[None]
        pairs = np.argwhere(free)
        if not len(pairs):
            return counts
        new = free & (counts == 0)
        pairs = np.argwhere(new) if new.any() else pairs
        i, j = pairs[rng.integers(len(pairs))]
        counts[i, j] += 1
        if space.bidirectional:
            counts[j, i] += 1
