"""A direct-connect topology: directed arcs between servers, and the permutation each optical switch realises."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.data import Displayed
from topoopt.core.errors import InputError, Problem

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
        if problems:
            raise InputError(problems)
        direction = LinkDirection(links)
        both = np.concatenate((pairs, pairs[:, ::-1])) if direction is LinkDirection.BIDIRECTIONAL else pairs
        topology = cls.of_arcs(n, both, degree=degree, links=direction, origin=origin)
        problems = topology.degree_problems()
        if problems:
            raise InputError(problems)
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
