"""Fabrics of clusters that train language models: what joins the interfaces, all with the same rate for a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from types import MappingProxyType

import numpy as np

from solvers.llm_training.network.evaluation import sending_pairs
from solvers.llm_training.network.regional import regional_networks, regional_problems
from solvers.llm_training.network.rings import both_ways, orders_of, rank_rings, torus_rings
from solvers.llm_training.network.split import best_split
from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError, Problem
from topoopt.core.llm_training import GpuCluster, LlmTrainingProblem
from topoopt.core.llm_training_plan import REGIONAL
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.routing import PathTable
from topoopt.simulate.fabrics import FABRICS
from topoopt.simulate.fabrics.direct_graph import route_hops, short_tour
from topoopt.simulate.fabrics.options import FabricOptions
from topoopt.simulate.llm_training.network.graphs import cube_shapes, may_twist, star, torus
from topoopt.simulate.llm_training.network.groups import FamilyGroups
from topoopt.simulate.llm_training.network.links import LinkGraph, PlacedNetwork, Rails
from topoopt.simulate.llm_training.network.routing import path_table, switch_routes, torus_routes


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
    found = best_split(problem, strategy, groups)
    if found is not None:
        yield FabricNetwork(found.evaluated.network, tuple(sorted(found.split.items())))


def _tori(problem: LlmTrainingProblem, strategy: ParallelStrategy, groups: FamilyGroups) -> Iterator[FabricNetwork]:
    """All shapes of cubes, plain with dimensions along any axes, and twisted where that is defined."""
    for shape in cube_shapes(problem.cluster.servers):
        ways = [(sides, False) for sides in sorted(set(permutations(shape)))]
        for sides, twisted in [*ways, *([(shape, True)] if may_twist(shape) else [])]:
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
        for place, key in enumerate(keys.tolist()):
            for path in range(int(network.pair_ptr[key]), int(network.pair_ptr[key + 1])):
                links = network.path_link[network.path_ptr[path] : network.path_ptr[path + 1]]
                rows.append([int(ends[links[0], 0]), *ends[links, 1].tolist()])
                share.append(float(network.path_share[path]))
                pair.append(place)
        padded = np.full((len(rows), max(map(len, rows), default=1)), -1, dtype=np.int64)
        for place, row in enumerate(rows):
            padded[place, : len(row)] = row
        return graph, path_table(nodes, source, target, [(np.array(pair, dtype=np.int64), padded, np.array(share))])

    every = np.nonzero(~np.eye(own.servers, dtype=bool))
    rings = _short_rings(made(*every)[1]) if direct else rank_rings
    orders = orders_of(groups, np.arange(own.servers), rings)
    graph, table = made(*sending_pairs(groups, np.arange(own.servers), orders))
    network = PlacedNetwork(graph, np.arange(own.servers), orders, table)
    yield FabricNetwork(network, rings=rings, routes=lambda source, target: made(source, target)[1])


def _short_rings(routes: PathTable) -> Callable[[Ints], Ints]:
    """Each group along a short tour, both ways; groups are sets."""
    hops = route_hops(routes, int(routes.source.max(initial=0)) + 1)

    def rings(servers: Ints) -> Ints:
        return both_ways(np.array([[short_tour(tuple(sorted(row)), hops)] for row in servers.tolist()], dtype=np.int64))

    return rings


def _alone(cluster: GpuCluster) -> list[Problem]:
    """Of one server, which no link joins to another."""
    if cluster.servers > 1:
        return []
    return [Problem("one server has no links", path="servers", value="1", allowed="2 or more, or another fabric")]


def _torus_problems(cluster: GpuCluster) -> list[Problem]:
    if alone := _alone(cluster):
        return alone
    if not list(cube_shapes(cluster.servers)):
        return [Problem("no torus has so many servers", path="servers", value=str(cluster.servers), allowed="others")]
    return []


def _listed_problems(cluster: GpuCluster, *, fabric: str) -> list[Problem]:
    """What its builder says."""
    if FABRICS[fabric].kind == "direct" and (alone := _alone(cluster)):
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
    found = []
    for name in fabrics:
        if name not in TRAINING_FABRICS:
            found.append(Problem("no such fabric", path="fabrics", value=name, allowed=", ".join(TRAINING_FABRICS)))
            continue
        for one in TRAINING_FABRICS[name].problems(cluster):
            found.append(Problem(f"{name}: {one.message}", path="fabrics", value=one.value, allowed=one.allowed))
    return found
