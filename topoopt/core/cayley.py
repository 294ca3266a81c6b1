"""Cayley digraphs of semidirect products Z_m x| Z_k: networks that look the same from every server.

Element (a, b), a < m, b < k, has the number k a + b, and (a, b)(c, e) = (a + r^b c mod m, b + e mod k) where
r^k = 1 mod m. Links lead from x to x s for every generator s. With k = 1 these are circulants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from topoopt.core.arrays import Ints


@dataclass(frozen=True)
class SemidirectGroup:
    """Z_m x| Z_k by the multiplication with `twist`.

    Raises:
        ValueError: twist^order is not 1 modulo the modulus.
    """

    modulus: int
    order: int
    twist: int

    def __post_init__(self) -> None:
        if self.modulus < 1 or self.order < 1:
            raise ValueError(f"a group of {self.modulus} x {self.order} elements")
        if pow(self.twist, self.order, self.modulus) != 1 % self.modulus:
            raise ValueError(f"{self.twist}^{self.order} is not 1 modulo {self.modulus}")

    @property
    def elements(self) -> int:
        """How many."""
        return self.modulus * self.order

    @cached_property
    def powers(self) -> Ints:
        """int64[k], of the twist modulo m."""
        return np.array([pow(self.twist, b, self.modulus) for b in range(self.order)], dtype=np.int64)

    def products(self, left: Ints, right: Ints | np.int64) -> Ints:
        """int64: elements of one array times those of another."""
        a, b = np.divmod(left, self.order)
        c, e = np.divmod(right, self.order)
        return np.asarray((a + self.powers[b] * c) % self.modulus * self.order + (b + e) % self.order, dtype=np.int64)

    def inverse(self, element: int) -> int:
        """What an element makes the identity with."""
        return int(self.inverses(np.array(element)))

    def inverses(self, elements: Ints) -> Ints:
        """int64: the same of each."""
        a, b = np.divmod(elements, self.order)
        back = -b % self.order
        return np.asarray(-self.powers[back] * a % self.modulus * self.order + back, dtype=np.int64)

    def arcs(self, generators: Sequence[int]) -> Ints:
        """int64[n d, 2]: x -> x s, by generators, then by x."""
        start = np.arange(self.elements, dtype=np.int64)
        return np.concatenate([np.column_stack((start, self.products(start, np.int64(s)))) for s in generators])


def haar_arcs(group: SemidirectGroup, generators: Sequence[int]) -> Ints:
    """int64[2 n d, 2]: arcs both ways of the Haar graph: x of one side and x s of the other, two servers an element.

    The number of an element is that of its server of the first side, and n more that of the other (Hladnik, Marusic,
    Pisanski, Cyclic Haar graphs, Discrete Mathematics 244, 2002; over groups that do not commute as bi-Cayley graphs).
    """
    pairs = group.arcs(generators) + np.array([0, group.elements])
    return np.concatenate((pairs, pairs[:, ::-1]))


def semidirect_groups(elements: int) -> list[SemidirectGroup]:
    """All groups Z_m x| Z_k of a size, larger m first, but those that a power of another's twist stands for.

    m = 1 is left out: Z_1 x| Z_n is Z_n x| Z_1.
    """
    found = []
    for order in (k for k in range(1, elements) if elements % k == 0):
        modulus = elements // order
        units = [r for r in range(1, modulus) if math.gcd(r, modulus) == 1 and pow(r, order, modulus) == 1]
        steps = [j for j in range(1, order + 1) if math.gcd(j, order) == 1]
        twists = sorted({min(pow(r, j, modulus) for j in steps) for r in units})
        found += [SemidirectGroup(modulus, order, twist) for twist in twists]
    return found
