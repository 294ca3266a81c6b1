"""The best strategy on a fabric: strategies by their time on an ideal switch, each with its best network.

No network of the same interfaces gives a family more than an ideal switch, so the time there is a bound, strategy by
strategy; on direct links tokens of a group of k servers take no fewer hops than the Moore bound lets them. A strategy
whose bound is no less than the best time found needs no network. When the next one on the ideal switch is no faster
than the best found, none that follows is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import islice

import numpy as np

from solvers.llm_training.network.evaluation import EvaluatedNetwork, dimension_loads, evaluated
from solvers.llm_training.network.fabric_bound import optimistic_rates
from solvers.llm_training.network.fabrics import TRAINING_FABRICS, FabricNetwork, fabric_problems
from solvers.llm_training.network.rank_map import best_map
from solvers.llm_training.network.reductions import with_schedules
from solvers.stop import Stop
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import (
    DimensionRings,
    DimensionSchedules,
    FabricOutcome,
    RankedStrategy,
    ServerRoute,
    StrategyFigures,
    StrategyShape,
    TrainingNetwork,
    TrainingPlan,
)
from topoopt.core.routing import PathTable
from topoopt.simulate.llm_training.estimate import roofline_estimate
from topoopt.simulate.llm_training.iteration_times import iteration_times
from topoopt.simulate.llm_training.network.groups import FamilyGroups, family_groups
from topoopt.simulate.llm_training.network.links import PlacedNetwork
from topoopt.simulate.llm_training.strategies import columns_of

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
    """A strategy with its best network on a fabric."""

    ranked: RankedStrategy
    groups: FamilyGroups
    fabric: FabricNetwork
    evaluated: EvaluatedNetwork


@dataclass(frozen=True, eq=False)
class FoundOnFabric:
    """What a search found on a fabric.

    Attributes:
        fabric: its name.
        best: ranks where they serve it best.
        next: the fastest others, ranks in their order.
        tried: strategies that got a network.
    """

    fabric: str
    best: StrategyNetwork
    next: tuple[StrategyNetwork, ...]
    tried: int

    @property
    def ranked(self) -> RankedStrategy:
        """The best strategy."""
        return self.best.ranked

    @property
    def iteration_time_s(self) -> float:
        """Seconds, of the best strategy."""
        return self.best.evaluated.iteration_time_s


def best_on_fabric(
    problem: LlmTrainingProblem, fabric: str, candidates: Iterable[RankedStrategy], stop: Stop, count: int = 1
) -> FoundOnFabric:
    """Search strategies and networks together.

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
    found: list[StrategyNetwork] = []
    tried, time, alike = 0, np.inf, Counter[tuple[int, ...]]()
    for ranked, bound in _bounded(problem, candidates, direct=TRAINING_FABRICS[fabric].direct):
        if ranked.iteration_time_s >= time or tried == most or (found and stop.reason() is not None):
            break
        division = tuple(getattr(ranked.strategy, part.name) for part in fields(StrategyShape))
        if bound >= time or alike[division] >= max(1, most // ALIKE):
            continue
        alike[division] += 1
        one = _reducing(problem, best_network(problem, fabric, ranked, stop), stop)
        tried += 1
        if one is not None:
            found = sorted([*found, one], key=lambda each: each.evaluated.iteration_time_s)[:count]
            time = found[-1].evaluated.iteration_time_s if len(found) == count else np.inf
    if not found:
        degree = problem.cluster.degree
        has = "1 interface of a server joins" if degree == 1 else f"{degree} interfaces of a server join"
        those = "1 strategy" if tried == 1 else f"{tried} strategies"
        raise InfeasibleError(f"{fabric}: {has} none of {those}")
    first, *others = found
    return FoundOnFabric(fabric, mapped(problem, fabric, first, stop), tuple(others), tried)


def _reducing(problem: LlmTrainingProblem, found: StrategyNetwork | None, stop: Stop) -> StrategyNetwork | None:
    """The network, chosen with rings, with families on what the instance asks for."""
    if found is None:
        return None
    strategy = found.ranked.strategy
    return replace(found, evaluated=with_schedules(problem, strategy, found.evaluated, found.groups, stop))


def mapped(problem: LlmTrainingProblem, fabric: str, found: StrategyNetwork, stop: Stop) -> StrategyNetwork:
    """The same strategy, its ranks where they serve it best."""
    strategy, groups = found.ranked.strategy, found.groups
    networks = [found.fabric]
    if problem.cluster.servers <= FEW:
        networks = list(TRAINING_FABRICS[fabric].networks(problem, strategy, groups))
    best = found
    for one in networks:
        start = evaluated(problem, strategy, one.network, groups)
        placed = best_map(problem, strategy, groups, one, start, stop)
        placed = with_schedules(problem, strategy, placed, groups, stop)
        if one is networks[0] or placed.iteration_time_s < best.evaluated.iteration_time_s:
            best = replace(found, fabric=one, evaluated=placed)
    return best


def best_network(
    problem: LlmTrainingProblem, fabric: str, ranked: RankedStrategy, stop: Stop | None = None
) -> StrategyNetwork | None:
    """The fastest network of a fabric for a strategy; None: none carries it. A limit ends it with the best so far."""
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
        if stop is not None and stop.reason() is not None:
            break
    return best


def _bounded(
    problem: LlmTrainingProblem, candidates: Iterable[RankedStrategy], *, direct: bool
) -> Iterator[tuple[RankedStrategy, float]]:
    """Strategies with times that no network of the fabric betters."""
    left, size = iter(candidates), 1
    while block := list(islice(left, size)):
        size = min(2 * size, BLOCK)  # more may have to be searched for first
        columns = columns_of([one.strategy for one in block], problem.model.layers)
        rates = optimistic_rates(problem, columns) if direct else None
        total = iteration_times(problem, problem.device, columns, rates)
        yield from zip(block, total.tolist(), strict=True)


def figures_of(problem: LlmTrainingProblem, one: StrategyNetwork) -> StrategyFigures:
    """What an iteration takes on the network."""
    step = roofline_estimate(problem, one.ranked.strategy, one.evaluated.rates)
    return StrategyFigures(one.ranked.strategy, step.breakdown, step.memory)


def outcome_of(problem: LlmTrainingProblem, found: FoundOnFabric) -> FabricOutcome:
    """What was found in plain numbers, for solution files."""
    best = found.best
    strategy, one = best.ranked.strategy, best.evaluated
    loads = dimension_loads(problem, strategy, one)
    network = replace(stated(found.fabric, one.network), degree_split=best.fabric.split, loads=loads)
    own = figures_of(problem, best)
    return FabricOutcome(
        plan=TrainingPlan(strategy, network),
        breakdown=own.breakdown,
        memory=own.memory,
        note=best.fabric.note,
        tried=found.tried,
        next=tuple(figures_of(problem, other) for other in found.next),
    )


def stated(fabric: str, network: PlacedNetwork) -> TrainingNetwork:
    """A network in plain numbers, for solution files."""
    graph = network.graph
    joined = set(zip(graph.tail.tolist(), graph.head.tolist(), strict=True))

    def listed(routes: PathTable) -> tuple[ServerRoute, ...]:
        paths = [ServerRoute(routes.path(path), float(share)) for path, share in enumerate(routes.share)]
        return tuple(one for one in paths if one.share < 1.0 or one.path not in joined)

    orders = tuple(
        DimensionRings(family, tuple(tuple(map(tuple, group)) for one in classes for group in one.tolist()))
        for family, classes in network.orders.items()
        if family not in network.schedules or fabric == DIRECT  # whose links go along the rings
    )
    return TrainingNetwork(
        fabric=fabric,
        links=tuple(zip(graph.tail.tolist(), graph.head.tolist(), graph.parallel.tolist(), strict=True)),
        places=tuple(network.places.tolist()),
        rings=orders,
        link_gbps=graph.link_gbps,
        routes=listed(network.routes),
        schedules=tuple(DimensionSchedules(family, own) for family, own in network.schedules.items()),
        token_routes=() if network.token_routes is None else listed(network.token_routes),
    )
