"""Nodes of the tree over the links of one server after another, and which choices they leave.

Networks to which an allowed link can be added are left out: with it they carry as much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.network.exact.routed import Counts, hop_distances
from solvers.network.exact.space import Space
from topoopt.core.arrays import Bools, Ints
from topoopt.core.errors import Problem

MOST_SERVERS = 10
"""Beyond, the tree is larger than others could check, but for the plainest problems."""

MOST_ROWS = 50_000
"""Choices of links, of all servers."""


def too_many_choices(space: Space) -> list[Problem]:
    """Why branch and bound is not for a problem; empty if it is."""
    n, degree, most = space.problem.servers, space.problem.degree, space.most_links
    if n > MOST_SERVERS:
        return [
            Problem("too many servers for branch and bound", path="servers", value=str(n), allowed=f"<= {MOST_SERVERS}")
        ]
    rows = 0
    for server in range(n):
        ways = np.zeros(degree + 1, dtype=np.int64)  # choices by links taken
        ways[0] = 1
        for _ in range(int(space.allowed[server].sum())):
            ways = np.array([ways[max(0, links - most) : links + 1].sum() for links in range(degree + 1)])
        rows += int(ways.sum())
    if rows <= MOST_ROWS:
        return []
    return [Problem("too many interfaces for branch and bound", path="degree", value=str(degree), allowed="fewer")]


@dataclass(frozen=True, eq=False)
class Node:
    """The first servers have chosen.

    Attributes:
        rows: index of the choice of each.
        links: int64[n, n], servers by place in the order; 0 where not chosen.
        lost: links of the network as it stands that are given up.
    """

    rows: tuple[int, ...]
    links: Counts
    lost: int

    @property
    def chosen(self) -> int:
        """How many servers have chosen."""
        return len(self.rows)


class LinkChoices:
    """What every server may choose, the busiest server first; for problems without `too_many_choices`."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.n, self.degree, self.both = space.problem.servers, space.problem.degree, space.bidirectional
        traffic = space.demand.sum(axis=0) + space.demand.sum(axis=1)
        self.order: Ints = np.argsort(-traffic, kind="stable")
        place = np.ix_(self.order, self.order)
        self.demand, self.allowed = space.demand[place], space.allowed[place]
        self.kept = None if space.kept is None else space.kept[place]
        self.rows = [self._rows(server) for server in range(self.n)]

    def _rows(self, server: int) -> Ints:
        """int64[o, n], choices with many links first."""
        found: list[list[int]] = []
        heads = [j for j in range(server + 1 if self.both else 0, self.n) if self.allowed[server, j]]
        row = [0] * self.n

        def fill(at: int, left: int) -> None:
            if at == len(heads):
                found.append(row.copy())
                return
            for links in range(min(left, self.space.most_links), -1, -1):
                row[heads[at]] = links
                fill(at + 1, left - links)
            row[heads[at]] = 0

        fill(0, self.degree)
        return np.array(found, dtype=np.int64)

    def root(self) -> Node:
        """Nobody has chosen."""
        return Node((), np.zeros((self.n, self.n), dtype=np.int64), 0)

    def fitting(self, node: Node) -> Ints:
        """int64[c]: choices of the next server that fit the interfaces left, and the links that must stay."""
        server, rows = node.chosen, self.rows[node.chosen]
        received = node.links.sum(axis=0)
        fits = (received + rows <= self.degree).all(axis=1)
        if self.both:
            fits &= received[server] + rows.sum(axis=1) <= self.degree
        if self.kept is not None:
            fits &= node.lost + self._lost(server, rows) <= (self.space.problem.max_changed or 0)
        return np.flatnonzero(fits)

    def _lost(self, server: int, rows: Ints) -> Ints:
        if self.kept is None:
            return np.zeros(len(rows), dtype=np.int64)
        given_up = np.maximum(self.kept[server] - rows, 0)
        return np.asarray(given_up[:, server + 1 if self.both else 0 :].sum(axis=1))

    def children(self, node: Node, rows: Ints) -> list[Node]:
        """Those of the choices of the next server that may lead to a network of interest."""
        server, chosen = node.chosen, self.rows[node.chosen][rows]
        links = np.repeat(node.links[None], len(rows), axis=0)
        links[:, server] += chosen
        if self.both:
            links[:, :, server] += chosen
        lost = node.lost + self._lost(server, chosen)
        good = np.flatnonzero(self._possible(server + 1, links))
        return [Node((*node.rows, int(rows[k])), links[k], int(lost[k])) for k in good.tolist()]

    def undecided(self, chosen: int) -> Bools:
        """bool[n, n]: pairs whose links are not chosen yet."""
        later = np.arange(self.n) >= chosen
        return np.asarray(self.allowed & (later[:, None] & later[None] if self.both else later[:, None]))

    def _possible(self, chosen: int, links: Counts) -> Bools:
        """bool[c]: False where all networks break the hop limit, or have room for one more allowed link."""
        open_pairs = self.undecided(chosen)
        sent, received = links.sum(axis=2), links.sum(axis=1)
        most = received + self.space.most_links * open_pairs.sum(axis=0)
        room = (self.allowed & ~open_pairs)[None, :chosen] & (links[:, :chosen] < self.space.most_links)
        room &= (sent < self.degree)[:, :chosen, None] & (most < self.degree)[:, None, :]
        possible = ~room.any(axis=(1, 2))
        limit = self.space.problem.max_hops
        if limit is not None:
            far = [hop_distances(each + open_pairs).max() for each in links]
            possible &= np.array(far, dtype=np.float64) <= limit
        return np.asarray(possible)

    def named(self, links: Counts) -> Counts:
        """int64[n, n] links by the names of the servers."""
        named = np.zeros_like(links)
        named[np.ix_(self.order, self.order)] = links
        return named
