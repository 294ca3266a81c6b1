"""Routes of transfers: given paths, shortest paths split evenly, and the paths inside a routing of all traffic."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import networkx as nx
import numpy as np

from topoopt.core.allocation import Route
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InputError
from topoopt.core.topology import Topology

DUST = 1e-9
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
    distinct, place = np.unique(arcs, return_inverse=True)
    together = np.bincount(place, weights=fraction, minlength=len(distinct)).astype(np.float64)
    return Route(distinct.astype(np.int64), together)


class ShortestRoutes:
    """Hop-shortest routes: every server splits evenly among its links that lead on towards the destination (ECMP)."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._tail, self._head = topology.arcs[:, 0].astype(np.int64), topology.arcs[:, 1].astype(np.int64)
        self._hops: dict[int, Ints] = {}

    def _hops_to(self, destination: int) -> Ints:
        if destination not in self._hops:
            hops = np.full(self._topology.servers, -1, dtype=np.int64)
            hops[destination] = 0
            reached = 0
            while (there := hops == reached).any():
                before = self._tail[there[self._head]]
                hops[before[hops[before] < 0]] = reached + 1
                reached += 1
            self._hops[destination] = hops
        return self._hops[destination]

    def route(self, source: int, destination: int) -> Route:
        """The route of a pair; parallel links count one by one.

        Raises:
            InputError: no path joins them.
        """
        hops = self._hops_to(destination)
        if hops[source] < 0:
            raise InputError(f"no path from server {source} to server {destination}")
        nearer = np.flatnonzero((hops[self._head] == hops[self._tail] - 1) & (hops[self._head] >= 0))
        tails, links = self._tail[nearer], self._topology.multiplicity[nearer].astype(np.float64)
        leaving = np.bincount(tails, weights=links, minlength=self._topology.servers)
        share = links / leaving[tails]
        passing = np.zeros(self._topology.servers)
        passing[source] = 1.0
        fraction = np.zeros(len(nearer))
        for distance in range(int(hops[source]), 0, -1):
            here = hops[tails] == distance
            fraction[here] = passing[tails[here]] * share[here]
            np.add.at(passing, self._head[nearer[here]], fraction[here])
        used = fraction > 0
        return Route(nearer[used], fraction[used])


def routes_of_flow(topology: Topology, source: int, flow: Floats) -> dict[int, tuple[float, Route]]:
    """What one source sends, taken apart by destination.

    Args:
        flow: float64[m], all traffic of the source over the arcs; circles in it are left out.

    Returns:
        Amount and route of every destination at which more than dust stays. Traffic that meets at a server is mixed
        evenly: of all that leaves it, every destination has the parts of the arcs that what came in had.
    """
    arcs = topology.arcs.astype(np.int64)
    n = topology.servers
    flow = _without_circles(arcs, flow)
    total = float(flow[arcs[:, 0] == source].sum())
    arriving = np.bincount(arcs[:, 1], weights=flow, minlength=n)
    stays = arriving - np.bincount(arcs[:, 0], weights=flow, minlength=n)
    targets = [int(v) for v in np.flatnonzero(stays > DUST * total) if v != source]
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
    found = {}
    for k, target in enumerate(targets):
        there = np.flatnonzero(fraction[k] > 0)
        found[target] = (float(stays[target]), Route(there.astype(np.int64), fraction[k, there]))
    return found


def _without_circles(arcs: Ints, flow: Floats) -> Floats:
    flow = np.where(flow > DUST * flow.max(initial=0.0), flow, 0.0)
    used = np.flatnonzero(flow)
    graph: Any = nx.DiGraph()
    graph.add_edges_from((int(arcs[arc, 0]), int(arcs[arc, 1]), {"arc": arc}) for arc in used.tolist())
    while not nx.is_directed_acyclic_graph(graph):
        circle = [graph.edges[edge[:2]]["arc"] for edge in nx.find_cycle(graph)]
        flow[circle] -= flow[circle].min()
        graph.remove_edges_from([tuple(arcs[arc].tolist()) for arc in circle if flow[arc] <= 0])
    return flow
