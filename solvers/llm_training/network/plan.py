"""The best strategy on a fabric: strategies by their time on an ideal switch, each with its best network.

No network of the same interfaces gives a family more than an ideal switch, so the time there is a bound, strategy by
strategy; on direct links tokens of a group of k servers take no fewer hops than the Moore bound lets them. A strategy
whose bound is no less than the best time found needs no network. When the next one on the ideal switch is no faster
than the best found, none that follows is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from solvers.llm_training.network.evaluation import EvaluatedNetwork, dimension_loads, evaluated
from solvers.llm_training.network.fabrics import TRAINING_FABRICS, FabricNetwork, fabric_problems
from solvers.llm_training.network.rank_map import MOST_PERMUTED, best_map
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.llm_training import GpuCluster, LlmTrainingProblem
from topoopt.core.llm_training_plan import (
    DimensionRings,
    FabricOutcome,
    RankedStrategy,
    ServerRoute,
    TrainingNetwork,
    TrainingPlan,
)
from topoopt.core.regular_graphs import moore_bound
from topoopt.simulate.llm_training.network.groups import FamilyGroups, family_groups
from topoopt.simulate.llm_training.network.links import PlacedNetwork
from topoopt.simulate.llm_training.network.timeline import iteration_timeline
from topoopt.simulate.llm_training.roofline import roofline_columns
from topoopt.simulate.llm_training.strategies import StrategyColumns, columns_of
from topoopt.simulate.llm_training.transfers import GroupRates

BLOCK = 64
"""Strategies whose bounds are computed together."""

MOST_TRIED = 32
"""Strategies that get a network, on up to `LARGE` servers; beyond fewer."""

LARGE = 512


@dataclass(frozen=True, eq=False)
class StrategyNetwork:
    """A strategy with its best network on a fabric."""

    ranked: RankedStrategy
    groups: FamilyGroups
    fabric: FabricNetwork
    evaluated: EvaluatedNetwork


def best_on_fabric(
    problem: LlmTrainingProblem,
    fabric: str,
    candidates: Callable[[], Iterable[RankedStrategy]],
    stop: Stop,
) -> FabricOutcome:
    """Search strategies and networks together.

    Args:
        candidates: strategies by ascending time on an ideal switch.

    Raises:
        InputError: no such fabric, or the cluster cannot have it.
        InfeasibleError: no strategy of those given can be carried.
    """
    problems = fabric_problems(problem.cluster, (fabric,))
    if problems:
        raise InputError(problems)
    line = TRAINING_FABRICS[fabric]
    most = MOST_TRIED if problem.cluster.servers <= LARGE else MOST_TRIED // 8
    best: StrategyNetwork | None = None
    tried, least = 0, np.inf
    for ranked, bound in _bounded(problem, candidates(), direct=line.direct):
        time = np.inf if best is None else best.evaluated.iteration_time_s
        if ranked.iteration_time_s >= time:
            break
        if tried == most or (best is not None and stop.reason() is not None):
            least = min(least, ranked.iteration_time_s)
            break
        least = min(least, bound)
        if bound >= time:
            continue
        found = best_network(problem, fabric, ranked)
        tried += 1
        if found is not None and found.evaluated.iteration_time_s < time:
            best = found
    if best is None:
        raise InfeasibleError(f"{fabric}: {problem.cluster.degree} interfaces a server join none of {tried} strategies")
    outcome, best = planned(problem, fabric, best, stop)
    return replace(outcome, bound_s=min(least, outcome.iteration_time_s), tried=tried)


def planned(
    problem: LlmTrainingProblem, fabric: str, found: StrategyNetwork, stop: Stop
) -> tuple[FabricOutcome, StrategyNetwork]:
    """The plan of a strategy on its network, ranks where they serve it best; no bound but its own time."""
    strategy, groups = found.ranked.strategy, found.groups
    networks = [found.fabric]
    if problem.cluster.servers <= MOST_PERMUTED:
        networks = list(TRAINING_FABRICS[fabric].networks(problem, strategy, groups))
    best = found
    for one in networks:
        start = evaluated(problem, strategy, one.network, groups)
        mapped = best_map(problem, strategy, groups, one, start, stop)
        if one is networks[0] or mapped.iteration_time_s < best.evaluated.iteration_time_s:
            best = replace(found, fabric=one, evaluated=mapped)
    return _outcome(problem, fabric, best), best


def best_network(problem: LlmTrainingProblem, fabric: str, ranked: RankedStrategy) -> StrategyNetwork | None:
    """The fastest network of a fabric for a strategy; None: none carries it."""
    strategy = ranked.strategy
    groups = family_groups(strategy, problem.cluster.gpus_per_server)
    best: StrategyNetwork | None = None
    for one in TRAINING_FABRICS[fabric].networks(problem, strategy, groups):
        try:
            found = StrategyNetwork(ranked, groups, one, evaluated(problem, strategy, one.network, groups))
        except InfeasibleError:
            continue
        if best is None or found.evaluated.iteration_time_s < best.evaluated.iteration_time_s:
            best = found
    return best


def _bounded(
    problem: LlmTrainingProblem, candidates: Iterable[RankedStrategy], *, direct: bool
) -> Iterator[tuple[RankedStrategy, float]]:
    """Strategies with times that no network of the fabric betters."""
    left = iter(candidates)
    while block := list(islice(left, BLOCK)):
        columns = columns_of([one.strategy for one in block], problem.model.layers)
        rates = optimistic_rates(problem, columns) if direct else None
        total = roofline_columns(problem, problem.device, columns, rates).total
        yield from zip(block, total.tolist(), strict=True)


def optimistic_rates(problem: LlmTrainingProblem, columns: StrategyColumns) -> GroupRates:
    """Rates that no direct links of the cluster exceed: every byte of an exchange takes up as many links as hops."""
    cluster = problem.cluster
    ideal = GroupRates.of(cluster, problem.device.reached, columns)
    servers = np.maximum(1.0, columns.expert * columns.expert_tensor / cluster.gpus_per_server)
    hops = {count: _mean_hops(round(count), cluster) for count in np.unique(servers).tolist()}
    mean: Floats = np.array([hops[count] for count in servers.tolist()])
    return replace(ideal, expert=ideal.expert / mean)


def _mean_hops(servers: int, cluster: GpuCluster) -> float:
    """Of the ways from a server to all others of its group, at least."""
    if servers <= cluster.degree + 1:
        return 1.0
    return moore_bound(servers, max(2, cluster.degree), cluster.links).distances / (servers - 1)


def _outcome(problem: LlmTrainingProblem, fabric: str, best: StrategyNetwork) -> FabricOutcome:
    strategy, one = best.ranked.strategy, best.evaluated
    loads = dimension_loads(problem, strategy, one)
    network = replace(stated(fabric, one.network), degree_split=best.fabric.split, loads=loads)
    return FabricOutcome(
        plan=TrainingPlan(strategy, network),
        iteration_time_s=one.iteration_time_s,
        memory_bytes=best.ranked.memory_bytes,
        bound_s=best.ranked.iteration_time_s,
        note=best.fabric.note,
        timeline_s=iteration_timeline(problem, strategy, one.rates).total_s,
        tried=1,
    )


def stated(fabric: str, network: PlacedNetwork) -> TrainingNetwork:
    """A network in plain numbers, for solution files."""
    graph, routes = network.graph, network.routes
    joined = set(zip(graph.tail.tolist(), graph.head.tolist(), strict=True))
    listed = []
    for path in range(len(routes.share)):
        nodes = routes.path(path)
        if len(nodes) != 2 or routes.share[path] < 1.0 or (nodes[0], nodes[1]) not in joined:
            listed.append(ServerRoute(nodes, float(routes.share[path])))
    orders = tuple(
        DimensionRings(family, tuple(tuple(map(tuple, group)) for one in classes for group in one.tolist()))
        for family, classes in network.orders.items()
    )
    return TrainingNetwork(
        fabric=fabric,
        links=tuple(zip(graph.tail.tolist(), graph.head.tolist(), graph.parallel.tolist(), strict=True)),
        places=tuple(network.places.tolist()),
        rings=orders,
        link_gbps=graph.link_gbps,
        routes=tuple(listed),
    )
