"""Exchanges of link ends to try: at random, and those that bring late transfers nearer at the cost of idle links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.job.exchanges.wants import Wants
from solvers.job.exchanges.wiring import Arc, LinkMove
from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import LinkDirection

GUIDED = 0.6
"""Part of the proposals that begin with a pair that wants to be nearer."""

SWAPPED = 0.3
"""Part of the proposals in which two servers take each other's place."""

FREE = 0.2
"""Part of the other proposals that use an interface that is free, where there is one."""

TURNED = 0.3
"""Part of the exchanges of links that are made at all servers a fixed distance apart alike."""

TRIES = 50


@dataclass(frozen=True, eq=False)
class Proposer:
    """Draws exchanges that keep every server within its interfaces.

    Attributes:
        degree: interfaces of a server.
        links: how they are patched.
        rng: of the draws.
    """

    degree: int
    links: LinkDirection
    rng: np.random.Generator

    def propose(self, counts: Ints, wants: Wants, tried: set[tuple[object, ...]]) -> LinkMove | None:
        """An exchange of links int64[n, n] that was not tried, and now is; None: none was found in some tries."""
        for _ in range(TRIES):
            found = self._drawn_exchange(counts, wants)
            if found is not None and found.key not in tried:
                tried.add(found.key)
                return found
        return None

    def _drawn_exchange(self, counts: Ints, wants: Wants) -> LinkMove | None:
        pair = self._wanted(wants)
        if len(counts) > 2 and self.rng.random() < SWAPPED:
            return self._swap(counts, pair)
        if self.rng.random() < TURNED:
            return self._turned(counts, wants, pair)
        if self.links is LinkDirection.BIDIRECTIONAL:
            return self._fibre_pairs(counts, wants, pair)
        return self._single_fibres(counts, wants, pair)

    def _wanted(self, wants: Wants) -> Arc | None:
        if not wants.any or self.rng.random() >= GUIDED:
            return None
        return divmod(self._drawn(wants.cumulative), len(wants.spare))

    def _drawn(self, cumulative: Floats) -> int:
        at = int(np.searchsorted(cumulative, self.rng.random() * cumulative[-1], side="right"))
        return min(at, len(cumulative) - 1)

    def _one_of(self, weights: Floats) -> int | None:
        """A place by weight; None where all are zero."""
        cumulative = np.cumsum(weights)
        return self._drawn(cumulative) if cumulative[-1] > 0 else None

    def _swap(self, counts: Ints, pair: Arc | None) -> LinkMove | None:
        """A server in the place of a neighbour of the one it wants to be near to, or any two."""
        n = len(counts)
        if pair is not None:
            mover, near = pair if self.rng.random() < 0.5 else pair[::-1]
            weights = ((counts[near] > 0) | (counts[:, near] > 0)).astype(np.float64)
            weights[[mover, near]] = 0.0
            other = self._one_of(weights)
        else:
            mover, other = int(self.rng.integers(n)), int(self.rng.integers(n))
        if other is None or other == mover:
            return None
        return LinkMove(swapped=(min(mover, other), max(mover, other)))

    def _turned(self, counts: Ints, wants: Wants, pair: Arc | None) -> LinkMove | None:
        """An exchange, and the same at all servers a multiple of some distance further on: groups of splits lie so."""
        n = len(counts)
        distances = [step for step in range(2, n) if n % step == 0]
        if not distances:
            return None
        step = distances[int(self.rng.integers(len(distances)))]
        paired = self.links is LinkDirection.BIDIRECTIONAL
        found = self._fibre_pairs(counts, wants, pair) if paired else self._single_fibres(counts, wants, pair)
        if found is None:
            return None
        shifts = range(0, n, step)
        removed, added = (
            [((tail + by) % n, (head + by) % n) for by in shifts for tail, head in arcs]
            for arcs in (found.removed, found.added)
        )
        after = LinkMove(tuple(removed), tuple(added)).counts(counts)
        fits = (after >= 0).all() and max(after.sum(axis=0).max(), after.sum(axis=1).max()) <= self.degree
        return _one_way(counts, removed, added) if fits else None

    def _given(self, row: Ints, spare: Floats, kept: int) -> int | None:
        """The other end of a link that a server gives up, idle ones rather; never the one to `kept`."""
        weights = row * spare
        weights[kept] = 0.0
        return self._one_of(weights)

    def _fibre_pairs(self, counts: Ints, wants: Wants, pair: Arc | None) -> LinkMove | None:
        free = self.degree - counts.sum(axis=1)
        if pair is None and (free > 0).any() and self.rng.random() < FREE:
            pair = self._with_free(free)
        if pair is None:
            return self._two_links(counts)
        a, c = pair
        removed: list[Arc] = []
        added: list[Arc] = [(a, c)]
        ends: list[int] = []
        for end, kept in ((a, c), (c, a)):
            if free[end] <= 0:
                other = self._given(counts[end], wants.spare[end], kept)
                if other is None:
                    return None
                removed.append((end, other))
                ends.append(other)
        if len(ends) == 2:
            if ends[0] == ends[1]:
                return None
            added.append((ends[0], ends[1]))
        return _both_ways(counts, removed, added)

    def _with_free(self, free: Ints) -> Arc | None:
        one = self._one_of(np.maximum(free, 0).astype(np.float64))
        other = int(self.rng.integers(len(free)))
        return None if one is None or one == other else (one, other)

    def _two_links(self, counts: Ints) -> LinkMove | None:
        tails, heads = np.nonzero(np.triu(counts))
        weights = np.cumsum(counts[tails, heads], dtype=np.float64)
        if not len(weights):
            return None
        first, second = self._drawn(weights), self._drawn(weights)
        a, b = int(tails[first]), int(heads[first])
        c, d = int(tails[second]), int(heads[second])
        if self.rng.random() < 0.5:
            c, d = d, c
        return None if a == c or b == d else _both_ways(counts, [(a, b), (c, d)], [(a, c), (b, d)])

    def _single_fibres(self, counts: Ints, wants: Wants, pair: Arc | None) -> LinkMove | None:
        if pair is None:
            return self._several_arcs(counts)
        a, c = pair
        sent, received = counts.sum(axis=1), counts.sum(axis=0)
        removed: list[Arc] = []
        head = tail = None
        if sent[a] >= self.degree:
            head = self._given(counts[a], wants.spare[a], c)
            if head is None:
                return None
            removed.append((a, head))
        if received[c] >= self.degree:
            tail = self._given(counts[:, c], wants.spare[:, c], a)
            if tail is None:
                return None
            removed.append((tail, c))
        if head is None or tail is None:
            return _one_way(counts, removed, [(a, c)])
        return None if tail == head else _one_way(counts, removed, [(a, c), (tail, head)])

    def _several_arcs(self, counts: Ints) -> LinkMove | None:
        """Heads of two links exchanged, or of three in a circle: that leaves a ring of all three one ring."""
        tails, heads = np.nonzero(counts)
        weights = np.cumsum(counts[tails, heads], dtype=np.float64)
        if not len(weights):
            return None
        rows = [self._drawn(weights) for _ in range(int(self.rng.integers(2, 4)))]
        removed = [(int(tails[row]), int(heads[row])) for row in rows]
        shifted = [*removed[1:], removed[0]]
        return _one_way(counts, removed, [(tail, head) for (tail, _), (_, head) in zip(removed, shifted, strict=True)])


def _both_ways(counts: Ints, removed: list[Arc], added: list[Arc]) -> LinkMove | None:
    return _one_way(counts, [*removed, *(arc[::-1] for arc in removed)], [*added, *(arc[::-1] for arc in added)])


def _one_way(counts: Ints, removed: list[Arc], added: list[Arc]) -> LinkMove | None:
    """The exchange, if it changes anything, takes no link twice and joins no server to itself."""
    taken = {arc: removed.count(arc) for arc in removed}
    possible = all(counts[arc] >= times for arc, times in taken.items())
    if not possible or any(tail == head for tail, head in added) or sorted(removed) == sorted(added):
        return None
    return LinkMove(tuple(removed), tuple(added))
