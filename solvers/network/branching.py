"""The best of all topologies of a few servers comes with a proof: trees over links, bounded by programs or by relay
blocks.

Branch and bound over the links out of one server after another, with the bound by relay blocks at every node.

For directed links, degree 2 and no other constraint. Every node has prices of its own, found by subgradient ascent from
those of its parent (`exact.ascend`). Where they do not close it, it is divided by the links of the server for which
they leave least open; children that the same prices close need nothing of their own. All links of a node known, the
linear program of its routing gives the prices. A network better than the best known is improved by exchanges, and the
search begins anew, as a lower theta closes nodes earlier; so it does after a longer search where the tree is large.

Prices are rounded to few digits before they count, so that what is written down proves what was found
(`topoopt.core.network`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf

import numpy as np

from solvers.network.local import first_network, local_search
from solvers.network.search import search_topology
from solvers.network.space import (
    OPTIMALITY,
    Counts,
    ExactLimits,
    Routed,
    Space,
    TopologyResult,
    distances,
    finish,
    infeasible_hops,
    open_space,
    relaxed_theta,
    route,
    routed,
)
from solvers.network.tree import TreeOutcome, search_tree, too_many_choices
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.errors import InfeasibleError, InputError, LimitError
from topoopt.core.network import DEGREE, LARGEST_PRICE, BlockTree, TopologyProblem
from topoopt.core.proofs import Argument, Bound, StopReason
from topoopt.native import exact


@dataclass(frozen=True, eq=False)
class BlockNode:
    """A node of the tree.

    Attributes:
        rows: int64[n, 2], heads of the links of every server, -1 where it has not chosen.
        into: int64[n, 2], tails of the links chosen that lead to every server, -1 where fewer are known.
        parent: its number; -1 of the root.
        heads: of the links that made it of its parent.
        state: float64[3, n, n], prices, reliefs and shifts to begin with.
    """

    rows: Ints
    into: Ints
    parent: int
    heads: tuple[int, int]
    state: Floats


LEAST_SERVERS, MOST_SERVERS = 8, 10
"""With fewer servers a tree whose nodes share their lengths is found as soon; with more this one is too large."""

AIM = 2e-7
"""Part of theta by which what is proven stays below it, for rounding."""

SURE = 1e-8
"""Part of the sums compared by which a node has to be closed, for rounding elsewhere."""

MOST_NODES = 20_000
"""Nodes looked at before the search is given up: a count, so that results do not depend on the machine."""

FIRST_NODES = 1000
"""Of them, before a longer search for a network that is better: small trees do without."""

_DIGITS = (6, 9, 12, 16, 22, 30)
"""Bits of the mean price, the fewest that close a node."""

_DIVIDING_DIGITS = 9


def covers_blocks(space: Space) -> bool:
    """Whether a problem is one for this search."""
    problem = space.problem
    plain = not problem.forbidden and problem.parallel_links and problem.max_hops is None and space.kept is None
    sizes = LEAST_SERVERS <= problem.servers <= MOST_SERVERS and problem.degree == DEGREE
    return plain and sizes and not space.bidirectional


def search_blocks(
    space: Space, theta: float, stop: Stop, *, seed: int = 0, most_nodes: int = MOST_NODES
) -> TreeOutcome:
    """Prove that no network is better than `theta`, or find the best one.

    Args:
        theta: of a network known, finite.
        seed: of the exchanges that improve networks met.
        most_nodes: looked at before the search is given up.
    """
    best: tuple[float, Counts | None] = (theta, None)
    nodes, searched = 0, False
    while True:
        walk = _Walk(space, best[0] * (1 - AIM), most_nodes - nodes if searched else min(FIRST_NODES, most_nodes))
        reason = walk.run(stop)
        nodes += walk.visited
        if reason is None and walk.better is None:
            return TreeOutcome(best[1], walk.theta, walk.proof(), StopReason.CONVERGED, nodes)
        if walk.better is not None:
            best = _improved(space, best, walk.better, seed, stop)
        elif reason is StopReason.BUDGET and not searched and nodes < most_nodes:
            searched = True
            best = _improved(
                space, best, search_topology(space.problem, seed=seed, stop=stop).topology.adjacency(), seed, stop
            )
        else:
            return TreeOutcome(best[1], 0.0, None, reason or StopReason.ERROR, nodes)


def _improved(
    space: Space, best: tuple[float, Counts | None], candidate: Counts, seed: int, stop: Stop
) -> tuple[float, Counts | None]:
    exchanged = local_search(space, seed, stop, candidate)
    for counts in (candidate, *(() if exchanged is None else (exchanged[0],))):
        routed = route(space.demand, counts)
        if routed is not None and routed.theta < best[0]:
            best = routed.theta, counts
    return best


class _Walk:
    """One walk through the tree, for one theta, in units of which demand has mean 1."""

    def __init__(self, space: Space, theta: float, most_nodes: int) -> None:
        self.n = space.problem.servers
        self.theta, self.most_nodes = theta, most_nodes
        self._unit = float(space.demand.sum()) / (self.n * (self.n - 1))
        self.demand, self.aim = np.ascontiguousarray(space.demand / self._unit), theta / self._unit
        self.nodes: list[BlockNode] = []
        self.prices: list[tuple[int, int, Ints]] = []
        self.visited = 0
        self.better: Counts | None = None

    def add(self, node: BlockNode, server: int, bar: int, state: Ints) -> int:
        """Write a node down with its bar and its prices, int64[3, n, n]; the number of it."""
        self.nodes.append(node)
        self.prices.append((server, bar, state))
        return len(self.nodes) - 1

    def proof(self) -> BlockTree:
        servers, bars, states = zip(*self.prices, strict=True)
        price, relief, shift = np.array(states, dtype=np.int64).transpose(1, 0, 2, 3)
        parent = np.array([node.parent for node in self.nodes], dtype=np.int64)
        heads = np.array([node.heads for node in self.nodes], dtype=np.int64)
        server, bar = np.array(servers, dtype=np.int64), np.array(bars, dtype=np.int64)
        return BlockTree(self.theta, parent, heads, server, bar, price, relief, shift)

    def run(self, stop: Stop) -> StopReason | None:
        """None: a better network was found, or all nodes are closed; else why it ended early."""
        nobody = np.full((self.n, DEGREE), -1, dtype=np.int64)
        state = np.zeros((3, self.n, self.n))
        state[0] = 1.0
        stack = [BlockNode(nobody, nobody, -1, (-1, -1), state)]
        while stack and self.better is None:
            reason = stop.reason() or (StopReason.BUDGET if self.visited >= self.most_nodes else None)
            if reason is not None:
                return reason
            self.visited += 1
            node = stack.pop()
            if (node.rows >= 0).all():
                if not self._routed(node):
                    return StopReason.ERROR
            else:
                stack += self._divided(node)
        return None

    def _divided(self, node: BlockNode) -> list[BlockNode]:
        """Close a node, or divide it; the children, the most promising last."""
        state = node.state.copy()
        iterations = 150 if node.parent >= 0 else 1000
        price, relief, shift = state
        if exact.ascend(self.demand, price, relief, shift, self.aim, node.rows, node.into, iterations) > 0.0:
            for bits in _DIGITS:
                bar, whole = self._rounded(node, state, bits)
                if self._closed(node, bar, whole):
                    return []
        bar, whole = self._rounded(node, state, _DIVIDING_DIGITS)
        _, total, heads, many, values = self._children(node, bar, whole)
        left = values <= SURE * total  # of servers that have chosen already, all are infinite
        cost = np.array([
            sum(exp(max(-700.0, value / 2**_DIVIDING_DIGITS / 3.0)) for value in values[s, left[s]].tolist())
            if node.rows[s, 0] < 0 else inf
            for s in range(self.n)
        ])  # fmt: skip
        server = int(np.argmin(cost))
        number = self.add(node, server, bar, whole)
        open_choices = np.flatnonzero(left[server, : many[server]])
        open_choices = open_choices[np.argsort(-values[server, open_choices], kind="stable")]
        first = server * values.shape[1]
        return [self._child(node, number, server, heads[first + q], state) for q in open_choices.tolist()]

    def _child(self, node: BlockNode, number: int, server: int, heads: Ints, state: Floats) -> BlockNode:
        rows, into = node.rows.copy(), node.into.copy()
        rows[server] = heads
        for head in heads.tolist():
            into[head] = (server, -1) if into[head, 0] < 0 else sorted((into[head, 0], server))
        return BlockNode(rows, into, number, (int(heads[0]), int(heads[1])), state)

    def _rounded(self, node: BlockNode, state: Floats, bits: int) -> tuple[int, Ints]:
        """Bar and int64[3, n, n]; 0 where no network of the node has a link."""
        absent = _absent(node)
        whole = np.rint(np.clip(state * 2.0**bits, -LARGEST_PRICE, LARGEST_PRICE)).astype(np.int64)
        whole[0, absent] = whole[2, absent] = 0
        return int(np.rint(2.0**bits * self.n * float(state[0, ~absent].max(initial=0.0)))), whole

    def _children(self, node: BlockNode, bar: int, whole: Ints) -> tuple[float, float, Ints, Ints, Floats]:
        price, relief, shift = whole.astype(np.float64)
        return exact.children(self.demand, price, relief, shift, bar, self.aim, node.rows, node.into)

    def _closed(self, node: BlockNode, bar: int, whole: Ints) -> bool:
        proven, total = self._children(node, bar, whole)[:2]
        if proven > SURE * total:
            self.add(node, -1, bar, whole)
            return True
        return False

    def _routed(self, node: BlockNode) -> bool:
        """Close a network by the lengths of its links; False if they prove too little. A better one is kept."""
        counts = np.zeros((self.n, self.n), dtype=np.int64)
        np.add.at(counts, (np.repeat(np.arange(self.n), DEGREE), node.rows.ravel()), 1)
        relaxed = relaxed_theta(self.demand, counts)
        if relaxed is not None and relaxed[0] < self.aim:
            self.better = counts
            return True
        here = counts > 0
        for bits in _DIGITS:
            # Where a demand has no path, what it needs costs and nothing else.
            price, bar = np.zeros((self.n, self.n)), 1
            if relaxed is not None:
                price = np.rint(relaxed[2] * (2.0**bits * here.sum() / relaxed[2].sum()))
                bar = int(self.n * price.max())
            lengths = np.where(here, price, float(bar))
            np.fill_diagonal(lengths, 0.0)
            relief = np.maximum(exact.far_lengths(lengths) - distances(lengths), 0.0)
            whole = np.array((price * here, relief, np.zeros((self.n, self.n)))).astype(np.int64)
            if self._closed(node, bar, whole):
                return True
        return False


def _absent(node: BlockNode) -> Bools:
    """bool[n, n]: links that no network of the node has."""
    servers = np.arange(len(node.rows))
    linked = (node.rows[:, :, None] == servers).any(axis=1)
    absent = np.where(node.rows[:, :1] >= 0, ~linked, node.into[:, 1] >= 0)
    return np.asarray(absent | (servers[:, None] == servers), dtype=np.bool_)


NAME = "branch-and-bound"


def solve_branching(problem: TopologyProblem, limits: ExactLimits) -> TopologyResult:
    """Best of all topologies by branch and bound over the links of one server after another (`tree_search`).

    Raises:
        InputError: bad problem, or one with too many servers or choices of links.
        InfeasibleError: no topology satisfies the constraints.
        LimitError: the limit came before any topology was found.
    """
    space = open_space(problem)
    errors = too_many_choices(space)
    if errors:
        raise InputError(errors)
    first = first_network(space, limits)
    if first is not None and first[1].theta <= space.bound.value * (1 + OPTIMALITY):
        return finish(space, *first, space.bound, StopReason.CONVERGED, NAME, 0)
    return concluded(space, first, branch_and_bound(space, first, limits.stop, limits.seed))


def branch_and_bound(space: Space, first: tuple[Counts, Routed] | None, stop: Stop, seed: int) -> TreeOutcome:
    """By the links around every server where that is quicker, else by one linear program after another."""
    if first is not None and covers_blocks(space):
        return search_blocks(space, first[1].theta, stop, seed=seed)
    return search_tree(space, inf if first is None else first[1].theta, stop)


def concluded(space: Space, first: tuple[Counts, Routed] | None, outcome: TreeOutcome) -> TopologyResult:
    """The result of branch and bound that set out from a network, or from none.

    Raises:
        InfeasibleError: no topology satisfies the constraints.
        LimitError: the limit came before any topology was found.
    """
    best = first if outcome.counts is None else (outcome.counts, routed(space, outcome.counts))
    if best is not None:
        return finish(space, *best, bound_of(outcome), outcome.stopped_by, NAME, outcome.work, proof=outcome.proof)
    if outcome.bound < inf:
        raise LimitError("the limit came before any topology was found")
    if space.problem.max_hops is not None:
        raise InfeasibleError(infeasible_hops(space.problem, "all were tried", None))
    raise InfeasibleError("no allowed topology carries every demand (all were tried)")


def bound_of(outcome: TreeOutcome) -> Bound:
    """What branch and bound proved; claimed, where no checker can be given the proof."""
    if outcome.proof is None:
        return Bound(outcome.bound, Argument.TOPOLOGY_BRANCHING)
    blocks = isinstance(outcome.proof, BlockTree)
    return Bound(outcome.bound, Argument.LINK_BLOCKS if blocks else Argument.LINK_TREE)
