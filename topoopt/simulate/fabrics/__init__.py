"""A fabric is what servers may be joined by; each is turned into a `Network` for the time models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from topoopt.core.arrays import Int32s, Ints, offsets
from topoopt.core.cluster import Cluster
from topoopt.core.collective import GroupSchedule
from topoopt.core.errors import InputError, Problem
from topoopt.core.job import BaselineSettings, FabricChoice
from topoopt.core.plan import Plan
from topoopt.core.price_book import PriceBook
from topoopt.core.process import PlugIns
from topoopt.core.routing import GroupRings, PathTable, Ring
from topoopt.core.topology import Topology
from topoopt.costs.bills import cost_equivalent_fat_tree_gbps, default_price_book
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
            costs as much as the direct-connect network (`topoopt.costs.bills`).
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
        if problems:
            raise InputError(problems)


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
        "ideal-switch": "topoopt.simulate.fabrics.switched:IDEAL_SWITCH",
        "fat-tree": "topoopt.simulate.fabrics.switched:FAT_TREE",
        "full-fat-tree": "topoopt.simulate.fabrics.switched:FULL_FAT_TREE",
        "random-regular": "topoopt.simulate.fabrics.direct_graphs:RANDOM_REGULAR",
        "oversubscribed-fat-tree": "topoopt.simulate.fabrics.switched:OVERSUBSCRIBED_FAT_TREE",
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
