"""Branch and bound over the links of one server after another closes its nodes by multipliers that others can check.

Nodes of the tree over the links of one server after another, and which choices they leave.

Networks to which an allowed link can be added are left out: with it they carry as much.

Branch and bound over the links of one server after another; what closes a node is kept, so that others can check it.

At a node the first servers have their links, all others may have fractions of links: a linear program. Its duals, the
lengths of pairs and the prices of interfaces, bound lambda at this node and, being valid anywhere, at many others,
which then need no program of their own (a pool of cuts; `topoopt.core.network` says what a checker makes of them).
They are rounded to integers, as coarsely as still closes the node.

The bound aimed at falls where a better network is found, and what was closed before stays closed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf

import numpy as np
from numpy.typing import NDArray

from formulations.joint_topology import JointTopology
from formulations.mixtures import AllReduceTopology, RingGroup, allreduce_topology_arrays
from solvers.backends.highs import load
from solvers.network.space import Counts, Space, distances, hop_distances, route
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.errors import Problem
from topoopt.core.network import LARGEST_MULTIPLIER, MOST_CASES, MOST_CHOICES, MOST_WORK, BlockTree, LinkTree
from topoopt.core.proofs import StopReason

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
        choices = np.zeros(degree + 1, dtype=np.int64)  # choices by links taken
        choices[0] = 1
        for _ in range(int(space.allowed[server].sum())):
            choices = np.array([choices[max(0, links - most) : links + 1].sum() for links in range(degree + 1)])
        rows += int(choices.sum())
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
        return len(self.rows)


class LinkChoices:
    """What every server may choose, the busiest server first; for problems without `too_many_choices`."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.n, self.degree, self.both = space.problem.servers, space.problem.degree, space.bidirectional
        traffic = space.demand.sum(axis=0) + space.demand.sum(axis=1)
        self.order: Ints = np.argsort(-traffic, kind="stable")
        grid = np.ix_(self.order, self.order)
        self.demand, self.allowed = space.demand[grid], space.allowed[grid]
        self.kept = None if space.kept is None else space.kept[grid]
        self.rows = [self._rows(server) for server in range(self.n)]

    def _rows(self, server: int) -> Ints:
        """int64[o, n], choices with many links first."""
        rows: list[list[int]] = []
        heads = [j for j in range(server + 1 if self.both else 0, self.n) if self.allowed[server, j]]
        row = [0] * self.n

        def fill(at: int, left: int) -> None:
            if at == len(heads):
                rows.append(row.copy())
                return
            for links in range(min(left, self.space.most_links), -1, -1):
                row[heads[at]] = links
                fill(at + 1, left - links)
            row[heads[at]] = 0

        fill(0, self.degree)
        return np.array(rows, dtype=np.int64)

    def root(self) -> Node:
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
        free = (self.allowed & ~open_pairs)[None, :chosen] & (links[:, :chosen] < self.space.most_links)
        free &= (sent < self.degree)[:, :chosen, None] & (most < self.degree)[:, None, :]
        possible = ~free.any(axis=(1, 2))
        limit = self.space.problem.max_hops
        if limit is not None:
            far = [hop_distances(link_row + open_pairs).max() for link_row in links]
            possible &= np.array(far, dtype=np.float64) <= limit
        return np.asarray(possible)

    def named(self, links: Counts) -> Counts:
        """int64[n, n] links by the names of the servers."""
        named = np.zeros_like(links)
        named[np.ix_(self.order, self.order)] = links
        return named


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
        capacity = 64
        self._limit = np.zeros(capacity, dtype=np.int64)
        self._constant = np.zeros(capacity, dtype=np.int64)
        self._reduced = [np.zeros((capacity, len(rows)), dtype=np.int64) for rows in choices.rows]
        self._rest = np.zeros((choices.n + 1, capacity), dtype=np.int64)

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
        reduced = self._reduced[node.chosen][:count]
        after = self._most(node) - self._rest[node.chosen, :count] + self._rest[node.chosen + 1, :count]
        return np.asarray(after[:, None] + reduced[:, rows] <= self._limit[:count, None]).T

    def _most(self, node: Node, since: int = 0) -> Ints:
        count = len(self.tables)
        most = self._constant[since:count] + self._rest[node.chosen, since:count]
        for server, row in enumerate(node.rows):
            most = most + self._reduced[server][since:count, row]
        return np.asarray(most)

    def add(self, node: Node, lengths: Floats, prices: Floats) -> float:
        """Keep multipliers that close a node; whether they do or not, the bound on theta that they prove there."""
        proven = 0.0
        for bits in DIGITS:
            table = self._rounded(lengths, prices, 2**bits)
            carried, most, reduced = self._evaluated(node, table)
            if most <= self._limit_of(carried):
                self._keep(table, carried, reduced)
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
        reduced = [rows @ value[server] for server, rows in enumerate(self.choices.rows)]
        most = self.choices.degree * int(prices.sum())
        most += sum(int(reduced[server][row]) for server, row in enumerate(node.rows))
        most += sum(int(reduced[server].max()) for server in range(node.chosen, n))
        return carried, most, reduced

    def _keep(self, table: Ints, carried: int, reduced: list[Ints]) -> None:
        at = len(self.tables)
        if at == len(self._limit):
            self._limit, self._constant = np.tile(self._limit, 2), np.tile(self._constant, 2)
            self._reduced = [np.tile(values, (2, 1)) for values in self._reduced]
            self._rest = np.tile(self._rest, (1, 2))
        self.tables.append(table)
        self._carried.append(carried)
        self._limit[at] = self._limit_of(carried)
        self._constant[at] = self.choices.degree * int(table.diagonal().sum())
        for server, values in enumerate(reduced):
            self._reduced[server][at] = values
        best = np.array([values.max() for values in reduced])
        self._rest[:-1, at] = best[::-1].cumsum()[::-1]


class LinkRelaxation:
    """The program of links and routing in which some servers have their links and all others may have fractions.

    Args:
        choices: whose demand is carried.
        groups: AllReduce groups of volume 1 by place in the order, with all their orders; what they send, and another
            demand, is said by `carry`.
    """

    def __init__(self, choices: LinkChoices, groups: tuple[RingGroup, ...] = ()) -> None:
        import highspy

        self._choices = choices
        self._scale = float(choices.demand.sum()) / choices.n
        data = JointTopology(
            servers=choices.n,
            degree=choices.degree,
            bidirectional=choices.both,
            demand=choices.demand / self._scale,
            allowed=choices.allowed,
            most_links=choices.space.most_links,
            senders=tuple(range(choices.n)) if groups else (),
        )
        program = replace(allreduce_topology_arrays(AllReduceTopology(data, groups)), integer=None)
        assert program.row_names is not None
        rows = {name: row for row, name in enumerate(program.row_names)}
        self._deliver = {(s, v): rows[f"deliver_{s}_{v}"] for s in data.sources for v in range(choices.n) if v != s}
        self._mix = [rows[f"mix_{g}"] for g in range(len(groups))]
        self._arcs = np.array(data.arcs, dtype=np.int64).reshape(-1, 2)
        self._capacity = [rows[f"capacity_{i}_{j}"] for i, j in data.arcs]
        self._interfaces = [rows[f"{'out' if choices.both else 'in'}_degree_{i}"] for i in range(choices.n)]
        self._columns = np.arange(1, 1 + len(data.arcs), dtype=np.int32)
        self._solver = highspy.Highs()
        for option, value in {"output_flag": False, "threads": 1, "presolve": "off", "solver": "simplex"}.items():
            self._solver.setOptionValue(option, value)
        load(self._solver, program)

    def carry(self, demand: Floats, volumes: Floats) -> None:
        """Another demand, float64[n, n], and what a member of each group sends, float64[groups], in units of a link."""
        self._scale = float(demand.sum() + volumes.sum()) / self._choices.n
        for pair, row in self._deliver.items():
            self._solver.changeCoeff(row, 0, -float(demand[pair]) / self._scale)
        for row, volume in zip(self._mix, volumes.tolist(), strict=True):
            self._solver.changeCoeff(row, 0, -volume / self._scale)

    def solve(self, node: Node) -> tuple[float, Floats, Floats]:
        """Least theta at a node (0 if the solver fails), with lengths float64[n, n] and prices float64[n]."""
        import highspy

        n, (tails, heads) = self._choices.n, self._arcs.T
        open_arcs = self._choices.undecided(node.chosen)[tails, heads]
        links = node.links[tails, heads].astype(np.float64)
        upper = np.where(open_arcs, float(self._choices.space.most_links), links)
        self._solver.changeColsBounds(len(self._columns), self._columns, np.where(open_arcs, 0.0, links), upper)
        self._solver.run()
        lengths, prices = np.zeros((n, n)), np.zeros(n)
        solution = self._solver.getSolution()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal or not solution.dual_valid:
            return 0.0, lengths, prices
        dual = np.array(solution.row_dual)
        # A pair that may have no link may be as far apart as all lengths together.
        full = np.where(self._choices.allowed, 0.0, np.inf)
        full[tails, heads] = np.maximum(-dual[self._capacity], 0.0)
        far = distances(full)
        lengths = np.where(np.isfinite(far), far, 1.0 + float(far[np.isfinite(far)].sum()))
        prices = np.maximum(-dual[self._interfaces], 0.0)
        throughput = -float(self._solver.getInfo().objective_function_value)
        return self._scale / throughput if throughput > 1e-12 else inf, lengths, prices


MOST_PROGRAMS = 6_000
"""Linear programs solved before the search is given up: a count, so that results do not depend on the machine."""

MOST_NODES = 100_000
"""Nodes looked at."""

AIM = 1e-12
"""Part of theta by which the bound aimed at stays below it, for rounding."""


@dataclass(frozen=True, eq=False)
class TreeOutcome:
    """What branch and bound found.

    Attributes:
        counts: int64[n, n], a network that is better than what was known; None where there is none.
        bound: on theta over all networks allowed, infinite if there are none; 0 if the search ended early.
        proof: of that bound; None if there is none, or it is larger than a checker takes.
        stopped_by: why it ended.
        work: programs solved, or nodes looked at.
    """

    counts: Counts | None
    bound: float
    proof: LinkTree | BlockTree | None
    stopped_by: StopReason
    work: int


def search_tree(space: Space, theta: float, stop: Stop, *, most_programs: int = MOST_PROGRAMS) -> TreeOutcome:
    """Prove that no network is better than `theta` (infinite: none is known), or find the best one."""
    choices = LinkChoices(space)
    pool = MultiplierPool(choices, theta * (1 - AIM))
    relaxation = LinkRelaxation(choices)
    best: tuple[float, Counts | None] = (theta, None)
    stack, programs, nodes = [(choices.root(), 0)], 0, 0
    while stack:
        node, seen = stack.pop()
        if pool.closing(node, seen).any():
            continue
        nodes += 1
        spent = programs >= most_programs or nodes >= MOST_NODES
        reason = stop.reason() or (StopReason.BUDGET if spent else None)
        if reason is not None:
            return TreeOutcome(best[1], 0.0, None, reason, programs)
        complete = node.chosen == choices.n
        if complete or pool.aim < inf:
            programs += 1
            bound, lengths, prices = relaxation.solve(node)
            if complete and bound < best[0] * (1 - AIM):
                routed = route(choices.demand, node.links)  # the program may leave small demands undelivered
                if routed is not None and routed.theta < best[0]:
                    best = routed.theta, choices.named(node.links)
                    pool.lower(min(pool.aim, routed.theta * (1 - AIM)))
            if complete and not _close(pool, node, lengths, prices):
                return TreeOutcome(best[1], 0.0, None, StopReason.ERROR, programs)
            if complete:
                continue
            if bound >= pool.aim and pool.add(node, lengths, prices) == inf:
                continue
        rows = choices.fitting(node)
        rows = rows[~pool.closing_children(node, rows).any(axis=1)]
        stack += [(child, len(pool.tables)) for child in reversed(choices.children(node, rows))]
    if best[0] == inf:
        return TreeOutcome(None, inf, None, StopReason.CONVERGED, programs)
    return TreeOutcome(best[1], pool.aim, _proof(choices, pool, stop), StopReason.CONVERGED, programs)


def _close(pool: MultiplierPool, node: Node, lengths: Floats, prices: Floats) -> bool:
    """Close a network, for a bound that is lowered to what its multipliers prove; False if they prove nothing."""
    proven = pool.add(node, lengths, prices)
    if 0 < proven < inf:
        pool.lower(proven)
        proven = pool.add(node, lengths, prices)
    return proven == inf


def _proof(choices: LinkChoices, pool: MultiplierPool, stop: Stop) -> LinkTree | None:
    """The multipliers that are needed to close every leaf.

    None: time is up, or it is larger than a checker takes.
    """
    root = choices.root()
    leaves, stack, nodes = [], [root], 1
    if pool.closing(root).any():
        leaves, stack = [np.packbits(pool.closing(root))], []
    while stack:
        if stop.reason() is not None:
            return None
        node = stack.pop()
        rows = choices.fitting(node)
        closing = pool.closing_children(node, rows)
        closed = closing.any(axis=1)
        leaves += list(np.packbits(closing[closed], axis=1))
        stack += choices.children(node, rows[~closed])
        nodes += len(rows)
    needed = _covering(np.array(leaves, dtype=np.uint8), len(pool.tables))
    rows_in_all = sum(len(server_rows) for server_rows in choices.rows)
    if len(needed) > MOST_CASES or rows_in_all * len(needed) > MOST_CHOICES or nodes * len(needed) > MOST_WORK // 2:
        return None
    position = np.argsort(choices.order)
    tables = np.array([pool.tables[k][np.ix_(position, position)] for k in needed], dtype=np.int64)
    return LinkTree(choices.order, tables)


def _covering(leaves: NDArray[np.uint8], count: int) -> list[int]:
    """Of `count` multipliers some that close all leaves: always the one that closes most of those left.

    Args:
        leaves: packed bits, a row for each leaf: which multipliers close it.
    """
    left, hits = np.ones(len(leaves), dtype=np.bool_), np.zeros(count, dtype=np.int64)
    for start in range(0, len(leaves), 1000):
        hits += np.unpackbits(leaves[start : start + 1000], axis=1, count=count).sum(axis=0, dtype=np.int64)
    needed = []
    while left.any():
        most = int(np.argmax(hits))
        closed = left & ((leaves[:, most >> 3] >> (7 - (most & 7))) & 1 == 1)
        left &= ~closed
        needed.append(most)
        hits -= np.unpackbits(leaves[closed], axis=1, count=count).sum(axis=0, dtype=np.int64)
    return sorted(needed)
