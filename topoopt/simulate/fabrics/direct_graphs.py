"""Fixed graphs link servers directly: random regular, expander, Kautz, hypercube, and tori."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from topoopt.core.arrays import Draws, Int32s, Ints, offsets
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.topology import kautz_arcs, torus_steps
from topoopt.core.workload import GroupRings, PathTable, Ring
from topoopt.native import graph
from topoopt.simulate.fabrics import US_PER_MS, FabricOptions, Group, ListedFabric, server_pairs, single_path_table
from topoopt.simulate.network import Network, compile_network, most_cycles

TOUR_STARTS = 8
"""Members from which a tour is tried."""
FAR = np.iinfo(np.int64).max
SHUN = 2
"""Cost of a link that another tour takes, in hops. Between 1 and 5 the fullest link of Kautz graphs of 12 to 128
servers was least with 2."""


def shortest_paths(links: Int32s, seed: int) -> Int32s:
    """int32[n (n - 1), w]: a shortest path of each ordered pair, padded with -1; ties go to the least used link.

    Pairs are routed in random order, links at a server are tried in random order.

    Args:
        links: int32[n, n], parallel links i -> j, of a strongly connected graph.
        seed: of these orders.
    """
    n = len(links)
    draws = Draws(seed)
    joined = [np.flatnonzero(row) for row in links]
    head = [servers[draws.permutation(len(servers))] for servers in joined]
    first = offsets([len(servers) for servers in head])
    arcs = np.concatenate(head).astype(np.int32)
    parallel = links[np.repeat(np.arange(n), np.diff(first)), arcs].astype(np.int32)
    return graph.balanced_shortest_paths(first, arcs, parallel, draws.permutation(n * (n - 1)))


def graph_network(
    cluster: Cluster,
    groups: Sequence[Group],
    options: FabricOptions,
    links: Int32s,
    orders: Mapping[Group, Sequence[Group]] | None = None,
    *,
    mirrored: bool = False,
) -> Network:
    """One shortest path a pair; rings of each group in the orders given, else along one short tour.

    The fixed cost of a ring round is that over a direct link times the mean number of hops between ring neighbours.

    Args:
        cluster: whose interfaces are the links.
        groups: AllReduce groups.
        options: the seed of the paths counts.
        links: int32[n, n], parallel links i -> j.
        orders: ring orders of some groups, by their sorted members; an order whose ring neighbours are all joined
            goes over the direct links.
        mirrored: every ring also goes the other way round, half the payload each (links lead both ways).
    """
    n = cluster.servers
    source, _ = server_pairs(n)
    routes = single_path_table(n, source, shortest_paths(links, options.seed))
    hops = route_hops(routes, n)
    order_of = orders or {}
    rings = []
    for group in groups:
        chosen = order_of.get(tuple(sorted(group)))
        mine = list(chosen) if chosen else [short_tour(group, hops)]
        if mirrored and len(group) > 2:
            mine += [order[::-1] for order in mine]
        rings.append(_rings(group, mine, routes))
    arcs = np.argwhere(links > 0).astype(np.int32)
    return compile_network(
        servers=n,
        link_ends=arcs,
        link_rate=links[arcs[:, 0], arcs[:, 1]].astype(np.float64) * cluster.link_bytes_per_ms,
        hop_latency_ms=cluster.hop_latency_us / US_PER_MS,
        ring_round_latency_ms=_mean_ring_hops(rings) * cluster.ring_round_latency_us / US_PER_MS,
        routes=routes,
        rings=tuple(rings),
        link_sharing=cluster.link_sharing,
        compute_order=cluster.compute_order,
    )


def _rings(group: Group, orders: Sequence[Group], routes: PathTable) -> GroupRings:
    n = routes.nodes_total

    def path(source: int, target: int) -> tuple[int, ...]:
        return routes.path(source * (n - 1) + target - (target > source))

    share = 1.0 / len(orders)
    rings = [Ring(order, share, tuple(map(path, order, order[1:] + order[:1]))) for order in orders]
    return GroupRings(group, tuple(rings))


def route_hops(routes: PathTable, servers: int) -> Ints:
    """int64[n, n]: hops of the first route of each pair."""
    table = np.zeros((servers, servers), dtype=np.int64)
    table[routes.source, routes.target] = np.diff(routes.path_ptr)[routes.pair_ptr[:-1]] - 1
    return table


def short_tour(group: Group, hops: Ints) -> Group:
    """The members in an order whose ring crosses few links: the best nearest-neighbour tour over a few starts.

    Of equally near members the one of the smallest number is next. Any whole numbers do for `hops`.
    """
    members = np.array(sorted(group), dtype=np.int64)
    table = hops[np.ix_(members, members)]

    def tour(start: int) -> tuple[int, Group]:
        at, length = start, 0
        free = np.ones(len(members), dtype=bool)
        order = [start]
        free[start] = False
        while len(order) < len(members):
            to = int(np.argmin(np.where(free, table[at], FAR)))
            length += int(table[at, to])
            order.append(to)
            free[to] = False
            at = to
        return length + int(table[at, start]), tuple(members[order].tolist())

    starts = np.searchsorted(members, group[:TOUR_STARTS]).tolist()
    return min((tour(start) for start in starts), key=lambda entry: entry[0])[1]


def spread_tours(group: Group, routes: PathTable, links: Int32s) -> list[Group]:
    """Short tours of a group that together load the fullest link least, of up to as many as a server has links.

    Each tour shuns the links of those before it: a hop costs as much more as its links are already taken.
    """
    n = len(links)
    hops = route_hops(routes, n)
    table = np.zeros((n, n), dtype=np.int64)
    used = np.zeros((n, n), dtype=np.int64)
    pair = routes.source.astype(np.int64) * n + routes.target
    owner = np.repeat(pair, np.diff(routes.path_ptr) - 1)
    inner = np.ones(len(routes.node) - 1, dtype=bool)
    inner[routes.path_ptr[1:-1] - 1] = False
    tail, head = routes.node[:-1][inner], routes.node[1:][inner]
    orders: list[Group] = []
    best, least = 1, np.inf
    for count in range(1, int(links.sum(axis=1).max()) + 1):
        full = used[tail, head] // links[tail, head]
        table[:] = hops + np.bincount(owner, weights=full, minlength=n * n).reshape(n, n) * SHUN
        order = short_tour(group, table)
        orders.append(order)
        on_ring = np.zeros(n * n, dtype=bool)
        on_ring[np.array(order) * n + np.roll(order, -1)] = True
        np.add.at(used, (tail[on_ring[owner]], head[on_ring[owner]]), 1)
        load = float((used[links > 0] / links[links > 0]).max()) / count
        if load < least:
            best, least = count, load
    return orders[:best]


def _mean_ring_hops(rings: Sequence[GroupRings]) -> float:
    hops = [len(path) - 1 for group in rings for ring in group.rings for path in ring.paths]
    return sum(hops) / len(hops) if hops else 1.0


REGULAR_ATTEMPTS = 100


def random_regular_links(servers: int, degree: int, seed: int) -> Int32s:
    """int32[n, n], symmetric: parallel links between servers of a connected random d-regular multigraph.

    Parallel links only where d >= n: every pair gets d // (n - 1), the rest is a random graph without. With n * d odd,
    one server has one interface dark.

    Raises:
        InputError: no connected graph exists (degree 1, three servers or more), or the degree is not positive.
    """
    if degree < 1 or (degree == 1 and servers > 2):
        raise InputError(
            [Problem("no connected graph of this degree", path="degree", value=str(degree), allowed=">= 2")]
        )
    if servers == 1:
        return np.zeros((1, 1), dtype=np.int32)
    everywhere, rest = divmod(degree, servers - 1)
    draw = np.random.default_rng(seed)
    for _ in range(REGULAR_ATTEMPTS):
        links = _random_simple_graph(servers, rest, draw) + everywhere
        np.fill_diagonal(links, 0)
        dark = degree * servers - int(links.sum())
        if _connected(links) and dark == servers * degree % 2:  # the last matching may find too few pairs to join
            return links
    raise InputError(
        [Problem(f"no connected random graph in {REGULAR_ATTEMPTS} attempts", path="degree", value=str(degree))]
    )


def _random_simple_graph(servers: int, degree: int, draw: np.random.Generator) -> Int32s:
    """Adjacency of a random simple graph, regular but for one server if servers * degree is odd; degree < n - 1."""
    import networkx as nx

    odd = servers * degree % 2
    graph = nx.random_regular_graph(degree - odd, servers, seed=int(draw.integers(2**31)))
    links = np.zeros((servers, servers), dtype=np.int32)
    for u, v in graph.edges():
        links[u, v] = links[v, u] = 1
    if odd:
        # One more interface for all but one server: a largest matching among pairs not yet joined, ties at random.
        free: Any = nx.Graph()
        free.add_nodes_from(range(servers))
        for u, v in np.argwhere(np.triu(links == 0, 1)).tolist():
            free.add_edge(u, v, weight=int(draw.integers(1, 1000)))
        for u, v in nx.max_weight_matching(free, maxcardinality=True):
            links[u, v] = links[v, u] = 1
    return links


def _connected(links: Int32s) -> bool:
    from scipy.sparse.csgraph import connected_components

    return int(connected_components(links, directed=False, return_labels=False)) == 1


def random_regular(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """Bidirectional links of a random graph, one shortest path per pair, one ring per group along a short tour."""
    links = random_regular_links(cluster.servers, cluster.degree, options.seed)
    return graph_network(cluster, groups, options, links)


def _describe(cluster: Cluster, options: FabricOptions) -> str:
    return f"random {cluster.degree}-regular graph of {cluster.link_gbps:g} Gbit/s links, one short ring per AllReduce"


RANDOM_REGULAR = ListedFabric(random_regular, _describe, kind="direct")


EXPANDER_ATTEMPTS = 50
"""Cycles drawn in place of one that repeats a link; after so many it is taken, as a parallel link."""


def expander(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """Bidirectional links.

    Raises:
        InputError: one interface per server and more than two servers.
    """
    n, d = cluster.servers, cluster.degree
    if d == 1 and n > 2:
        raise InputError([Problem("no connected graph of this degree", path="degree", value=str(d), allowed=">= 2")])
    draws = Draws(options.seed)
    links = np.zeros((n, n), dtype=np.int32)
    cycles: list[Group] = []
    for _ in range(d // 2):
        for _ in range(EXPANDER_ATTEMPTS):
            order = draws.permutation(n)
            if not links[order, np.roll(order, -1)].any():
                break
        np.add.at(links, (order, np.roll(order, -1)), 1)
        np.add.at(links, (np.roll(order, -1), order), 1)
        cycles.append(tuple(order.tolist()))
    if d % 2:
        order = draws.permutation(n)[: n - n % 2].reshape(-1, 2)
        np.add.at(links, (order[:, 0], order[:, 1]), 1)
        np.add.at(links, (order[:, 1], order[:, 0]), 1)
    orders = {tuple(range(n)): cycles} if cycles else {}
    return graph_network(cluster, groups, options, links, orders, mirrored=True)


def _describe_expander(cluster: Cluster, options: FabricOptions) -> str:
    cycles, rate = cluster.degree // 2, f"{cluster.link_gbps:g} Gbit/s"
    pairs = " and random pairs" if cluster.degree % 2 else ""
    return f"{cycles} random Hamiltonian cycles{pairs} of {rate} links, rings along the cycles both ways"


EXPANDER = ListedFabric(expander, _describe_expander, kind="direct")


def generalized_kautz(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """One shortest path per pair; rings along short tours, several for a group of all servers, one for others.

    With at least n - 1 interfaces, every pair gets d // (n - 1) links each way and the rest makes the graph.

    Raises:
        InputError: interfaces are patched in pairs, or one each and there are more than two servers.
    """
    n = cluster.servers
    if cluster.links is not LinkDirection.UNIDIRECTIONAL:
        text = "a Kautz graph needs the two fibres of an interface patched apart"
        allowed = LinkDirection.UNIDIRECTIONAL.value
        raise InputError([Problem(text, path="links", value=cluster.links.value, allowed=allowed)])
    everywhere, rest = divmod(cluster.degree, max(n - 1, 1))
    if cluster.degree == 1 and n > 2:
        # With one link the rule is i -> -(i + 1): pairs, not a ring.
        raise InputError([Problem("no connected graph of this degree", path="degree", value="1", allowed=">= 2")])
    links = np.full((n, n), everywhere, dtype=np.int32)
    np.fill_diagonal(links, 0)
    if rest:
        arcs = kautz_arcs(n, rest)
        np.add.at(links, (arcs[:, 0], arcs[:, 1]), 1)
    source, _ = server_pairs(n)
    routes = single_path_table(n, source, shortest_paths(links, options.seed))
    everyone = tuple(range(n))
    orders = {everyone: spread_tours(everyone, routes, links)} if n > 2 else {}
    return graph_network(cluster, groups, options, links, orders)


def _describe_kautz(cluster: Cluster, options: FabricOptions) -> str:
    text = "short rings, several where all servers take part"
    return f"generalized Kautz graph of degree {cluster.degree}, {cluster.link_gbps:g} Gbit/s one-way links, {text}"


GENERALIZED_KAUTZ = ListedFabric(generalized_kautz, _describe_kautz, kind="direct")


def hypercube_dimension(cluster: Cluster) -> int:
    """q.

    Raises:
        InputError: the number of servers is no power of two, or there are fewer than q interfaces.
    """
    n = cluster.servers
    dimension = n.bit_length() - 1
    if n != 1 << dimension or n < 2:
        raise InputError([Problem("no hypercube has so many servers", path="servers", value=str(n), allowed="2^q")])
    if cluster.degree < dimension:
        text = f"a hypercube of {n} servers takes an interface for each dimension"
        raise InputError([Problem(text, path="degree", value=str(cluster.degree), allowed=f"at least {dimension}")])
    return dimension


def _parallel(dimension: int, degree: int) -> list[int]:
    copies, spare = divmod(degree, dimension)
    return [copies + (bit < spare) for bit in range(dimension)]


def _gray_factor(bits: Sequence[int], servers: int) -> Ints:
    """int64[n, 2]: both neighbours on the Gray cycle through these two or three bits; one bit twice: parallel links."""
    here = np.arange(servers, dtype=np.int64)
    if bits[0] == bits[-1]:
        return np.column_stack((here ^ 1 << bits[0], here ^ 1 << bits[0]))
    code = [i ^ i >> 1 for i in range(1 << len(bits))]
    position = np.argsort(code)[sum(((here >> bit & 1) << k) for k, bit in enumerate(bits))]
    sides = []
    for turn in (1, -1):
        after = np.array(code)[(position + turn) % len(code)]
        moved = here.copy()
        for k, bit in enumerate(bits):
            moved = moved & ~(1 << bit) | (after >> k & 1) << bit
        sides.append(moved)
    return np.column_stack(sides)


def _cycles(parallel: Sequence[int]) -> tuple[Group, ...]:
    """Link-disjoint Hamiltonian cycles of the cube with so many links along each bit."""
    units = [bit for copy in range(max(parallel)) for bit, copies in enumerate(parallel) if copy < copies]
    sets = [units[i : i + 2] for i in range(0, len(units) - 1, 2)]
    if len(units) % 2 and len(set(units[-3:])) == 3:
        sets[-1] = units[-3:]
    return most_cycles(np.array([_gray_factor(bits, 1 << len(parallel)) for bits in sets])) if sets else ()


def hypercube(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    dimension = hypercube_dimension(cluster)
    parallel = _parallel(dimension, cluster.degree)
    here = np.arange(cluster.servers)
    links = np.zeros((cluster.servers, cluster.servers), dtype=np.int32)
    for bit, copies in enumerate(parallel):
        links[here, here ^ 1 << bit] = copies
    orders: dict[Group, list[Group]] = {}
    for low in range(dimension):
        cycles = _cycles(parallel[low:])
        for offset in range(1 << low) if cycles else ():
            moved = [tuple(offset + (position << low) for position in cycle) for cycle in cycles]
            orders[tuple(sorted(moved[0]))] = moved
    return graph_network(cluster, groups, options, links, orders, mirrored=True)


def _describe_hypercube(cluster: Cluster, options: FabricOptions) -> str:
    dimension = hypercube_dimension(cluster)
    spare = "" if cluster.degree == dimension else ", spare interfaces parallel from the lowest bit on"
    return f"hypercube of {dimension} dimensions, {cluster.link_gbps:g} Gbit/s links{spare}, rings along Gray cycles"


HYPERCUBE = ListedFabric(hypercube, _describe_hypercube, kind="direct")


def even_shape(servers: int, axes: int, *, uneven: bool = False) -> tuple[int, ...] | None:
    """Ascending sides of at least 2 with that product and the least sum; None if there are none.

    `uneven`: not all the same, as a twist needs.
    """
    shapes = [shape for shape in _shapes(servers, axes, 2) if not uneven or shape[0] < shape[-1]]
    return min(shapes, key=lambda shape: (sum(shape), shape), default=None)


def _shapes(servers: int, axes: int, least: int) -> Iterator[tuple[int, ...]]:
    if axes == 1:
        if servers >= least:
            yield (servers,)
        return
    side = least
    while side**axes <= servers:
        if servers % side == 0:
            for rest in _shapes(servers // side, axes - 1, side):
                yield (side, *rest)
        side += 1


def torus_shape(cluster: Cluster, options: FabricOptions, axes: int, twisted: bool) -> tuple[int, ...]:
    """Sides of the torus of a cluster.

    Raises:
        InputError: too few interfaces, no such shape for this number of servers, or the shape given does not fit.
    """
    n = cluster.servers
    problems = []
    if cluster.degree < 2 * axes:
        text = f"a torus of {axes} dimensions takes two interfaces for each"
        problems.append(Problem(text, path="degree", value=str(cluster.degree), allowed=f"at least {2 * axes}"))
    wanted = f"{axes} sides of at least 2" + (", not all the same" if twisted else "")
    shape = even_shape(n, axes, uneven=twisted) if options.shape is None else options.shape
    if shape is None:
        text = "no torus has so many servers"
        problems.append(Problem(text, path="servers", value=str(n), allowed=f"a product of {wanted}"))
    elif options.shape is not None:
        fits = len(shape) == axes and min(shape) >= 2 and prod(shape) == n and (not twisted or len(set(shape)) > 1)
        if not fits:
            allowed = f"{wanted}, with the product {n}"
            problems.append(Problem("no such torus", path="shape", value=_text(shape), allowed=allowed))
    if problems or shape is None:
        raise InputError(problems)
    return shape


def _text(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def _parallel_torus(shape: Sequence[int], degree: int) -> list[int]:
    axes = len(shape)
    copies, spare = divmod(degree // 2, axes)
    longest_first = sorted(range(axes), key=lambda axis: (-shape[axis], axis))
    return [copies + (longest_first.index(axis) < spare) for axis in range(axes)]


def _cycles_torus(steps: Ints, parallel: Sequence[int]) -> tuple[Group, ...]:
    both_sides = [np.column_stack((step, np.argsort(step))) for step in steps]
    return most_cycles(np.repeat(both_sides, parallel, axis=0))


def _orders(shape: tuple[int, ...], parallel: Sequence[int], twisted: bool) -> dict[Group, list[Group]]:
    orders: dict[Group, list[Group]] = {}
    for axes in (len(shape),) if twisted else range(1, len(shape) + 1):
        stride = prod(shape[axes:])
        cycles = _cycles_torus(torus_steps(shape[:axes], twisted=twisted), parallel[:axes])
        for offset in range(stride) if cycles else ():
            moved = [tuple(offset + stride * position for position in cycle) for cycle in cycles]
            orders[tuple(sorted(moved[0]))] = moved
    return orders


def torus(cluster: Cluster, groups: Sequence[Group], options: FabricOptions, *, axes: int, twisted: bool) -> Network:
    """Bidirectional links; servers are numbered with the last and longest axis fastest, unless a shape is given."""
    shape = torus_shape(cluster, options, axes, twisted)
    parallel = _parallel_torus(shape, cluster.degree)
    links = np.zeros((cluster.servers, cluster.servers), dtype=np.int32)
    here = np.arange(cluster.servers)
    for step, copies in zip(torus_steps(shape, twisted=twisted), parallel, strict=True):
        np.add.at(links, (here, step), copies)
        np.add.at(links, (step, here), copies)
    return graph_network(cluster, groups, options, links, _orders(shape, parallel, twisted), mirrored=True)


def _describe_torus(cluster: Cluster, options: FabricOptions, *, axes: int, twisted: bool) -> str:
    shape = torus_shape(cluster, options, axes, twisted)
    parallel = _parallel_torus(shape, cluster.degree)
    several = "" if set(parallel) == {1} else f", {' x '.join(map(str, parallel))} parallel links along its axes"
    kind = "twisted torus" if twisted else "torus"
    return f"{_text(shape)} {kind} of {cluster.link_gbps:g} Gbit/s links{several}, link-disjoint rings both ways"


def _row(axes: int, *, twisted: bool) -> ListedFabric:
    return ListedFabric(
        partial(torus, axes=axes, twisted=twisted),
        partial(_describe_torus, axes=axes, twisted=twisted),
        ("shape",),
        kind="direct",
    )


TORUS_2D = _row(2, twisted=False)
TORUS_3D = _row(3, twisted=False)
TWISTED_TORUS_2D = _row(2, twisted=True)
TWISTED_TORUS_3D = _row(3, twisted=True)
