"""A fabric is what servers may be joined by; each is turned into a `Network` for the time models.

The switched ones here are baselines of the TopoOpt paper: ideal switch, fat-tree, and oversubscribed fat-tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from topoopt.core.arrays import Draws, Int32s, Ints, bytes_per_ms, offsets
from topoopt.core.clos import fat_tree_arity, links_up
from topoopt.core.cluster import Cluster
from topoopt.core.collective import GroupSchedule
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.job import BaselineSettings, FabricChoice, Plan
from topoopt.core.price_book import PriceBook
from topoopt.core.process import PlugIns
from topoopt.core.topology import Topology
from topoopt.core.workload import GroupRings, PathTable, Ring
from topoopt.costs import cost_equivalent_fat_tree_gbps, default_price_book
from topoopt.simulate.network import Network, compile_network

Group = tuple[int, ...]

US_PER_MS = 1000.0

LAYERS = ("rack", "aggregation")
"""Switch layers of a fat-tree whose uplinks may be oversubscribed."""

ECMP = ("hashed", "spread", "sprayed")
"""How a fat-tree takes a pair over its equal-cost paths: one drawn with the seed; one by the number of the target,
which keeps shifts apart (D-mod-k; Zahavi, J. Parallel Distrib. Comput. 2012); or all in equal parts."""


@dataclass(frozen=True)
class FabricOptions:
    """Settings of the fabrics; each uses what concerns it.

    Attributes:
        seed: of every random choice (ECMP hashing, random graph, ties between shortest paths).
        nic_gbps: rate of the one NIC of a server on the ideal switch, Gbit/s; None: degree * link rate.
        fat_tree_gbps: rate of the one NIC of a server on the fat-tree, Gbit/s; None: the rate at which the fat-tree
            costs as much as the direct-connect network (`topoopt.costs`).
        oversubscription: downlink over uplink bandwidth of the oversubscribed switches of a fat-tree, at least 1;
            None: what the fabric has by itself.
        layer: switches that are oversubscribed, one of `LAYERS`, where the fabric leaves it open.
        shape: servers along each axis of a torus; None: the most even shape there is.
        ecmp: paths of a pair in a fat-tree, one of `ECMP`.
        radix: ports of a switch of a fat-tree, an even number; None: the least that holds the servers.
        book: prices behind the rate of equal cost.
        pairs: int64[m], ordered pairs of servers (source * n + target), ascending and distinct, that need a route;
            None: all. A fabric may route more.

    Raises:
        InputError: a rate is not positive and finite, the oversubscription is not in [1, inf), no such layer or ECMP.
    """

    seed: int = 0
    nic_gbps: float | None = None
    fat_tree_gbps: float | None = None
    oversubscription: float | None = None
    layer: str = LAYERS[0]
    shape: tuple[int, ...] | None = None
    ecmp: str = ECMP[0]
    radix: int | None = None
    book: PriceBook = field(default_factory=default_price_book, repr=False)
    pairs: Ints | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        problems = [
            Problem("rate must be positive", path=name, value=str(rate), allowed="a positive number of Gbit/s")
            for name, rate in (("nic_gbps", self.nic_gbps), ("fat_tree_gbps", self.fat_tree_gbps))
            if rate is not None and not 0 < rate < np.inf
        ]
        if self.oversubscription is not None and not 1 <= self.oversubscription < np.inf:
            value = str(self.oversubscription)
            problems.append(Problem("oversubscription too small", path="oversubscription", value=value, allowed=">= 1"))
        if self.layer not in LAYERS:
            problems.append(Problem("no such layer", path="layer", value=self.layer, allowed=", ".join(LAYERS)))
        if self.ecmp not in ECMP:
            problems.append(Problem("no such way", path="ecmp", value=self.ecmp, allowed=", ".join(ECMP)))
        raise_any(problems)


FabricBuilder = Callable[[Cluster, Sequence[Group], FabricOptions], Network]
"""The network of a fabric for a cluster and the AllReduce groups of a job (two or more members each)."""


@dataclass(frozen=True)
class ListedFabric:
    """A line of the table of fabrics.

    Attributes:
        build: its network; raises InputError where the cluster does not have one, with the reason.
        describe: what it is, in words, with its rates; only for clusters it can be built for.
        uses: fields of `FabricOptions` that concern it, beside the seed.
        server_gbps: rate that leaves a server over all its links, at most, Gbit/s.
        kind: `switched`, or `direct` for links between the servers themselves, of the rate of an interface each.
    """

    build: FabricBuilder
    describe: Callable[[Cluster, FabricOptions], str]
    uses: tuple[str, ...] = ()
    server_gbps: Callable[[Cluster, FabricOptions], float] = lambda cluster, _: cluster.degree * cluster.link_gbps
    kind: str = "switched"


def list_order_rings(groups: Sequence[Group], routes: PathTable) -> tuple[GroupRings, ...]:
    """Rings of each group in the order its members are listed, along the routes of the pairs.

    As many, of equal shares, as any two neighbours have paths; ring r of m takes path r c div m of c.
    """
    key = routes.source.astype(np.int64) * routes.nodes_total + routes.target
    position = {int(pair): row for row, pair in enumerate(key)}

    def rings(group: Group) -> GroupRings:
        rows = [position[a * routes.nodes_total + b] for a, b in zip(group, group[1:] + group[:1], strict=True)]
        first = [int(routes.pair_ptr[row]) for row in rows]
        count = [int(routes.pair_ptr[row + 1]) - at for row, at in zip(rows, first, strict=True)]
        most = max(count)
        ring_paths = (
            tuple(routes.path(at + r * c // most) for at, c in zip(first, count, strict=True)) for r in range(most)
        )
        return GroupRings(group, tuple(Ring(group, 1.0 / most, paths) for paths in ring_paths))

    return tuple(map(rings, groups))


def single_path_table(nodes_total: int, source: Int32s, paths: Int32s) -> PathTable:
    """Path table of one path for each pair: `even_path_table` with a count of 1 each."""
    return even_path_table(nodes_total, source, np.ones(len(source), dtype=np.int64), paths)


def even_path_table(nodes_total: int, source: Int32s, count: Ints, paths: Int32s) -> PathTable:
    """Path table in which each pair has paths of equal shares.

    Args:
        nodes_total: number of nodes.
        source: int32[m], source of each pair, ascending; targets ascend within a source.
        count: int64[m], paths of each pair, positive.
        paths: int32[sum of count, w], the nodes of each path, padded with -1 at the end, those of a pair together.
    """
    used = paths >= 0
    length = used.sum(axis=1)
    pair_ptr = offsets(count)
    first = pair_ptr[:-1]
    return PathTable(
        nodes_total=nodes_total,
        source=source,
        target=paths[first, length[first] - 1],
        pair_ptr=pair_ptr,
        share=np.repeat(1.0 / count, count),
        path_ptr=offsets(length),
        node=paths[used],
    )


def server_pairs(servers: int) -> tuple[Int32s, Int32s]:
    """Sources and targets of all n (n - 1) ordered pairs of distinct servers, sorted."""
    source, target = np.divmod(np.arange(servers * servers, dtype=np.int32), servers)
    apart = source != target
    return source[apart].astype(np.int32), target[apart].astype(np.int32)


def routed_pairs(servers: int, options: FabricOptions) -> tuple[Int32s, Int32s]:
    """Sources and targets of the pairs that need a route, sorted."""
    if options.pairs is None:
        return server_pairs(servers)
    source, target = np.divmod(options.pairs, servers)
    return source.astype(np.int32), target.astype(np.int32)


def direct_connect_network(
    cluster: Cluster,
    topology: Topology,
    routes: PathTable,
    rings: Sequence[GroupRings],
    schedules: Sequence[GroupSchedule] = (),
) -> Network:
    """The network of the parts of a plan: an arc of k parallel links has k times the rate of an interface.

    Raises:
        ValueError: a path crosses two servers that are not joined.
    """
    return compile_network(
        servers=cluster.servers,
        link_ends=topology.arcs.astype(np.int32),
        link_rate=topology.multiplicity.astype(np.float64) * cluster.link_bytes_per_ms,
        hop_latency_ms=cluster.hop_latency_us / US_PER_MS,
        ring_round_latency_ms=cluster.ring_round_latency_us / US_PER_MS,
        routes=routes,
        rings=tuple(rings),
        schedules=schedules,
        link_sharing=cluster.link_sharing,
        compute_order=cluster.compute_order,
    )


def plan_network(cluster: Cluster, plan: Plan) -> Network:
    return direct_connect_network(cluster, plan.topology, plan.routes, plan.rings, plan.schedules)


__all__ = [
    "FABRICS",
    "FabricBuilder",
    "FabricOptions",
    "ListedFabric",
    "cost_equivalent_fat_tree_gbps",
    "direct_connect_network",
    "plan_network",
]

FABRICS: Mapping[str, ListedFabric] = PlugIns(
    {
        "ideal-switch": "topoopt.simulate.fabrics:IDEAL_SWITCH",
        "fat-tree": "topoopt.simulate.fabrics:FAT_TREE",
        "full-fat-tree": "topoopt.simulate.fabrics:FULL_FAT_TREE",
        "random-regular": "topoopt.simulate.fabrics.direct_graphs:RANDOM_REGULAR",
        "oversubscribed-fat-tree": "topoopt.simulate.fabrics:OVERSUBSCRIBED_FAT_TREE",
        "torus-2d": "topoopt.simulate.fabrics.direct_graphs:TORUS_2D",
        "torus-3d": "topoopt.simulate.fabrics.direct_graphs:TORUS_3D",
        "twisted-torus-2d": "topoopt.simulate.fabrics.direct_graphs:TWISTED_TORUS_2D",
        "twisted-torus-3d": "topoopt.simulate.fabrics.direct_graphs:TWISTED_TORUS_3D",
        "hypercube": "topoopt.simulate.fabrics.direct_graphs:HYPERCUBE",
        "generalized-kautz": "topoopt.simulate.fabrics.direct_graphs:GENERALIZED_KAUTZ",
        "expander": "topoopt.simulate.fabrics.direct_graphs:EXPANDER",
    }
)
"""Fabrics by name; a new one is one module and one line here, and its counting rule in `topoopt.costs`."""


SETTINGS = ("nic_gbps", "oversubscription", "layer", "shape", "ecmp", "radix")
"""Fields of a choice that not every fabric has."""

_OTHER_NAMES = {"fat_tree_gbps": "nic_gbps"}
"""Fields of `FabricOptions` that a choice calls otherwise."""


def settings_of(fabric: str) -> tuple[str, ...]:
    """Fields of a choice that concern a fabric of the table."""
    return tuple(_OTHER_NAMES.get(name, name) for name in FABRICS[fabric].uses)


def choice_problems(choices: Sequence[FabricChoice]) -> list[tuple[tuple[int | str, ...], Problem]]:
    """Unknown fabrics, settings that a fabric does not have, labels used twice; each with its place in the list.

    Demand-driven circuits are no network that stays, and have no place in such a list.
    """
    problems: list[tuple[tuple[int | str, ...], Problem]] = []
    seen: dict[str, int] = {}
    for index, choice in enumerate(choices):
        if choice.fabric not in FABRICS:
            from topoopt.simulate.circuits import DYNAMIC_FABRICS

            text, allowed = "no such fabric", ", ".join(FABRICS)
            if choice.fabric in DYNAMIC_FABRICS:
                text = "demand-driven circuits run in topoopt compare --fabrics and topoopt reconfigure only"
            problems.append(((index, "fabric"), Problem(text, value=choice.fabric, allowed=allowed)))
            continue
        settings = settings_of(choice.fabric)
        for name in SETTINGS:
            value = getattr(choice, name)
            if value is not None and name not in settings:
                text = f"{choice.fabric} has no such setting"
                allowed = ", ".join(("label", *settings))
                problems.append(((index, name), Problem(text, value=str(value), allowed=allowed)))
        if choice.name in seen:
            text = f"the name of entry {seen[choice.name] + 1} again"
            where = (index, "label") if choice.label else (index, "fabric")
            problems.append((where, Problem(text, value=choice.name, allowed="another label")))
        seen.setdefault(choice.name, index)
    return problems


def options_of(
    choice: FabricChoice, settings: BaselineSettings, seed: int, book: PriceBook | None = None
) -> FabricOptions:
    """Options of a fabric of the table: of the choice, else of the settings for the plain fat-tree.

    `book` has the prices behind rates of equal cost; None: those shipped.
    """
    options = FabricOptions(
        seed=seed,
        nic_gbps=choice.nic_gbps,
        fat_tree_gbps=choice.nic_gbps,
        oversubscription=choice.oversubscription,
        shape=choice.shape,
        radix=choice.radix,
        book=default_price_book() if book is None else book,
    )
    if choice.layer is not None:
        options = replace(options, layer=choice.layer)
    if choice.ecmp is not None:
        options = replace(options, ecmp=choice.ecmp)
    if choice.fabric == "fat-tree":
        if choice.nic_gbps is None:
            options = replace(options, fat_tree_gbps=settings.fat_tree_gbps)
        if choice.oversubscription is None:
            options = replace(options, oversubscription=settings.fat_tree_oversubscription)
    return options


HOPS_OVER_SWITCH = 4.9
"""Fixed cost of an AllReduce ring round in hop latencies: 4.8 to 5.1 us in packet simulation at 1 us a hop."""


def _nic_gbps(cluster: Cluster, options: FabricOptions) -> float:
    return cluster.degree * cluster.link_gbps if options.nic_gbps is None else options.nic_gbps


def ideal_switch(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """Node n is the switch. One ring per group, in list order."""
    n = cluster.servers
    gbps = _nic_gbps(cluster, options)
    hosts = np.arange(n, dtype=np.int32)
    switch = np.full(n, n, dtype=np.int32)
    source, target = routed_pairs(n, options)
    routes = single_path_table(n + 1, source, np.stack((source, np.full_like(source, n), target), axis=1))
    return compile_network(
        servers=n,
        link_ends=np.concatenate((np.stack((hosts, switch), axis=1), np.stack((switch, hosts), axis=1))),
        link_rate=np.full(2 * n, bytes_per_ms(gbps)),
        hop_latency_ms=cluster.hop_latency_us / US_PER_MS,
        ring_round_latency_ms=HOPS_OVER_SWITCH * cluster.hop_latency_us / US_PER_MS,
        routes=routes,
        rings=list_order_rings(groups, routes),
        link_sharing=cluster.link_sharing,
        compute_order=cluster.compute_order,
    )


def _describe(cluster: Cluster, options: FabricOptions) -> str:
    return f"one non-blocking switch, {_nic_gbps(cluster, options):g} Gbit/s per server"


IDEAL_SWITCH = ListedFabric(ideal_switch, _describe, ("nic_gbps",), _nic_gbps)


RING_ROUND_HOPS = 16.0
"""Fixed cost of an AllReduce ring round, in hop latencies: 16.0 us measured in packet simulation at 1 us a hop."""


Uplinks = tuple[int, float]
"""Links up from one switch: how many are there, and the part of a NIC's rate that each has."""


def arity_of(cluster: Cluster, options: FabricOptions) -> int:
    """Ports of a switch of a fat-tree of the cluster.

    Raises:
        InputError: three tiers of switches of the radix that is set do not hold the servers.
    """
    least = fat_tree_arity(cluster.servers)
    if options.radix is not None and options.radix < least:
        most = options.radix**3 // 4
        text = f"three tiers of switches of {options.radix} ports hold {most} of {cluster.servers} servers"
        raise InputError([Problem(text, path="radix", value=str(options.radix), allowed=f"{least} or more")])
    return least if options.radix is None else options.radix


def tree_network(
    cluster: Cluster,
    groups: Sequence[Group],
    *,
    gbps: float,
    rack: Uplinks,
    aggregation: Uplinks,
    options: FabricOptions,
) -> Network:
    """A fat-tree of NICs of `gbps`; each ordered pair takes its equal-cost paths as `options.ecmp` says.

    Rings of a group are in list order. Of the k/2 links up from a switch the first `count` are there.
    """
    n = cluster.servers
    k = arity_of(cluster, options)
    half = k // 2
    first_rack, first_aggregation, first_core = n, n + k * half, n + 2 * k * half

    host = np.arange(n)
    pods = np.arange(k if options.radix is None else -(-n // half**2))
    pod, i, j = (axis.ravel() for axis in np.meshgrid(pods, np.arange(half), np.arange(half), indexing="ij"))
    wired, upper = j < rack[0], j < aggregation[0]
    ends = [
        (host, first_rack + host // half),
        ((first_rack + pod * half + i)[wired], (first_aggregation + pod * half + j)[wired]),
        ((first_aggregation + pod * half + i)[upper], (first_core + i * half + j)[upper]),
    ]
    up = np.concatenate([np.stack(pair, axis=1) for pair in ends]).astype(np.int32)
    rate = np.repeat(bytes_per_ms(gbps) * np.array([1.0, rack[1], aggregation[1]]), [len(pair[0]) for pair in ends])

    source, target = routed_pairs(n, options)
    count, j, i = _uplinks_taken(n, half, source, target, rack[0], aggregation[0], options)
    paths = _paths(n, half, np.repeat(source, count), np.repeat(target, count), j, i)
    routes = even_path_table(first_core + half * half, source, count, paths)
    return compile_network(
        servers=n,
        link_ends=np.concatenate((up, up[:, ::-1])),
        link_rate=np.concatenate((rate, rate)),
        hop_latency_ms=cluster.hop_latency_us / US_PER_MS,
        ring_round_latency_ms=RING_ROUND_HOPS * cluster.hop_latency_us / US_PER_MS,
        routes=routes,
        rings=list_order_rings(groups, routes),
        link_sharing=cluster.link_sharing,
        compute_order=cluster.compute_order,
    )


def _uplinks_taken(
    n: int, half: int, source: Int32s, target: Int32s, racks: int, aggregations: int, options: FabricOptions
) -> tuple[Ints, Ints, Ints]:
    """int64[m] paths of each pair, and int64[sum] of each path the uplink of its rack and that above it."""
    unit = np.ones(len(source), dtype=np.int64)
    if options.ecmp == "hashed":
        draws = Draws(options.seed)
        pair = source.astype(np.int64) * (n - 1) + target - (target > source)  # its path does not depend on the others
        j, i = (draws.below(links, n * (n - 1))[pair] for links in (racks, aggregations))
        return unit, j, i
    if options.ecmp == "spread":
        return unit, (target % half % racks).astype(np.int64), (target // half % half % aggregations).astype(np.int64)
    apart, far = source // half != target // half, source // half**2 != target // half**2
    above = np.where(far, aggregations, 1)
    count = np.where(apart, racks, 1) * above
    rank = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    j, i = np.divmod(rank, np.repeat(above, count))
    return count, j, i


def _paths(n: int, half: int, source: Int32s, target: Int32s, j: Ints, i: Ints) -> Int32s:
    """int32[m, 7], the nodes of a path of each pair over aggregation switch j of its pods and their i-th core."""
    first_rack, first_aggregation, first_core = n, n + 2 * half * half, n + 4 * half * half
    source_pod, target_pod = source // (half * half), target // (half * half)
    hops = np.full((len(source), 7), -1, dtype=np.int64)
    hops[:, 0], hops[:, 1] = source, first_rack + source // half
    same_rack = source // half == target // half
    same_pod = (source_pod == target_pod) & ~same_rack
    far = source_pod != target_pod
    hops[same_rack, 2] = target[same_rack]
    hops[~same_rack, 2] = (first_aggregation + source_pod * half + j)[~same_rack]
    hops[same_pod, 3] = (first_rack + target // half)[same_pod]
    hops[same_pod, 4] = target[same_pod]
    hops[far, 3] = (first_core + j * half + i)[far]
    hops[far, 4] = (first_aggregation + target_pod * half + j)[far]
    hops[far, 5] = (first_rack + target // half)[far]
    hops[far, 6] = target[far]
    return hops.astype(np.int32)


def nic_gbps(cluster: Cluster, options: FabricOptions) -> float:
    """Rate of the NIC of the cost-equivalent fat-tree, Gbit/s, unless another one is given."""
    if options.fat_tree_gbps is not None:
        return options.fat_tree_gbps
    ratio = options.oversubscription or 1.0
    return cost_equivalent_fat_tree_gbps(cluster.degree, cluster.link_gbps, ratio, options.book)


def fat_tree(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """All links are there; an oversubscription ratio r divides the rate of those between racks and aggregation by r."""
    half = arity_of(cluster, options) // 2
    return tree_network(
        cluster,
        groups,
        gbps=nic_gbps(cluster, options),
        rack=(half, 1.0 / (options.oversubscription or 1.0)),
        aggregation=(half, 1.0),
        options=options,
    )


def full_fat_tree(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """The same without oversubscription, its one NIC as fast as all interfaces of a server together."""
    return fat_tree(
        cluster, groups, replace(options, fat_tree_gbps=cluster.degree * cluster.link_gbps, oversubscription=1.0)
    )


def _describe_fat_tree(cluster: Cluster, options: FabricOptions) -> str:
    gbps, ratio = nic_gbps(cluster, options), options.oversubscription or 1.0
    price = "same price as" if gbps < cluster.degree * cluster.link_gbps else "full rate for less than"
    why = "" if options.fat_tree_gbps is not None else f", {price} the direct-connect network"
    return f"k-ary fat-tree with ECMP ({options.ecmp}), one NIC of {gbps:.4g} Gbit/s, {ratio:g}:1{why}"


def _describe_full(cluster: Cluster, options: FabricOptions) -> str:
    total = cluster.degree * cluster.link_gbps
    return f"k-ary fat-tree with ECMP ({options.ecmp}), one NIC of {total:g} Gbit/s, full bisection"


FAT_TREE = ListedFabric(fat_tree, _describe_fat_tree, ("fat_tree_gbps", "oversubscription", "ecmp", "radix"), nic_gbps)
FULL_FAT_TREE = ListedFabric(full_fat_tree, _describe_full, ("ecmp", "radix"))


RATIO = 2.0
"""Downlink over uplink bandwidth unless another ratio is given."""


def _ratio(options: FabricOptions) -> float:
    return RATIO if options.oversubscription is None else options.oversubscription


def oversubscribed_fat_tree(cluster: Cluster, groups: Sequence[Group], options: FabricOptions) -> Network:
    """Only `options.layer` is oversubscribed, the other layer has all its links."""
    half, ratio = arity_of(cluster, options) // 2, _ratio(options)
    count = links_up(half, ratio)
    few, all_of_them = (count, half / (ratio * count)), (half, 1.0)
    at_rack = options.layer == LAYERS[0]
    return tree_network(
        cluster,
        groups,
        gbps=cluster.degree * cluster.link_gbps,
        rack=few if at_rack else all_of_them,
        aggregation=all_of_them if at_rack else few,
        options=options,
    )


def _describe_oversubscribed_fat_tree(cluster: Cluster, options: FabricOptions) -> str:
    total, above = cluster.degree * cluster.link_gbps, {"rack": "racks", "aggregation": "aggregation switches"}
    where = above[options.layer]
    choice, ratio = options.ecmp, _ratio(options)
    return f"k-ary fat-tree with ECMP ({choice}), one NIC of {total:g} Gbit/s, {ratio:g}:1 above the {where}"


OVERSUBSCRIBED_FAT_TREE = ListedFabric(
    oversubscribed_fat_tree, _describe_oversubscribed_fat_tree, ("oversubscription", "layer", "ecmp", "radix")
)
