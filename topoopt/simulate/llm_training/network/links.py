"""Links between servers and switches, routes over them, and what the links carry for every byte that each GPU sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError
from topoopt.core.group_schedule import GroupSchedule
from topoopt.core.llm_training_plan import TrafficFamily
from topoopt.core.routing import PathTable
from topoopt.simulate.llm_training.network.groups import BlockGroups, FamilyGroups

BYTES_PER_GBIT = 1.25e8


class Rails(Enum):
    """What goes over the network inside a server on its way between servers."""

    NONE = "none"  # interfaces serve all GPUs, or switches join all of them
    SPINE = "spine"  # GPUs of the same place share a switch, others meet a layer above
    RELAYED = "relayed"  # GPUs of the same place share a switch, others do not meet
    OWNED = "owned"  # an interface is that of one GPU, and leads to one server


@dataclass(frozen=True, eq=False)
class LinkGraph:
    """Directed links.

    Attributes:
        servers: n, nodes 0..n-1; switches follow.
        nodes: all of them.
        tail, head: int64[L], distinct pairs.
        parallel: int64[L], links from tail to head.
        link_gbps: rate of one of them.
        rails: how GPUs of different places in their servers meet.
        rail_parts: float64[n, r], part of the links of each server to each rail that is left; None: all of them.
    """

    servers: int
    nodes: int
    tail: Ints
    head: Ints
    parallel: Ints
    link_gbps: float
    rails: Rails = Rails.NONE
    rail_parts: Floats | None = None

    @property
    def bytes_per_s(self) -> Floats:
        """float64[L]."""
        return np.asarray(self.parallel * self.link_gbps * BYTES_PER_GBIT)


RingOrders = Mapping[TrafficFamily, tuple[Ints, ...]]
"""For each class of groups of a family int64[G, R, k]: servers of R rings of each group, in their order."""


@dataclass(frozen=True, eq=False)
class PlacedNetwork:
    """Links with all that decides what they carry.

    Attributes:
        places: int64[n], server of each block of ranks.
        orders: rings of the groups, as the classes of `FamilyGroups`.
        routes: of the pairs of servers that send.
        schedules: of families that reduce on them, not on their rings.
        token_routes: of tokens to experts and back, where circuits are theirs alone; None: as all others.
    """

    graph: LinkGraph
    places: Ints
    orders: RingOrders
    routes: PathTable
    schedules: Mapping[TrafficFamily, tuple[GroupSchedule, ...]] = field(default_factory=dict)
    token_routes: PathTable | None = None


@dataclass(frozen=True, eq=False)
class FamilyFlows:
    """Bytes from server to server for every byte that each GPU sends: int64[m], int64[m], float64[m]."""

    source: Ints
    target: Ints
    amount: Floats


def ring_flows(groups: tuple[BlockGroups, ...], orders: tuple[Ints, ...]) -> FamilyFlows:
    """Each ring carries an equal share."""
    parts = [
        (rings.ravel(), np.roll(rings, -1, axis=2).ravel(), np.repeat(one.groups / rings.shape[1], rings[0].size))
        for one, rings in zip(groups, orders, strict=True)
    ]
    return _joined(parts)


def exchange_flows(groups: tuple[BlockGroups, ...], places: Ints) -> FamilyFlows:
    """Every server sends equally much to all others of its group."""
    parts = []
    for one in groups:
        servers, k = places[one.blocks], one.blocks.shape[1]
        source, target = (side.ravel() for side in np.nonzero(~np.eye(k, dtype=bool)))
        amount = one.groups * one.ranks / k / (k - 1)
        parts.append((servers[:, source].ravel(), servers[:, target].ravel(), np.repeat(amount, len(source))))
    return _joined(parts)


def _joined(parts: list[tuple[Ints, Ints, Floats]]) -> FamilyFlows:
    source, target, amount = (np.concatenate(side) for side in zip(*parts, strict=True))
    return FamilyFlows(source, target, amount)


def family_flows(
    groups: FamilyGroups, places: Ints, orders: RingOrders
) -> dict[TrafficFamily, tuple[FamilyFlows, ...]]:
    """FamilyFlows of each family between servers; two for those between stages, there and back, which need not meet."""
    found: dict[TrafficFamily, tuple[FamilyFlows, ...]] = {}
    for family, classes in groups.collectives.items():
        if family is TrafficFamily.EXPERT:
            found[family] = (exchange_flows(classes, places),)
        else:
            found[family] = (ring_flows(classes, orders[family]),)
    hops = groups.hops
    if len(hops.source):
        ahead = FamilyFlows(places[hops.source], places[hops.target], hops.ranks)
        found[TrafficFamily.PIPELINE] = (ahead, FamilyFlows(ahead.target, ahead.source, ahead.amount))
    return found


@dataclass(frozen=True, eq=False)
class FamilyLoad:
    """What a family puts on the links for every byte that each of its GPUs sends.

    Attributes:
        seconds: float64[L + n], of each link at its whole rate, and of the network inside each server.
        sent: the most bytes that leave one server.
        hops: of the longest route; a switch is one hop.
        waits: seconds beside those of the fullest link: of rounds, and of steps that fill other links.
        method: what it reduces on, where rounds are counted.
        rounds: of one AllReduce then.
    """

    seconds: Floats
    sent: float
    hops: int
    waits: float = 0.0
    method: str = ""
    rounds: int = 0

    @property
    def taken(self) -> float:
        """Seconds of a byte alone, links at their whole rate."""
        return float(self.seconds.max()) + self.waits


def family_loads(
    network: PlacedNetwork, groups: FamilyGroups, *, server_bytes_per_s: float, gpus_per_server: int
) -> dict[TrafficFamily, FamilyLoad]:
    """Loads of all families between servers.

    Args:
        server_bytes_per_s: of the network inside a server, all GPUs together.

    Raises:
        InfeasibleError: a pair that sends has no route.
    """
    usual = _lookup(network.graph, network.routes)
    tokens = usual if network.token_routes is None else _lookup(network.graph, network.token_routes)
    relayed = {family: _mean_relayed(classes) for family, classes in groups.collectives.items()}
    relayed[TrafficFamily.PIPELINE] = groups.hops.relayed
    relayed[TrafficFamily.EXPERT] = 0.0  # a token crosses to the GPU of the same place, and goes on inside the server
    found = {}
    for family, directions in family_flows(groups, network.places, network.orders).items():
        lookup = tokens if family is TrafficFamily.EXPERT else usual
        loads = [lookup.load(flows) for flows in directions]
        seconds = np.maximum.reduce([load / network.graph.bytes_per_s for load, _ in loads])
        inside = np.maximum.reduce(
            [_relays(network.graph, flows, load, relayed[family], gpus_per_server)
             for flows, (load, _) in zip(directions, loads, strict=True)]
        )  # fmt: skip
        sent = max(float(np.bincount(one.source, one.amount).max(initial=0.0)) for one in directions)
        hops = max(hops for _, hops in loads)
        if network.graph.rails is Rails.SPINE and relayed[family] > 0:
            hops += 2
        found[family] = FamilyLoad(np.concatenate([seconds, inside / server_bytes_per_s]), sent, hops)
    return found


def _mean_relayed(classes: tuple[BlockGroups, ...]) -> float:
    return max((one.relayed for one in classes), default=0.0)


def _relays(graph: LinkGraph, flows: FamilyFlows, load: Floats, relayed: float, gpus_per_server: int) -> Floats:
    """float64[n]: bytes that pass the network inside each server because GPUs have interfaces of their own."""
    n = graph.servers
    moved = np.zeros(n) if graph.rail_parts is None else _off_their_rails(graph, flows, graph.rail_parts)
    if graph.rails in (Rails.NONE, Rails.SPINE):
        return moved
    out = np.bincount(flows.source, flows.amount, n)
    if graph.rails is Rails.RELAYED:
        return np.asarray(relayed * out) + moved
    # What a server begins, ends or passes on meets the interface of any of its GPUs.
    arriving = np.bincount(graph.head, load, graph.nodes)[:n]
    return np.asarray((out + arriving) * (gpus_per_server - 1) / gpus_per_server)


def _off_their_rails(graph: LinkGraph, flows: FamilyFlows, parts: Floats) -> Floats:
    """float64[n]: bytes that pass the network inside each server because the interface of their GPU leads nowhere.

    Rails that a spine joins: they come in on another interface of the one server; else both servers use the same rail.
    """
    sent, met = parts[flows.source], parts[flows.target]
    if graph.rails is Rails.RELAYED:
        sent = met = np.minimum(sent, met)
    n = graph.servers
    leaving, coming = (
        np.bincount(ends, flows.amount * (1.0 - own.mean(axis=1)), n)
        for ends, own in ((flows.source, sent), (flows.target, met))
    )
    return np.asarray(leaving + coming)


@lru_cache(maxsize=2)
def _lookup(graph: LinkGraph, routes: PathTable) -> RouteLookup:
    """Thousands of maps of ranks are tried on the same routes, one after the other."""
    return RouteLookup(graph, routes)


class RouteLookup:
    """Loads of links by the routes of a network."""

    def __init__(self, graph: LinkGraph, routes: PathTable) -> None:
        self._nodes = graph.nodes
        self._keys = routes.source.astype(np.int64) * graph.nodes + routes.target
        self._routes = routes
        lengths = np.diff(routes.path_ptr)
        inner = np.ones(max(len(routes.node) - 1, 0), dtype=bool)
        inner[routes.path_ptr[1:-1] - 1] = False
        keys = graph.tail * graph.nodes + graph.head
        order = np.argsort(keys)
        crossed = (routes.node[:-1].astype(np.int64) * graph.nodes + routes.node[1:])[inner]
        place = np.minimum(np.searchsorted(keys[order], crossed), max(len(keys) - 1, 0))
        if len(crossed) and (not len(keys) or (keys[order][place] != crossed).any()):
            raise ValueError("a route uses a link that does not exist")
        self._link = order[place]
        self._first = routes.path_ptr - np.arange(len(routes.path_ptr))
        switched = np.add.reduceat(routes.node >= graph.servers, routes.path_ptr[:-1]) > 0 if len(lengths) else lengths
        self._hops = lengths - 1 - switched
        self._links = len(keys)

    def load(self, flows: FamilyFlows) -> tuple[Floats, int]:
        """Bytes on each link, and hops of the longest route.

        Raises:
            InfeasibleError: a pair that sends has no route.
        """
        routes = self._routes
        keys = flows.source * self._nodes + flows.target
        place = np.searchsorted(self._keys, keys)
        place = np.minimum(place, max(len(self._keys) - 1, 0))
        if len(keys) and (not len(self._keys) or (self._keys[place] != keys).any()):
            lost = 0 if not len(self._keys) else int(np.flatnonzero(self._keys[place] != keys)[0])
            text = f"servers {flows.source[lost]} and {flows.target[lost]} send to each other and no links join them"
            raise InfeasibleError(text)
        used, of = np.unique(place, return_inverse=True)
        paths = _spans(routes.pair_ptr, used)
        amount = np.bincount(of, flows.amount, len(used))
        on_path = np.repeat(amount, np.diff(routes.pair_ptr)[used]) * routes.share[paths]
        crossed = self._link[_spans(self._first, paths)]
        load = np.bincount(crossed, np.repeat(on_path, np.diff(self._first)[paths]), self._links).astype(np.float64)
        return load, int(self._hops[paths][on_path > 0].max(initial=1))


def _spans(ptr: Ints, rows: Ints) -> Ints:
    """Concatenated ranges ptr[r]..ptr[r + 1] of the rows."""
    lengths = ptr[rows + 1] - ptr[rows]
    ends = np.cumsum(lengths)
    return np.repeat(ptr[rows] - ends + lengths, lengths) + np.arange(int(lengths.sum()))
