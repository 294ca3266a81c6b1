"""Orders of rings: in the order of the ranks, round the boxes of a torus, by the distances of TotientPerms. An
exchange of all with all on a circulant: routes that look the same from every server, of least load. Rings of a
family that has no links of its own, over those on which the same servers exchange tokens. Routes of pairs on a
direct-connect network: the link between them, exchanges inside their group, else short paths. Direct-connect
networks made for a strategy: interfaces of a server given to its families of traffic. How the interfaces of a
server are shared out among the families of a strategy: greedily, then by exchanges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import gcd

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from solvers.llm_training.evaluation import EvaluatedNetwork, evaluated, family_bytes, sending_pairs
from solvers.network.distances import Selection, select_distances, totient
from solvers.network.routes import split_routes_lp
from solvers.network.symmetric import classes_of, route_circulant
from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError
from topoopt.core.llm_training import GpuCluster, LlmTrainingProblem
from topoopt.core.llm_training_plan import RING_FAMILIES
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.topology import Topology, torus_steps
from topoopt.core.workload import PathTable
from topoopt.native import routing
from topoopt.simulate.llm_training.links import (
    BlockGroups,
    FamilyGroups,
    LinkGraph,
    PlacedNetwork,
    Rails,
    family_flows,
    path_table,
    spread_routes,
)
from topoopt.simulate.network import most_cycles


def rank_rings(servers: Ints) -> Ints:
    """One ring a group in the order of its blocks: int64[G, k] to int64[G, 1, k]."""
    return servers[:, None, :]


def orders_of(groups: FamilyGroups, places: Ints, rings: Callable[[Ints], Ints]) -> dict[F, tuple[Ints, ...]]:
    """Rings of all groups that pass bytes round, made of int64[G, k] servers by one rule."""

    def made(blocks: BlockGroups) -> Ints:
        return rings(places[blocks.blocks])

    return {
        family: tuple(made(blocks) for blocks in classes)
        for family, classes in groups.collectives.items()
        if family in RING_FAMILIES
    }


def both_directions(orders: Ints) -> Ints:
    """The rings, and each the other way round where that is another one."""
    if orders.shape[2] < 3:
        return orders
    return np.concatenate([orders, orders[:, :, ::-1]], axis=1)


def torus_rings(shape: Sequence[int]) -> Callable[[Ints], Ints]:
    """Rings round boxes of a torus, both ways; a group of another form goes in the order of its places.

    A box that spans several whole axes has as many link-disjoint rings as are found. Where groups have different
    numbers of rings, all have the least number that each divides: theirs, over and over.
    """
    sides = tuple(side for side in shape if side > 1)
    cached: dict[tuple[tuple[int, ...], tuple[bool, ...]], Ints] = {}

    def form(row: Ints, at: Ints) -> Ints:
        spans = tuple(len(np.unique(at[:, axis])) for axis in range(len(sides)))
        if int(np.prod(spans)) != len(row):
            return np.arange(len(row))[None, :]
        used = tuple(span for span in spans if span > 1)
        whole = tuple(span == side for span, side in zip(spans, sides, strict=True) if span > 1)
        if (used, whole) not in cached:
            cached[used, whole] = box_cycles(used, whole)
        return cached[used, whole]

    def rings(servers: Ints) -> Ints:
        rows = np.sort(servers, axis=1)
        at = np.stack(np.unravel_index(rows, sides), axis=2)
        forms = [form(row, position) for row, position in zip(rows, at, strict=True)]
        count = math.lcm(*(len(cycles) for cycles in forms))
        orders = np.stack([np.tile(cycles, (count // len(cycles), 1)) for cycles in forms])
        return both_directions(np.take_along_axis(rows[:, None, :], orders, axis=2))

    return rings


def box_cycles(sides: tuple[int, ...], whole: tuple[bool, ...]) -> Ints:
    """int64[R, k]: rings through all places of a box, numbered with the last axis fastest.

    Args:
        whole: whether links lead from the end of an axis to its begin.
    """
    if len(sides) > 1 and all(whole):
        steps = torus_steps(sides)
        result = most_cycles(np.stack([np.column_stack([step, np.argsort(step)]) for step in steps]))
        if result:
            return np.array(result, dtype=np.int64)
    line = np.arange(sides[0])[:, None]
    for side in sides[1:]:
        line = _product(line, side)
    return np.asarray(np.ravel_multi_index(tuple(line.T), sides)).astype(np.int64)[None, :]


def _product(line: Ints, side: int) -> Ints:
    """A way through line x axis that ends beside its begin where one of the two has an even number of places.

    One row is kept for the way back.
    """
    n = len(line)
    if n % 2 == 0 and side > 1:
        pairs = [(i, 0) for i in range(n)]
        for i in range(n - 1, -1, -1):
            row = range(1, side) if (n - 1 - i) % 2 == 0 else range(side - 1, 0, -1)
            pairs += [(i, j) for j in row]
        return np.array([[*line[i], j] for i, j in pairs])
    if side % 2 == 0:
        pairs = [(0, j) for j in range(side)]
        for j in range(side - 1, -1, -1):
            row = range(1, n) if (side - 1 - j) % 2 == 0 else range(n - 1, 0, -1)
            pairs += [(i, j) for i in row]
        return np.array([[*line[i], j] for i, j in pairs])
    pairs = [(i, j) for i in range(n) for j in (range(side) if i % 2 == 0 else range(side - 1, -1, -1))]
    return np.array([[*line[i], j] for i, j in pairs])


ACCURACY = 1e-6
"""Of the largest load."""

LEAST = 1e-6
"""Share of a routing that is worth its paths."""


def circulant_routes(servers: int, offsets: Ints, capacity: Floats) -> PathTable:
    """Routes of all pairs, each of which sends equally much.

    Args:
        servers: n, joined by links v -> v + offset.
        offsets, capacity: int64[c], float64[c]: of each class of links, and how many lie side by side.

    Raises:
        InfeasibleError: a pair has no path.
    """
    n = servers
    weight = np.ones(n)
    weight[0] = 0.0
    result = route_circulant(offsets.tolist(), weight, capacity=capacity.tolist(), accuracy=ACCURACY)
    words: dict[tuple[int, ...], float] = {}
    paths = routing.CirculantPaths(offsets, n)
    kept = result.share >= LEAST
    for share, lengths in zip(result.share[kept] / result.share[kept].sum(), result.routing_lengths[kept], strict=True):
        paths.distances(lengths)
        steps = paths.steps()
        for displacement in range(1, n):
            word = _word(offsets, steps, displacement)
            words[word] = words.get(word, 0.0) + float(share)
    source, target = (side.ravel() for side in np.nonzero(~np.eye(n, dtype=bool)))
    every, parts = np.arange(n), []
    for word, share in words.items():
        rows = (every[:, None] + np.concatenate([[0], np.cumsum(word)])[None, :]) % n
        index = rows[:, 0] * (n - 1) + rows[:, -1] - (rows[:, -1] > rows[:, 0])
        parts.append((index, rows, np.full(n, share)))
    return path_table(n, source, target, parts)


def _word(offsets: Ints, steps: Int32s, displacement: int) -> tuple[int, ...]:
    """Offsets of a shortest path, class by class."""
    n, left, word = steps.shape[1], displacement, []
    for own, counts in zip(offsets[::-1].tolist(), steps[::-1], strict=True):
        count = int(counts[left])
        word += [own] * count
        left = (left - own * count) % n
    return tuple(word)


def borrowed_rings(
    groups: BlockGroups,
    exchange: BlockGroups,
    steps: Sequence[int],
    replicas: Sequence[Ints],
    servers: int,
    *,
    both: bool,
) -> Ints | None:
    """int64[G, R, k]: orders of R rings of each group; None: the groups are not made of those of the exchange.

    Args:
        exchange: groups whose servers m are joined by steps round them: place q to q + step, modulo m.
        steps: of which those that are coprime to m go through all servers.
        replicas: int64[G, R, k] each, rings of the families whose links lead from one exchange to another.
        servers: n.
        both: links lead both ways.
    """
    m = exchange.blocks.shape[1]
    round_all = sorted({min(step, m - step) if both else step for step in steps if gcd(step, m) == 1})
    if not round_all:
        return None
    owner = np.full(servers, -1, dtype=np.int64)
    owner[exchange.blocks] = np.arange(len(exchange.blocks))[:, None]
    ring_of = {server: ring for orders in replicas for ring in orders[:, 0].tolist() for server in ring}
    rings_of_class = []
    for row in groups.blocks:
        own = np.unique(owner[row])
        if own[0] < 0 or len(own) * m != len(row):
            return None
        sequence = _sequence(own, owner, ring_of.get(int(exchange.blocks[own[0], 0]), ()))
        turn = np.arange(len(own))[:, None]
        rings = []
        for ring, step in enumerate(round_all):
            # There and back by turns: two exchanges end where they begin, so that the last one ends beside the first.
            round_it = np.where(turn % 2 == 0, np.arange(m), -1 - np.arange(m)) if both else np.arange(m) - turn
            rings.append(exchange.blocks[sequence[:, None], (2 * ring + step * round_it) % m].ravel())
        rings_of_class.append(rings)
    return np.array(rings_of_class, dtype=np.int64)


def _sequence(own: Ints, owner: Ints, ring: Sequence[int]) -> Ints:
    along = owner[list(ring)]
    return along if len(along) == len(own) and (np.sort(along) == own).all() else own


ROUNDS = 8
"""Rounds of shortest paths; of more than `LARGE` servers 2."""

LARGE = 256

LARGEST_PROGRAM = 8
"""Servers of a group whose exchange is routed by a linear program."""

Part = tuple[Ints, Ints, Floats]
"""Paths as `path_table` takes them."""


def direct_routes(
    graph: LinkGraph, groups: FamilyGroups, orders: dict[F, tuple[Ints, ...]], volume: Mapping[F, float], *, seed: int
) -> PathTable:
    """Routes of all pairs that send; blocks of ranks stand on the servers in order.

    Raises:
        InfeasibleError: a pair has no path.
    """
    n = graph.servers
    places = np.arange(n)
    source, target = sending_pairs(groups, places, orders)
    keys = source * n + target
    parts = list(_exchanges(graph, groups, keys, seed))
    done = np.zeros(len(keys), dtype=bool)
    for pairs, _, _ in parts:
        done[pairs] = True
    joined = np.flatnonzero(~done & np.isin(keys, graph.tail * n + graph.head))
    parts.append((joined, np.column_stack([source, target])[joined], np.ones(len(joined))))
    done[joined] = True
    apart = np.flatnonzero(~done)
    if len(apart):
        amount = _amounts(groups, places, orders, volume, keys)[apart]
        rest = spread_routes(graph, source[apart], target[apart], amount, rounds=ROUNDS if n <= LARGE else 2, seed=seed)
        rows, owner = _padded(rest)
        parts.append((apart[owner], rows, rest.share))
    return path_table(n, source, target, parts)


def _padded(table: PathTable) -> tuple[Ints, Ints]:
    """int64[P, w] nodes of the paths, -1 behind their ends, and the pair of each."""
    lengths = np.diff(table.path_ptr)
    rows = np.full((len(lengths), int(lengths.max(initial=1))), -1, dtype=np.int64)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = table.node
    return rows, np.repeat(np.arange(len(table.source)), np.diff(table.pair_ptr))


def _amounts(
    groups: FamilyGroups, places: Ints, orders: dict[F, tuple[Ints, ...]], volume: Mapping[F, float], keys: Ints
) -> Floats:
    amount, n = np.zeros(len(keys)), len(places)
    for family, directions in family_flows(groups, places, orders).items():
        for flows in directions:
            index = np.searchsorted(keys, flows.source * n + flows.target)
            amount += np.bincount(index, flows.amount * volume.get(family, 0.0), len(keys))
    return amount


def _exchanges(graph: LinkGraph, groups: FamilyGroups, keys: Ints, seed: int) -> Iterator[Part]:
    """Exchanges of tokens over the links inside their groups, where these join them and are the same in all."""
    n = graph.servers
    classes = groups.collectives.get(F.EXPERT, ())
    if not classes or np.bincount(np.concatenate([blocks.blocks.ravel() for blocks in classes])).max() > 1:
        return
    index = np.full((n, n), -1, dtype=np.int64)
    index[graph.tail, graph.head] = np.arange(len(graph.tail))
    for blocks in classes:
        own = _inner_graph(graph, blocks, index)
        if own is None:
            continue
        table = group_routes(own, seed)
        rows, owner = _padded(table)
        nodes = np.where(rows >= 0, blocks.blocks[:, np.maximum(rows, 0)], -1)
        pair = np.searchsorted(keys, blocks.blocks[:, table.source[owner]] * n + blocks.blocks[:, table.target[owner]])
        yield pair.ravel(), nodes.reshape(-1, rows.shape[1]), np.tile(table.share, len(blocks.blocks))


def _inner_graph(graph: LinkGraph, groups: BlockGroups, index: Ints) -> LinkGraph | None:
    servers, k = groups.blocks, groups.blocks.shape[1]
    tail, head = (side.ravel() for side in np.nonzero(~np.eye(k, dtype=bool)))
    link = index[servers[:, tail], servers[:, head]]
    parallel = (
        np.where(link >= 0, graph.parallel[np.maximum(link, 0)], 0) if len(graph.parallel) else np.zeros_like(link)
    )
    there = parallel[0] > 0
    if (parallel != parallel[0]).any() or not there.any():
        return None
    matrix = csr_array((parallel[0][there], (tail[there], head[there])), shape=(k, k))
    if connected_components(matrix, connection="strong")[0] > 1:
        return None
    return LinkGraph(k, k, tail[there], head[there], parallel[0][there], graph.link_gbps)


def group_routes(graph: LinkGraph, seed: int) -> PathTable:
    """Routes of all pairs of a group that send each other equally much."""
    n = graph.servers
    source, target = (side.ravel() for side in np.nonzero(~np.eye(n, dtype=bool)))
    classes = classes_of(n, graph.tail, graph.head, graph.parallel.astype(np.float64))
    if classes is not None and len(graph.tail) < len(source):
        return circulant_routes(n, *classes)
    if n <= LARGEST_PROGRAM and len(graph.tail) < len(source):
        arcs = np.repeat(np.column_stack([graph.tail, graph.head]), graph.parallel, axis=0)
        return split_routes_lp(Topology.of_arcs(n, arcs), seed=seed)
    return spread_routes(graph, source, target, np.ones(len(source)), rounds=ROUNDS, seed=seed)


Split = Mapping[F, int]
"""Interfaces of a server by family."""


FamilyLinks = tuple[list[Ints], tuple[Ints, ...], tuple[int, ...]]
"""Links of one family: rows (tail, head), the rings of its groups by class, and the steps of an exchange."""


def least_interfaces(groups: FamilyGroups, links: LinkDirection) -> dict[F, int]:
    """Interfaces of a server that links of a family take at least; families that do not leave a server are not there.

    Where groups of a family share servers each group takes so many. Families with the same groups of servers use the
    same links: the first of them stands for all.
    """
    two = 2 if links is LinkDirection.BIDIRECTIONAL else 1
    minimum = {}
    for family in dict.fromkeys(ring_leaders(groups).values()):
        classes = groups.collectives[family]
        per_ring = max(1 if blocks.blocks.shape[1] == 2 else two for blocks in classes)
        minimum[family] = per_ring * _shared(classes)
    if len(groups.hops.source):
        minimum[F.PIPELINE] = _most_neighbours(groups, links)
    return minimum


def ring_leaders(groups: FamilyGroups) -> dict[F, F]:
    """For each family between servers the first one with the same groups, if both pass bytes round; else itself."""
    leaders: dict[F, F] = {}
    for family, classes in groups.collectives.items():
        same = [
            other
            for other in leaders
            if {family, other} <= set(RING_FAMILIES) and _same_blocks(classes, groups.collectives[other])
        ]
        leaders[family] = leaders[same[0]] if same else family
    return leaders


def _same_blocks(classes: tuple[BlockGroups, ...], other: tuple[BlockGroups, ...]) -> bool:
    return len(classes) == len(other) and all(
        np.array_equal(a.blocks, b.blocks) for a, b in zip(classes, other, strict=True)
    )


def _shared(classes: tuple[BlockGroups, ...]) -> int:
    return int(np.bincount(np.concatenate([blocks.blocks.ravel() for blocks in classes])).max())


def _stage_edges(groups: FamilyGroups, links: LinkDirection) -> Ints:
    """int64[m, 2]: links between stages; both ways as arcs of their own where links lead one way."""
    pairs = np.column_stack([groups.hops.source, groups.hops.target])
    if links is LinkDirection.BIDIRECTIONAL:
        return np.unique(np.sort(pairs, axis=1), axis=0)
    return np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)


def _most_neighbours(groups: FamilyGroups, links: LinkDirection) -> int:
    edges = _stage_edges(groups, links)
    ends = edges.ravel() if links is LinkDirection.BIDIRECTIONAL else edges[:, 0]
    return int(np.bincount(ends).max())


def direct_network(
    cluster: GpuCluster, groups: FamilyGroups, split: Split, volume: Mapping[F, float], *, seed: int
) -> PlacedNetwork:
    """Links, rings and routes of a split; ranks stand in order, as links follow them.

    Args:
        volume: bytes that a GPU sends in each family, which routes over links of others are spread by.

    Raises:
        InfeasibleError: a pair that sends has no path.
    """
    n, links = cluster.servers, cluster.links
    places, arcs = np.arange(n), []
    orders: dict[F, tuple[Ints, ...]] = {}
    built: list[F] = []
    steps: tuple[int, ...] = ()
    leaders = ring_leaders(groups)
    for family, classes in groups.collectives.items():
        if leaders[family] is not family:
            orders[family] = orders[leaders[family]]
            continue
        own = split.get(family, 0) // _shared(classes)
        ring = family in RING_FAMILIES
        made = [
            _ring_links(blocks, own, links) if ring else _mesh_links(blocks, own, links, seed) for blocks in classes
        ]
        arcs += [part for parts, _, _ in made for part in parts]
        if ring:
            orders[family] = tuple(rings[0] for _, rings, _ in made)
            built += [family] if any(parts for parts, _, _ in made) else []
        elif len(made) == 1:
            steps = made[0][2]
    for family in (F.DATA, F.EXPERT_DATA) if steps else ():
        if family not in groups.collectives or leaders[family] in built:
            continue
        exchange, replicas = groups.collectives[F.EXPERT][0], [part for own in built for part in orders[own]]
        both = links is LinkDirection.BIDIRECTIONAL
        borrowed = [
            borrowed_rings(blocks, exchange, steps, replicas, n, both=both) for blocks in groups.collectives[family]
        ]
        if all(blocks is not None for blocks in borrowed):
            orders[family] = tuple(
                both_directions(blocks) if both else blocks for blocks in borrowed if blocks is not None
            )
    if split.get(F.PIPELINE, 0) and len(groups.hops.source):
        edges = _stage_edges(groups, links)
        arcs.append(_lit(np.repeat(edges, split[F.PIPELINE] // _most_neighbours(groups, links), axis=0), links))
    graph = _graph(cluster, arcs)
    return PlacedNetwork(graph, places, orders, direct_routes(graph, groups, orders, volume, seed=seed))


def _lit(edges: Ints, links: LinkDirection) -> Ints:
    """A bidirectional link is two arcs."""
    return np.concatenate([edges, edges[:, ::-1]]) if links is LinkDirection.BIDIRECTIONAL else edges


def _ring_links(groups: BlockGroups, interfaces: int, links: LinkDirection) -> FamilyLinks:
    servers, k = groups.blocks, groups.blocks.shape[1]
    two = 2 if links is LinkDirection.BIDIRECTIONAL and k > 2 else 1
    count = interfaces // two
    if not count:
        return [], (rank_rings(servers),), ()
    if k == 2:
        edges = np.repeat(servers, count, axis=0)
        edges = edges if links is LinkDirection.BIDIRECTIONAL else np.concatenate([edges, edges[:, ::-1]])
        return [_lit(edges, links)], (rank_rings(servers),), ()
    distances = select_distances(k, k, count, links, Selection.PAPER)
    orders = np.stack([servers[:, np.arange(k) * step % k] for step in distances], axis=1)
    edges = np.stack([orders, np.roll(orders, -1, axis=2)], axis=3).reshape(-1, 2)
    return [_lit(edges, links)], (both_directions(orders) if two == 2 else orders,), ()


def _mesh_links(groups: BlockGroups, interfaces: int, links: LinkDirection, seed: int) -> FamilyLinks:
    """All pairs of a group joined, as often as interfaces allow, and short ways by what is left."""
    servers, k = groups.blocks, groups.blocks.shape[1]
    copies, left = divmod(interfaces, k - 1)
    steps = list(range(1, k)) * copies
    if left and not copies:
        if left == 1 and links is LinkDirection.BIDIRECTIONAL:
            return [], (), ()
        distances = totient(k, left, links, Selection.BEST, seed=seed).distances
        both = links is LinkDirection.BIDIRECTIONAL
        steps = [
            step
            for distance in distances
            for step in ({distance, k - distance} if both and 2 * distance != k else {distance})
        ]
    tail = np.tile(np.arange(k), len(steps))
    head = (tail + np.repeat(steps, k)) % k if steps else tail
    arcs = [np.column_stack([servers[:, tail].ravel(), servers[:, head].ravel()])] if steps else []
    return arcs, (), tuple(steps)


def _graph(cluster: GpuCluster, arcs: list[Ints]) -> LinkGraph:
    n = cluster.servers
    rows = np.concatenate(arcs) if arcs else np.zeros((0, 2), dtype=np.int64)
    keys, parallel = np.unique(rows[:, 0] * n + rows[:, 1], return_counts=True)
    rails = Rails.OWNED if cluster.per_gpu and cluster.gpus_per_server > 1 else Rails.NONE
    return LinkGraph(n, n, keys // n, keys % n, parallel, cluster.link_gbps, rails)


SplitNetwork = tuple[dict[F, int], EvaluatedNetwork]
"""A split of the interfaces, and the direct-connect network that is made of it."""


class _Search:
    def __init__(self, problem: LlmTrainingProblem, strategy: ParallelStrategy, groups: FamilyGroups) -> None:
        self._problem, self._strategy, self._groups = problem, strategy, groups
        self._volume = family_bytes(problem, strategy)
        self.least = least_interfaces(groups, problem.cluster.links)
        # One interface more gives an exchange shorter ways; rings and stages take as many as they begin with.
        self.step = {**self.least, **({F.EXPERT: 1} if F.EXPERT in self.least else {})}
        leaders = ring_leaders(groups)
        for family, leader in leaders.items():
            if family is not leader:
                self._volume[leader] += self._volume[family]
        self._cached: dict[tuple[tuple[F, int], ...], SplitNetwork | None] = {}

    def ordered(self) -> list[F]:
        """Families between servers, those that send most first."""
        return sorted(self.least, key=lambda family: (-self._volume[family], family))

    def at(self, split: Split) -> SplitNetwork | None:
        """The network of a split; None: it does not carry all."""
        key = tuple(sorted(split.items()))
        if key not in self._cached:
            cluster, groups, seed = self._problem.cluster, self._groups, self._problem.search.seed
            try:
                network = direct_network(cluster, groups, split, self._volume, seed=seed)
                placed = evaluated(self._problem, self._strategy, network, groups)
                self._cached[key] = dict(split), placed
            except InfeasibleError:
                self._cached[key] = None
        return self._cached[key]


def best_split(problem: LlmTrainingProblem, strategy: ParallelStrategy, groups: FamilyGroups) -> SplitNetwork | None:
    """The fastest split found, or the even one if that is asked for; None: no split carries all traffic.

    First every family gets what links of its own take at least, those that send most first; then what is left goes,
    step by step, where the iteration gains most; then steps go from one family to another while that gains.
    """
    search, degree = _Search(problem, strategy, groups), problem.cluster.degree
    if not search.least:
        return search.at({})
    if problem.degree_split == "even":
        return search.at(_even(search, degree))
    split = dict.fromkeys(search.least, 0)
    for family in search.ordered():
        if sum(split.values()) + search.least[family] <= degree:
            split[family] = search.least[family]
    best = _filled(search, split, degree)
    while best is not None:
        split = best[0]
        moved = [
            _filled(search, _exchanged(search, split, giver, taker), degree)
            for giver in split
            for taker in split
            if giver != taker and split[giver] > 0
        ]
        better = min((candidate for candidate in moved if candidate is not None), key=_time, default=None)
        if better is None or _time(better) >= _time(best) * (1.0 - 1e-9):
            return best
        best = better
    return None


def _even(search: _Search, degree: int) -> dict[F, int]:
    """Step by step to the family that has fewest, of those the one that sends most; what fits nobody stays dark."""
    order = search.ordered()
    split = dict.fromkeys(order, 0)
    while True:
        left = degree - sum(split.values())
        more = {family: search.step[family] if split[family] else search.least[family] for family in order}
        fitting = [family for family in order if more[family] <= left]
        if not fitting:
            return split
        taker = min(fitting, key=lambda family: split[family])
        split[taker] += more[taker]


def _time(split_network: SplitNetwork) -> float:
    return split_network[1].iteration_time_s


def _exchanged(search: _Search, split: dict[F, int], giver: F, taker: F) -> dict[F, int]:
    """A step of one family goes to another; what is less than it takes at least is of no use to a family."""
    left = split[giver] - search.step[giver]
    more = search.step[taker] if split[taker] else search.least[taker]
    return {**split, giver: left if left >= search.least[giver] else 0, taker: split[taker] + more}


def _filled(search: _Search, split: dict[F, int], degree: int) -> SplitNetwork | None:
    if sum(split.values()) > degree:
        return None
    best = search.at(split)
    while True:
        left = degree - sum(split.values())
        steps = {family: search.step[family] if split[family] else search.least[family] for family in split}
        tried = [search.at({**split, family: split[family] + more}) for family, more in steps.items() if more <= left]
        networks = [network for network in tried if network is not None]
        if not networks:
            return best
        better = min(networks, key=_time)
        if best is not None and _time(better) > _time(best):
            return best
        best, split = better, better[0]
