"""Routes of transfers: given paths, shortest paths split evenly, and the paths inside a routing of all traffic."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from topoopt.core.allocation import Route
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InputError
from topoopt.core.topology import Topology

TRIFLE = 1e-9
"""Part of a transfer below which what an arc carries of it is a solver's rounding."""


def path_route(topology: Topology, path: Sequence[int]) -> Route:
    """The route over one path of servers, both ends included.

    Raises:
        InputError: fewer than two servers, one that does not exist or comes twice, or no link between neighbours.
    """
    problem = path_problem(topology, path)
    if problem is not None:
        raise InputError(problem)
    ids = topology.arc_ids()
    return Route(np.array([ids[u, v] for u, v in itertools.pairwise(path)], dtype=np.int64), np.ones(len(path) - 1))


def path_problem(topology: Topology, path: Sequence[int]) -> str | None:
    """What keeps a list of servers from being a path, None if nothing does."""
    if len(path) < 2:
        return "a path needs two servers at least"
    for server in path:
        if not 0 <= server < topology.servers:
            return f"unknown server {server} on the path"
    if len(set(path)) < len(path):
        return f"the path visits server {next(v for v in path if list(path).count(v) > 1)} twice"
    for tail, head in itertools.pairwise(path):
        if not ((topology.arcs[:, 0] == tail) & (topology.arcs[:, 1] == head)).any():
            return f"there is no link {tail} -> {head}"
    return None


def mixed_route(parts: Sequence[tuple[Route, float]]) -> Route:
    """Several routes with the share of the traffic each one takes; shares sum to 1."""
    arcs = np.concatenate([route.arcs for route, _ in parts])
    fraction = np.concatenate([route.fraction * share for route, share in parts])
    distinct, index = np.unique(arcs, return_inverse=True)
    together = np.bincount(index, weights=fraction, minlength=len(distinct)).astype(np.float64)
    return Route(distinct.astype(np.int64), together)


TOGETHER = 512
"""Pairs whose routes are made at once: distances to all their destinations are held meanwhile."""


class ShortestRoutes:
    """Hop-shortest routes: every server splits evenly among its links that lead on towards the destination (ECMP)."""

    def __init__(self, topology: Topology) -> None:
        from scipy.sparse import csr_array

        self._servers = n = topology.servers
        tail, self._head = topology.arcs[:, 0].astype(np.int64), topology.arcs[:, 1].astype(np.int64)
        self._links = topology.multiplicity.astype(np.float64)
        self._leaving = np.argsort(tail, kind="stable")  # arcs by their tail
        self._first = np.concatenate(([0], np.cumsum(np.bincount(tail, minlength=n))))
        self._backwards = csr_array((np.ones(len(tail)), (self._head, tail)), shape=(n, n))

    def least_entries(self, pairs: Ints, most: int) -> int:
        """How many servers send towards a destination, over all destinations of pairs (int64[k, 2]): so many at least.

        As many as the longest of the routes to a destination has links; counted only where it may be more than `most`.
        """
        destinations, row = np.unique(pairs[:, 1], return_inverse=True)
        if len(destinations) * self._servers <= most:
            return 0
        count = 0
        for begin in range(0, len(destinations), TOGETHER):
            here = (row >= begin) & (row < begin + TOGETHER)
            hops = self._hops(destinations[begin : begin + TOGETHER])[row[here] - begin, pairs[here, 0]]
            longest = np.zeros(TOGETHER)
            np.maximum.at(longest, row[here] - begin, np.where(np.isfinite(hops), hops, 0.0))
            count += int(longest.sum())
        return count

    def routes(self, pairs: Ints) -> list[Route]:
        """The routes of pairs, int64[k, 2] sources and destinations; parallel links count one by one.

        Raises:
            InputError: no path joins one of them.
        """
        routes: list[Route | None] = [None] * len(pairs)
        order = np.argsort(pairs[:, 1], kind="stable")
        for begin in range(0, len(order), TOGETHER):
            some = order[begin : begin + TOGETHER]
            for k, route in zip(some.tolist(), self._routes(pairs[some]), strict=True):
                routes[k] = route
        return [route for route in routes if route is not None]

    def route(self, source: int, destination: int) -> Route:
        """The route of one pair.

        Raises:
            InputError: no path joins them.
        """
        return self.routes(np.array([[source, destination]], dtype=np.int64))[0]

    def _hops(self, destinations: Ints) -> Floats:
        """float64[k, n], to each of some destinations from every server; infinite where no path leads there."""
        from scipy.sparse.csgraph import dijkstra

        hops: Floats = dijkstra(self._backwards, indices=destinations, unweighted=True)
        return hops

    def _routes(self, pairs: Ints) -> list[Route]:
        destinations, row = np.unique(pairs[:, 1], return_inverse=True)
        hops = self._hops(destinations)
        far = np.flatnonzero(np.isinf(hops[row, pairs[:, 0]]))
        if len(far):
            source, destination = pairs[far[0]].tolist()
            raise InputError(f"no path from server {source} to server {destination}")
        pair: Ints = np.arange(len(pairs))
        server: Ints = pairs[:, 0]
        passing: Floats = np.ones(len(pairs))
        steps: list[tuple[Ints, Ints, Floats]] = []
        while len(pair):
            degree = self._first[server + 1] - self._first[server]
            of = np.repeat(np.arange(len(pair)), degree)
            before = np.cumsum(degree) - degree - self._first[server]
            arc = self._leaving[np.arange(len(of)) - np.repeat(before, degree)]
            to = row[pair[of]]
            nearer = hops[to, self._head[arc]] == hops[to, server[of]] - 1
            arc, of = arc[nearer], of[nearer]
            links = self._links[arc]
            part = passing[of] * (links / np.bincount(of, weights=links, minlength=len(pair))[of])
            steps.append((pair[of], arc, part))
            there, index = np.unique(pair[of] * self._servers + self._head[arc], return_inverse=True)
            pair, server = np.divmod(there, self._servers)
            passing = np.asarray(np.bincount(index, weights=part), dtype=np.float64)
        which, arcs = (np.concatenate([column[k] for column in steps]) for k in (0, 1))
        fraction = np.concatenate([part for _, _, part in steps])
        used = np.flatnonzero(fraction)
        used = used[np.lexsort((arcs[used], which[used]))]
        ends = np.searchsorted(which[used], np.arange(1, len(pairs)))
        parts = zip(np.split(arcs[used], ends), np.split(fraction[used], ends), strict=True)
        return [Route(own, share) for own, share in parts]


def routes_of_flow(topology: Topology, source: int, flow: Floats) -> dict[int, tuple[float, Route]]:
    """What one source sends, taken apart by destination.

    Args:
        flow: float64[m], all traffic of the source over the arcs; circles in it are left out.

    Returns:
        Amount and route of every destination at which more than dust stays. Traffic that meets at a server is mixed
        evenly: of all that leaves it, every destination has the parts of the arcs that what came in had.
    """
    import networkx as nx

    arcs = topology.arcs.astype(np.int64)
    n = topology.servers
    flow = _without_circles(arcs, flow)
    total = float(flow[arcs[:, 0] == source].sum())
    arriving = np.bincount(arcs[:, 1], weights=flow, minlength=n)
    stays = arriving - np.bincount(arcs[:, 0], weights=flow, minlength=n)
    targets = [int(v) for v in np.flatnonzero(stays > TRIFLE * total) if v != source]
    used = np.flatnonzero(flow > 0)
    graph: Any = nx.DiGraph(arcs[used].tolist())
    order = list(nx.lexicographical_topological_sort(graph)) if len(used) else []
    into: dict[int, list[int]] = {}
    for arc in used.tolist():
        into.setdefault(int(arcs[arc, 1]), []).append(arc)
    # visits[k, v]: part of the traffic for target k that passes v; seen backwards from the target
    visits = np.zeros((len(targets), n))
    visits[np.arange(len(targets)), targets] = 1.0
    fraction = np.zeros((len(targets), len(arcs)))
    for server in reversed(order):
        for arc in into.get(server, []) if server != source else []:
            fraction[:, arc] = visits[:, server] * (flow[arc] / arriving[server])
            visits[:, arcs[arc, 0]] += fraction[:, arc]
    routes = {}
    for k, target in enumerate(targets):
        there = np.flatnonzero(fraction[k] > 0)
        routes[target] = (float(stays[target]), Route(there.astype(np.int64), fraction[k, there]))
    return routes


def _without_circles(arcs: Ints, flow: Floats) -> Floats:
    import networkx as nx

    flow = np.where(flow > TRIFLE * flow.max(initial=0.0), flow, 0.0)
    used = np.flatnonzero(flow)
    graph: Any = nx.DiGraph()
    graph.add_edges_from((int(arcs[arc, 0]), int(arcs[arc, 1]), {"arc": arc}) for arc in used.tolist())
    while not nx.is_directed_acyclic_graph(graph):
        circle = [graph.edges[edge[:2]]["arc"] for edge in nx.find_cycle(graph)]
        flow[circle] -= flow[circle].min()
        graph.remove_edges_from([tuple(arcs[arc].tolist()) for arc in circle if flow[arc] <= 0])
    return flow
