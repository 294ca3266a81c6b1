"""Proof that no plan of a tiny job is faster, by the bulk-synchronous model, than one that is known.

Lengths of ordered pairs of servers bound theta of every strategy on every topology; those of the cuts around single
servers rule out most strategies whatever the links, and for the rest the links of one server after another are chosen
(`topoopt.core.network`): at a node, the strategy that looks fastest gets a linear program of its own, whose duals are
kept if they rule it out, and serve all others; else the node is divided.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.job.allreduce_mix import RingGroup
from formulations.job.joint_plan import JointPlan
from solvers.network.exact.routed import distances
from solvers.network.exact.space import open_space
from solvers.network.exact.tree_nodes import LinkChoices, Node
from solvers.network.exact.tree_relaxation import LinkRelaxation
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import MOST_CASES, LinkTree, TopologyProblem

MOST_STRATEGIES = 20_000
"""Of those that cuts around servers do not rule out."""

MOST_NUMBERS = 5_000_000
"""Strategies at hand times the figures of each, while they are listed: half of what a checker takes."""

MOST_PROGRAMS = 1000
"""Linear programs solved before the proof is given up."""

LARGEST_LENGTH = 2**24
"""Lengths are rounded to whole numbers up to this."""

AIM = 5e-10
"""Part of a time by which a bound to be proven stays below it: `SAFE` twice and more, half of what counts as equal."""

SAFE = 1e-10
"""Relative room that a checker needs for rounding."""


@dataclass(frozen=True, eq=False)
class Strategies:
    """Choices of the first operators, a row each.

    Attributes:
        chosen: int64[y, operators], options.
        load, memory: float64[y, n], of servers, ms and shares.
        moved: float64[y, n, n], transfers; reduced: float64[y, groups], what a member of each sends; ms of a link.
    """

    chosen: Ints
    load: Floats
    memory: Floats
    moved: Floats
    reduced: Floats

    def part(self, which: Ints) -> Strategies:
        """Some of them."""
        load, memory, moved, reduced = (t[which] for t in (self.load, self.memory, self.moved, self.reduced))
        return Strategies(self.chosen[which], load, memory, moved, reduced)

    def carried(self, data: JointPlan, lengths: Floats) -> Floats:
        """float64[y]: transfers times distance, and AllReduces times the shortest ring."""
        far = distances(lengths)
        rings = [
            min((sum(far[a, b] for a, b in zip(r, (*r[1:], r[0]), strict=True)) for r in orders), default=0.0)
            for orders in data.rings
        ]
        return np.asarray(np.einsum("yij,ij->y", self.moved, far) + self.reduced @ np.array(rings))


class JointProof:
    """What is known while the tree is walked."""

    def __init__(self, data: JointPlan, bound_ms: float) -> None:
        n = data.servers
        links = LinkDirection.BIDIRECTIONAL if data.bidirectional else LinkDirection.UNIDIRECTIONAL
        # Servers of a plan reach each other; all look the same here, so that they choose in order.
        problem = TopologyProblem("joint", n, data.degree, links, np.ones((n, n)) - np.eye(n), max_hops=n - 1)
        self.choices = LinkChoices(open_space(problem))
        self.data, self.bound_ms = data, bound_ms
        self.tables: list[Ints] = []
        self.programs = 0
        groups = tuple(RingGroup(tuple(orders[0]), 1.0, orders) for orders in data.rings if orders)
        self.used = [g for g, orders in enumerate(data.rings) if orders]
        self.relaxation = LinkRelaxation(self.choices, groups)

    def longest(self, node: Node, table: Ints) -> int:
        """Length of all links at most."""
        prices = table.diagonal()
        value = table - np.diag(prices) - prices[None]
        if self.data.bidirectional:
            value = value + (table - np.diag(prices)).T - prices[:, None]
        worth = [rows @ value[server] for server, rows in enumerate(self.choices.rows)]
        fixed = sum(int(worth[server][row]) for server, row in enumerate(node.rows))
        rest = sum(int(each.max()) for each in worth[node.chosen :])
        return self.data.degree * int(prices.sum()) + fixed + rest

    def cuts(self) -> list[Ints]:
        """Around every server: all it sends, all it receives."""
        n, found = self.data.servers, []
        for server in range(n):
            out, into = np.zeros((n, n), dtype=np.int64), np.zeros((n, n), dtype=np.int64)
            out[server], into[:, server] = 1, 1
            out[server, server], into[server, server] = int(self.data.bidirectional), 1
            found += [out, into]
        return found


def prove_joint(data: JointPlan, bound_ms: float, stop: Stop) -> LinkTree | None:
    """A proof that no plan takes less than `bound_ms`; None if there is none, or it takes too long or too much room."""
    proof = JointProof(data, bound_ms)
    proof.tables = proof.cuts()
    every = _strategies(proof)
    if every is None:
        return None
    strategies, compute = every
    gap = np.maximum(bound_ms - compute, 0.0) * (1 + SAFE) + SAFE * bound_ms
    carried = [_carried(strategies, data, table) for table in proof.tables]
    stack = [(proof.choices.root(), np.arange(len(compute)))]
    while stack:
        node, open_cases = stack.pop()
        divided = False
        while len(open_cases) and not divided:
            longest = [proof.longest(node, table) for table in proof.tables]
            theta = np.array([s[open_cases] / max(u, 1) for s, u in zip(carried, longest, strict=True)]).max(axis=0)
            still = theta < gap[open_cases]
            open_cases, theta = open_cases[still], theta[still]
            if not len(open_cases):
                break
            if proof.programs >= MOST_PROGRAMS or len(proof.tables) >= MOST_CASES or stop.reason() is not None:
                return None
            worst = int(open_cases[np.argmin(compute[open_cases] + theta)])
            table = _multipliers(proof, node, strategies, worst)
            sums = _carried(strategies, data, table)
            if sums[worst] >= gap[worst] * proof.longest(node, table):
                proof.tables.append(table)
                carried.append(sums)
            elif node.chosen == data.servers:
                return None
            else:
                divided = True
        if divided:
            rows = proof.choices.fitting(node)
            stack += [(child, open_cases) for child in proof.choices.children(node, rows)]
    return LinkTree(np.arange(data.servers), np.array(proof.tables, dtype=np.int64))


def _carried(strategies: Strategies, data: JointPlan, table: Ints) -> Floats:
    return strategies.carried(data, (table - np.diag(table.diagonal())).astype(np.float64))


def _multipliers(proof: JointProof, node: Node, strategies: Strategies, which: int) -> Ints:
    """Lengths and prices from the linear program of a strategy at a node, as whole numbers."""
    proof.programs += 1
    proof.relaxation.carry(strategies.moved[which], strategies.reduced[which][proof.used])
    _, lengths, prices = proof.relaxation.solve(node)
    scale = LARGEST_LENGTH / max(float(lengths.max()), 1e-300)
    table = np.rint(lengths * scale)
    np.fill_diagonal(table, np.minimum(np.rint(prices * scale), LARGEST_LENGTH))
    return table.astype(np.int64)


def _strategies(proof: JointProof) -> tuple[Strategies, Floats] | None:
    """Those that no cut around a server rules out, with their compute time, ms; None: too many."""
    data, n = proof.data, proof.data.servers
    root = proof.choices.root()
    longest = [(table, proof.longest(root, table)) for table in proof.tables]
    known = Strategies(
        np.zeros((1, 0), dtype=np.int64),
        np.zeros((1, n)),
        np.zeros((1, n)),
        np.zeros((1, n, n)),
        np.zeros((1, len(data.rings))),
    )
    for o, options in enumerate(data.options):
        if len(known.load) * len(options) * (n * n + 3 * n + len(longest)) > MOST_NUMBERS:
            return None
        before, choice = np.divmod(np.arange(len(known.load) * len(options)), max(1, len(options)))
        known = known.part(before)
        chosen = np.column_stack((known.chosen, choice))
        moved = known.moved
        for table, (u, v) in zip(data.demand, data.pairs, strict=True):
            if v == o:
                moved = moved + table[chosen[:, u], choice]
        sent = np.array([[option.reduced.get(g, 0.0) for g in range(len(data.rings))] for option in options])
        known = Strategies(
            chosen,
            known.load + np.array([option.load for option in options])[choice],
            known.memory + np.array([option.memory for option in options])[choice],
            moved,
            known.reduced + sent[choice],
        )
        theta = np.max([_carried(known, data, table) / most for table, most in longest], axis=0)
        good = known.load.max(axis=1) + theta < proof.bound_ms * (1 + SAFE)
        if data.memory_limited:
            good &= known.memory.max(axis=1) <= 1.0
        known = known.part(np.flatnonzero(good))
    compute = np.maximum(known.load.max(axis=1, initial=0.0), _chain(data, known.chosen))
    return (known, compute) if len(compute) <= MOST_STRATEGIES else None


def _chain(data: JointPlan, chosen: Ints) -> Floats:
    """float64[y]: the longest chain of parts, forward and back, ms."""
    forward = [np.array([option.forward_ms for option in of])[chosen[:, o]] for o, of in enumerate(data.options)]
    backward = [np.array([option.backward_ms for option in of])[chosen[:, o]] for o, of in enumerate(data.options)]
    first = [np.zeros(len(chosen)) for _ in data.options]
    for u, v in sorted(data.pairs, key=lambda pair: pair[1]):
        first[v] = np.maximum(first[v], first[u] + forward[u])
    turned = [start + own for start, own in zip(first, forward, strict=True)]
    for u, v in sorted(data.pairs, key=lambda pair: -pair[1]):
        turned[u] = np.maximum(turned[u], turned[v] + backward[v])
    return np.asarray(np.max([time + own for time, own in zip(turned, backward, strict=True)], axis=0, initial=0.0))
