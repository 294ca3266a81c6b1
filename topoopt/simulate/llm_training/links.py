"""Networks of servers: who exchanges bytes, links, routes, and what the links carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from math import prod

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from topoopt.core.arrays import Floats, Ints, offsets
from topoopt.core.collective import GroupSchedule
from topoopt.core.errors import InfeasibleError
from topoopt.core.llm_training import GpuCluster
from topoopt.core.llm_training_plan import TrafficFamily
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.parallelism import ParallelStrategy, PipelineSchedule
from topoopt.core.topology import torus_steps
from topoopt.core.workload import PathTable


@dataclass(frozen=True, eq=False)
class BlockGroups:
    """Groups of a family that lie on as many blocks each, more than one.

    Attributes:
        blocks: int64[G, k], ascending in a row, rows distinct.
        groups: float64[G], groups of ranks that stand on just these blocks.
        ranks: ranks of a group.
        relayed: part of the ring edges between blocks that join GPUs of different places in their servers.
    """

    blocks: Ints
    groups: Floats
    ranks: int
    relayed: float


@dataclass(frozen=True, eq=False)
class FamilyFlows:
    """Bytes from server to server for every byte that each GPU sends: int64[m], int64[m], float64[m]."""

    source: Ints
    target: Ints
    amount: Floats


@dataclass(frozen=True, eq=False)
class FamilyGroups:
    """All that blocks exchange under a strategy; families inside a server are not there.

    Attributes:
        collectives: groups of each family.
        hops: from block to block of the stage behind, ranks that send; pairs are distinct.
        relayed: part of these that send to a GPU of another place in its server.
    """

    collectives: Mapping[TrafficFamily, tuple[BlockGroups, ...]]
    hops: FamilyFlows
    relayed: float


def rank_coordinates(strategy: ParallelStrategy) -> dict[D, Ints]:
    """int64[N] by dimension: where each rank stands along it."""
    sizes = {D.TENSOR: strategy.tensor, D.CONTEXT: strategy.context, D.DATA: strategy.data}
    sizes[D.PIPELINE] = strategy.pipeline
    left, coordinates = np.arange(strategy.gpus), {}
    for dimension in strategy.order:
        if dimension in sizes:
            left, coordinates[dimension] = np.divmod(left, sizes[dimension])
    return coordinates


def family_groups(strategy: ParallelStrategy, gpus_per_server: int) -> FamilyGroups:
    at, s, g = rank_coordinates(strategy), strategy, gpus_per_server
    t, c, d, p = (at[dimension] for dimension in (D.TENSOR, D.CONTEXT, D.DATA, D.PIPELINE))
    position = t + s.tensor * (c + s.context * d)
    whole = s.expert * s.expert_tensor
    held = np.minimum(p, s.pipeline - 1 - p) if s.copies > 1 else p  # stages whose weights these ranks share out
    keys = {
        TrafficFamily.TENSOR: (s.tensor, c + s.context * (d + s.data * p)),
        TrafficFamily.CONTEXT: (s.context, t + s.tensor * (d + s.data * p)),
        TrafficFamily.DATA: (s.replicas, t + s.tensor * held),
    }
    if s.expert > 1:
        of_stage = s.gpus // s.pipeline
        keys[TrafficFamily.EXPERT] = (whole, position // whole + of_stage // whole * p)
        keys[TrafficFamily.EXPERT_DATA] = (s.expert_replicas, position % whole + whole * held)
    collectives = {}
    for family, (ranks, key) in keys.items():
        blocks = _collective(key, ranks, g) if ranks > 1 else ()
        if blocks:
            collectives[family] = blocks
    return FamilyGroups(collectives, *_hops(strategy, position, p, g))


def _collective(key: Ints, ranks: int, g: int) -> tuple[BlockGroups, ...]:
    rows = np.argsort(key, kind="stable").reshape(-1, ranks)
    blocks = rows // g
    begins = np.ones(rows.shape, dtype=bool)
    begins[:, 1:] = blocks[:, 1:] != blocks[:, :-1]
    count = begins.sum(axis=1)
    after = np.roll(rows, -1, axis=1)
    crossing = after // g != blocks
    result = []
    for k in np.unique(count[count > 1]).tolist():
        chosen = count == k
        own = blocks[chosen][begins[chosen]].reshape(-1, k)
        own, groups = np.unique(own, axis=0, return_counts=True)
        edges = crossing[chosen]
        moved = (rows[chosen] % g != after[chosen] % g)[edges].mean()
        result.append(BlockGroups(own, groups.astype(np.float64), ranks, float(moved)))
    return tuple(result)


def _hops(strategy: ParallelStrategy, position: Ints, stage: Ints, g: int) -> tuple[FamilyFlows, float]:
    p = strategy.pipeline
    rows = np.lexsort((stage, position)).reshape(-1, p)
    round_again = strategy.chunks > 1 and strategy.schedule is not PipelineSchedule.DUALPIPE_V and p > 1
    source, target = rows[:, :-1], rows[:, 1:]
    if round_again:
        source, target = rows, np.roll(rows, -1, axis=1)
    source, target = source.ravel(), target.ravel()
    apart = source // g != target // g
    source, target = source[apart], target[apart]
    servers = strategy.gpus // g
    pairs, ranks = np.unique(source // g * servers + target // g, return_counts=True)
    relayed = float((source % g != target % g).mean()) if len(source) else 0.0
    return FamilyFlows(pairs // servers, pairs % servers, ranks.astype(np.float64)), relayed


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


def ring_flows(groups: tuple[BlockGroups, ...], orders: tuple[Ints, ...]) -> FamilyFlows:
    """Each ring carries an equal share."""
    parts = [
        (rings.ravel(), np.roll(rings, -1, axis=2).ravel(), np.repeat(blocks.groups / rings.shape[1], rings[0].size))
        for blocks, rings in zip(groups, orders, strict=True)
    ]
    return _joined(parts)


def exchange_flows(groups: tuple[BlockGroups, ...], places: Ints) -> FamilyFlows:
    """Every server sends equally much to all others of its group."""
    parts = []
    for blocks in groups:
        servers, k = places[blocks.blocks], blocks.blocks.shape[1]
        source, target = (side.ravel() for side in np.nonzero(~np.eye(k, dtype=bool)))
        amount = blocks.groups * blocks.ranks / k / (k - 1)
        parts.append((servers[:, source].ravel(), servers[:, target].ravel(), np.repeat(amount, len(source))))
    return _joined(parts)


def _joined(parts: list[tuple[Ints, Ints, Floats]]) -> FamilyFlows:
    source, target, amount = (np.concatenate(side) for side in zip(*parts, strict=True))
    return FamilyFlows(source, target, amount)


def family_flows(
    groups: FamilyGroups, places: Ints, orders: RingOrders
) -> dict[TrafficFamily, tuple[FamilyFlows, ...]]:
    """FamilyFlows of each family between servers that has rings or exchanges; two for those between stages, there and
    back, which need not meet."""
    flows: dict[TrafficFamily, tuple[FamilyFlows, ...]] = {}
    for family, classes in groups.collectives.items():
        if family is TrafficFamily.EXPERT:
            flows[family] = (exchange_flows(classes, places),)
        elif family in orders:
            flows[family] = (ring_flows(classes, orders[family]),)
    hops = groups.hops
    if len(hops.source):
        ahead = FamilyFlows(places[hops.source], places[hops.target], hops.amount)
        flows[TrafficFamily.PIPELINE] = (ahead, FamilyFlows(ahead.target, ahead.source, ahead.amount))
    return flows


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
    relayed = {f: max((blocks.relayed for blocks in own), default=0.0) for f, own in groups.collectives.items()}
    relayed[TrafficFamily.PIPELINE] = groups.relayed
    relayed[TrafficFamily.EXPERT] = 0.0  # a token crosses to the GPU of the same place, and goes on inside the server
    by_family = {}
    for family, directions in family_flows(groups, network.places, network.orders).items():
        lookup = tokens if family is TrafficFamily.EXPERT else usual
        loads = [lookup.load(flows) for flows in directions]
        seconds = np.maximum.reduce([load / network.graph.bytes_per_s for load, _ in loads])
        inside = np.maximum.reduce(
            [_relays(network.graph, flows, load, relayed[family], gpus_per_server)
             for flows, (load, _) in zip(directions, loads, strict=True)]
        )  # fmt: skip
        sent = max(float(np.bincount(directed.source, directed.amount).max(initial=0.0)) for directed in directions)
        hops = max(hops for _, hops in loads)
        if network.graph.rails is Rails.SPINE and relayed[family] > 0:
            hops += 2
        by_family[family] = FamilyLoad(np.concatenate([seconds, inside / server_bytes_per_s]), sent, hops)
    return by_family


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
        index = np.minimum(np.searchsorted(keys[order], crossed), max(len(keys) - 1, 0))
        if len(crossed) and (not len(keys) or (keys[order][index] != crossed).any()):
            raise ValueError("a route uses a link that does not exist")
        self._link = order[index]
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
        index = np.searchsorted(self._keys, keys)
        index = np.minimum(index, max(len(self._keys) - 1, 0))
        if len(keys) and (not len(self._keys) or (self._keys[index] != keys).any()):
            lost = 0 if not len(self._keys) else int(np.flatnonzero(self._keys[index] != keys)[0])
            text = f"servers {flows.source[lost]} and {flows.target[lost]} send to each other and no links join them"
            raise InfeasibleError(text)
        used, of = np.unique(index, return_inverse=True)
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


CUBE = 4
"""Servers along each side of the cubes that optical switches join to a larger torus."""


def star(cluster: GpuCluster, rails: Rails) -> LinkGraph:
    """All interfaces on switches that no traffic fills: node n."""
    n = cluster.servers
    hosts, hub = np.arange(n), np.full(n, n)
    return LinkGraph(
        servers=n,
        nodes=n + 1,
        tail=np.concatenate([hosts, hub]),
        head=np.concatenate([hub, hosts]),
        parallel=np.full(2 * n, cluster.degree),
        link_gbps=cluster.link_gbps,
        rails=rails,
    )


def cube_shapes(servers: int) -> Iterator[tuple[int, int, int]]:
    """Sides of tori, ascending: multiples of 4 where there are so many servers, else parts of one cube or more."""
    side = CUBE if servers % CUBE**3 == 0 else 1
    for a in range(side, servers + 1, side):
        if a**3 > servers:
            break
        for b in range(a, servers // a + 1, side):
            if b**2 * a > servers:
                break
            if servers % (a * b) == 0 and (servers // (a * b)) % side == 0:
                yield a, b, servers // (a * b)


def may_twist(shape: tuple[int, int, int]) -> bool:
    """Twists are defined for sides n, n, 2n and n, 2n, 2n (Camara et al., IEEE TPDS 2010)."""
    a, b, c = shape
    return a > 1 and c == 2 * a and b in (a, c)


def torus(cluster: GpuCluster, shape: tuple[int, ...], *, twisted: bool) -> tuple[LinkGraph, np.ndarray]:
    """A torus whose axes share the rate of a server equally, and int64[axes, n], the step along each axis.

    The last axis is numbered fastest; axes of one server have no links, those of two join the same two servers twice.
    """
    n = prod(shape)
    steps = torus_steps(tuple(side for side in shape if side > 1), twisted=twisted)
    here = np.arange(n)
    tail = np.concatenate([side for step in steps for side in (here, step)])
    head = np.concatenate([side for step in steps for side in (step, here)])
    keys, parallel = np.unique(tail * n + head, return_counts=True)
    rate = cluster.degree * cluster.link_gbps / (2 * len(steps))
    return LinkGraph(n, n, keys // n, keys % n, parallel, rate), steps


CROWDED = 4.0
"""How much longer the fullest link seems to the next round of routes."""


def path_table(nodes: int, source: Ints, target: Ints, paths: list[tuple[Ints, Ints, Floats]]) -> PathTable:
    """Table of padded paths.

    Args:
        source, target: int64[m], the pairs, sorted and distinct.
        paths: some at a time: pairs, int64[k, w] nodes padded with -1 at the end, shares.
    """
    pair = np.concatenate([entry[0] for entry in paths])
    widest = max(entry[1].shape[1] for entry in paths)
    rows = np.full((len(pair), widest), -1, dtype=np.int64)
    begin = 0
    for entry in paths:
        rows[begin : begin + len(entry[0]), : entry[1].shape[1]] = entry[1]
        begin += len(entry[0])
    share = np.concatenate([entry[2] for entry in paths])
    order = np.argsort(pair, kind="stable")
    pair, rows, share = pair[order], rows[order], share[order]
    used = rows >= 0
    return PathTable(
        nodes_total=nodes,
        source=source.astype(np.int32),
        target=target.astype(np.int32),
        pair_ptr=offsets(np.bincount(pair, minlength=len(source))),
        share=share,
        path_ptr=offsets(used.sum(axis=1)),
        node=rows[used].astype(np.int32),
    )


def switch_routes(servers: int, source: Ints, target: Ints) -> PathTable:
    rows = np.stack([source, np.full_like(source, servers), target], axis=1)
    return path_table(servers + 1, source, target, [(np.arange(len(source)), rows, np.ones(len(source)))])


def torus_routes(steps: Ints, source: Ints, target: Ints) -> PathTable:
    """Two shortest paths a pair, each with half of it: along the axes in their order, and in the other one.

    Args:
        steps: int64[axes, n], the server one step on along each axis; all servers see the same torus.
    """
    axes, n = steps.shape
    moves = np.concatenate([steps, np.argsort(steps, axis=1)])
    words = _words(moves)
    reached = np.empty((n, n), dtype=np.int32)  # reached[v, s]: where the way from 0 to v leads from s
    for v, word in enumerate(words):
        at = np.arange(n)
        for move in word:
            at = moves[move][at]
        reached[v] = at
    shift = np.empty((n, n), dtype=np.int32)
    shift[np.broadcast_to(np.arange(n), (n, n)), reached] = np.arange(n)[:, None]
    own = shift[source, target]
    opposite = shift[np.arange(n), 0]  # the shift that leads from v back to 0
    tables = []
    for v in np.unique(own).tolist():
        pairs = np.flatnonzero(own == v)
        back = [(move + axes) % (2 * axes) for move in reversed(words[opposite[v]])]
        for word in (words[v], back):
            rows = np.empty((len(pairs), len(word) + 1), dtype=np.int64)
            rows[:, 0] = source[pairs]
            for step, move in enumerate(word):
                rows[:, step + 1] = moves[move][rows[:, step]]
            tables.append((pairs, rows, np.full(len(pairs), 0.5)))
    return path_table(n, source, target, tables)


def _words(moves: Ints) -> list[list[int]]:
    """Moves of a shortest way from node 0 to every node: along one axis after the other, whichever way round it."""
    axes = len(moves) // 2
    words: list[list[int] | None] = [None] * moves.shape[1]
    words[0] = []
    front = [0]
    while front:
        after = []
        for node in front:
            word = words[node]
            assert word is not None
            for move in range(len(moves)):
                to = int(moves[move, node])
                if words[to] is None:
                    words[to] = sorted([*word, move], key=lambda axis_move: (axis_move % axes, axis_move))
                    after.append(to)
        front = after
    return [word or [] for word in words]


def spread_routes(graph: LinkGraph, source: Ints, target: Ints, amount: Floats, *, rounds: int, seed: int) -> PathTable:
    """Shortest paths in several rounds, each with an equal part of a pair; full links seem longer to the next round.

    Of all numbers of rounds the one whose fullest link is least full is taken.

    Args:
        source, target, amount: pairs, sorted and distinct, and what they send.

    Raises:
        InfeasibleError: a pair has no path.
    """
    draw = np.random.default_rng(seed)
    load, rows, best, kept = np.zeros(len(graph.tail)), [], np.inf, 1
    seconds = 1.0 / graph.parallel
    for turn in range(rounds):
        fullest = float((load * seconds).max(initial=0.0))
        seems = 1.0 + (CROWDED * load * seconds / fullest if fullest > 0 else 0.0)
        paths = _shortest(graph, seems * (1.0 + 1e-3 * draw.random(len(load))), source, target)
        rows.append(paths)
        load = load + _loaded(graph, paths, amount)
        if float((load * seconds).max()) / (turn + 1) < best * (1.0 - 1e-9):
            best, kept = float((load * seconds).max()) / (turn + 1), turn + 1
    every = np.arange(len(source))
    tables = [(every, paths, np.full(len(source), 1.0 / kept)) for paths in rows[:kept]]
    return path_table(graph.nodes, source, target, tables)


def _shortest(graph: LinkGraph, length: Floats, source: Ints, target: Ints) -> Ints:
    """int64[m, w], padded with -1."""
    matrix = csr_array((length, (graph.tail, graph.head)), shape=(graph.nodes, graph.nodes))
    begins, index = np.unique(source, return_inverse=True)
    _, before = dijkstra(matrix, indices=begins, return_predecessors=True)
    columns, at = [target], target
    while True:
        at = np.where(at == source, -1, np.where(at < 0, -1, before[index, np.maximum(at, 0)]))
        if (at < -1).any():
            lost = int(np.flatnonzero(at < -1)[0])
            text = f"servers {source[lost]} and {target[lost]} send to each other and no links join them"
            raise InfeasibleError(text)
        if (at < 0).all():
            break
        columns.append(at)
    # From the target back to the source: turn every row round.
    rows = np.stack(columns, axis=1)
    width = (rows >= 0).sum(axis=1)
    place_of = width[:, None] - 1 - np.arange(rows.shape[1])
    return np.where(place_of >= 0, np.take_along_axis(rows, np.maximum(place_of, 0), axis=1), -1)


def _loaded(graph: LinkGraph, rows: Ints, amount: Floats) -> Floats:
    keys = graph.tail * graph.nodes + graph.head
    order = np.argsort(keys)
    crossing = rows[:, 1:] >= 0
    link = order[np.searchsorted(keys[order], (rows[:, :-1] * graph.nodes + rows[:, 1:])[crossing])]
    weight = np.broadcast_to(amount[:, None], crossing.shape)[crossing]
    return np.bincount(link, weight, len(keys)).astype(np.float64)
