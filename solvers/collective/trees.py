"""Trees that reach the best rate of any network, switches included (ForestColl, arXiv 2402.06787).

Switches are split off first. Joining gamma units of u -> w and w -> t into u -> t keeps a set of nodes A able to send
what it must unless A holds u and t but not w, or w but neither u nor t; gamma is what such cuts can spare (edge
splitting that keeps all flows from a super source, as in ForestColl, arXiv 2402.06787, section on switches). What is in
balance at a switch can be joined wholly (Bang-Jensen, Frank and Jackson 1995), so some order of pairs always works.

Then trees are packed (Edmonds 1973). Trees are grown an arc at a time; an arc may join a tree as often as the rest of
the network can spare it (Lovasz 1976; for batches of equal trees: Berczi and Frank 2010; Schrijver, Combinatorial
Optimization, section 53.5). Any order of arcs is valid: all trees grow in turns, from their shallowest nodes, so that
they stay flat. An arc that cannot be spared once never can be again: what keeps it is a set of nodes into which nothing
is left over, and nothing ever comes back.

Trees of an AllReduce use roots unequally, by the shares that linear programming gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd

import numpy as np

from solvers.collective.limits import AllReduceRate, FlowNetwork, TreesDoNotFitError
from solvers.stop import BestFirst
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.rated_network import RatedNetwork

Arc = tuple[int, int]
Path = tuple[int, ...]


def without_switches(
    nodes: int, switches: Ints, capacity: Mapping[Arc, int], roots: Mapping[int, int]
) -> tuple[dict[Arc, int], dict[Arc, dict[Path, int]]]:
    """Take all switches out.

    Args:
        nodes: V.
        switches: int64, which of them.
        capacity: of every arc, whole numbers, in balance at switches.
        roots: how much every rank must be able to send to each other at once (trees rooted there).

    Returns:
        The capacity of each arc between ranks; and its paths (nodes, both ends included) with how many units each
        stands for.

    Raises:
        TreesDoNotFitError: not in balance, or roots that the capacities do not carry.
    """
    split = _Splitting(nodes, dict(capacity), dict(roots))
    ranks = set(roots)
    near = {switch: sum(tail in ranks for tail, head in capacity if head == switch) for switch in switches.tolist()}
    for switch in sorted(near, key=lambda node: (near[node] > 0, -near[node], node)):
        split.remove(switch)
    left = {arc: units for arc, units in split.capacity.items() if units > 0}
    return left, {arc: split.paths[arc] for arc in left}


class _Splitting:
    def __init__(self, nodes: int, capacity: dict[Arc, int], roots: dict[int, int]) -> None:
        self.nodes, self.capacity, self.roots = nodes, capacity, roots
        self.total = sum(roots.values())
        self.large = self.total + sum(capacity.values()) + 1
        self.paths: dict[Arc, dict[Path, int]] = {arc: {arc: units} for arc, units in capacity.items()}
        self.index = {arc: index for index, arc in enumerate(capacity)}
        self.ends = np.array([*capacity, *((nodes, rank) for rank in roots)], dtype=np.int32)
        self.residual = np.array([*capacity.values(), *roots.values()], dtype=np.int64)  # `capacity`, then roots

    def remove(self, switch: int) -> None:
        """Join all links of a switch: first an equal part of each out with many in, then what is left."""
        loss = [
            units if end == switch else -units for (tail, end), units in self.capacity.items() if switch in (tail, end)
        ]
        if sum(loss):
            raise TreesDoNotFitError(f"links of switch {switch} are not in balance")
        into = [tail for tail, end in sorted(self.capacity) if end == switch and self.capacity[tail, end] > 0]
        out = [end for tail, end in sorted(self.capacity) if tail == switch and self.capacity[tail, end] > 0]
        for index, head in enumerate(out):
            spread = [tail for tail in self._order(into, switch, index, head) if tail != head][:16]
            part = -(-self.capacity[switch, head] // max(len(spread), 1))
            for tail in spread:
                self._join_some(tail, switch, head, part)
        for index, head in enumerate(out):
            while self.capacity[switch, head]:
                before = self.capacity[switch, head]
                for tail in self._order(into, switch, index, head):
                    self._join_some(tail, switch, head, before)
                if self.capacity[switch, head] == before:
                    raise TreesDoNotFitError(f"links of switch {switch} carry less than the roots need")

    def _order(self, into: list[int], switch: int, index: int, head: int) -> list[int]:
        """Tails for a head: those without another way to it first, in turns that differ from head to head.

        A link back to where it came from is lost: last of all.
        """
        feeding = {tail for (tail, end), units in self.capacity.items() if end == head and units and tail != switch}
        beyond = feeding - self.roots.keys()
        feeding |= {tail for (tail, end), units in self.capacity.items() if end in beyond and units}
        start = (index + 1) % len(into)
        return sorted([*into[start:], *into[:start]], key=lambda tail: (tail == head, tail in feeding))

    def _join_some(self, tail: int, switch: int, head: int, most: int) -> None:
        most = min(most, self.capacity.get((tail, switch), 0), self.capacity.get((switch, head), 0))
        units = min(most, self.spare(tail, switch, head)) if most else 0
        if units:
            self.join(tail, switch, head, units)

    def spare(self, tail: int, switch: int, head: int) -> int:
        """Units of tail -> switch -> head that may be joined."""
        most = min(self.capacity.get((tail, switch), 0), self.capacity.get((switch, head), 0))
        if most == 0:
            return 0
        source = self.nodes
        if {tail, head} & self.roots.keys():
            most = min(most, self._flow(switch, head, [(switch, source), (tail, head)])[0] - self.total)
        else:
            for rank in self.roots:
                if most > 0:
                    forced = [(switch, source), (tail, head), (rank, head)]
                    most = min(most, self._flow(switch, head, forced)[0] - self.total)
        if most <= 0:
            return 0
        forced = [(tail, source), (tail, head)]
        value, beyond = self._flow(tail, switch, forced)
        if value - self.total >= most:
            return most
        others = [rank for rank in self.roots if rank not in (tail, head)]
        if any(beyond[rank] for rank in others):  # the least cut has a rank beyond it as it is
            return max(value - self.total, 0)
        for rank in others:
            if most > 0:
                most = min(most, self._flow(tail, switch, [*forced, (rank, switch)])[0] - self.total)
        return max(most, 0)

    def _flow(self, source: int, sink: int, forced: list[Arc]) -> tuple[int, np.ndarray]:
        """Maximum flow with some arcs without limit, and which nodes are beyond its least cut."""
        wide = [arc for arc in forced if arc[0] != arc[1]]
        used = np.flatnonzero(self.residual)
        ends = np.concatenate((self.ends[used], np.array(wide, dtype=np.int32).reshape(-1, 2)))
        residual = np.concatenate((self.residual[used], np.full(len(wide), self.large)))
        network = FlowNetwork(self.nodes + 1, ends[:, 0], ends[:, 1], residual)
        value, side = network.cut(source, sink)
        return value, ~side

    def join(self, tail: int, switch: int, head: int, units: int) -> None:
        """Replace units of both links by a link past the switch."""
        first = self._taken((tail, switch), units)
        second = self._taken((switch, head), units)
        if tail == head:
            return
        self._set((tail, head), self.capacity.get((tail, head), 0) + units)
        own = self.paths.setdefault((tail, head), {})
        while first:
            path, some = first[-1]
            onward, more = second[-1]
            both = min(some, more)
            joined = (*path, *onward[1:])
            own[joined] = own.get(joined, 0) + both
            for parts, (kept, count) in ((first, (path, some)), (second, (onward, more))):
                parts.pop()
                if count > both:
                    parts.append((kept, count - both))

    def _set(self, arc: Arc, units: int) -> None:
        self.capacity[arc] = units
        if arc not in self.index:
            self.index[arc] = len(self.residual)
            self.ends = np.concatenate((self.ends, np.array([arc], dtype=np.int32)))
            self.residual = np.append(self.residual, 0)
        self.residual[self.index[arc]] = units

    def _taken(self, arc: Arc, units: int) -> list[tuple[Path, int]]:
        self._set(arc, self.capacity[arc] - units)
        return take(self.paths[arc], units)


def take(paths: dict[Path, int], units: int) -> list[tuple[Path, int]]:
    """Take so many units of paths, in order."""
    taken = []
    for path in list(paths):
        some = min(paths[path], units)
        if some:
            taken.append((path, some))
            units -= some
            paths[path] -= some
            if not paths[path]:
                del paths[path]
        if not units:
            break
    return taken


@dataclass(eq=False)
class TreeBatch:
    """Equal trees.

    Attributes:
        root: where they begin.
        count: how many.
        depth: int64[nodes], of every node; -1 where it is not reached.
        refused: bool[m], arcs that cannot join any more.
        arcs: in the order in which they were added, each from a node that is reached to one that is not.
    """

    root: int
    count: int
    depth: Ints
    refused: Bools
    arcs: tuple[Arc, ...] = ()

    @property
    def height(self) -> int:
        """Arcs of the longest path from the root."""
        return int(self.depth.max())


class _Packing:
    def __init__(self, nodes: int, capacity: Mapping[Arc, int], roots: Mapping[int, int]) -> None:
        ends = sorted(
            (arc for arc, units in capacity.items() if units > 0), key=lambda a: (a[0], (a[1] - a[0]) % nodes)
        )
        self.nodes, self.ranks = nodes, len(roots)
        self.tails, self.heads = np.array(ends, dtype=np.int64).reshape(-1, 2).T
        self.residual = np.array([capacity[arc] for arc in ends], dtype=np.int64)
        self.large = int(self.residual.sum()) + sum(roots.values()) + 1
        self.growing: BestFirst[tuple[int, TreeBatch]] = BestFirst()
        for root, count in sorted(roots.items()):
            if count:
                depth = np.full(nodes, -1, dtype=np.int64)
                depth[root] = 0
                self._wait(0, TreeBatch(root, count, depth, np.zeros(len(ends), dtype=np.bool_)))

    def _wait(self, level: int, batch: TreeBatch) -> None:
        """Those whose next arc is least deep come first, and of those the ones that reach least."""
        self.growing.add(level, (level, batch), len(batch.arcs))

    def packed(self) -> tuple[TreeBatch, ...]:
        """Grow all batches in turns; what must part from a batch grows on its own."""
        done: list[TreeBatch] = []
        while len(self.growing):
            level, batch = self.growing.pop()
            if len(batch.arcs) == self.ranks - 1:
                done.append(batch)
                continue
            arc, depth = self._next(batch)
            if depth > level:
                self._wait(depth, batch)
                continue
            count = self._spare(batch, arc)
            if count < batch.count:
                rest = replace(batch, count=batch.count - count, depth=batch.depth.copy(), refused=batch.refused.copy())
                rest.refused[arc] = True
                self._wait(level, rest)
            if count:
                tail, head = int(self.tails[arc]), int(self.heads[arc])
                batch.count = count
                batch.depth[head] = depth + 1
                batch.arcs += ((tail, head),)
                self.residual[arc] -= count
                self._wait(level, batch)
        return tuple(sorted(done, key=lambda tree: tree.root))

    def _next(self, batch: TreeBatch) -> tuple[int, int]:
        """The arc out of what is reached, from the shallowest nodes and with most room; and the depth of its tail."""
        depth = batch.depth[self.tails]
        open_ = np.flatnonzero((depth >= 0) & (batch.depth[self.heads] < 0) & (self.residual > 0) & ~batch.refused)
        if not len(open_):
            raise TreesDoNotFitError(f"no arc can join the trees of {batch.root}: the capacities do not carry them")
        arc = int(open_[np.argmin(depth[open_] * self.large - self.residual[open_])])
        return arc, int(depth[arc])

    def _spare(self, batch: TreeBatch, arc: int) -> int:
        """How many trees of the batch may take an arc, so that all others can still be grown.

        Every other batch is a node that the tail feeds and that feeds what the batch reaches. Those that reach the head
        already are left out: they would add as much to the flow as to what is due.
        """
        tail, head = int(self.tails[arc]), int(self.heads[arc])
        most = min(batch.count, int(self.residual[arc]))
        others = [other for _, other in self.growing if other.depth[head] < 0]
        counts = np.array([other.count for other in others], dtype=np.int64)
        total = int(counts.sum())
        left = np.flatnonzero(self.residual)
        hubs = np.arange(self.nodes, self.nodes + len(others))
        depths = np.array([other.depth for other in others]).reshape(-1, self.nodes)
        hub, reached = np.nonzero(depths >= 0)
        tails = np.concatenate((self.tails[left], np.full(len(others), tail), hub + self.nodes))
        heads = np.concatenate((self.heads[left], hubs, reached))
        capacity = np.concatenate((self.residual[left], counts, np.full(len(hub), self.large)))
        network = FlowNetwork(self.nodes + len(others), tails.astype(np.int32), heads.astype(np.int32), capacity)
        return max(min(most, network.value(tail, head) - total), 0)


RoutedArc = tuple[int, int, tuple[tuple[Path, int], ...]]
"""Tail and head of an arc of a tree through the switches; its paths, and how many of the trees go that way."""


@dataclass(frozen=True)
class RoutedTrees:
    """Equal trees from one root."""

    root: int
    count: int
    height: int
    arcs: tuple[RoutedArc, ...]


Forest = tuple[RoutedTrees, ...]
"""Trees that reach all ranks."""


def best_scale(network: RatedNetwork, ratio: Fraction) -> tuple[int, Fraction]:
    """Trees per root, and units of a network that stand for one tree, that reach a ratio exactly."""
    shared = gcd(ratio.denominator, *network.units.tolist())
    return ratio.denominator // shared, Fraction(shared, ratio.numerator)


def fixed_scale(network: RatedNetwork, trees: Mapping[int, int]) -> Fraction:
    """Least units of the network per tree for which so many trees from every rank fit, each link rounded down.

    Candidates are the rates of links over whole numbers of trees; bisection over them, a flow from a super source to
    every rank being the test.
    """
    units, most = np.unique(network.units), sum(trees.values())
    counts = np.arange(1, most + 1)
    candidates = sorted({Fraction(int(rate), int(count)) for rate in units for count in counts}, reverse=True)
    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        if carries(network, scaled(network, candidates[middle]), trees):
            high = middle
        else:
            low = middle + 1
    if not carries(network, scaled(network, candidates[low]), trees):
        raise TreesDoNotFitError(f"{most} trees do not fit")
    return candidates[low]


def scaled(network: RatedNetwork, per_tree: Fraction) -> Ints:
    """int64[m], trees that each arc can hold."""
    return network.units * per_tree.denominator // per_tree.numerator


def carries(network: RatedNetwork, capacity: Ints, trees: Mapping[int, int]) -> bool:
    """Whether so many trees from every rank fit into whole capacities, int64[m]."""
    ranks, source = network.ranks, network.nodes
    tails = np.concatenate((network.arcs[:, 0], np.full(len(ranks), source))).astype(np.int32)
    heads = np.concatenate((network.arcs[:, 1], ranks)).astype(np.int32)
    sent = np.array([trees[rank] for rank in ranks.tolist()], dtype=np.int64)
    flow = FlowNetwork(source + 1, tails, heads, np.concatenate((capacity, sent)))
    return all(flow.value(source, int(rank)) >= int(sent.sum()) for rank in ranks)


def forest(network: RatedNetwork, capacity: Ints, trees: Mapping[int, int]) -> Forest:
    """Pack so many trees from every rank into whole capacities, int64[m].

    Raises:
        TreesDoNotFitError: also for switches whose links in and out differ.
    """
    units = {(tail, head): own for (tail, head), own in zip(network.arcs.tolist(), capacity.tolist(), strict=True)}
    between, paths = without_switches(network.nodes, np.flatnonzero(network.is_switch), units, trees)
    batches = _Packing(network.nodes, between, trees).packed()
    return tuple(routed(paths, batch) for batch in batches)


def routed(paths: Mapping[Arc, dict[Path, int]], batch: TreeBatch) -> RoutedTrees:
    """Give every arc of a batch its paths, which are used up."""
    arcs = tuple((tail, head, tuple(take(paths[tail, head], batch.count))) for tail, head in batch.arcs)
    return RoutedTrees(batch.root, batch.count, batch.height, arcs)


ENOUGH = 1e-9
"""Part of the rate that may be lost by rounding to whole trees before finer trees are tried."""


def rooted_trees(network: RatedNetwork, rate: AllReduceRate) -> tuple[Forest, Forest, Fraction] | None:
    """Whole trees that come closest to the shares; None where none fit, or switches would lose their balance.

    Returns:
        Trees up (on the transposed network) and down, as many of both from every rank; and the rate of the vector that
        they reach, in units of the network, where both are in use at once.
    """
    if network.is_switch.any():
        return None
    turned = np.lexsort((network.arcs[:, 0], network.arcs[:, 1]))
    reverse = network.transposed()
    best: tuple[Fraction, int, dict[int, int]] | None = None
    for per_unit in range(1, 64 + 1):
        whole = _floor(rate.roots * per_unit)
        reached = Fraction(int(whole.sum()), per_unit)
        if best is not None and reached <= best[0]:
            continue
        trees = dict(zip(network.ranks.tolist(), whole.tolist(), strict=True))
        down, up = _floor(rate.broadcast * per_unit), _floor(rate.reduce * per_unit)[turned]
        if reached > 0 and carries(network, down, trees) and carries(reverse, up, trees):
            best = reached, per_unit, trees
            if float(reached) >= rate.units * (1 - ENOUGH):
                break
    if best is None:
        return None
    reached, per_unit, trees = best
    down, up = _floor(rate.broadcast * per_unit), _floor(rate.reduce * per_unit)[turned]
    return forest(reverse, up, trees), forest(network, down, trees), reached


def _floor(values: Floats) -> Ints:
    """Rounded down, but for what rounding of the solver took off."""
    return np.floor(values + 1e-7).astype(np.int64)
