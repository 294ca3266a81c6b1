"""What no strategy of an instance betters on a fabric, by the certificate of its search on an ideal switch. Networks
for strategies of training: degree split, rings, routes, places of ranks; and the best strategy on each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import chain, combinations, islice

import numpy as np

from solvers.dag_topology.pods import best_in_pods
from solvers.llm_training.evaluation import EvaluatedNetwork, evaluated, iteration_s, no_faster, with_schedules
from solvers.llm_training.fabrics import TRAINING_FABRICS, FabricNetwork, fabric_problems
from solvers.llm_training.strategies import columns_of_rows, rows_of_shape, shape_numbers
from solvers.stop import Stop
from solvers.switching import best_on_rails
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.graphs import moore_bound
from topoopt.core.llm_training import GpuCluster, LlmTrainingProblem
from topoopt.core.llm_training_plan import (
    IDEAL_SWITCH,
    PHOTONIC_RAILS,
    POD_CIRCUITS,
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
from topoopt.core.parallelism import RANK_ORDERS, ParallelDimension, ParallelStrategy
from topoopt.core.proofs import StopReason
from topoopt.core.result import SearchResult
from topoopt.core.routing import PathTable
from topoopt.simulate.llm_training.costs import GroupRates, ledger, total_bytes
from topoopt.simulate.llm_training.links import FamilyGroups, PlacedNetwork, family_groups, rank_coordinates
from topoopt.simulate.llm_training.step import network_rates, roofline_estimate, shared_rates
from topoopt.simulate.llm_training.strategies import StrategyColumns, columns_of
from topoopt.simulate.llm_training.times import iteration_times, order_bounds, stage_parts


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
    problems = fabric_problems(problem.cluster, (fabric,))
    if problems:
        raise InputError(problems)
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
        total = iteration_times(problem, columns, rates)
        yield from zip(block, total.tolist(), strict=True)


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

    Raises
    ------
    InfeasibleError
        No network of the fabric carries it.
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
