"""Annealing of orbits of links against plain Python that looks at every graph afresh."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log

import numpy as np
import pytest

from solvers.network.lifts import groups
from tests.native.calls_search import anneal_lift_arguments, lift_arguments
from tests.native.test_search import SplitMix64
from topoopt.core.arrays import Ints
from topoopt.native import search

SEEDS = range(25)


def table_of(a: int, row: Ints, turn: Ints) -> Ints:
    """int64[k, k]: products, by the definition of cosets and turns."""
    k = row.shape[1]
    return np.array([[row[g // a, h] * a + (g % a + turn[g // a, h]) % a for h in range(k)] for g in range(k)])


@dataclass
class Plain:
    """A graph under a group, with the exchanges that the search proposes."""

    products: Ints
    degree: int
    one_way: bool
    peer: list[int]
    shift: list[int]
    random: SplitMix64
    involutions: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.involutions = [g for g in range(len(self.products)) if self.products[g, g] == 0]

    def inverse(self, g: int) -> int:
        return int(np.flatnonzero(self.products[g] == 0)[0])

    def times(self, g: int, h: int) -> int:
        return int(self.products[g, h])

    def heads(self) -> Ints:
        """int64[m k, d] of server o k + g."""
        k, ports = len(self.products), len(self.peer)
        return np.array(
            [
                [self.peer[h] // self.degree * k + self.times(g, self.shift[h]) for h in range(o, o + self.degree)]
                for o in range(0, ports, self.degree)
                for g in range(k)
            ]
        )

    def unreached(self, levels: int) -> list[int]:
        """Pairs of a server and the first one of an orbit that are more than 0, 1, ... hops apart."""
        heads, k = self.heads(), len(self.products)
        near = np.zeros((len(heads), len(heads) // k), dtype=np.bool_)
        near[np.arange(0, len(heads), k), np.arange(len(heads) // k)] = True
        counts = [int((~near).sum())]
        for _ in range(levels):
            near = near | near[heads].any(axis=1)
            counts.append(int((~near).sum()))
        return counts

    def randomise(self) -> None:
        ports = len(self.peer)
        order = list(range(ports))
        for h in range(ports - 1, 0, -1):
            j = self.random.below(h + 1)
            order[h], order[j] = order[j], order[h]
        k = len(self.products)
        if self.one_way:
            self.peer = order
            self.shift = [self.random.below(k) for _ in order]
            return
        for i in range(0, ports - 1, 2):
            s = self.random.below(k)
            self.join(order[i], order[i + 1], s)
        if ports % 2:
            self.peer[order[-1]], self.shift[order[-1]] = order[-1], self.involutions[-1]

    def join(self, h: int, g: int, s: int) -> None:
        self.peer[h], self.shift[h], self.peer[g], self.shift[g] = g, s, h, self.inverse(s)

    def close(self, h: int) -> None:
        self.peer[h], self.shift[h] = h, self.involutions[self.random.below(len(self.involutions))]

    def propose(self) -> bool:
        ports, k = len(self.peer), len(self.products)
        h = self.random.below(ports)
        i = self.random.below(ports)
        g = self.peer[h]
        if ports == 1 or self.random.uniform() < 0.3:
            split = not self.one_way and g != h and len(self.involutions) > 1
            if split and self.random.uniform() < 0.1:
                self.close(h)
                self.close(g)
                return True
            s = self.random.below(k)
            if self.one_way:
                self.shift[h] = s
            elif g == h:
                self.close(h)
            else:
                self.join(h, g, s)
            return True
        if i == h or (not self.one_way and i == g):
            return False
        j, w = self.peer[i], self.random.below(k)
        if self.one_way:
            new, other = self.times(w, self.shift[i]), self.times(self.inverse(w), self.shift[h])
            self.peer[h], self.shift[h], self.peer[i], self.shift[i] = j, new, g, other
            return True
        s = self.times(self.inverse(self.shift[h]), self.times(w, self.shift[i]))
        self.join(h, i, w)
        if g != h and j != i:
            self.join(g, j, s)
        elif g != h:
            self.close(g)
        elif j != i:
            self.close(j)
        return True


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_graphs_as_where_each_is_looked_at_afresh(seed: int) -> None:
    """Bounds that end an evaluation early, and sets turned by rows, change nothing."""
    arguments = anneal_lift_arguments(np.random.default_rng(seed))
    a, row, turn, degree, one_way, anew, peer, shift, proposals, hot, cold, levels, draws = arguments
    plain = Plain(table_of(a, row, turn), degree, one_way, peer.tolist(), shift.tolist(), SplitMix64(draws))
    if anew:
        plain.randomise()
    now = least = sum(plain.unreached(levels))
    best = plain.peer.copy(), plain.shift.copy()
    temperature = hot
    for _ in range(proposals):
        temperature *= (cold / hot) ** (1 / proposals)
        before = plain.peer.copy(), plain.shift.copy()
        if not plain.propose():
            continue
        limit = now + int(-temperature * log(1 - plain.random.uniform()))
        total = sum(plain.unreached(levels))
        if total > limit:
            plain.peer, plain.shift = before
            continue
        now = total
        if now < least:
            least, best = now, (plain.peer.copy(), plain.shift.copy())
        plain.peer, plain.shift = plain.peer.copy(), plain.shift.copy()
    assert search.anneal_lift(*arguments) == least
    assert (peer.tolist(), shift.tolist()) == best


@pytest.mark.parametrize("seed", SEEDS)
def test_distances(seed: int) -> None:
    """Pairs that are exactly so many hops apart; none where some are not joined."""
    arguments = lift_arguments(np.random.default_rng(seed))
    a, row, turn, degree, one_way, peer, shift = arguments
    plain = Plain(table_of(a, row, turn), degree, one_way, peer.tolist(), shift.tolist(), SplitMix64(0))
    left = plain.unreached(len(plain.heads()))
    pairs = len(plain.heads()) * (len(peer) // degree)
    expected = [] if left[-1] else [count for count in -np.diff([pairs, *left]) if count]
    assert search.lift_distances(*arguments).tolist() == expected


@pytest.mark.parametrize("k", [1, 2, 3, 4, 6, 8, 12, 16, 24])
def test_groups_are_groups(k: int) -> None:
    """Associative, with an identity and inverses; the generators make all elements; as many as there are of order 8."""
    kinds = groups(k)
    for group in kinds:
        table = group.products
        np.testing.assert_array_equal(table, table_of(group.cyclic, group.row, group.turn))
        np.testing.assert_array_equal(table[table], table[:, table])
        np.testing.assert_array_equal(table[0], np.arange(k))
        np.testing.assert_array_equal(np.sort(table, axis=1), np.tile(np.arange(k), (k, 1)))
        made = {0}
        while True:
            more = {int(table[g, s]) for g in made for s in group.generators} | made
            if more == made:
                break
            made = more
        assert len(made) == k
    known_counts = {1: 1, 2: 1, 3: 1, 4: 2, 6: 2, 8: 5, 12: 5}  # all groups of these orders but A4 of order 12
    if k in known_counts:
        assert len(kinds) == known_counts[k] - (k == 12)


def test_what_is_no_graph_is_refused() -> None:
    """Ports without their peers, tables that are no group, and temperatures that rise."""
    (group,) = groups(3)
    fits = group.cyclic, group.row, group.turn, 2, False
    peer, shift = np.array([1, 0], dtype=np.int32), np.array([1, 2], dtype=np.int32)
    assert search.lift_distances(*fits, peer, shift).tolist() == [1, 2]
    with pytest.raises(ValueError, match="inverse"):
        search.lift_distances(*fits, peer, peer)
    with pytest.raises(ValueError, match="permutation"):
        search.lift_distances(*fits[:4], True, np.zeros(2, dtype=np.int32), shift)
    with pytest.raises(ValueError, match="identity"):
        search.lift_distances(group.cyclic, group.row, np.zeros_like(group.turn), 2, False, peer, shift)
    with pytest.raises(ValueError, match="temperatures"):
        search.anneal_lift(*fits, False, peer, shift, 10, 1.0, 2.0, 2, 0)
