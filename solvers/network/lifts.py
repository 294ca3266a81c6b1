"""Graphs of few hops for uniform demand: annealing of whole orbits of links under imposed groups, in a race of groups.

A group of order k acts on m orbits of k servers by multiplication from the left. A graph that it keeps has ports (o, a)
of orbit o, each with a peer (p, b) and an element s, its shift: element g of orbit o is linked to element g s of orbit
p. So a graph is m d peers and shifts in place of n d links (the lift of a voltage graph; Brankovic et al., Electron. J.
Combin. 5, 1998, R9), and annealing is in a space whose logarithm is k times smaller. Which group suits a size no rule
says: all of a catalogue race, and the better part of them goes on with longer runs.

Work is counted in proposals, so that a seed gives the same graphs on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import gcd, inf

import numpy as np

from solvers.network.space import layer_sizes
from solvers.stop import Stop
from topoopt.core.arrays import Int32s, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.native import search

# Groups.


@dataclass(frozen=True, eq=False)
class Group:
    """A finite group by the right cosets of a cyclic subgroup: element c^x r_y has the number y a + x.

    Attributes:
        name: for people.
        row, turn: int32[b, a b]; multiplication by s from the right takes coset y to coset row[y, s], and turns it by
            turn[y, s] places.
    """

    name: str
    row: Int32s
    turn: Int32s

    @property
    def order(self) -> int:
        return int(self.row.shape[1])

    @property
    def cyclic(self) -> int:
        """Order a of the cyclic subgroup."""
        return self.order // len(self.row)

    @property
    def products(self) -> Ints:
        """int64[k, k]: row times column."""
        y, x = np.divmod(np.arange(self.order), self.cyclic)
        return np.asarray(self.row[y].astype(np.int64) * self.cyclic + (x[:, None] + self.turn[y]) % self.cyclic)

    @cached_property
    def generators(self) -> list[int]:
        """Elements whose products are all: a generator of the cyclic subgroup first."""
        products = self.products
        generators: list[int] = []
        generated = {0}
        for element in (1, *range(self.cyclic, self.order, self.cyclic)):
            if element in generated or element >= self.order:
                continue
            generators.append(element)
            generated, waiting = {0}, [0]
            while waiting:
                new = set(products[waiting.pop(), generators].tolist()) - generated
                generated |= new
                waiting += new
        return generators


def group_of(name: str, products: Ints, cycle: int | None = None) -> Group:
    """The group of a table of products, int[k, k], whose element 0 is the identity.

    Args:
        name: for people.
        products: row times column.
        cycle: element whose powers are the cyclic subgroup; None: one of the most powers.
    """
    k = len(products)

    def powers(element: int) -> list[int]:
        result = [0]
        while (after := int(products[result[-1], element])) != 0:
            result.append(after)
        return result

    subgroup = max((powers(element) for element in range(k)), key=len) if cycle is None else powers(cycle)
    order = np.zeros(0, dtype=np.int64)
    rest = np.ones(k, dtype=np.bool_)
    while rest.any():
        coset = products[subgroup, int(np.argmax(rest))]
        rest[coset] = False
        order = np.append(order, coset)
    number = np.argsort(order)
    first = number[products[order[:: len(subgroup)]][:, order]]  # products of the first element of every coset
    row, turn = (np.ascontiguousarray(half, dtype=np.int32) for half in np.divmod(first, len(subgroup)))
    return Group(name, row, turn)


def metacyclic(a: int, b: int = 1, t: int = 1, r: int = 0) -> Group:
    """c^a = 1, u^b = c^r, u c = c^t u, where t^b = 1 and r t = r modulo a."""
    y, x = np.divmod(np.arange(a * b), a)
    power = np.array([pow(t, e, a) for e in range(b)])
    sums = y[:, None] + y
    products = sums % b * a + (x[:, None] + power[y][:, None] * x + r * (sums >= b)) % a
    name = f"Z{a}" if b == 1 else f"Z{a}xZ{b}" if t == 1 and r == 0 else f"Z{a}.Z{b}({t},{r})"
    return group_of(name, products, cycle=min(1, a - 1))


def direct_product(group: Group, other: Group) -> Group:
    left, right = group.products, other.products
    products = left[:, None, :, None] * other.order + right[None, :, None, :]
    return group_of(f"{group.name}x{other.name}", products.reshape(group.order * other.order, -1))


MAX_KINDS, LARGE = 16, 64
"""Groups of one order that race where it is large, evenly spread over the catalogue."""


@cache
def groups(k: int) -> tuple[Group, ...]:
    """Groups of order k, one of a kind: metacyclic ones, and their products with Z2 and Z3."""
    shapes = [(k, 1, 1, 0)]
    for b in (b for b in range(2, k) if k % b == 0 and b * b <= k):
        a = k // b
        for t in (t for t in range(1, a) if gcd(t, a) == 1 and pow(t, b, a) == 1):
            shapes += [(a, b, t, r) for r in range(a) if r * (t - 1) % a == 0 and (r == 0 or a % r == 0)]
    if k > LARGE:  # telling them apart would take longer than trying them
        selected = np.unique(np.linspace(0, len(shapes) - 1, MAX_KINDS).astype(int))
        return tuple(metacyclic(*shapes[i]) for i in selected)
    members = [metacyclic(*shape) for shape in shapes]
    for e in (2, 3):
        if k % e == 0 and e < k:
            members += [direct_product(group, metacyclic(e)) for group in groups(k // e)]
    kinds = {_invariants(group): group for group in reversed(members)}
    return tuple(kinds.values())[::-1]


def _invariants(group: Group) -> tuple[object, ...]:
    """Equal for groups of one kind, different for almost all others."""
    table, k = group.products, group.order
    elements, power, orders = np.arange(k), np.arange(k), np.ones(k, dtype=np.int64)
    while power.any():
        orders += power != 0
        power = np.where(power != 0, table[power, elements], 0)
    commuting = (table == table.T).sum(axis=1)
    squares = np.sort(np.bincount(table[elements, elements], minlength=k))
    return tuple(sorted(zip(orders.tolist(), commuting.tolist(), strict=True))), tuple(squares.tolist())


# Graphs.


@dataclass(frozen=True, eq=False)
class Lift:
    """A graph that a group keeps; element g of orbit o is server g m + o, so that orbits begin with servers 0 to m - 1.

    Attributes:
        group: of order k.
        degree: d.
        links: two-way links pair ports, and one without a peer but itself is dark where its shift is the identity;
            one-way links permute them.
        peer, shift: int32[m d], of each port.
    """

    group: Group
    degree: int
    links: LinkDirection
    peer: Int32s
    shift: Int32s

    @classmethod
    def empty(cls, servers: int, degree: int, links: LinkDirection, group: Group) -> Lift:
        """Without links, to be annealed."""
        peer, shift = np.zeros((2, servers // group.order * degree), dtype=np.int32)
        return cls(group, degree, links, peer, shift)

    @property
    def orbits(self) -> int:
        return len(self.peer) // self.degree

    @property
    def directed(self) -> bool:
        return self.links is LinkDirection.UNIDIRECTIONAL

    def annealed(self, seed: int, proposals: int, hot: float, cold: float, levels: int) -> Lift:
        """The graph of fewest hops met from a random one.

        Args:
            seed: of the generator.
            proposals: exchanges of orbits of links, and changes of shifts.
            hot, cold: temperatures at start and end, in units of the sum of distances to one server of each orbit.
            levels: hops up to which distances are told apart.
        """
        peer, shift = self.peer.copy(), self.shift.copy()
        group = self.group
        arguments = group.cyclic, group.row, group.turn, self.degree, self.directed
        search.anneal_lift(*arguments, True, peer, shift, proposals, hot, cold, levels, seed)
        return replace(self, peer=peer, shift=shift)

    @cached_property
    def mean_hops(self) -> float:
        """Over all ordered pairs of servers; infinite where some are not joined."""
        group = self.group
        pairs = search.lift_distances(
            group.cyclic, group.row, group.turn, self.degree, self.directed, self.peer, self.shift
        )
        total = self.orbits * (self.orbits * group.order - 1)
        return float(pairs @ np.arange(len(pairs))) / total if len(pairs) else inf

    @property
    def heads(self) -> Ints:
        """int64[n, d]: where each port of each server leads; a dark one to its own server."""
        orbits, order = self.orbits, self.group.order
        element = self.group.products[:, self.shift]
        heads = element * orbits + self.peer // self.degree
        return np.asarray(heads.reshape(order * orbits, self.degree))

    @property
    def generators(self) -> Int32s:
        """int32[g, n]: permutations of the servers that generate the group."""
        number = np.arange(self.orbits)
        products = self.group.products[self.group.generators or [0]]
        return np.array([(row[:, None] * self.orbits + number).ravel() for row in products], dtype=np.int32)


# The race.

ROUNDS = ((0.5, 1, 8), (0.2, 1, 16), (0.15, 1, 32), (0.15, 1, 64))
"""Of each round the part of the work, and the least and the most annealings of a group.

The best graph of a group may come of one annealing in four, so that the first round, after which most groups are out,
has to repeat them. What groups of few ports need not goes to those of many.
"""

DIRECTED_ROUNDS = ((0.25, 2, 512), (0.25, 4, 512), (0.25, 4, 512), (0.25, 4, 512))
"""The same of one-way links, where even loads decide, not hops alone: many annealings give graphs to select from."""

ENOUGH = 300
"""Proposals of one annealing, by the square of the number of ports: where there is work for more, it starts anew.

With less work there is one annealing: several short ones would judge large spaces by graphs that are not annealed.
"""

SHARE, FEW = 3, 6
"""One group in `SHARE` goes on to the next round, at least `FEW`."""

SIMILAR = 4
"""Graphs of one group and mean hops that are retained: their loads may differ."""

RETAINED = 30
"""Graphs that a race ends with."""

COLD = 1.0
"""Temperature to end at, in units of the sum of distances to one server of each orbit."""

MAX_PORTS, MIN_PORTS = 320, 8
"""Ports of all orbits: more are slow and no better, fewer leave little to choose."""

MAX_TRIVIAL = 128
"""Servers up to which annealing without a group takes part: where n has few divisors it is the best there is."""


def temperatures(degree: int) -> tuple[float, ...]:
    """Temperatures to start from, in turn: few links need more."""
    return (10.0,) if degree <= 4 else (3.0, 6.0)


def competitors(n: int, d: int) -> list[Group]:
    """Groups whose order divides n; the trivial one as well where that is quick, or there is no other."""
    orders = [k for k in range(2, n + 1) if n % k == 0 and MIN_PORTS <= n // k * d <= MAX_PORTS]
    members = [group for k in orders for group in groups(k)]
    return [*members, metacyclic(1)] if n <= MAX_TRIVIAL or not members else members


def nanoseconds(n: int, d: int, group: Group, levels: int) -> float:
    """Roughly what one proposal costs."""
    orbits = n // group.order
    row_bytes = group.cyclic * -(-orbits // 8)
    vectors = -(-row_bytes // (8 if row_bytes <= 8 else 16 if row_bytes <= 16 else 32))
    return 130 + 1.5 * (levels - 1) * orbits * len(group.row) * vectors * (d + 4)


def race(n: int, d: int, links: LinkDirection, work_s: float, seed: int, stop: Stop) -> Iterator[list[Lift]]:
    """The graphs of fewest hops after each round, best first.

    Args:
        n, d, links: of the graphs.
        work_s: processor seconds that the proposals take on an ordinary machine, roughly.
        seed: of all annealings.
        stop: ends the race after an annealing.
    """
    levels = max(1, len(layer_sizes(n, d, links)))
    running = competitors(n, d)
    best: list[Lift] = []
    number, start = seed << 20, temperatures(d)
    for part, least, most in DIRECTED_ROUNDS if links is LinkDirection.UNIDIRECTIONAL else ROUNDS:
        cost = [nanoseconds(n, d, group, levels) for group in running]
        enough = [ENOUGH * (n // group.order * d) ** 2 for group in running]
        wanted = [most * count * price_ns for count, price_ns in zip(enough, cost, strict=True)]
        granted = divided(part * work_s * 1e9, wanted)
        scored: list[tuple[float, int]] = []
        for index, group in enumerate(running):
            proposals = granted[index] / cost[index]
            tries = max(least, int(proposals / enough[index] + 1e-9))
            lifts: list[Lift] = []
            for _ in range(tries):
                if (best or lifts) and stop.reason() is not None:
                    break
                number += 1
                length = max(100, int(proposals / tries))
                lift = Lift.empty(n, d, links, group)
                lifts.append(lift.annealed(number, length, start[number % len(start)], COLD, levels))
            scored.append((min((lift.mean_hops for lift in lifts), default=inf), index))
            best += lifts
        running = [running[index] for _, index in sorted(scored)[: max(FEW, len(scored) // SHARE)]]
        best = _retained(best)
        yield best
        if stop.reason() is not None:
            return


def divided(total: float, wanted: Sequence[float]) -> list[float]:
    """Equal parts of a total, except that what some do not want goes to the others."""
    parts, left = [0.0] * len(wanted), total
    for rank, index in enumerate(sorted(range(len(wanted)), key=lambda index: wanted[index])):
        parts[index] = min(wanted[index], left / (len(wanted) - rank))
        left -= parts[index]
    return parts


def _retained(lifts: list[Lift]) -> list[Lift]:
    seen = Counter[tuple[float, Group]]()
    retained = []
    for lift in sorted(lifts, key=lambda lift: lift.mean_hops):
        seen[lift.mean_hops, lift.group] += 1
        if seen[lift.mean_hops, lift.group] <= SIMILAR:
            retained.append(lift)
    return retained[:RETAINED]
