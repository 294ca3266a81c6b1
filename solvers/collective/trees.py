"""Trees of the best rate of any network without symmetry: switches are split off one by one, then trees are packed.

At a switch, how much of every link in goes on over every link out is a transport problem. Links in balance can be split
off wholly and keep every cut that the roots need (Bang-Jensen, Frank and Jackson 1995; ForestColl, arXiv 2402.06787);
which split does is guessed, tested on all cuts at once, and repaired: a linear program gets a row for each cut that a
guess broke. A guess costs a flow for each rank, not one for each pair of links. Guesses are vertices, so that few pairs
of links are used. Where whole trees are counted, the programs are in integers.

Then trees are packed (Edmonds 1973). An arc may join a tree as often as the rest of the network can spare it (Lovasz
1976; for batches of equal trees: Berczi and Frank 2010; Schrijver, Combinatorial Optimization, section 53.5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from solvers.collective.limits import TreesDoNotFitError, rank_cuts
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.rated_network import RatedNetwork
from topoopt.native import graph

Arc = tuple[int, int]
Path = tuple[int, ...]
Pieces = list[tuple[Path, int]]
"""Paths with the units that take each; taken from the end."""

MOST_GUESSES = 60
MOST_BATCHES = 200_000

FINE_UNITS = 10**8
"""Units of a shard where trees are not counted: capacities are rounded down to them."""

LOSS = 1e-4
"""Part of the rate that is given up where trees are not counted: for rounding, and for fewer trees."""

WHOLE_SPREAD = 16
"""The same as `SPREAD` where trees are counted."""

SPREAD = 2
"""A link goes on over so many others at least: trees are flatter."""


class _Transport:
    """Most units over pairs of links, subject to cuts; prices are drawn at random, so that vertices are unique."""

    def __init__(self, into: list[Arc], out: list[Arc], switch: int, spread: int, *, whole: bool) -> None:
        import highspy

        self.pairs = [(i, j) for i, (u, _) in enumerate(into) for j, (t, _) in enumerate(out) if u != t]
        self.sides = [np.array(side, dtype=np.int64) for side in zip(*self.pairs, strict=True)]
        self.capacity = [np.array([units for _, units in links], dtype=np.int64) for links in (into, out)]
        self.infinite, self.whole = highspy.kHighsInf, whole
        self.scale = 1.0 if whole else float(max(self.capacity[0].max(), self.capacity[1].max()))
        self.lp = solver = highspy.Highs()
        for name, value in (("output_flag", False), ("threads", 1), ("random_seed", 1), ("presolve", "off")):
            solver.setOptionValue(name, value)
        for side in self.capacity:
            for units in side.tolist():
                solver.addRow(0.0, units / self.scale, 0, np.array([], dtype=np.int32), np.array([]))
        prices = -1.0 - 0.01 * np.random.default_rng(switch).random(len(self.pairs))
        for (i, j), price in zip(self.pairs, prices.tolist(), strict=True):
            most = min(into[i][1], out[j][1]) / self.scale
            if spread:
                share = max(
                    into[i][1] / min(spread, max(len(out) - 1, 1)), out[j][1] / min(spread, max(len(into) - 1, 1))
                )
                most = min(most, (ceil(share) if whole else share) / self.scale)
            rows = np.array([i, len(into) + j], dtype=np.int32)
            solver.addCol(price, 0.0, most, 2, rows, np.ones(2))
        if whole:
            columns = np.arange(len(self.pairs), dtype=np.int32)
            kinds = np.full(len(columns), highspy.HighsVarType.kInteger)
            solver.changeColsIntegrality(len(columns), columns, kinds)
        self.rows: set[tuple[bytes, int]] = set()

    def total(self) -> float:
        self.lp.run()
        return float(sum(self.lp.getSolution().col_value))

    def add(self, short: int, crossing: Bools) -> bool:
        """Add the row of a cut that is short of so many units; whether it is new."""
        columns = np.flatnonzero(crossing).astype(np.int32)
        key = (columns.tobytes(), short)
        if not len(columns) or key in self.rows:
            return False
        self.rows.add(key)
        least = float(short) if self.whole else (short + len(columns)) / self.scale + 1e-7
        self.lp.addRow(least, self.infinite, len(columns), columns, np.ones(len(columns)))
        return True

    def units(self) -> Ints:
        """int64[pairs], a solution in whole units; what the tolerance of the solver added is taken back.

        Raises:
            TreesDoNotFitError: the rows exclude each other.
        """
        import highspy

        self.lp.run()
        if self.lp.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise TreesDoNotFitError("links of a switch carry less than the roots need")
        exact = np.array(self.lp.getSolution().col_value[: len(self.pairs)]) * self.scale
        units: Ints = np.maximum(np.floor(exact + 1e-6), 0).astype(np.int64)
        for side, capacity in zip(self.sides, self.capacity, strict=True):
            carried = np.zeros(len(capacity), dtype=np.int64)
            np.add.at(carried, side, units)
            for link in np.flatnonzero(carried > capacity).tolist():
                excess, own = int(carried[link] - capacity[link]), np.flatnonzero(side == link)
                for pair in own[np.argsort(-units[own], kind="stable")].tolist():
                    less = min(excess, int(units[pair]))
                    units[pair] -= less
                    excess -= less
        return units


class _Splitting:
    """Capacities of arcs, and the paths that each stands for, while switches are split off.

    Attributes:
        need: function from the number of switches that are gone to int64[N], what every rank must be able to send.
        whole: whether units are trees, which are not divided.
    """

    def __init__(
        self, network: RatedNetwork, capacity: Ints, need: Callable[[float], Ints], spread: int, *, whole: bool
    ) -> None:
        self.network, self.need, self.spread, self.whole = network, need, spread, whole
        rows = zip(map(tuple, network.arcs.tolist()), capacity.tolist(), strict=True)
        self.capacity: dict[Arc, int] = {(tail, head): units for (tail, head), units in rows if units > 0}
        self.paths: dict[Arc, Pieces] = {arc: [(arc, units)] for arc, units in self.capacity.items()}
        self.cuts: list[Bools] = []

    def run(self) -> None:
        """Split off all switches, those far from ranks first; what is lost is spent switch by switch."""
        switches = np.flatnonzero(self.network.is_switch).tolist()
        near = dict.fromkeys(switches, 0)
        for tail, head in self.capacity:
            if head in near and not self.network.is_switch[tail]:
                near[head] += 1
        order = sorted(near, key=lambda switch: (near[switch] > 0, near[switch], switch))
        for step, switch in enumerate(order, 1):
            self._remove(switch, self.need(step / len(order)))

    def _remove(self, switch: int, need: Ints) -> None:
        into = [(tail, units) for (tail, head), units in sorted(self.capacity.items()) if head == switch]
        out = [(head, units) for (tail, head), units in sorted(self.capacity.items()) if tail == switch]
        stacks = {arc: self.paths[arc] for arc in self.capacity if switch in arc}
        if any(u != t for u, _ in into for t, _ in out):
            spread = self.spread
            transport = _Transport(into, out, switch, spread, whole=self.whole)
            try:
                if spread and transport.total() < _Transport(into, out, switch, 0, whole=self.whole).total() * (
                    1 - 1e-9
                ):
                    raise TreesDoNotFitError("what is lost now may be missing later")
                units = self._kept(switch, need, transport, into, out)
            except TreesDoNotFitError:
                if not spread:
                    raise
                transport = _Transport(into, out, switch, 0, whole=self.whole)
                units = self._kept(switch, need, transport, into, out)
        else:
            transport, units = None, np.zeros(0, dtype=np.int64)
        for arc in stacks:
            del self.capacity[arc], self.paths[arc]
        for (i, j), amount in zip(transport.pairs if transport else (), units.tolist(), strict=True):
            if amount > 0:
                u, t = into[i][0], out[j][0]
                self.capacity[u, t] = self.capacity.get((u, t), 0) + amount
                first, second = take(stacks[u, switch], amount), take(stacks[switch, t], amount)
                self.paths.setdefault((u, t), []).extend(_end_to_end(first, second))

    def _kept(self, switch: int, need: Ints, transport: _Transport, into: list[Arc], out: list[Arc]) -> Ints:
        """Units of pairs with which every cut keeps what the roots need."""
        remaining = {arc: units for arc, units in self.capacity.items() if switch not in arc}
        tail, head = (np.array([arc[end] for arc in remaining], dtype=np.int64) for end in (0, 1))
        capacity = np.array(list(remaining.values()), dtype=np.int64)
        source = np.array([into[i][0] for i, _ in transport.pairs], dtype=np.int64)
        target = np.array([out[j][0] for _, j in transport.pairs], dtype=np.int64)
        ranks, total = self.network.ranks, int(need.sum())

        def shortage(side: Bools) -> tuple[int, Bools]:
            leaving = int(capacity[side[tail] & ~side[head]].sum())
            return int(need[side[ranks]].sum()) - leaving, side[source] & ~side[target]

        for side in self.cuts:
            short, crossing = shortage(side)
            if short > 0:
                transport.add(short, crossing)
        for _ in range(MOST_GUESSES):
            units = transport.units()
            used = units > 0
            arcs = np.stack((np.concatenate((tail, source[used])), np.concatenate((head, target[used]))), axis=1)
            units_of = np.concatenate((capacity, units[used]))
            value, sides = rank_cuts(self.network.nodes, arcs, units_of, ranks, need, ranks)
            broken = np.flatnonzero(value < total)
            if not len(broken):
                return units
            fresh = False
            for side in {sides[index].tobytes(): sides[index] for index in broken}.values():
                self.cuts.append(side)
                fresh |= transport.add(*shortage(side))
            if not fresh:
                break
        raise TreesDoNotFitError(f"no split of switch {switch} carries what the roots need")


def take(pieces: Pieces, units: int) -> Pieces:
    """Take so many units of paths from the end of a list."""
    taken: Pieces = []
    while units:
        path, amount = pieces.pop()
        some = min(amount, units)
        taken.append((path, some))
        units -= some
        if amount > some:
            pieces.append((path, amount - some))
    return taken


def _end_to_end(first: Pieces, second: Pieces) -> Pieces:
    """Paths of the first list followed by those of the second, which has as many units."""
    joined: Pieces = []
    while first:
        (path, some), (onward, more) = first.pop(), second.pop()
        both = min(some, more)
        joined.append(((*path, *onward[1:]), both))
        if some > both:
            first.append((path, some - both))
        if more > both:
            second.append((onward, more - both))
    return joined


MOST_FLAT_RANKS = 64
"""Ranks up to which all trees grow at once, lowest first: a fourth as high, in two to three times the time."""

MOST_SPREAD_RANKS = 256
"""Ranks up to which trees are made flatter, which costs more programs."""

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
    ranks = network.ranks
    sent = np.array([trees[rank] for rank in ranks.tolist()], dtype=np.int64)
    value, _ = rank_cuts(network.nodes, network.arcs, capacity, ranks, sent, ranks)
    return bool((value >= sent.sum()).all())


def forest(network: RatedNetwork, capacity: Ints, trees: Mapping[int, int]) -> Forest:
    """Pack so many trees from every rank into whole capacities, int64[m].

    Raises:
        TreesDoNotFitError: the capacities, or the links of some switch, do not carry them.
    """
    count = np.array([trees[rank] for rank in network.ranks.tolist()], dtype=np.int64)
    splitting = _Splitting(network, capacity, lambda _: count, WHOLE_SPREAD, whole=True)
    return _packed(splitting, count, flat=True)


def fine_forest(network: RatedNetwork, rates: Floats, sent: Floats, *, flat: bool = False) -> Forest:
    """Pack trees that carry all but `LOSS` of what every rank sends, in shares that are no whole trees.

    Args:
        rates: float64[m], of links.
        sent: float64[N], of ranks, as the links carry it.
        flat: whether trees are made low, which takes longer.

    Raises:
        TreesDoNotFitError: rounding takes more than `LOSS`.
    """
    scale = FINE_UNITS * len(sent) / float(sent.sum())

    def need(part: float) -> Ints:
        units: Ints = (sent * scale * (1 - LOSS * part)).astype(np.int64)
        return units

    spread = SPREAD if len(sent) <= MOST_SPREAD_RANKS else 0
    splitting = _Splitting(network, (rates * scale).astype(np.int64), need, spread, whole=False)
    return _packed(splitting, need(1.0), flat=flat and len(sent) <= MOST_FLAT_RANKS)


def _packed(splitting: _Splitting, count: Ints, *, flat: bool) -> Forest:
    """Split off the switches, pack trees, and give every arc of a batch its paths."""
    splitting.run()
    ranks, arcs = splitting.network.ranks, sorted(splitting.capacity)
    index = np.searchsorted(ranks, np.array(arcs, dtype=np.int64).reshape(-1, 2)).astype(np.int32)
    capacity = np.array([splitting.capacity[arc] for arc in arcs], dtype=np.int64)
    tail, head = (np.ascontiguousarray(row) for row in index.T)
    roots, counts, parents = graph.pack_trees(len(ranks), tail, head, capacity, count, MOST_BATCHES, flat)
    if not len(roots) and count.any():
        raise TreesDoNotFitError("the capacities do not carry the trees")
    return tuple(
        _routed(splitting.paths, ranks, int(root), int(units), parent)
        for root, units, parent in zip(roots, counts, parents, strict=True)
    )


def _routed(paths: Mapping[Arc, Pieces], ranks: Ints, root: int, count: int, parent: Ints) -> RoutedTrees:
    """The arcs of a batch from the root on, and their paths, which are used up."""
    children: dict[int, list[int]] = {}
    for node, above in enumerate(parent.tolist()):
        children.setdefault(above, []).append(node)
    arcs, frontier, height = [], [root], 0
    while frontier:
        following = []
        for node in frontier:
            for child in children.get(node, ()):
                ends = (int(ranks[node]), int(ranks[child]))
                arcs.append((*ends, tuple(take(paths[ends], count))))
                following.append(child)
        frontier, height = following, height + bool(following)
    return RoutedTrees(int(ranks[root]), count, height, tuple(arcs))
