"""Regional circuits: some interfaces of a server on the optical switch of its region, the others on a network above.
Fabrics of clusters that train language models: what joins the interfaces, all with the same rate for a server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations, islice, permutations, product
from types import MappingProxyType

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from solvers.llm_training.direct_connect import best_split, both_directions, orders_of, rank_rings, torus_rings
from solvers.llm_training.evaluation import sending_pairs
from solvers.regional_circuits import matched
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError, Problem
from topoopt.core.llm_training import GpuCluster, LlmTrainingProblem
from topoopt.core.llm_training_plan import REGIONAL
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.regional_circuits import RegionalCircuitsProblem
from topoopt.core.workload import PathTable
from topoopt.simulate.circuits import RegionTraffic
from topoopt.simulate.fabrics import FABRICS, FabricOptions
from topoopt.simulate.fabrics.direct_graphs import route_hops, short_tour
from topoopt.simulate.llm_training.links import (
    FamilyGroups,
    LinkGraph,
    PlacedNetwork,
    Rails,
    cube_shapes,
    exchange_flows,
    may_twist,
    path_table,
    star,
    switch_routes,
    torus,
    torus_routes,
)

MOST_GRAPHS = 2000
"""Circulant graphs of circuits that are tried for a region."""

Path = tuple[int, ...]
"""Servers of a region, -1 for the switch of the other interfaces."""


Pair = tuple[int, int]
Region = tuple[Mapping[Pair, int], Mapping[Pair, tuple[tuple[Path, float], ...]]]
"""Circuits of pairs of a region, its servers numbered from 0, the smaller number first; paths from source to target
with their shares."""


def regional_problems(cluster: GpuCluster) -> list[Problem]:
    if 0 < cluster.optical_interfaces < cluster.degree:
        return []
    allowed = f"cluster.optical_interfaces of 1 to {cluster.degree - 1}" if cluster.degree > 1 else "degree above 1"
    return [Problem("no interfaces on an optical switch", value=str(cluster.optical_interfaces), allowed=allowed)]


def regional_networks(cluster: GpuCluster, groups: FamilyGroups) -> Iterator[tuple[LinkGraph, PathTable]]:
    """Links with circuits, and routes of tokens."""
    classes = groups.collectives.get(F.EXPERT, ())
    n = cluster.servers
    demand = np.zeros((n, n))
    if classes:
        flows = exchange_flows(classes, np.arange(n))
        np.add.at(demand, (flows.source, flows.target), flows.amount)
    _, component = connected_components(csr_array(demand), directed=False)
    regions = [np.flatnonzero(component == label) for label in np.unique(component)]
    chosen = [label for label in regions if 1 < len(label) <= 128]  # servers of a region; larger ones get no circuits
    for plan in (_alone, _split, _forwarded) if chosen else (_alone,):
        planned = [plan((demand[np.ix_(label, label)] / demand.max()).tobytes(), len(label), cluster.optical_interfaces,
                      cluster.degree - cluster.optical_interfaces) for label in chosen]  # fmt: skip
        made = [(servers, region) for servers, region in zip(chosen, planned, strict=True) if region is not None]
        if len(made) == len(chosen):
            yield _graph(cluster, made), _routes(n, demand, made)


@lru_cache(maxsize=256)
def _alone(demand: bytes, servers: int, optical: int, other: int) -> Region:
    return _matched(demand, servers, optical, other, split=False)


@lru_cache(maxsize=256)
def _split(demand: bytes, servers: int, optical: int, other: int) -> Region:
    return _matched(demand, servers, optical, other, split=True)


def _matched(demand: bytes, servers: int, optical: int, other: int, *, split: bool) -> Region:
    matrix = np.frombuffer(demand).reshape(servers, servers)
    ports = (optical,) * servers
    problem = RegionalCircuitsProblem("region", servers, ports, 1.0, float(other), matrix[None], split)
    traffic = RegionTraffic.of(problem, matrix)
    best, _ = matched(traffic, Stop(), programs=False)
    circuits, routes = dict[Pair, int](), dict[Pair, tuple[tuple[Path, float], ...]]()
    for (i, j), count, larger in zip(problem.pairs, best.circuits.tolist(), traffic.larger.tolist(), strict=True):
        part = 0.0 if not count else min(1.0, count * best.value / larger) if split else 1.0
        if count:
            circuits[i, j] = count
        for source, two in ((i, j), (j, i)):
            routes[source, two] = tuple(
                route for route in (((source, two), part), ((source, -1, two), 1.0 - part)) if route[1] > 0
            )
    return circuits, routes


@lru_cache(maxsize=256)
def _forwarded(demand: bytes, servers: int, optical: int, other: int) -> Region | None:
    """A circulant graph of circuits; pairs without one by a third server, as far as the other interfaces are full.

    None: every pair has a circuit, or pairs do not send equally much.
    """
    matrix = np.frombuffer(demand).reshape(servers, servers)
    if optical >= servers - 1 or optical < 2 or np.ptp(matrix[~np.eye(servers, dtype=bool)]) > 0:
        return None
    steps = combinations(range(1, (servers + 1) // 2), optical // 2)
    graphs = (tuple(sign * step for step in chosen for sign in (1, -1)) for chosen in islice(steps, MOST_GRAPHS))
    _, above, offsets = min(_forwarding(servers, own, other) for own in graphs)
    circuits = {(i, (i + d) % servers): 1 for i in range(servers) for d in offsets if i < (i + d) % servers}
    routes: dict[Pair, tuple[tuple[Path, float], ...]] = {}
    for i, d in product(range(servers), range(1, servers)):
        j = (i + d) % servers
        via = [
            (i + step) % servers for step in offsets if (d - step) % servers in {offset % servers for offset in offsets}
        ]
        if d in {step % servers for step in offsets}:
            routes[i, j] = (((i, j), 1.0),)
        elif not via:
            routes[i, j] = (((i, -1, j), 1.0),)
        else:
            routes[i, j] = (((i, -1, j), above), *(((i, k, j), (1.0 - above) / len(via)) for k in via))
    return circuits, routes


def _forwarding(servers: int, offsets: tuple[int, ...], other: int) -> tuple[float, float, tuple[int, ...]]:
    """(time of one unit between all pairs, part of pairs without circuit that takes the switch, the offsets)."""
    load = {step % servers: 0.0 for step in offsets}
    apart = forwarded = 0
    for d in range(1, servers):
        via = [step % servers for step in offsets if (d - step) % servers in load]
        if d not in load:
            apart, forwarded = apart + (not via), forwarded + bool(via)
            for step in via:
                load[step] += 1.0 / len(via)
                load[(d - step) % servers] += 1.0 / len(via)
    most = max(load.values())
    if not forwarded:
        return max(1.0, apart / other), 0.0, offsets
    above = min(1.0, max(0.0, (1.0 + most - apart / other) / (forwarded / other + most)))
    return max(1.0 + (1.0 - above) * most, (apart + above * forwarded) / other), above, offsets


def _graph(cluster: GpuCluster, regions: Sequence[tuple[Ints, Region]]) -> LinkGraph:
    hub = star(cluster, Rails.NONE)
    rows = [(servers[i], servers[j], count) for servers, region in regions for (i, j), count in region[0].items()]
    pairs = np.array(sorted(rows), dtype=np.int64).reshape(-1, 3)
    electrical = np.full(len(hub.tail), cluster.degree - cluster.optical_interfaces)
    return LinkGraph(
        servers=hub.servers,
        nodes=hub.nodes,
        tail=np.concatenate([hub.tail, pairs[:, 0], pairs[:, 1]]),
        head=np.concatenate([hub.head, pairs[:, 1], pairs[:, 0]]),
        parallel=np.concatenate([electrical, pairs[:, 2], pairs[:, 2]]),
        link_gbps=cluster.link_gbps,
    )


def _routes(n: int, demand: Floats, regions: Sequence[tuple[Ints, Region]]) -> PathTable:
    """Of tokens; over node n where a region has no circuits."""
    source, target = (side.astype(np.int64) for side in np.nonzero(demand))
    routes: dict[Pair, tuple[tuple[Path, float], ...]] = {}
    for servers, region in regions:
        named = {-1: n} | dict(enumerate(servers.tolist()))
        for (i, j), own in region[1].items():
            routes[named[i], named[j]] = tuple((tuple(named[node] for node in path), share) for path, share in own)
    pair, rows, shares = [], [], []
    for number, ends in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        for path, share in routes.get(ends, (((ends[0], n, ends[1]), 1.0),)):
            pair.append(number)
            rows.append([*path, -1][:3])
            shares.append(share)
    padded = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return path_table(n + 1, source, target, [(np.array(pair, dtype=np.int64), padded, np.array(shares))])


@dataclass(frozen=True, eq=False)
class FabricNetwork:
    """A network for a strategy.

    Attributes:
        split: interfaces of a server by family, where links are made for the strategy.
        rings: how rings of groups are made of int64[G, k] servers; None: places of ranks decide nothing.
        routes: of any pairs, sorted; None: the same.
        note: its form, for people.
    """

    network: PlacedNetwork
    split: tuple[tuple[F, int], ...] = ()
    rings: Callable[[Ints], Ints] | None = None
    routes: Callable[[Ints, Ints], PathTable] | None = None
    note: str = ""

    def placed(self, groups: FamilyGroups, places: Ints, table: PathTable | None = None) -> PlacedNetwork:
        """The same links with the blocks of ranks elsewhere.

        Args:
            table: of routes of all pairs; None: those that send are routed.
        """
        assert self.rings is not None
        assert self.routes is not None
        orders = orders_of(groups, places, self.rings)
        table = self.routes(*sending_pairs(groups, places, orders)) if table is None else table
        return PlacedNetwork(self.network.graph, places, orders, table)


Networks = Callable[[LlmTrainingProblem, ParallelStrategy, FamilyGroups], Iterator[FabricNetwork]]


@dataclass(frozen=True)
class TrainingFabric:
    """A line of the table.

    Attributes:
        summary: what it is, for people.
        networks: those to choose from for a strategy; none: links cannot carry its traffic.
        problems: what of a cluster it cannot be made of.
        direct: servers are joined to each other, and pass on what others send.
    """

    summary: str
    networks: Networks
    problems: Callable[[GpuCluster], list[Problem]] = lambda _: []
    direct: bool = False


def _fixed(
    graph: LinkGraph,
    groups: FamilyGroups,
    rings: Callable[[Ints], Ints],
    routes: Callable[[Ints, Ints], PathTable],
    note: str = "",
) -> FabricNetwork:
    places = np.arange(graph.servers)
    orders = orders_of(groups, places, rings)
    network = PlacedNetwork(graph, places, orders, routes(*sending_pairs(groups, places, orders)))
    return FabricNetwork(network, rings=rings, routes=routes, note=note)


def _switched(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, groups: FamilyGroups, *, rails: Rails
) -> Iterator[FabricNetwork]:
    graph = star(problem.cluster, rails)
    fixed = _fixed(graph, groups, rank_rings, partial(switch_routes, graph.servers))
    yield FabricNetwork(fixed.network)  # all servers are alike: their places decide nothing


def _regional(problem: LlmTrainingProblem, strategy: ParallelStrategy, groups: FamilyGroups) -> Iterator[FabricNetwork]:
    for graph, tokens in regional_networks(problem.cluster, groups):
        fixed = _fixed(graph, groups, rank_rings, partial(switch_routes, graph.servers))
        yield FabricNetwork(replace(fixed.network, token_routes=tokens))


def _direct(problem: LlmTrainingProblem, strategy: ParallelStrategy, groups: FamilyGroups) -> Iterator[FabricNetwork]:
    split_network = best_split(problem, strategy, groups)
    if split_network is not None:
        split, placed = split_network
        yield FabricNetwork(placed.network, tuple(sorted(split.items())))


def _tori(problem: LlmTrainingProblem, strategy: ParallelStrategy, groups: FamilyGroups) -> Iterator[FabricNetwork]:
    for shape in cube_shapes(problem.cluster.servers):
        forms = [(sides, False) for sides in sorted(set(permutations(shape)))]
        for sides, twisted in [*forms, *([(shape, True)] if may_twist(shape) else [])]:
            graph, steps = torus(problem.cluster, sides, twisted=twisted)
            note = f"{' x '.join(map(str, sides))} torus" + (", twisted" if twisted else "")
            yield _fixed(graph, groups, torus_rings(sides), partial(torus_routes, steps), note)


def _listed(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, groups: FamilyGroups, *, fabric: str
) -> Iterator[FabricNetwork]:
    """One of the fabrics of all kinds; the NIC of a server has the rate of its interfaces."""
    own = problem.cluster
    cluster = Cluster(own.servers, own.gpus_per_server, own.degree, own.link_gbps, own.links)
    whole = own.degree * own.link_gbps
    direct = FABRICS[fabric].kind == "direct"
    unit = own.link_gbps if direct else whole

    def made(source: Ints, target: Ints) -> tuple[LinkGraph, PathTable]:
        keys = source * own.servers + target
        options = FabricOptions(seed=problem.search.seed, pairs=keys)
        network = FABRICS[fabric].build(cluster, (), options)
        ends = network.link_ends.astype(np.int64)
        parallel = np.rint(network.link_rate / (unit * 1.25e5)).astype(np.int64)
        nodes = max(own.servers, int(ends.max(initial=0)) + 1)
        graph = LinkGraph(own.servers, nodes, ends[:, 0], ends[:, 1], parallel, unit)
        rows, share, pair = [], [], []
        for number, key in enumerate(keys.tolist()):
            for path in range(int(network.pair_ptr[key]), int(network.pair_ptr[key + 1])):
                links = network.path_link[network.path_ptr[path] : network.path_ptr[path + 1]]
                rows.append([int(ends[links[0], 0]), *ends[links, 1].tolist()])
                share.append(float(network.path_share[path]))
                pair.append(number)
        padded = np.full((len(rows), max(map(len, rows), default=1)), -1, dtype=np.int64)
        for number, row in enumerate(rows):
            padded[number, : len(row)] = row
        return graph, path_table(nodes, source, target, [(np.array(pair, dtype=np.int64), padded, np.array(share))])

    every = np.nonzero(~np.eye(own.servers, dtype=bool))
    rings = _short_rings(made(*every)[1]) if direct else rank_rings
    orders = orders_of(groups, np.arange(own.servers), rings)
    graph, table = made(*sending_pairs(groups, np.arange(own.servers), orders))
    network = PlacedNetwork(graph, np.arange(own.servers), orders, table)
    yield FabricNetwork(network, rings=rings, routes=lambda source, target: made(source, target)[1])


def _short_rings(routes: PathTable) -> Callable[[Ints], Ints]:
    hops = route_hops(routes, int(routes.source.max(initial=0)) + 1)

    def rings(servers: Ints) -> Ints:
        return both_directions(
            np.array([[short_tour(tuple(sorted(row)), hops)] for row in servers.tolist()], dtype=np.int64)
        )

    return rings


def _alone_fabrics(cluster: GpuCluster) -> list[Problem]:
    if cluster.servers > 1:
        return []
    return [Problem("one server has no links", path="servers", value="1", allowed="2 or more, or another fabric")]


def _torus_problems(cluster: GpuCluster) -> list[Problem]:
    if alone := _alone_fabrics(cluster):
        return alone
    if not list(cube_shapes(cluster.servers)):
        return [Problem("no torus has so many servers", path="servers", value=str(cluster.servers), allowed="others")]
    return []


def _listed_problems(cluster: GpuCluster, *, fabric: str) -> list[Problem]:
    if FABRICS[fabric].kind == "direct" and (alone := _alone_fabrics(cluster)):
        return alone
    other = Cluster(cluster.servers, cluster.gpus_per_server, cluster.degree, cluster.link_gbps, cluster.links)
    try:
        FABRICS[fabric].build(other, (), FabricOptions(pairs=np.zeros(0, dtype=np.int64)))
    except InputError as error:
        return list(error.problems)
    return []


def _row(fabric: str, summary: str, *, direct: bool) -> TrainingFabric:
    return TrainingFabric(summary, partial(_listed, fabric=fabric), partial(_listed_problems, fabric=fabric), direct)


TRAINING_FABRICS: Mapping[str, TrainingFabric] = MappingProxyType(
    {
        "ideal-switch": TrainingFabric("one switch that nothing fills", partial(_switched, rails=Rails.NONE)),
        "direct-connect": TrainingFabric("links made for the strategy, servers forward", _direct, direct=True),
        "torus-3d": TrainingFabric("a torus of 4x4x4 cubes over optical switches", _tori, _torus_problems, direct=True),
        "rail-fat-tree": TrainingFabric(
            "GPU i of all servers on the switches of rail i, rails joined by a spine",
            partial(_switched, rails=Rails.SPINE),
        ),
        "rail-only": TrainingFabric(
            "the same without a spine: other rails through the server", partial(_switched, rails=Rails.RELAYED)
        ),
        REGIONAL: TrainingFabric(
            "circuits of an optical switch for tokens in each region, the other interfaces on one switch",
            _regional,
            regional_problems,
        ),
        "fat-tree": _row("full-fat-tree", "three tiers of switches, hashed paths", direct=False),
        "torus-2d": _row("torus-2d", "a torus in two dimensions", direct=True),
        "hypercube": _row("hypercube", "a hypercube", direct=True),
        "generalized-kautz": _row("generalized-kautz", "a generalized Kautz graph", direct=True),
        "random-regular": _row("random-regular", "a random regular graph", direct=True),
        "expander": _row("expander", "an expander graph", direct=True),
    }
)
"""Fabrics by name."""


def fabric_problems(cluster: GpuCluster, fabrics: tuple[str, ...]) -> list[Problem]:
    """Unknown fabrics, and those that the cluster cannot have."""
    problems_of_fabrics = []
    for name in fabrics:
        if name not in TRAINING_FABRICS:
            problems_of_fabrics.append(
                Problem("no such fabric", path="fabrics", value=name, allowed=", ".join(TRAINING_FABRICS))
            )
            continue
        for issue in TRAINING_FABRICS[name].problems(cluster):
            problems_of_fabrics.append(
                Problem(
                    f"{name}: {issue.message}",
                    path="fabrics",
                    value=issue.value,
                    allowed=issue.allowed,
                )
            )
    return problems_of_fabrics
