"""Degrees are split, interfaces matched, and link counts become arcs, optical switches and plans of kind `topology`.

One partial permutation of the servers per optical switch: which interface of each server carries which arc.

Interface j of every server is wired to switch j, so an arc i -> k on switch j leaves i and enters k by interface j.
Giving the arcs to switches so that none has two arcs out of or into one server is edge colouring of the bipartite
(tail, head) multigraph; its largest degree is enough colours (Koenig 1916), found here by alternating paths.

Maximum-weight matchings for model-parallel traffic: one interface of every server to the partner that needs it most.

Bidirectional links: a matching of the servers (TopoOpt, Algorithm 1). It is exact (Blossom, networkx) up to
`EXACT_SERVERS` servers that have demand; above that, greedy with pairwise exchanges, since Blossom takes minutes there.
Unidirectional links: a permutation without fixed points, the assignment problem, exact at any size.

How many interfaces go to AllReduce rings, how many to model-parallel matchings, and rings to each group size.

Algorithm 1 of the TopoOpt paper: d_A = max(1, ceil(d * AllReduce / all)) interfaces, the rest to matchings; the rings
shared among the group sizes in proportion to their traffic. One ring over all servers always stands, so that everybody
is reachable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from topoopt import native
from topoopt.core.arrays import Bools, Floats, Int32s, Ints, offsets
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.network import RoutingPlan, TopologyPlan
from topoopt.core.process import end_if_left
from topoopt.core.topology import Topology, strongly_connected
from topoopt.core.workload import Demand
from topoopt.native import graph

if TYPE_CHECKING:
    import networkx as nx


ArcList = Ints
"""int64[m, 2], rows (tail, head), one per unit link and direction."""


def ring_arcs(n: int, distance: int, links: LinkDirection) -> ArcList:
    """Arcs i -> i + distance of all servers, and back for bidirectional links (once for the antipodal distance)."""
    start = np.arange(n, dtype=np.int64)
    forward = np.column_stack((start, (start + distance) % n))
    if links is LinkDirection.UNIDIRECTIONAL or 2 * distance % n == 0:
        return forward
    return np.vstack((forward, forward[:, ::-1]))


def link_arcs(pairs: Iterable[tuple[int, int]]) -> ArcList:
    array = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
    return np.vstack((array, array[:, ::-1]))


def assemble(n: int, degree: int, links: LinkDirection, parts: Sequence[ArcList], origin: str) -> Topology:
    """Topology with all unit arcs of `parts`; equal arcs become parallel links.

    Raises:
        InfeasibleError: some server cannot reach another one.
        InputError: a server has more arcs than interfaces.
    """
    unit = np.vstack([np.zeros((0, 2), dtype=np.int64), *parts])
    topology = Topology.of_arcs(n, unit, degree=degree, links=links, origin=origin)
    if not strongly_connected(n, topology.arcs):
        raise InfeasibleError(f"the links of this topology ({origin}) do not connect all {n} servers")
    return switched(topology)


def switched(topology: Topology) -> Topology:
    """The same with all its links given to switches.

    Raises:
        InputError: a server has more arcs than interfaces.
    """
    n, degree = topology.servers, topology.degree
    duplex = topology.links is LinkDirection.BIDIRECTIONAL
    switches = assign_switches(n, degree, topology.arcs, topology.multiplicity, duplex=duplex)
    return replace(topology, switches=switches)


def common_offsets(n: int, arcs: Int32s, multiplicity: Int32s) -> dict[int, int]:
    """Displacements that every server has an arc of, ascending, with the parallel links all of them have."""
    shift = (arcs[:, 1].astype(np.int64) - arcs[:, 0]) % n
    present = np.bincount(shift, minlength=n)
    fewest = np.full(n, np.iinfo(np.int32).max, dtype=np.int32)
    np.minimum.at(fewest, shift, multiplicity)
    return {int(p): int(fewest[p]) for p in np.flatnonzero(present == n)}


@dataclass(frozen=True, eq=False)
class Digraph:
    """A directed graph of servers, its arcs sorted by tail (compressed rows).

    Attributes:
        first: int64[n+1]; arcs of tail v are first[v]..first[v+1].
        tail, head: int64[m]; an arc that leads back to its own tail is dead.
        capacity: float64[m], parallel links of each arc.
    """

    first: Ints
    tail: Ints
    head: Ints
    capacity: Floats

    @property
    def servers(self) -> int:
        return len(self.first) - 1

    @property
    def columns(self) -> int:
        return self.servers * len(self.head)

    @cached_property
    def inverse_capacity(self) -> Floats:
        """float64[m], 0 where there is no link."""
        return np.divide(1.0, self.capacity, out=np.zeros_like(self.capacity), where=self.capacity > 0)

    @cached_property
    def hops_to(self) -> Int32s:
        """int32[n, n]; hops_to[t, v] is the fewest hops from v to t, -1 where nothing leads there."""
        by_head = np.argsort(self.head, kind="stable")  # hops towards t are hops from t over reversed arcs
        reverse = row_ptr(self.head, self.servers), np.ascontiguousarray(self.tail[by_head])
        return native.graph.hop_distances(*reverse, self.servers).astype(np.int32)


def arc_graph(topology: Topology) -> Digraph:
    """Compile a topology.

    Raises:
        InfeasibleError: some server cannot reach another one.
    """
    tail, head = topology.arcs[:, 0].astype(np.int64), topology.arcs[:, 1].astype(np.int64)
    graph = Digraph(row_ptr(tail, topology.servers), tail, head, topology.multiplicity.astype(np.float64))
    if (graph.hops_to < 0).any():
        t, s = np.argwhere(graph.hops_to < 0)[0]
        raise InfeasibleError(f"no route from server {s} to server {t}: the topology is not connected")
    return graph


def row_ptr(keys: Ints, n: int) -> Ints:
    """int64[n+1]: where the entries of each key begin once they are sorted."""
    return offsets(np.bincount(keys, minlength=n))


def _colour(tails: Ints, heads: Ints, first: int, out: Int32s, into: Int32s) -> None:
    """Add unit arcs to out[colour, tail] = head and into[colour, head] = tail, using colours >= first."""
    send, receive = out.tolist(), into.tolist()
    for u, v in zip(tails.tolist(), heads.tolist(), strict=True):
        a = next(colour for colour in range(first, len(send)) if send[colour][u] < 0)
        b = next(colour for colour in range(first, len(send)) if receive[colour][v] < 0)
        # Colour a is free where u sends, b where v receives. The arcs of colours a, b, a, ... from v make a path that
        # cannot end at u; exchanging the two colours along it frees a at v.
        path, head = [], v
        while a != b and (tail := receive[a][head]) >= 0:
            path.append((tail, head, a, b))
            head = send[b][tail]
            if head < 0:
                break
            path.append((tail, head, b, a))
        for tail, head, colour, _ in path:
            send[colour][tail] = receive[colour][head] = -1
        for tail, head, _, colour in path:
            send[colour][tail], receive[colour][head] = head, tail
        send[a][u], receive[a][v] = v, u
    out[:], into[:] = send, receive


def assign_switches(n: int, degree: int, arcs: Int32s, multiplicity: Int32s, *, duplex: bool = False) -> Int32s:
    """int32[degree, n]: head reached from each server through each switch, -1 where dark.

    A displacement that every server has gets switches of its own, so a circulant needs one patch pattern per distance.
    Duplex links are given to switches so that an interface sends to and receives from the same other one, if that can
    be found; what is left then takes the two fibres of some interfaces apart.

    Args:
        n: servers.
        degree: switches, one per interface.
        arcs: int32[m, 2], distinct (tail, head).
        multiplicity: int32[m], parallel links per arc.
        duplex: arcs come in opposite pairs.

    Raises:
        InputError: some server sends or receives more than `degree` arcs.
    """
    sent = np.bincount(arcs[:, 0], weights=multiplicity, minlength=n)
    received = np.bincount(arcs[:, 1], weights=multiplicity, minlength=n)
    over = np.flatnonzero((sent > degree) | (received > degree))
    if len(over):
        raise InputError(
            [Problem("server has more links than interfaces", path=f"server {i}", allowed=f"<= {degree}") for i in over]
        )
    if duplex:
        return _paired(n, degree, arcs, multiplicity)
    out, into = np.full((2, degree, n), -1, dtype=np.int32)
    left, used = _shifted(n, arcs, multiplicity, out, into)
    tails, heads = np.repeat(arcs.astype(np.int64), left, axis=0).T
    _colour(tails, heads, used, out, into)
    return out


def _shifted(n: int, arcs: Int32s, multiplicity: Int32s, out: Int32s, into: Int32s) -> tuple[Ints, int]:
    """Give displacements that all servers have a switch each; what is left of each arc, and the switches used."""
    left = multiplicity.astype(np.int64).copy()
    shift = (arcs[:, 1].astype(np.int64) - arcs[:, 0]) % n
    used = 0
    servers = np.arange(n, dtype=np.int64)
    for displacement in np.unique(shift):
        rows = shift == displacement
        if int(rows.sum()) != n:
            continue
        for _ in range(int(left[rows].min())):
            out[used] = (servers + displacement) % n
            into[used] = (servers - displacement) % n
            used += 1
        left[rows] -= left[rows].min()
    return left, used


def _paired(n: int, degree: int, arcs: Int32s, multiplicity: Int32s) -> Int32s:
    """The same for links in opposite pairs: a matching a switch, as far as that is found."""
    ends = np.repeat(arcs, multiplicity, axis=0).astype(np.int64)
    ends = ends[ends[:, 0] < ends[:, 1]]
    out, left = graph.duplex_matchings(n, degree, ends)
    if not len(left):
        return out
    ends = ends[left]
    # Each server with links left has as many switches it does not use: these carry them with the links they have.
    apart = np.zeros(degree, dtype=np.bool_)
    for server, links in zip(*np.unique(ends, return_counts=True), strict=True):
        free = out[:, server] < 0
        needed = np.flatnonzero(free & ~apart)[: max(0, links - int((free & apart).sum()))]
        apart[needed] = True
    rows = np.flatnonzero(apart)
    switch, tail = np.nonzero(out[rows] >= 0)
    tails = np.concatenate((tail, ends.T.ravel()))
    heads = np.concatenate((out[rows][switch, tail], ends[:, ::-1].T.ravel())).astype(np.int64)
    fresh, into = np.full((2, len(rows), n), -1, dtype=np.int32)
    _colour(tails, heads, 0, fresh, into)
    out[rows] = fresh
    return out


EXACT_SERVERS = 64


def discount(weights: Floats, tails: Ints, heads: Ints, count: int) -> None:
    """Scale the demand of pairs by c/(c+1), c links now between them: the worth of a parallel link falls."""
    weights[tails, heads] *= count / (count + 1.0)


def best_matching(weights: Floats, allowed: Bools) -> list[tuple[int, int]]:
    """Pairs (i < j) of a heaviest matching of the allowed servers that leaves at most one of them over.

    Args:
        weights: float64[n, n], symmetric, non-negative: worth of a link between two servers.
        allowed: bool[n], servers with a free interface.
    """
    import networkx as nx

    servers = np.flatnonzero(allowed)
    inner = np.ascontiguousarray(weights[np.ix_(servers, servers)])
    np.fill_diagonal(inner, 0.0)
    busy = np.flatnonzero(inner.sum(axis=1) > 0)
    partner = np.full(len(servers), -1, dtype=np.int64)
    if len(busy) <= EXACT_SERVERS:
        graph: nx.Graph[int] = nx.Graph()
        rows, columns = np.nonzero(np.triu(inner, 1))
        # Blossom on floats of 10^9 bytes stays exact when scaled to integers.
        scale = 2.0**40 / max(float(inner.max(initial=0.0)), 1.0)
        graph.add_weighted_edges_from(
            (int(i), int(j), round(float(inner[i, j]) * scale)) for i, j in zip(rows, columns, strict=True)
        )
        for i, j in sorted(tuple(sorted(pair)) for pair in nx.max_weight_matching(graph)):
            partner[i], partner[j] = j, i
    matched = native.graph.complete_matching(inner, partner).tolist()
    return [(int(servers[i]), int(servers[j])) for i, j in enumerate(matched) if i < j]


def best_permutation(weights: Floats) -> Ints:
    """int64[n]: head of each server's arc, a permutation without fixed points of greatest total weight (n >= 2)."""
    from scipy.optimize import linear_sum_assignment

    n = len(weights)
    cost = -weights.copy()
    np.fill_diagonal(cost, float(np.abs(weights).sum()) + n)
    return np.asarray(linear_sum_assignment(cost)[1], dtype=np.int64)


def match_demand(demand: Floats, free: Ints, rounds: int) -> list[tuple[int, int]]:
    """At most `rounds` matchings of the servers that have free interfaces, heaviest first; `free` is counted down.

    Demand of a pair is the sum of both directions; a linked pair's demand counts c/(c+1) for the next round, c being
    the links it has got. A server left over in a round (odd n) goes first in the next.
    """
    weights = np.array(demand + demand.T, dtype=np.float64)
    links = np.zeros(weights.shape, dtype=np.int32)
    waiting = np.zeros(len(free), dtype=bool)
    chosen: list[tuple[int, int]] = []
    for _ in range(rounds):
        end_if_left()
        if np.count_nonzero(free) < 2:
            break
        weight = weights
        if waiting.any():  # more than any matching can weigh, so that whoever waits is served
            bonus = (float(weights.sum()) + 1.0) * waiting
            weight = weights + bonus[:, None] + bonus[None, :]
        pairs = best_matching(weight, free > 0)
        waiting = free > 0
        for i, j in pairs:
            links[i, j] = links[j, i] = links[i, j] + 1
            discount(weights, np.array([i, j]), np.array([j, i]), int(links[i, j]))
            free[[i, j]] -= 1
            waiting[[i, j]] = False
        chosen += pairs
    return chosen


def fill_free(demand: Floats, free: Ints, movable: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """All links outside the rings: `movable` (those of the matchings), and what the free interfaces still allow.

    What is left when one server alone has two or more free interfaces is mended by opening a movable link a-b and
    linking that server to a and to b. At most one interface of the whole cluster stays dark, if that.
    """
    # A server with many free interfaces may be left out of some rounds, so there may be more than it has.
    links = [*movable, *match_demand(demand, free, int(free.sum()) // 2)]
    lonely = int(np.argmax(free))
    for index in range(len(links)):
        a, b = links[index]
        if free[lonely] < 2:
            break
        if lonely not in (a, b):
            links[index] = (lonely, a)
            links.append((lonely, b))
            free[lonely] -= 2
    return links


def split_degree(
    servers: int, degree: int, links: LinkDirection, demand: Demand, model_parallel_degree: int | None = None
) -> tuple[int, int]:
    """Interfaces of each server for AllReduce rings, and for matchings of model-parallel traffic.

    A bidirectional ring takes two interfaces, so d_A is rounded up to an even number. `model_parallel_degree` forces
    d_MP, as far as one ring over all servers still fits.
    """
    least = 2 if links is LinkDirection.BIDIRECTIONAL and servers > 2 else 1
    unit = least
    if model_parallel_degree is None:
        ring_bytes = demand.allreduce_wire_bytes
        transfer_bytes = float(demand.model_parallel_bytes.sum())
        total = ring_bytes + transfer_bytes
        wanted = max(1, ceil(degree * ring_bytes / total - 1e-9)) if total > 0 else degree
        rings = -(-wanted // unit) * unit
        if transfer_bytes <= 0:
            rings = degree
        elif rings > degree:  # odd degree: the last interface cannot make a ring
            rings = degree - 1
    else:
        rings = degree - model_parallel_degree
    rings = min(max(rings, least), degree)
    return rings, degree - rings


def coset_size(n: int, members: tuple[int, ...]) -> int | None:
    """Size of the group when it is a coset of a subgroup of Z_n (equally spaced servers), else None."""
    size = len(members)
    if size < 2 or n % size:
        return None
    ordered = sorted(members)
    step = n // size
    return size if all(ordered[i] == ordered[0] + i * step for i in range(size)) else None


def traffic_by_size(n: int, demand: Demand) -> dict[int, float]:
    """AllReduce wire bytes per ring size; groups that are not equally spaced count for the ring over all servers."""
    traffic: dict[int, float] = {}
    for group in demand.allreduce:
        size = coset_size(n, group.members) or n
        traffic[size] = traffic.get(size, 0.0) + len(group.members) * group.wire_bytes_per_member
    return traffic


def share_rings(n: int, interfaces: int, links: LinkDirection, traffic: Mapping[int, float]) -> dict[int, int]:
    """Rings (distances) per group size, in proportion to traffic, within `interfaces` per server.

    One ring over all n servers comes first. Each further one goes to the size whose traffic per interface it has is
    largest (highest averages, so no share is rounded away). The distance n/2 of pairs takes one interface.
    """

    def price(size: int) -> int:
        return 1 if links is LinkDirection.UNIDIRECTIONAL or size == 2 else 2

    rings = {n: 1}
    left = interfaces - price(n)
    sizes = sorted({n, *(size for size, amount in traffic.items() if amount > 0)}, reverse=True)
    while True:
        fitting = [size for size in sizes if price(size) <= left]
        if not fitting:
            return rings
        wanted = max(fitting, key=lambda size: traffic.get(size, 0.0) / (price(size) * (rings.get(size, 0) + 1)))
        rings[wanted] = rings.get(wanted, 0) + 1
        left -= price(wanted)


def topology_plan(topology: Topology, routing: RoutingPlan) -> TopologyPlan:
    """Return the plan of a topology and a routing over its arcs.

    Raises:
        InputError: A server has more arcs than interfaces.
    """
    lit = topology if (topology.switches >= 0).any() else switched(topology)
    return TopologyPlan(flows=routing.flows, split=routing.split, circuits=lit.switches, origin=lit.origin)
