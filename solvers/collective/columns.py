"""Trees (AllGather, AllReduce) and bundles of paths (All-to-All) by column generation over orbits of links.

    maximise  X
    s.t.      sum over columns of w load_a <= rate_a                   every orbit a of links
              sum of w of the columns of o >= share of o               every orbit o of ranks, every direction
              sum over the orbits o of a group of n_o share_o >= s X   where roots are used unequally; else share = d X

With several process groups, s is the vector of a group over that of the first, d what a rank sends over what one of the
first group does.

A column is a tree of a rank of an orbit, or its paths to all others. All images under the symmetries are used alike, so
a tree with c links of an orbit of m links loads each by w (ranks of its orbit) c / m. A tree is priced by a least
arborescence over the shortest paths between ranks through switches (Chu, Liu 1965; Edmonds 1967), a bundle by a tree of
shortest paths. Prices halfway to the best ones so far need fewer rounds (Wentges 1997).

The prices are lengths of links that prove a bound (linear-programming duality). With D the least arborescence from a
root and U the least one to it, every rate is at most the sum of rates times lengths over: the sum of D of all roots
(AllGather), the sum of distances of all pairs (All-to-All), the least D + U of a root (AllReduce); d or s times each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from solvers.collective.symmetry import Symmetry
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.proofs import StopReason
from topoopt.core.rated_network import RatedNetwork
from topoopt.native import graph

if TYPE_CHECKING:
    pass

EXACT_GAP = 1e-9
"""Gap at which the first rounds end."""

EXACT_ROUNDS = 60
SMALL_GAP = 1e-4
"""Gap at which the others do: trees of the last digits are many."""

MOST_ROUNDS = 400
TIE = 1e-5
"""Part of the longest length that is added, drawn at random, to every link: ties go to short paths."""

UNREACHED = 1e9
"""Length in place of infinity, where ranks reach each other through other ranks alone; lengths sum to about 1."""


@dataclass(eq=False)
class Column:
    """What one rank sends, or what is summed at it, with one path for each message, in an order that can be sent.

    Attributes:
        orbit: of its root, an index into the orbits of ranks.
        root: the rank.
        step: int64[k], of every message; 0 for those of the root.
        paths: int64[k, longest], nodes from sender to receiver, then -1.
        load: float64[orbits of arcs], use of a link of each orbit, all images together.
        weight: how much of it is used.
    """

    orbit: int
    root: int
    step: Ints
    paths: Ints
    load: Floats
    weight: float = 0.0


@dataclass(frozen=True, eq=False)
class Packing:
    """What column generation ends with; rates are in units of the network.

    Attributes:
        down: trees from roots, or bundles.
        up: trees to roots, on the transposed network; of an AllReduce alone.
        shares: float64[orbits of ranks], how much a rank of each is the root of.
        rate: of a root, of the vector, or of every ordered pair; those of the first process group.
        bound: upper bound on the rate that the lengths prove, up to rounding.
        lengths: float64[m], of links.
        stopped_by: CONVERGED where rate and bound met.
    """

    down: tuple[Column, ...]
    up: tuple[Column, ...]
    shares: Floats
    rate: float
    bound: float
    lengths: Floats
    stopped_by: StopReason


class _Master:
    """The program; rates are parts of the largest."""

    def __init__(self, symmetry: Symmetry, directions: int, *, unequal: bool) -> None:
        import highspy

        self.symmetry, self.directions = symmetry, directions
        self.columns: list[tuple[int, Column]] = []
        self.count = symmetry.arc_count.astype(np.float64)
        rate = np.zeros(len(self.count))
        rate[symmetry.arc_orbit] = symmetry.network.units
        self.unit = float(rate.max())
        self.rate = rate / self.unit
        self.orbits = symmetry.rank_orbits
        self.lp = solver = highspy.Highs()
        for name, value in (("output_flag", False), ("threads", 1), ("solver", "simplex"),
                            ("primal_feasibility_tolerance", 1e-9), ("dual_feasibility_tolerance", 1e-9)):  # fmt: skip
            solver.setOptionValue(name, value)
        self.infinite = highspy.kHighsInf
        for own in self.rate:
            self._row(-self.infinite, float(own))
        for _ in range(directions * len(self.orbits) + (len(self.classes) if unequal else 0)):
            self._row(0.0, self.infinite)
        first, groups = len(rate), len(rate) + directions * len(self.orbits)
        if not unequal:
            self._column(-1.0, {first + row: -self.sent[row] for row in range(len(self.orbits))})
            return
        self._column(-1.0, {groups + number: -vector for number, (_, vector, _) in enumerate(self.classes)})
        for orbit in range(len(self.orbits)):
            rows = {first + direction * len(self.orbits) + orbit: -1.0 for direction in range(directions)}
            rows |= {
                groups + number: float(own[orbit]) for number, (own, _, _) in enumerate(self.classes) if own[orbit]
            }
            self._column(0.0, rows)

    @cached_property
    def sent(self) -> list[float]:
        """What a rank of every orbit sends over what one of the first process group does."""
        parts = self.symmetry.parts
        return [float(parts[rank] / parts[self.symmetry.members[0][0]]) for rank, _ in self.orbits]

    @cached_property
    def classes(self) -> list[tuple[Counter[int], float, int]]:
        """Ranks by orbit of groups alike, the vector of each over that of the first, and how many there are."""
        number = {
            int(self.symmetry.node_orbit[rank]): orbit for orbit, (rank, _) in enumerate(self.symmetry.rank_orbits)
        }
        kinds: Counter[tuple[tuple[tuple[int, int], ...], int]] = Counter()
        for members, vector in zip(self.symmetry.members, self.symmetry.vectors, strict=True):
            count = Counter(number[orbit] for orbit in self.symmetry.node_orbit[members].tolist())
            kinds[tuple(sorted(count.items())), vector] += 1
        first = self.symmetry.vectors[0]
        return [(Counter(dict(kind)), vector / first, count) for (kind, vector), count in kinds.items()]

    def _row(self, low: float, high: float) -> None:
        self.lp.addRow(low, high, 0, np.array([], dtype=np.int32), np.array([]))

    def _column(self, cost: float, entries: dict[int, float]) -> None:
        rows = np.array(list(entries), dtype=np.int32)
        self.lp.addCol(cost, 0.0, self.infinite, len(rows), rows, np.array(list(entries.values())))

    def add(self, direction: int, column: Column) -> None:
        row = len(self.rate) + direction * len(self.orbits) + column.orbit
        self._column(0.0, {**{int(a): float(column.load[a]) for a in np.flatnonzero(column.load)}, row: 1.0})
        self.columns.append((direction, column))

    def solve(self) -> tuple[float, Floats]:
        """Return the best rate, and float64[orbits of arcs], prices that sum to 1 over the rates."""
        self.lp.run()
        solution = self.lp.getSolution()
        dual = np.abs(np.array(solution.row_dual)[: len(self.rate)])
        total = float(dual @ self.rate)
        return float(solution.col_value[0]) * self.unit, dual / total if total > 0 else dual


@dataclass(frozen=True, eq=False)
class _Prices:
    """Shortest paths of every group whose trees are priced, by lengths of links."""

    network: RatedNetwork
    lengths: Floats
    relaying: bool

    def of(self, members: Ints, sources: Ints | None = None) -> tuple[Floats, Int32s]:
        """float64[k, V] distances from members, and the arcs by which nodes are reached; others forward."""
        is_rank = np.zeros(self.network.nodes, dtype=np.bool_)
        is_rank[members] = True
        tail, head = (np.ascontiguousarray(row) for row in self.network.arcs.T)
        chosen = (members if sources is None else sources).astype(np.int32)
        return graph.rank_paths(self.network.nodes, tail, head, self.lengths, is_rank, self.relaying, chosen)


@dataclass(eq=False)
class _Pricing:
    """Columns of least price; `transposed` for trees to roots."""

    symmetry: Symmetry
    all_to_all: bool
    relaying: bool

    def __post_init__(self) -> None:
        self.group_of = {int(rank): own for own in self.symmetry.members for rank in own}
        network = self.symmetry.network
        self.order = np.lexsort((network.arcs[:, 0], network.arcs[:, 1]))
        self.networks = (network, network.transposed())
        self.arc_orbits = (self.symmetry.arc_orbit, self.symmetry.arc_orbit[self.order])

    def columns(self, lengths: Floats, directions: int) -> list[list[Column]]:
        """Return for every orbit of ranks its column in each direction."""
        paths: dict[tuple[int, int], tuple[Floats, Int32s]] = {}
        result = []
        for orbit, (root, count) in enumerate(self.symmetry.rank_orbits):
            members, own = self.group_of[root], []
            for direction in range(directions):
                prices = _Prices(self.networks[direction], lengths[self.order] if direction else lengths, self.relaying)
                if self.all_to_all:
                    _, before = prices.of(members, np.array([root]))
                    own.append(self._bundle(orbit, root, count, members, before[0]))
                    continue
                key = (int(members[0]), direction)
                if key not in paths:
                    paths[key] = prices.of(members)
                distance, before = paths[key]
                cost = np.ascontiguousarray(np.minimum(distance[:, members], UNREACHED))
                parent = graph.least_tree(cost, int(np.searchsorted(members, root)))
                own.append(self._tree(orbit, root, count, members, parent, before, direction))
            result.append(own)
        return result

    def _tree(
        self, orbit: int, root: int, count: int, members: Ints, parent: Int32s, before: Int32s, direction: int
    ) -> Column:
        children: dict[int, list[int]] = {}
        for node, above in enumerate(parent.tolist()):
            if above >= 0:
                children.setdefault(above, []).append(node)
        frontier = [int(np.searchsorted(members, root))]
        steps: list[int] = []
        rows: list[list[int]] = []
        arcs: list[int] = []
        tails, depth = self.networks[direction].arcs[:, 0].tolist(), 0
        numbers = members.tolist()
        while frontier:
            following = []
            for node in frontier:
                into = before[node].tolist() if node in children else []
                for child in children.get(node, ()):
                    rows.append(_path(tails, into, numbers[node], numbers[child], arcs))
                    steps.append(depth)
                    following.append(child)
            frontier, depth = following, depth + 1
        return self._column(orbit, root, count, steps, rows, arcs, direction)

    def _bundle(self, orbit: int, root: int, count: int, members: Ints, before: Int32s) -> Column:
        tails, into = self.networks[0].arcs[:, 0].tolist(), before.tolist()
        arcs: list[int] = []
        rows = [_path(tails, into, root, rank, arcs) for rank in members.tolist() if rank != root]
        return self._column(orbit, root, count, [0] * len(rows), rows, arcs, 0)

    def _column(
        self,
        orbit: int,
        root: int,
        count: int,
        steps: list[int],
        rows: list[list[int]],
        arcs: list[int],
        direction: int,
    ) -> Column:
        size = self.symmetry.arc_count
        load = np.bincount(self.arc_orbits[direction][arcs], minlength=len(size)) * (count / size)
        paths = np.full((len(rows), max(map(len, rows), default=2)), -1, dtype=np.int64)
        for index, row in enumerate(rows):
            paths[index, : len(row)] = row
        return Column(orbit, root, np.array(steps, dtype=np.int64), paths, load)


def _path(tails: list[int], into: list[int], source: int, target: int, arcs: list[int]) -> list[int]:
    """Nodes from source to target; the arcs of the path are added to `arcs`."""
    path = [target]
    while path[-1] != source:
        arc = into[path[-1]]
        arcs.append(arc)
        path.append(tails[arc])
    return path[::-1]


def packing(
    symmetry: Symmetry,
    stop: Stop,
    *,
    all_to_all: bool = False,
    unequal: bool = False,
    relaying: bool = True,
    bound: float = np.inf,
    starts: Sequence[Floats] = (),
) -> Packing:
    """Generate columns until the rate meets the bound.

    Args:
        symmetry: of the network and its process groups.
        stop: looked at in every round.
        all_to_all: bundles of paths; else trees.
        unequal: an AllReduce, with trees up and down, and roots used unequally.
        relaying: whether ranks pass on what is not for them (bundles).
        bound: an upper bound on the rate of every root, from elsewhere.
        starts: float64[m], lengths of links that are priced first.
    """
    directions = 2 if unequal else 1
    master, pricing = (
        _Master(symmetry, directions, unequal=unequal),
        _Pricing(symmetry, all_to_all, all_to_all and relaying),
    )
    count, rate, orbit = master.count, master.rate, symmetry.arc_orbit
    draw = np.random.default_rng(1)
    first = [np.bincount(orbit, lengths, len(count)).astype(np.float64) for lengths in starts]
    first = [own / (own @ rate) for own in first if own @ rate > 0]
    dual = 1.0 / (rate * count)
    dual = centre = dual / (dual @ rate)
    least, lengths, reached, reason = np.inf, dual / count, 0.0, StopReason.CONVERGED
    for iteration in range(MOST_ROUNDS):
        mixed = dual if iteration % 4 == 3 else 0.5 * (centre + dual)
        price = first[iteration] if iteration < len(first) else mixed
        length = price / count
        tie = length.max() * TIE * (1 + 0.2 * draw.random(len(count))) / rate * rate.min()
        columns = pricing.columns((length + tie)[orbit], directions)
        total = _priced(master, columns, price, unequal=unequal)
        proven = float(price @ rate) / total * master.unit if total > 0 else np.inf
        if proven < least:
            least, lengths, centre = proven, length, price
        for own in columns:
            for direction, column in enumerate(own):
                master.add(direction, column)
        reached, dual = master.solve()
        gap = EXACT_GAP if iteration < EXACT_ROUNDS else SMALL_GAP
        if reached >= min(least, bound) * (1 - gap):
            break
        if (reason := stop.reason() or StopReason.BUDGET) is not StopReason.BUDGET:
            break
    met = reached >= min(least, bound) * (1 - SMALL_GAP)
    return _result(master, reached, least, lengths[orbit], StopReason.CONVERGED if met else reason, unequal=unequal)


def _priced(master: _Master, columns: list[list[Column]], price: Floats, *, unequal: bool) -> float:
    """What a rate of 1 costs at least."""
    costs = [sum(float(column.load @ price) for column in own) for own in columns]
    if not unequal:
        return sum(cost * sent for cost, sent in zip(costs, master.sent, strict=True))
    per_rank = [cost / count for cost, (_, count) in zip(costs, master.orbits, strict=True)]
    return sum(groups * vector * min(per_rank[orbit] for orbit in ranks) for ranks, vector, groups in master.classes)


def _result(
    master: _Master, reached: float, least: float, lengths: Floats, reason: StopReason, *, unequal: bool
) -> Packing:
    values = np.array(master.lp.getSolution().col_value)
    orbits = len(master.orbits)
    shares = values[1 : 1 + orbits] * master.unit if unequal else reached * np.array(master.sent)
    for (_, column), weight in zip(master.columns, values[1 + (orbits if unequal else 0) :], strict=True):
        column.weight = max(float(weight), 0.0)
    used = [(direction, column) for direction, column in master.columns if column.weight > 1e-12]
    down, up = (tuple(column for own, column in used if own == direction) for direction in (0, 1))
    return Packing(down, up, np.maximum(shares, 0.0), reached, least, lengths, reason)
