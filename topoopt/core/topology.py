"""A direct-connect topology: directed arcs between servers, and the permutation each optical switch realises."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.data import Displayed
from topoopt.core.errors import InputError, Problem, raise_any

if TYPE_CHECKING:
    import networkx as nx


SHOWN = 20
"""Wrong edges, or servers with too many links, that are listed one by one."""


@dataclass(frozen=True, eq=False, repr=False)
class Topology(Displayed):
    """Directed multigraph over the servers; a bidirectional link is two opposite arcs.

    Attributes:
        servers: n.
        degree: d, interfaces per server; no server sends or receives more than d arcs (parallel arcs counted).
        links: how interfaces are patched.
        arcs: int32[m, 2], rows (tail, head), sorted, distinct.
        multiplicity: int32[m], parallel links of each arc, at least 1.
        switches: int32[d, n]; switches[j, i] is the server that interface j of server i sends to, -1 if dark; every
            row is a partial permutation (one optical switch each).
        offsets: ring distances present at every server, ascending (both p and n - p for bidirectional links), when the
            topology is a circulant; empty otherwise.
        origin: how it was made, for people (`totient paper {1,5}`, `1 ring + 2 matchings`, ...).
        packet_switches: the last nodes, which are no servers: they pass on, and neither compute nor send.
        rates: float64[m], capacity of each arc, its parallel links together; None: one for each link.
    """

    servers: int
    degree: int
    links: LinkDirection
    arcs: Int32s
    multiplicity: Int32s
    switches: Int32s
    offsets: tuple[int, ...] = ()
    origin: str = ""
    packet_switches: int = 0
    rates: Floats | None = None

    @property
    def hosts(self) -> int:
        """Servers without the packet switches, which follow them."""
        return self.servers - self.packet_switches

    @property
    def capacity(self) -> Floats:
        """float64[m]: of each arc, its parallel links together."""
        return self.multiplicity.astype(np.float64) if self.rates is None else self.rates

    @classmethod
    def of_arcs(
        cls,
        servers: int,
        arcs: NDArray[np.integer[Any]],
        *,
        degree: int | None = None,
        links: LinkDirection | None = None,
        origin: str = "",
    ) -> Topology:
        """Topology of unit arcs that are known to be right; equal ones become parallel links, switches stay dark.

        Args:
            servers: n.
            arcs: int[k, 2], rows (tail, head), both ways for a bidirectional link.
            degree: d; None: the most links out of or into a server.
            links: None: bidirectional if as many links lead back as forth between any two servers.
            origin: how it was made.
        """
        n = servers
        pairs = np.asarray(arcs, dtype=np.int64).reshape(-1, 2)
        keys, counts = np.unique(pairs[:, 0] * n + pairs[:, 1], return_counts=True)
        tail, head = keys // n, keys % n
        if degree is None:
            degree = int(max(np.bincount(end, counts, n).max() for end in (tail, head)))
        if links is None:
            back = np.argsort(head * n + tail)
            symmetric = np.array_equal((head * n + tail)[back], keys) and np.array_equal(counts[back], counts)
            links = LinkDirection.BIDIRECTIONAL if symmetric else LinkDirection.UNIDIRECTIONAL
        return cls(
            servers=n,
            degree=degree,
            links=links,
            arcs=np.column_stack((tail, head)).astype(np.int32),
            multiplicity=counts.astype(np.int32),
            switches=np.full((degree, n), -1, dtype=np.int32),
            offsets=_offsets(n, (head - tail) % n, counts),
            origin=origin,
        )

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[Sequence[int]] | ArrayLike,
        *,
        servers: int | None = None,
        degree: int | None = None,
        links: str = "bidirectional",
        origin: str = "given edges",
    ) -> Topology:
        """Topology from a list of links.

            ring = Topology.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)])

        Args:
            edges: pairs of servers, or int[k, 2]; a repeated pair is a parallel link.
            servers: n; default: the highest number in use, plus one.
            degree: most links out of, and into, a server; default: the most in use.
            links: `bidirectional`: every edge joins its servers both ways; `unidirectional`: it leads from the first to
                the second.
            origin: how it was made, for people.

        Raises:
            InputError: everything wrong with the edges, with their positions.
        """
        pairs = _pairs(edges)
        if links not in list(LinkDirection):
            raise InputError([Problem("unknown links", path="links", value=links, allowed=", ".join(LinkDirection))])
        n = max(2, int(pairs.max(initial=0)) + 1) if servers is None else servers
        unknown = np.flatnonzero(((pairs < 0) | (pairs >= n)).any(axis=1))
        own = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
        problems = [
            Problem(message, path=f"edges[{k}]", value=str(pairs[k].tolist()), allowed=allowed)
            for message, rows, allowed in (
                ("unknown server", unknown, f"0 to {n - 1}"),
                ("a link from a server to itself", own, "two different servers"),
            )
            for k in rows[:SHOWN].tolist()
        ]
        raise_any(problems)
        direction = LinkDirection(links)
        both = np.concatenate((pairs, pairs[:, ::-1])) if direction is LinkDirection.BIDIRECTIONAL else pairs
        topology = cls.of_arcs(n, both, degree=degree, links=direction, origin=origin)
        problems = topology.degree_problems()
        raise_any(problems)
        return topology

    @classmethod
    def from_networkx(cls, graph: nx.Graph[Any], *, degree: int | None = None) -> Topology:
        """Topology from a graph of networkx, directed or not, with parallel edges or an edge attribute `multiplicity`.

        Servers are the nodes in their order, or by their own numbers where those are 0 to n-1. The degree of
        `to_networkx` is kept unless another is given.

        Raises:
            InputError: an edge from a node to itself, more links than `degree`.
        """
        nodes = list(graph.nodes)
        numbered = set(nodes) == set(range(len(nodes)))
        number = {node: node if numbered else index for index, node in enumerate(nodes)}
        edges = [
            (number[tail], number[head])
            for tail, head, parallel in graph.edges(data="multiplicity", default=1)
            for _ in range(parallel)
        ]
        attributes = graph.graph
        topology = cls.from_edges(
            edges,
            servers=len(nodes),
            degree=attributes.get("degree") if degree is None else degree,
            links="unidirectional" if graph.is_directed() else "bidirectional",
            origin=attributes.get("origin", "given graph"),
        )
        if not graph.is_directed():
            return topology
        units = np.repeat(topology.arcs, topology.multiplicity, axis=0)
        return cls.of_arcs(topology.servers, units, degree=topology.degree, origin=topology.origin)

    def to_networkx(self) -> nx.MultiDiGraph[int]:
        """Graph of networkx: nodes 0 to n-1, one edge for every parallel link of every arc."""
        import networkx as nx  # here alone in core, and only when it is asked for

        graph: nx.MultiDiGraph[int] = nx.MultiDiGraph(degree=self.degree, links=self.links.value, origin=self.origin)
        graph.add_nodes_from(range(self.servers))
        graph.add_edges_from(map(tuple, np.repeat(self.arcs, self.multiplicity, axis=0).tolist()))
        return graph

    def adjacency(self) -> Ints:
        """int64[n, n]: links from each server (row) to each other."""
        counts = np.zeros((self.servers, self.servers), dtype=np.int64)
        counts[self.arcs[:, 0], self.arcs[:, 1]] = self.multiplicity
        return counts

    def arc_ids(self) -> Int32s:
        """int32[n, n]: index into `arcs` of tail -> head, -1 where there is none."""
        table = np.full((self.servers, self.servers), -1, dtype=np.int32)
        table[self.arcs[:, 0], self.arcs[:, 1]] = np.arange(len(self.arcs), dtype=np.int32)
        return table

    def degree_problems(self) -> list[Problem]:
        """A problem for each server (at most 20) with more links out or in than the degree."""
        sent, received = (np.bincount(end, self.multiplicity, self.servers).astype(int) for end in self.arcs.T)
        return [
            Problem(
                "more links than the degree",
                path="degree",
                value=f"server {server}: {sent[server]} out, {received[server]} in",
                allowed=str(self.degree),
            )
            for server in np.flatnonzero(np.maximum(sent, received) > self.degree)[:SHOWN].tolist()
        ]


def _pairs(edges: Iterable[Sequence[int]] | ArrayLike) -> Ints:
    """int64[k, 2] of what was given as edges."""
    listed = edges if hasattr(edges, "__array__") else list(edges)  # type: ignore[arg-type]
    try:
        table = np.asarray(listed)
    except ValueError:  # rows of several lengths
        table = np.zeros(1)
    if table.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if table.ndim != 2 or table.shape[1] != 2 or not np.issubdtype(table.dtype, np.integer):
        raise InputError([Problem("not a list of edges", path="edges", allowed="pairs of whole numbers of servers")])
    return table.astype(np.int64)


def _offsets(n: int, shift: Ints, counts: Ints) -> tuple[int, ...]:
    """Ring distances, if every server has the same ones with the same number of links; else none."""
    present = np.unique(shift)
    for distance in present:
        of_all = counts[shift == distance]
        if len(of_all) != n or of_all.min() != of_all.max():
            return ()
    return tuple(present.tolist())


def strongly_connected(n: int, arcs: Int32s | Ints) -> bool:
    """Whether a directed path leads from every node to every other.

    Args:
        n: nodes 0..n-1.
        arcs: int[m, 2], rows (tail, head).
    """
    return unreachable_pair(n, arcs) is None


def unreachable_pair(n: int, arcs: Int32s | Ints) -> tuple[int, int] | None:
    """An ordered pair without a path from the first to the second, None if there is none such; arguments as above."""
    for rows, backwards in ((arcs, False), (arcs[:, ::-1], True)):
        missing = np.flatnonzero(reachable_from(n, rows)[1] < 0)
        if len(missing):
            return (int(missing[0]), 0) if backwards else (0, int(missing[0]))
    return None


def reachable_from(n: int, arcs: Int32s | Ints, source: int = 0) -> tuple[Ints, Ints]:
    """A breadth-first search.

    Args:
        n: nodes 0..n-1.
        arcs: int[m, 2], rows (tail, head); those of a tail are looked at in their order.
        source: where it begins.

    Returns:
        The nodes reached, int64, in the order in which they are found, the source first; int64[n], hops to every node,
        -1 where there is no path.
    """
    ends = arcs[np.argsort(arcs[:, 0], kind="stable"), 1].tolist()
    first = np.concatenate(([0], np.cumsum(np.bincount(arcs[:, 0], minlength=n)))).tolist()
    hops = [-1] * n
    hops[source] = 0
    reached = [source]
    for node in reached:
        for end in ends[first[node] : first[node + 1]]:
            if hops[end] < 0:
                hops[end] = hops[node] + 1
                reached.append(end)
    return np.array(reached, dtype=np.int64), np.array(hops, dtype=np.int64)


@dataclass(frozen=True)
class RingBox:
    """The translations of a box of rings, a group: each has the number of the server that it takes server 0 to.

    Attributes:
        dims: size of each dimension.
    """

    dims: tuple[int, ...]

    @property
    def servers(self) -> int:
        return math.prod(self.dims)

    @cached_property
    def _strides(self) -> list[int]:
        return [math.prod(self.dims[k + 1 :]) for k in range(len(self.dims))]

    def products(self, left: Ints, right: Ints | np.int64) -> Ints:
        """int64: translations of one array after those of another."""
        parts = zip(self.dims, self._strides, strict=True)
        return np.asarray(sum((left // s + right // s) % d * s for d, s in parts), dtype=np.int64)

    def inverses(self, elements: Ints) -> Ints:
        """int64: the translations back."""
        parts = zip(self.dims, self._strides, strict=True)
        return np.asarray(sum(-(elements // s) % d * s for d, s in parts), dtype=np.int64)


def translations(dims: tuple[int, ...]) -> Int32s:
    """int32[len(dims), n]: where one step along each ring of a box takes every server."""
    number = np.arange(math.prod(dims), dtype=np.int32).reshape(dims)
    return np.array([np.roll(number, -1, axis).ravel() for axis in range(len(dims))])


@dataclass(frozen=True, eq=False)
class Symmetry:
    """A group of permutations that keep the arcs of a network; only the identity leaves a server where it is.

    What the first server of each orbit sends says what all send: element g moves it from arc a to arc g a.

    Attributes:
        generators: int32[g, n], where each takes every server.
        moves: int32[k, n], the same of all k elements, the identity first.
        source: int64[n], first server of the orbit of each server.
        element: int64[n], the element that takes the source there.
        arc: int64[c, k], of each class of arcs, what each element makes of its first one.
        label: int64[m], class of each arc.
        dims: sizes of the box whose translations these are; none for another group.
    """

    generators: Int32s
    moves: Int32s
    source: Ints
    element: Ints
    arc: Ints
    label: Ints
    dims: tuple[int, ...] = ()

    @classmethod
    def of(cls, arcs: Int32s | Ints, servers: int, generators: Int32s, dims: tuple[int, ...] = ()) -> Symmetry | None:
        """The group that permutations generate; None where it does not keep the arcs, or leaves a server in place.

        Args:
            arcs: [m, 2], tails and heads, all different and in range.
            generators: int32[g, n], permutations of the servers.
        """
        moves = _elements(generators)
        if moves is None or not len(arcs):
            return None
        source = moves.min(axis=0).astype(np.int64)
        element = np.empty(servers, dtype=np.int64)
        sources, sizes = np.unique(source, return_counts=True)
        if (sizes != len(moves)).any():
            return None
        element[moves[:, sources]] = np.arange(len(moves))[:, None]
        tail, head = arcs.astype(np.int64).T
        keys = tail * servers + head
        by_key = np.argsort(keys)
        first = np.flatnonzero(source[tail] == tail)
        moved = moves[:, tail[first]].astype(np.int64) * servers + moves[:, head[first]]
        at = np.minimum(np.searchsorted(keys[by_key], moved), len(keys) - 1)
        if (keys[by_key][at] != moved).any() or moved.size != len(keys):
            return None
        arc = np.ascontiguousarray(by_key[at].T)
        label = np.empty(len(keys), dtype=np.int64)
        label[arc] = np.arange(len(first))[:, None]
        return cls(np.ascontiguousarray(generators, dtype=np.int32), moves, source, element, arc, label, dims)

    @property
    def sources(self) -> Ints:
        """int64[m], the first server of each orbit."""
        return np.unique(self.source)

    def rows(self, rows: Floats) -> Iterator[Floats]:
        """float64[m] of every server: what it sends where the sources send `rows`, float64[orbits, m]."""
        orbit = np.searchsorted(self.sources, self.source)
        images = self.moves[:, 0]
        for server in range(len(self.source)):
            moved = np.empty(rows.shape[1])
            product = self.element[self.moves[self.element[server], images]]
            moved[self.arc[:, product]] = rows[orbit[server]][self.arc]
            yield moved

    def load(self, rows: Floats) -> Floats:
        """float64[m]: the sum of the rows of all servers."""
        return np.asarray(rows.sum(axis=0)[self.arc].sum(axis=1)[self.label])

    def keeps(self, table: Floats) -> bool:
        """Whether the group keeps float64[n, n], to the last bit."""
        return all(np.array_equal(table[np.ix_(move, move)], table) for move in self.generators)


def _elements(generators: Int32s) -> Int32s | None:
    """int32[k, n]: all elements of a group, the identity first; None where two of them take server 0 to one place."""
    servers = generators.shape[1]
    elements = [np.arange(servers, dtype=np.int32)]
    number = {0: 0}
    for element in elements:
        for generator in generators:
            product = generator[element]
            index = number.setdefault(int(product[0]), len(elements))
            if index == len(elements):
                elements.append(product)
            elif not np.array_equal(elements[index], product):
                return None
    return np.array(elements)


_MOST_LINKS = 64
"""Out of a server; each dimension of a torus takes two."""

_MOST_TRIES = 200
"""Sizes of dimensions tried: most networks that are no box fail at all sizes of the last one."""


def boxes_of(servers: int, tail: Ints, head: Ints) -> Iterator[RingBox]:
    """Boxes of two dimensions and more whose translations keep arcs, large last dimensions first.

    Args:
        tail, head: int64[m], sorted by tail.
    """
    degree = len(tail) // servers
    if not degree or degree > _MOST_LINKS or not np.array_equal(tail, np.repeat(np.arange(servers), degree)):
        return
    tries = iter(range(_MOST_TRIES))
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        dims = waiting.pop()
        left = servers // RingBox(dims).servers
        if left == 1:
            yield RingBox(dims)
            continue
        sizes = [size for size in range(2, left + 1) if left % size == 0 and (dims or size < servers)]
        for size in sizes:  # the largest one is tried on first
            if next(tries, None) is None:
                return
            longer = (size, *dims)
            if _kept(RingBox(longer), tail, head, degree):
                waiting.append(longer)


def _kept(inner: RingBox, tail: Ints, head: Ints, degree: int) -> bool:
    """Whether every server has the same arcs, seen from itself, as far as the inner dimensions tell."""
    n = inner.servers
    steps = np.sort(inner.products(inner.inverses(tail % n), head % n).reshape(-1, degree), axis=1)
    return bool((steps == steps[0]).all())


UNDECIDED_MOORE_DEGREE = 57
"""The one degree for which nobody knows whether a Moore graph of diameter 2 exists."""


def moore_bound(servers: int, degree: int, links: LinkDirection) -> tuple[int, int]:
    """The Moore bound: diameter, and sum of distances from a server, that no network of so many links betters.

    Within k hops a server reaches d + d^2 + ... + d^k others at most over single fibres, and
    d + d (d - 1) + ... + d (d - 1)^(k-1) over fibre pairs, as one of the d links leads back. The networks that would
    reach just so many within a diameter of 2 or more are known not to exist, but for one-way and two-way rings, and
    fibre pairs of diameter 2 with degree 3, 7 and perhaps 57 (Bridges and Toueg 1980; Hoffman and Singleton 1960;
    Bannai and Ito 1973; Damerell 1973): there the diameter is one more.

    Raises:
        ValueError: this degree cannot connect so many servers.
    """
    spread = degree if links is LinkDirection.UNIDIRECTIONAL else degree - 1
    left, layer, hops, total = servers - 1, degree, 0, 0
    while left > 0:
        hops += 1
        reached = min(left, layer)
        if reached <= 0:
            raise ValueError(f"{degree} links a server cannot connect {servers} servers")
        total += hops * reached
        left -= reached
        if left == 0 and reached == layer and hops > 1 and spread > 1:
            attained = hops == 2 and degree in (3, 7, UNDECIDED_MOORE_DEGREE)
            if links is LinkDirection.UNIDIRECTIONAL or not attained:
                return hops + 1, total
        layer *= spread
    return hops, total


def torus_steps(dims: tuple[int, ...], *, twisted: bool = False) -> Ints:
    """int64[axes, n]: the server one step on along each axis of a torus; the last axis is numbered fastest.

    Twisted (Camara et al., IEEE TPDS 2010, for n x 2n, n x n x 2n and n x 2n x 2n): wrapping round a shortest axis also
    goes half the way along every longest one, which evens out the distances. Without a shorter axis nothing changes.
    """
    coordinates = np.indices(dims).reshape(len(dims), -1)
    steps = np.empty((len(dims), math.prod(dims)), dtype=np.int64)
    shortest, longest = min(dims), max(dims)
    for axis, size in enumerate(dims):
        after = coordinates.copy()
        after[axis] = (after[axis] + 1) % size
        if twisted and size == shortest < longest:
            wraps = coordinates[axis] == size - 1
            for other, length in enumerate(dims):
                if length == longest:
                    after[other, wraps] = (after[other, wraps] + length // 2) % length
        steps[axis] = np.ravel_multi_index(tuple(after), dims)
    return steps


def mesh_arcs(dims: tuple[int, ...]) -> Ints:
    """int64[m, 2]: neighbours along the axes of a grid without wrap-around, both ways; the last axis runs fastest."""
    number = np.arange(math.prod(dims), dtype=np.int64).reshape(dims)
    parts = []
    for axis, size in enumerate(dims):
        low, high = (np.take(number, range(begin, begin + size - 1), axis).ravel() for begin in (0, 1))
        parts += [np.column_stack((low, high)), np.column_stack((high, low))]
    return np.concatenate(parts)


def kautz_arcs(servers: int, degree: int, *, joined: bool = True) -> Ints:
    """int64[m, 2]: arcs i -> -(d i + a) modulo n, a = 1..d (Imase and Itoh 1981), none of a server to itself; d < n.

    Where n is no multiple of d + 1 the rule gives some servers an arc to themselves, led elsewhere or dropped
    (`without_loops`).
    """
    tail = np.repeat(np.arange(servers, dtype=np.int64), degree)
    head = (-(degree * tail) - np.tile(np.arange(1, degree + 1, dtype=np.int64), servers)) % servers
    return without_loops(tail, head, joined=joined)


def de_bruijn_arcs(servers: int, degree: int, *, joined: bool = True) -> Ints:
    """int64[m, 2]: arcs i -> d i + a modulo n, a = 0..d-1 (Reddy, Pradhan and Kuhl 1980), loops as above; d < n."""
    tail = np.repeat(np.arange(servers, dtype=np.int64), degree)
    head = (degree * tail + np.tile(np.arange(degree, dtype=np.int64), servers)) % servers
    return without_loops(tail, head, joined=joined)


def without_loops(tail: Ints, head: Ints, *, joined: bool) -> Ints:
    """int64[m, 2]: arcs of which at most one of each server leads to itself, without these.

    Joined: they are led round a ring of just these servers instead, or, if there is but one, exchanged with another
    arc, so that every degree stays. Otherwise they are dropped.
    """
    loops = np.flatnonzero(tail == head)
    if not joined:
        return np.delete(np.column_stack((tail, head)), loops, axis=0)
    head[loops] = np.roll(tail[loops], -1)
    if len(loops) == 1:
        alone = tail[loops[0]]
        other = np.flatnonzero((tail != alone) & (head != alone))[0]
        head[[loops[0], other]] = head[[other, loops[0]]]
    return np.column_stack((tail, head))


@dataclass(frozen=True)
class SemidirectGroup:
    """Z_m x| Z_k by the multiplication with `twist`.

    Raises:
        ValueError: twist^order is not 1 modulo the modulus.
    """

    modulus: int
    order: int
    twist: int

    def __post_init__(self) -> None:
        if self.modulus < 1 or self.order < 1:
            raise ValueError(f"a group of {self.modulus} x {self.order} elements")
        if pow(self.twist, self.order, self.modulus) != 1 % self.modulus:
            raise ValueError(f"{self.twist}^{self.order} is not 1 modulo {self.modulus}")

    @property
    def elements(self) -> int:
        return self.modulus * self.order

    @cached_property
    def powers(self) -> Ints:
        """int64[k], of the twist modulo m."""
        return np.array([pow(self.twist, b, self.modulus) for b in range(self.order)], dtype=np.int64)

    def products(self, left: Ints, right: Ints | np.int64) -> Ints:
        """int64: elements of one array times those of another."""
        a, b = np.divmod(left, self.order)
        c, e = np.divmod(right, self.order)
        return np.asarray((a + self.powers[b] * c) % self.modulus * self.order + (b + e) % self.order, dtype=np.int64)

    def inverse(self, element: int) -> int:
        """What an element makes the identity with."""
        return int(self.inverses(np.array(element)))

    def inverses(self, elements: Ints) -> Ints:
        """int64: the same of each."""
        a, b = np.divmod(elements, self.order)
        back = -b % self.order
        return np.asarray(-self.powers[back] * a % self.modulus * self.order + back, dtype=np.int64)

    def arcs(self, generators: Sequence[int]) -> Ints:
        """int64[n d, 2]: x -> x s, by generators, then by x."""
        start = np.arange(self.elements, dtype=np.int64)
        return np.concatenate([np.column_stack((start, self.products(start, np.int64(s)))) for s in generators])


def haar_arcs(group: SemidirectGroup, generators: Sequence[int]) -> Ints:
    """int64[2 n d, 2]: arcs both ways of the Haar graph: x of one side and x s of the other, two servers an element.

    The number of an element is that of its server of the first side, and n more that of the other (Hladnik, Marusic,
    Pisanski, Cyclic Haar graphs, Discrete Mathematics 244, 2002; over groups that do not commute as bi-Cayley graphs).
    """
    pairs = group.arcs(generators) + np.array([0, group.elements])
    return np.concatenate((pairs, pairs[:, ::-1]))


def semidirect_groups(elements: int) -> list[SemidirectGroup]:
    """All groups Z_m x| Z_k of a size, larger m first, but those that a power of another's twist stands for.

    m = 1 is left out: Z_1 x| Z_n is Z_n x| Z_1.
    """
    groups = []
    for order in (k for k in range(1, elements) if elements % k == 0):
        modulus = elements // order
        units = [r for r in range(1, modulus) if math.gcd(r, modulus) == 1 and pow(r, order, modulus) == 1]
        steps = [j for j in range(1, order + 1) if math.gcd(j, order) == 1]
        twists = sorted({min(pow(r, j, modulus) for j in steps) for r in units})
        groups += [SemidirectGroup(modulus, order, twist) for twist in twists]
    return groups


@dataclass(frozen=True, eq=False)
class UnitGraph:
    """Servers, and unit arcs int64[m, 2]; loops are not allowed."""

    servers: int
    arcs: Ints


def line_digraph(graph: UnitGraph) -> UnitGraph:
    """Links become servers, numbered by (tail, head); (u, v) is linked to every (v, w).

    Of a network of degree d with n servers: n d servers of degree d, one step more.
    """
    order = np.lexsort((graph.arcs[:, 1], graph.arcs[:, 0]))
    tails, heads = graph.arcs[order].T
    first = np.searchsorted(tails, np.arange(graph.servers + 1))
    out = np.diff(first)[heads]
    inside = np.arange(out.sum()) - np.repeat(np.cumsum(out) - out, out)
    start = np.repeat(np.arange(len(tails), dtype=np.int64), out)
    return UnitGraph(len(tails), np.column_stack((start, np.repeat(first[heads], out) + inside)).astype(np.int64))


def copied(graph: UnitGraph, copies: int) -> UnitGraph:
    """Server u in so many copies, u * copies to u * copies + copies - 1; u -> v links all copies of u to all of v."""
    copy, other = (part.ravel() for part in np.indices((copies, copies)))
    rows = (graph.arcs[:, None, :] * copies + np.column_stack((copy, other))).reshape(-1, 2)
    return UnitGraph(graph.servers * copies, rows)


def cartesian_product(left: UnitGraph, right: UnitGraph) -> UnitGraph:
    """Server (a, b) has the number a * n_right + b; linked where one of both moves along a link of its network."""
    across = np.arange(right.servers)[:, None, None]
    down = np.arange(left.servers)[:, None, None]
    first = (left.arcs * right.servers + across).reshape(-1, 2)
    second = (right.arcs + down * right.servers).reshape(-1, 2)
    return UnitGraph(left.servers * right.servers, np.concatenate((first, second)))
