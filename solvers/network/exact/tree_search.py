"""Branch and bound over the links of one server after another; what closes a node is kept, so that others can check it.

At a node the first servers have their links, all others may have fractions of links: a linear program. Its duals, the
lengths of pairs and the prices of interfaces, bound lambda at this node and, being valid anywhere, at many others,
which then need no program of their own (a pool of cuts; `topoopt.core.network` says what a checker makes of them).
They are rounded to integers, as coarsely as still closes the node.

The bound aimed at falls where a better network is found, and what was closed before stays closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from solvers.network.exact.routed import Counts, route
from solvers.network.exact.space import Space
from solvers.network.exact.tree_nodes import LinkChoices, Node
from solvers.network.exact.tree_pool import MultiplierPool
from solvers.network.exact.tree_relaxation import LinkRelaxation
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.network import MOST_CASES, MOST_CHOICES, MOST_WORK, LinkTree
from topoopt.core.proofs import StopReason

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
        programs: solved.
    """

    counts: Counts | None
    bound: float
    proof: LinkTree | None
    stopped_by: StopReason
    programs: int

    @property
    def work(self) -> int:
        """What was done, as a count."""
        return self.programs


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
            found, lengths, prices = relaxation.solve(node)
            if complete and found < best[0] * (1 - AIM):
                routed = route(choices.demand, node.links)  # the program may leave small demands undelivered
                if routed is not None and routed.theta < best[0]:
                    best = routed.theta, choices.named(node.links)
                    pool.lower(min(pool.aim, routed.theta * (1 - AIM)))
            if complete and not _close(pool, node, lengths, prices):
                return TreeOutcome(best[1], 0.0, None, StopReason.ERROR, programs)
            if complete:
                continue
            if found >= pool.aim and pool.add(node, lengths, prices) == inf:
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
    rows_in_all = sum(len(each) for each in choices.rows)
    if len(needed) > MOST_CASES or rows_in_all * len(needed) > MOST_CHOICES or nodes * len(needed) > MOST_WORK // 2:
        return None
    place = np.argsort(choices.order)
    tables = np.array([pool.tables[k][np.ix_(place, place)] for k in needed], dtype=np.int64)
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
