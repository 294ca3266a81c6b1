"""Networks for strategies of training, and the best strategy on each: degree split, rings, routes, places of ranks.

What no strategy betters on a fabric follows from the certificate of the search on an ideal switch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from itertools import chain, combinations, islice, permutations, product
from types import MappingProxyType

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from solvers.dag_topology.pods import best_in_pods
from solvers.llm_training.direct_connect import best_split, both_directions, orders_of, rank_rings, torus_rings
from solvers.llm_training.evaluation import (
    EvaluatedNetwork,
    evaluated,
    iteration_s,
    no_faster,
    sending_pairs,
    with_schedules,
)
from solvers.llm_training.strategies import columns_of_rows, rows_of_shape, shape_numbers
from solvers.regional_circuits import matched
from solvers.stop import Stop
from solvers.switching import best_on_rails
from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InfeasibleError, InputError, Problem, raise_any
from topoopt.core.llm_training import GpuCluster, LlmTrainingProblem
from topoopt.core.llm_training_plan import (
    IDEAL_SWITCH,
    PHOTONIC_RAILS,
    POD_CIRCUITS,
    REGIONAL,
    DimensionRings,
    FabricPlan,
    FamilyReductions,
    GroupReduction,
    NetworkPlan,
    PlannedFabric,
    RankedStrategy,
    ServerRoute,
    ShapeOutcome,
    ShapeVerdict,
    StrategyFigures,
    StrategyShape,
)
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import RANK_ORDERS, ParallelDimension, ParallelStrategy
from topoopt.core.proofs import StopReason
from topoopt.core.regional_circuits import RegionalCircuitsProblem
from topoopt.core.result import SearchResult
from topoopt.core.topology import moore_bound
from topoopt.core.workload import PathTable
from topoopt.simulate.circuits import RegionTraffic
from topoopt.simulate.fabrics import FABRICS, FabricOptions
from topoopt.simulate.fabrics.direct_graphs import route_hops, short_tour
from topoopt.simulate.llm_training.costs import GroupRates, ledger, total_bytes
from topoopt.simulate.llm_training.links import (
    FamilyGroups,
    LinkGraph,
    PlacedNetwork,
    Rails,
    cube_shapes,
    exchange_flows,
    family_groups,
    may_twist,
    path_table,
    rank_coordinates,
    star,
    switch_routes,
    torus,
    torus_routes,
)
from topoopt.simulate.llm_training.step import network_rates, roofline_estimate, shared_rates
from topoopt.simulate.llm_training.strategies import StrategyColumns, columns_of
from topoopt.simulate.llm_training.times import iteration_times, order_bounds, stage_parts

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
    classes, n = groups.collectives.get(F.EXPERT, ()), cluster.servers
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


@lru_cache(maxsize=512)
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


_alone, _split = partial(_matched, split=False), partial(_matched, split=True)


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
        network = FABRICS[fabric].build(cluster, (), FabricOptions(seed=problem.search.seed, pairs=keys))
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
                Problem(f"{name}: {issue.message}", path="fabrics", value=issue.value, allowed=issue.allowed)
            )
    return problems_of_fabrics


def fabric_bound_s(
    problem: LlmTrainingProblem, fabric: str, shapes: Iterable[ShapeOutcome], best_s: float, value: float
) -> float:
    """Seconds.

    Args:
        shapes: the certificate.
        best_s: of the fastest strategy on an ideal switch.
        value: of a plan; what takes longer anyway is not looked at.
    """
    lines = [line for line in shapes if line.verdict is not ShapeVerdict.MEMORY and line.bound_s < value]
    left = [line.bound_s for line in lines if line.verdict is not ShapeVerdict.SEARCHED]
    if not TRAINING_FABRICS[fabric].direct or problem.model.experts is None:
        return min([best_s, value, *(line.bound_s for line in lines if line.verdict is ShapeVerdict.LEFT)])
    searched = [line for line in lines if line.verdict is ShapeVerdict.SEARCHED]
    least = value
    for line in sorted(searched, key=lambda line: line.bound_s):
        if line.bound_s < least:
            least = min(least, _searched_s(problem, line.shape, least))
    return min([least, *left])


def _searched_s(problem: LlmTrainingProblem, shape: StrategyShape, least: float) -> float:
    """The least of the strategies of a shape that fit, at optimistic rates; inf where none is below what is known."""
    rows = rows_of_shape(problem, replace(shape, expert=1, expert_tensor=1))
    shapes = np.tile(np.array(shape_numbers(shape), dtype=np.float64), (len(rows), 1))
    columns = columns_of_rows(problem, shapes, rows)
    usable = problem.usable_bytes
    if usable is not None:
        columns = columns.rows(np.flatnonzero(total_bytes(ledger(problem, columns)) <= usable))
    if not len(columns.tensor):
        return np.inf
    parts = stage_parts(problem, columns, optimistic_rates(problem, columns))
    columns = columns.rows(np.flatnonzero(order_bounds(problem, columns, parts) < least))
    if not len(columns.tensor):
        return np.inf
    return float(iteration_times(problem, columns, optimistic_rates(problem, columns)).min())


def optimistic_rates(problem: LlmTrainingProblem, columns: StrategyColumns) -> GroupRates:
    """Rates that no direct links of the cluster exceed: every byte of an exchange takes up as many links as hops."""
    cluster = problem.cluster
    ideal = GroupRates.of(problem, columns)
    servers = np.maximum(1.0, columns.expert * columns.expert_tensor // cluster.gpus_per_server)
    hops = {count: _mean_hops(int(count), cluster) for count in np.unique(servers).tolist()}
    mean: Floats = np.array([hops[count] for count in servers.tolist()])
    return replace(ideal, expert=ideal.expert / mean)


def _mean_hops(servers: int, cluster: GpuCluster) -> float:
    """Of the ways from a server to all others of its group, at least."""
    if servers <= cluster.degree + 1:
        return 1.0
    _, distances = moore_bound(servers, max(2, cluster.degree), cluster.links)
    return distances / (servers - 1)


EXCHANGES = 100
"""Exchanges of two servers that are drawn."""


def best_map(
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    groups: FamilyGroups,
    fabric: FabricNetwork,
    start: EvaluatedNetwork,
    stop: Stop,
) -> EvaluatedNetwork:
    """The fastest map that exchanges find, beginning with the ranks in order."""
    n = problem.cluster.servers
    if problem.rank_map == "in-order" or fabric.routes is None or n > 128 or not start.loads:
        return start
    source, target = np.nonzero(~np.eye(n, dtype=bool))
    all_pairs = fabric.routes(source, target)

    def faster(places: Ints, than: EvaluatedNetwork) -> EvaluatedNetwork | None:
        """The map, if it is faster than another; of most the rates alone tell that they are not."""
        network = fabric.placed(groups, places, all_pairs)
        loads, alone, unshared = network_rates(problem, strategy, network, groups)
        rates = shared_rates(problem, strategy, loads, unshared)
        if no_faster(rates, than.rates):
            return None
        seconds = iteration_s(problem, strategy, rates)
        better = seconds < than.iteration_time_s * (1.0 - 1e-9)
        return EvaluatedNetwork(network, loads, alone, rates, seconds) if better else None

    places, best = start.network.places, start
    g = problem.cluster.gpus_per_server
    for exchange in chain(_orders(strategy, g), _planes(strategy, g), _drawn(n, problem.search.seed)):
        if stop.reason() is not None:
            break
        moved = places[exchange]
        candidate = faster(moved, best)
        if candidate is not None:
            best, places = candidate, moved
    return evaluated(problem, strategy, fabric.placed(groups, places), groups)


def _orders(strategy: ParallelStrategy, gpus_per_server: int) -> Iterator[Ints]:
    """Blocks where another order of the dimensions has them, if the ranks of a block stay together there."""
    at = rank_coordinates(strategy)
    seen = [tuple(range(strategy.gpus // gpus_per_server))]
    for order in RANK_ORDERS:
        offset, stride = np.zeros(strategy.gpus, dtype=np.int64), 1
        for dimension in order:
            offset += at[dimension] * stride
            stride *= int(at[dimension].max()) + 1
        rows = (offset // gpus_per_server).reshape(-1, gpus_per_server)
        blocks = tuple(rows[:, 0].tolist())
        if (rows == rows[:, :1]).all() and blocks not in seen:
            seen.append(blocks)
            yield rows[:, 0]


def _planes(strategy: ParallelStrategy, gpus_per_server: int) -> Iterator[Ints]:
    """Blocks with two values along a dimension changed about, where blocks have one value of it."""
    at = rank_coordinates(strategy)
    for dimension in (ParallelDimension.PIPELINE, ParallelDimension.DATA, ParallelDimension.CONTEXT):
        rows = at[dimension].reshape(-1, gpus_per_server)
        if (rows != rows[:, :1]).any():
            continue
        own = rows[:, 0]
        for a, b in combinations(range(int(own.max()) + 1), 2):
            swap = np.arange(len(own))
            first, second = np.flatnonzero(own == a), np.flatnonzero(own == b)
            swap[first], swap[second] = second, first
            yield swap


def _drawn(n: int, seed: int) -> Iterator[Ints]:
    draw = np.random.default_rng(seed)
    for _ in range(EXCHANGES):
        a, b = draw.choice(n, 2, replace=False)
        swap = np.arange(n)
        swap[a], swap[b] = b, a
        yield swap


DIRECT = "direct-connect"

BLOCK = 64
"""Strategies whose bounds are computed together."""

MOST_TRIED = 32
"""Strategies that get a network, on up to `LARGE` servers; beyond fewer."""

LARGE = 512

FEW = 12
"""Servers up to which the best strategy gets places on every network of a fabric, not on the best of them alone."""

ALIKE = 8
"""Of the strategies that get a network, one in so many may divide the GPUs alike, but always one: networks serve such
strategies alike, and each division comes with many schedules that are about as fast on an ideal switch."""


@dataclass(frozen=True, eq=False)
class StrategyNetwork:
    """A strategy with its best network on a fabric.

    Attributes:
        fabric: its name.
        form: the network of the fabric.
        next: of the result of a search the fastest others, ranks in their order.
        tried: strategies that got a network in it.
    """

    fabric: str
    ranked: RankedStrategy
    groups: FamilyGroups
    form: FabricNetwork
    evaluated: EvaluatedNetwork
    next: tuple[StrategyNetwork, ...] = ()
    tried: int = 1

    @property
    def iteration_time_s(self) -> float:
        return self.evaluated.iteration_time_s


def best_on_fabric(
    problem: LlmTrainingProblem, fabric: str, candidates: Iterable[RankedStrategy], stop: Stop, count: int = 1
) -> StrategyNetwork:
    """Search strategies and networks together; of the best strategy ranks stand where they serve it best.

    Args:
        candidates: strategies by ascending time on an ideal switch.
        count: how many of the fastest are asked for.

    Raises:
        InputError: no such fabric, or the cluster cannot have it.
        InfeasibleError: no strategy of those given can be carried.
    """
    raise_any(fabric_problems(problem.cluster, (fabric,)))
    most = MOST_TRIED if problem.cluster.servers <= LARGE else MOST_TRIED // 8
    incumbents: list[StrategyNetwork] = []
    tried, time, alike = 0, np.inf, Counter[tuple[int, ...]]()
    for ranked, bound in _bounded(problem, candidates, direct=TRAINING_FABRICS[fabric].direct):
        if ranked.iteration_time_s >= time or tried == most or (incumbents and stop.reason() is not None):
            break
        division = tuple(getattr(ranked.strategy, part.name) for part in fields(StrategyShape))
        if bound >= time or alike[division] >= max(1, most // ALIKE):
            continue
        alike[division] += 1
        candidate = _reducing(problem, best_network(problem, fabric, ranked, stop), stop)
        tried += 1
        if candidate is not None:
            incumbents = sorted([*incumbents, candidate], key=lambda network: network.iteration_time_s)[:count]
            time = incumbents[-1].iteration_time_s if len(incumbents) == count else np.inf
    if not incumbents:
        degree = problem.cluster.degree
        has = "1 interface of a server joins" if degree == 1 else f"{degree} interfaces of a server join"
        those = "1 strategy" if tried == 1 else f"{tried} strategies"
        raise InfeasibleError(f"{fabric}: {has} none of {those}")
    first, *others = incumbents
    return replace(mapped(problem, fabric, first, stop), next=tuple(others), tried=tried)


def _reducing(problem: LlmTrainingProblem, candidate: StrategyNetwork | None, stop: Stop) -> StrategyNetwork | None:
    """The network, chosen with rings, with families on what the instance asks for."""
    if candidate is None:
        return None
    strategy = candidate.ranked.strategy
    return replace(candidate, evaluated=with_schedules(problem, strategy, candidate.evaluated, candidate.groups, stop))


def mapped(problem: LlmTrainingProblem, fabric: str, incumbent: StrategyNetwork, stop: Stop) -> StrategyNetwork:
    """The same strategy, its ranks where they serve it best."""
    strategy, groups = incumbent.ranked.strategy, incumbent.groups
    networks = [incumbent.form]
    if problem.cluster.servers <= FEW:
        networks = list(TRAINING_FABRICS[fabric].networks(problem, strategy, groups))
    best = incumbent
    for fabric_network in networks:
        start = evaluated(problem, strategy, fabric_network.network, groups)
        placed = best_map(problem, strategy, groups, fabric_network, start, stop)
        placed = with_schedules(problem, strategy, placed, groups, stop)
        if fabric_network is networks[0] or placed.iteration_time_s < best.iteration_time_s:
            best = replace(incumbent, form=fabric_network, evaluated=placed)
    return best


def best_network(
    problem: LlmTrainingProblem, fabric: str, ranked: RankedStrategy, stop: Stop | None = None
) -> StrategyNetwork | None:
    """The fastest network of a fabric for a strategy; None: none carries it. A limit ends it with the best so far."""
    strategy = ranked.strategy
    groups = family_groups(strategy, problem.cluster.gpus_per_server)
    best: StrategyNetwork | None = None
    for fabric_network in TRAINING_FABRICS[fabric].networks(problem, strategy, groups):
        try:
            placed = evaluated(problem, strategy, fabric_network.network, groups)
        except InfeasibleError:
            continue
        if best is None or placed.iteration_time_s < best.iteration_time_s:
            best = StrategyNetwork(fabric, ranked, groups, fabric_network, placed)
        if stop is not None and stop.reason() is not None:
            break
    return best


def _bounded(
    problem: LlmTrainingProblem, candidates: Iterable[RankedStrategy], *, direct: bool
) -> Iterator[tuple[RankedStrategy, float]]:
    left, size = iter(candidates), 1
    while block := list(islice(left, size)):
        size = min(2 * size, BLOCK)  # more may have to be searched for first
        columns = columns_of([ranked.strategy for ranked in block], problem.model.layers)
        rates = optimistic_rates(problem, columns) if direct else None
        yield from zip(block, iteration_times(problem, columns, rates).tolist(), strict=True)


def figures_of(problem: LlmTrainingProblem, candidate: StrategyNetwork) -> StrategyFigures:
    """What an iteration takes on the network."""
    step = roofline_estimate(problem, candidate.ranked.strategy, candidate.evaluated.rates)
    return StrategyFigures(candidate.ranked.strategy, step.breakdown, step.memory)


def decided(best: StrategyNetwork) -> FabricPlan:
    network = network_plan(best.fabric, best.evaluated.network)
    network = replace(network, degree_split=best.form.split, form=best.form.note)
    return FabricPlan(best.ranked.strategy, network, tuple(other.ranked.strategy for other in best.next))


def unplaced(problem: LlmTrainingProblem, fabric: str, strategy: ParallelStrategy) -> StrategyFigures:
    """Return what an iteration of a strategy takes on its best network, ranks in their order.

    Raises:
        InfeasibleError: no network of the fabric carries it.
    """
    stop = Stop()
    ranked = RankedStrategy(strategy, 0.0, 0.0)  # neither is read
    network = _reducing(problem, best_network(problem, fabric, ranked, stop), stop)
    if network is None:
        raise InfeasibleError(f"{fabric}: no network carries a strategy")
    return figures_of(problem, network)


def network_plan(fabric: str, network: PlacedNetwork) -> NetworkPlan:
    """Return the decisions about a network, without its form."""
    graph = network.graph
    joined = set(zip(graph.tail.tolist(), graph.head.tolist(), strict=True))

    def listed(routes: PathTable) -> tuple[ServerRoute, ...]:
        paths = [ServerRoute(routes.path(path), float(share)) for path, share in enumerate(routes.share)]
        return tuple(route for route in paths if route.share < 1.0 or route.path not in joined)

    orders = tuple(
        DimensionRings(
            family, tuple(tuple(map(tuple, group)) for groups_of_size in classes for group in groups_of_size.tolist())
        )
        for family, classes in network.orders.items()
        if family not in network.schedules or fabric == DIRECT  # whose links go along the rings
    )
    return NetworkPlan(
        fabric=fabric,
        links=tuple(zip(graph.tail.tolist(), graph.head.tolist(), graph.parallel.tolist(), strict=True)),
        places=tuple(network.places.tolist()),
        rings=orders,
        link_gbps=graph.link_gbps,
        routes=listed(network.routes),
        schedules=tuple(
            FamilyReductions(family, tuple(map(GroupReduction.of, schedules)))
            for family, schedules in network.schedules.items()
        ),
        token_routes=() if network.token_routes is None else listed(network.token_routes),
    )


def planned_on(
    problem: LlmTrainingProblem, fabric: str, candidates: Iterable[RankedStrategy], stop: Stop, count: int = 1
) -> PlannedFabric | None:
    """Search strategies on a fabric; None: the strategies on an ideal switch say all.

    Arguments and errors are those of `best_on_fabric`.
    """
    if fabric == IDEAL_SWITCH:
        return None
    if fabric == PHOTONIC_RAILS:
        return best_on_rails(problem, candidates, stop)
    if fabric == POD_CIRCUITS:
        return best_in_pods(problem, candidates, stop)
    network = best_on_fabric(problem, fabric, candidates, stop, count)
    result = SearchResult(plan=decided(network), stopped_by=StopReason.CONVERGED, method="best-on-fabric")
    return result, network.iteration_time_s


def planned_problems(cluster: GpuCluster, fabrics: tuple[str, ...]) -> list[Problem]:
    """Unknown fabrics, and those that the cluster cannot have."""
    return fabric_problems(cluster, tuple(name for name in fabrics if name not in (PHOTONIC_RAILS, POD_CIRCUITS)))
