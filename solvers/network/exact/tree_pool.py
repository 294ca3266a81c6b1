"""Multipliers that close nodes of the tree over the links, in integers, and where they do."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import numpy as np

from solvers.network.exact.tree_nodes import LinkChoices, Node
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.network import LARGEST_MULTIPLIER

DIGITS = (6, 9, 12, 16, 22, 30, 39)
"""Bits of the largest length, the fewest that close a node being taken."""


class MultiplierPool:
    """Lengths of pairs with prices of interfaces; `aim` is the bound on theta that leaves prove."""

    def __init__(self, choices: LinkChoices, aim: float) -> None:
        self.choices = choices
        self.tables: list[Ints] = []
        self.aim = aim
        exact = [[Fraction(value) for value in row] for row in choices.demand.tolist()]
        self._unit = max(value.denominator for row in exact for value in row)
        self._demand = np.array([[int(value * self._unit) for value in row] for row in exact], dtype=object)
        self._carried: list[int] = []
        room = 64
        self._limit = np.zeros(room, dtype=np.int64)
        self._constant = np.zeros(room, dtype=np.int64)
        self._worth = [np.zeros((room, len(rows)), dtype=np.int64) for rows in choices.rows]
        self._rest = np.zeros((choices.n + 1, room), dtype=np.int64)

    def lower(self, aim: float) -> None:
        """Aim at a lower bound; what was closed stays closed."""
        self.aim = aim
        for at, carried in enumerate(self._carried):
            self._limit[at] = self._limit_of(carried)

    def _limit_of(self, carried: int) -> int:
        if not carried:  # says nothing of lambda
            return -1
        return 0 if self.aim == inf else min(2**62, int(carried / (Fraction(self.aim) * self._unit)))

    def closing(self, node: Node, since: int = 0) -> Bools:
        """bool[k]: which of the multipliers, those from number `since` on, close a node."""
        return np.asarray(self._most(node, since) <= self._limit[since : len(self.tables)])

    def closing_children(self, node: Node, rows: Ints) -> Bools:
        """bool[c, k]: which close the children of a node by these choices of the next server."""
        count = len(self.tables)
        worth = self._worth[node.chosen][:count]
        after = self._most(node) - self._rest[node.chosen, :count] + self._rest[node.chosen + 1, :count]
        return np.asarray(after[:, None] + worth[:, rows] <= self._limit[:count, None]).T

    def _most(self, node: Node, since: int = 0) -> Ints:
        count = len(self.tables)
        most = self._constant[since:count] + self._rest[node.chosen, since:count]
        for server, row in enumerate(node.rows):
            most = most + self._worth[server][since:count, row]
        return np.asarray(most)

    def add(self, node: Node, lengths: Floats, prices: Floats) -> float:
        """Keep multipliers that close a node; whether they do or not, the bound on theta that they prove there."""
        proven = 0.0
        for bits in DIGITS:
            table = self._rounded(lengths, prices, 2**bits)
            carried, most, worth = self._evaluated(node, table)
            if most <= self._limit_of(carried):
                self._keep(table, carried, worth)
                return inf
            if most > 0:
                proven = max(proven, float(Fraction(carried, self._unit * most)) * (1 - 2**-50))
        return proven

    def _rounded(self, lengths: Floats, prices: Floats, most: int) -> Ints:
        scale = most / max(float(lengths.max()), 1e-300)
        table = np.rint(lengths * scale).astype(np.int64)
        np.fill_diagonal(table, np.minimum(np.rint(prices * scale), LARGEST_MULTIPLIER).astype(np.int64))
        return table

    def _evaluated(self, node: Node, table: Ints) -> tuple[int, int, list[Ints]]:
        """sum of demand times distance, bound on the links' lengths at the node, and what every choice is worth."""
        n, prices = len(table), table.diagonal()
        lengths = table - np.diag(prices)
        far = lengths.copy()
        for k in range(n):
            np.minimum(far, far[:, k, None] + far[None, k], out=far)
        carried = int((far.astype(object) * self._demand).sum())
        value = lengths - prices[None]
        if self.choices.both:
            value = value + lengths.T - prices[:, None]
        worth = [rows @ value[server] for server, rows in enumerate(self.choices.rows)]
        most = self.choices.degree * int(prices.sum())
        most += sum(int(worth[server][row]) for server, row in enumerate(node.rows))
        most += sum(int(worth[server].max()) for server in range(node.chosen, n))
        return carried, most, worth

    def _keep(self, table: Ints, carried: int, worth: list[Ints]) -> None:
        at = len(self.tables)
        if at == len(self._limit):
            self._limit, self._constant = np.tile(self._limit, 2), np.tile(self._constant, 2)
            self._worth = [np.tile(each, (2, 1)) for each in self._worth]
            self._rest = np.tile(self._rest, (1, 2))
        self.tables.append(table)
        self._carried.append(carried)
        self._limit[at] = self._limit_of(carried)
        self._constant[at] = self.choices.degree * int(table.diagonal().sum())
        for server, each in enumerate(worth):
            self._worth[server][at] = each
        best = np.array([each.max() for each in worth])
        self._rest[:-1, at] = best[::-1].cumsum()[::-1]
