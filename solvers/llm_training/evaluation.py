"""What a strategy takes on a network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from solvers.collective.options import AllReduceOption, GroupOptions
from solvers.stop import Stop
from topoopt.core.arrays import Ints
from topoopt.core.collective import GroupSchedule
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import ALLREDUCE_FAMILIES, REGIONAL, DimensionLoad, NetworkPlan, ServerRoute
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.result import AllReduceChoice
from topoopt.core.workload import PathTable
from topoopt.simulate.llm_training.costs import GroupRates, iteration_traffic
from topoopt.simulate.llm_training.links import (
    FamilyGroups,
    FamilyLoad,
    LinkGraph,
    PlacedNetwork,
    Rails,
    family_flows,
    path_table,
)
from topoopt.simulate.llm_training.step import (
    RATE_OF,
    Bucket,
    family_buckets,
    network_rates,
    rounds_counted,
    schedule_loads,
    shared_rates,
)
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.llm_training.times import iteration_times

BYTES_OF = {
    F.TENSOR: "tensor",
    F.CONTEXT: "context",
    F.EXPERT: "expert_crossing",
    F.PIPELINE: "pipeline",
    F.DATA: "data_dense",
    F.EXPERT_DATA: "data_expert",
}
FREE = 1e18
"""Bytes a second of transfers that take no time."""


@dataclass(frozen=True, eq=False)
class EvaluatedNetwork:
    """A network with what it gives a strategy.

    Attributes:
        loads: of each family between servers.
        alone: bytes a second of a GPU, by family, none of the others sending.
        rates: of all groups, beside the families that send at the same time.
    """

    network: PlacedNetwork
    loads: Mapping[F, FamilyLoad]
    alone: Mapping[F, float]
    rates: GroupRates
    iteration_time_s: float


def iteration_s(problem: LlmTrainingProblem, strategy: ParallelStrategy, rates: GroupRates) -> float:
    """Seconds of an iteration at these rates."""
    return float(iteration_times(problem, columns_of([strategy], problem.model.layers), rates)[0])


def evaluated(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, network: PlacedNetwork, groups: FamilyGroups
) -> EvaluatedNetwork:
    """Time of a strategy on a network.

    Raises:
        InfeasibleError: a pair that sends has no route.
    """
    loads, alone, unshared = network_rates(problem, strategy, network, groups)
    rates = shared_rates(problem, strategy, loads, unshared)
    return EvaluatedNetwork(network, loads, alone, rates, iteration_s(problem, strategy, rates))


def no_faster(rates: GroupRates, than: GroupRates) -> bool:
    """Whether no group has more than at other rates, nor fewer hops, so that no iteration takes less."""
    slower = all(bool(np.all(getattr(rates, name) <= getattr(than, name))) for name in set(RATE_OF.values()))
    farther = all(hops >= other for hops, other in zip(rates.hops, than.hops, strict=True))
    return slower and farther


def family_bytes(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> dict[F, float]:
    """Bytes that a GPU of an average stage sends in an iteration, of experts those that leave the server."""
    sent = iteration_traffic(problem, columns_of([strategy], problem.model.layers))
    return {family: float(sent[name][0]) for family, name in BYTES_OF.items()}


def dimension_loads(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, placed: EvaluatedNetwork
) -> tuple[DimensionLoad, ...]:
    """What each family between servers asks of the network."""
    sent = family_bytes(problem, strategy)
    rows = []
    for family in F:
        if family not in placed.loads:
            continue
        load, alone, name = placed.loads[family], placed.alone[family], RATE_OF[family]
        free: GroupRates = replace(placed.rates, **dict[str, Any]({name: np.full_like(placed.rates.tensor, FREE)}))
        rows.append(
            DimensionLoad(
                dimension=family,
                bytes_sent=sent[family] * load.sent,
                seconds=sent[family] / alone,
                exposed_s=max(0.0, placed.iteration_time_s - iteration_s(problem, strategy, free)),
                gbytes_per_s=alone / 1e9,
                shared_gbytes_per_s=float(getattr(placed.rates, name)[0]) / 1e9,
                hops=load.hops,
                method=load.method,
                rounds=load.rounds,
            )
        )
    return tuple(rows)


def sending_pairs(groups: FamilyGroups, places: Ints, orders: dict[F, tuple[Ints, ...]]) -> tuple[Ints, Ints]:
    """Pairs of servers that send, sorted and distinct."""
    n = len(places)
    keys = [flow.source * n + flow.target for flows in family_flows(groups, places, orders).values() for flow in flows]
    pairs = np.unique(np.concatenate(keys)) if keys else np.zeros(0, dtype=np.int64)
    return pairs // n, pairs % n


def network_of(problem: LlmTrainingProblem, plan: NetworkPlan, groups: FamilyGroups) -> PlacedNetwork:
    """Return the network of a plan in arrays, so that it can be evaluated.

    Raises:
        ValueError, KeyError: Rings do not fit the groups, or a route uses a link that does not exist.
    """
    n = problem.cluster.servers
    links = np.array(plan.links, dtype=np.int64).reshape(-1, 3)
    nodes = max(n, 1 + int(links[:, :2].max(initial=0)))
    rails = _rails(problem, plan.fabric)
    graph = LinkGraph(n, nodes, links[:, 0], links[:, 1], links[:, 2], plan.link_gbps, rails)
    places = np.array(plan.places or range(n), dtype=np.int64)
    orders = _orders(plan, groups)
    source, target = sending_pairs(groups, places, orders)
    tokens = None
    if plan.fabric == REGIONAL and F.EXPERT in groups.collectives:
        flows = family_flows(groups, places, {}).get(F.EXPERT, ())
        pairs = np.unique(np.concatenate([flow.source * n + flow.target for flow in flows]))
        tokens = _table(nodes, pairs // n, pairs % n, plan.token_routes)
    return PlacedNetwork(
        graph,
        places,
        orders,
        _table(nodes, source, target, plan.routes),
        {family.dimension: family.schedules for family in plan.schedules},
        tokens,
    )


def _rails(problem: LlmTrainingProblem, fabric: str) -> Rails:
    owned = problem.cluster.per_gpu and problem.cluster.gpus_per_server > 1
    return {
        "rail-fat-tree": Rails.SPINE,
        "rail-only": Rails.RELAYED,
        "direct-connect": Rails.OWNED if owned else Rails.NONE,
    }.get(fabric, Rails.NONE)


def _orders(plan: NetworkPlan, groups: FamilyGroups) -> dict[F, tuple[Ints, ...]]:
    orders = {}
    for rings in plan.rings:
        rows, first, classes = rings.orders, 0, []
        for blocks in groups.collectives[rings.dimension]:
            classes.append(np.array(rows[first : first + len(blocks.blocks)], dtype=np.int64))
            first += len(blocks.blocks)
        orders[rings.dimension] = tuple(classes)
    return orders


def _table(nodes: int, source: Ints, target: Ints, routes: Iterable[ServerRoute]) -> PathTable:
    """Return the routes of pairs; a pair without one uses the link between the two."""
    by_pair: dict[tuple[int, int], list[ServerRoute]] = {}
    for route in routes:
        by_pair.setdefault((route.path[0], route.path[-1]), []).append(route)
    rows = [
        (number, route.path, route.share)
        for number, pair in enumerate(zip(source.tolist(), target.tolist(), strict=True))
        for route in by_pair.get(pair, [ServerRoute(pair)])
    ]
    padded = np.full((len(rows), max((len(path) for _, path, _ in rows), default=1)), -1, dtype=np.int64)
    for number, (_, path, _) in enumerate(rows):
        padded[number, : len(path)] = path
    pair = np.array([number for number, _, _ in rows], dtype=np.int64)
    return path_table(nodes, source, target, [(pair, padded, np.array([share for _, _, share in rows]))])


Schedules = tuple[GroupSchedule, ...]


def with_schedules(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, placed: EvaluatedNetwork, groups: FamilyGroups, stop: Stop
) -> EvaluatedNetwork:
    """The same links with each family on what is fastest alone of what the instance asks for.

    All groups of a family are on the same kind of schedule where they can, as they take its steps together; where the
    best is asked for, a family stays on its rings if these are as fast, their rounds counted.
    """
    choice, graph = problem.search.allreduce, placed.network.graph
    own = [family for family in ALLREDUCE_FAMILIES if family in groups.collectives]
    if not own or not rounds_counted(problem, graph):
        return placed
    buckets, loads = family_buckets(problem, strategy), schedule_loads(problem, graph)
    rings = evaluated(problem, strategy, replace(placed.network, schedules={}), groups)
    makers = GroupOptions(choice, message_us=problem.cluster.message_latency_us, stop=stop)
    options: dict[tuple[int, ...], tuple[AllReduceOption, ...]] = {}
    chosen: dict[F, Schedules] = {}
    for family in own:
        sizes = _sizes(placed, groups, family, buckets[family])
        for members in sizes:
            if members not in options:
                options[members] = makers.of(_network(problem, graph, members))
        least = rings.loads[family].taken if choice is AllReduceChoice.BEST else np.inf
        for schedules in _proposals(options, sizes):
            load = loads.load(groups.collectives[family], placed.network.places, schedules, buckets[family])
            if load.taken < least:
                least, chosen[family] = load.taken, schedules
    return evaluated(problem, strategy, replace(placed.network, schedules=chosen), groups) if chosen else rings


def _sizes(placed: EvaluatedNetwork, groups: FamilyGroups, family: F, bucket: Bucket) -> dict[tuple[int, ...], int]:
    """Members of the groups of servers of a family -> bytes that all groups of ranks on them reduce at once."""
    sizes = {}
    for own in groups.collectives[family]:
        rows = np.sort(placed.network.places[own.blocks], axis=1).tolist()
        sizes.update({tuple(row): round(n * bucket.whole_bytes) for row, n in zip(rows, own.groups, strict=True)})
    return sizes


def _network(problem: LlmTrainingProblem, graph: LinkGraph, members: tuple[int, ...]) -> RatedNetwork:
    rate = Fraction(str(graph.link_gbps)) / 8
    ends = zip(graph.tail.tolist(), graph.head.tolist(), graph.parallel.tolist(), strict=True)
    return RatedNetwork.of_links(
        ~np.isin(np.arange(graph.nodes), members),
        [(tail, head, rate * parallel) for tail, head, parallel in ends],
        latency_us=problem.cluster.hop_latency_us,
    )


def _proposals(
    options: dict[tuple[int, ...], tuple[AllReduceOption, ...]], sizes: dict[tuple[int, ...], int]
) -> Iterator[Schedules]:
    """For each kind schedules of that kind, where a group has any, in the pieces that are best for their size."""
    for kind in sorted({option.family for members in sizes for option in options[members]}):
        own = {
            members: [option for option in options[members] if option.family == kind] or options[members]
            for members in sizes
        }
        for index in range(max(map(len, own.values()))):
            yield tuple(
                _in_pieces(members, own[members][min(index, len(own[members]) - 1)], size)
                for members, size in sizes.items()
            )


def _in_pieces(members: tuple[int, ...], option: AllReduceOption, size: int) -> GroupSchedule:
    return GroupSchedule(members, 0, None, option.method, option.best(size).pieces, option.schedule)
