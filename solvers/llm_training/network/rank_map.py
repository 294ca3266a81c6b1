"""Where the blocks of ranks stand: the best map that exchanges find.

Exchanges begin with the orders of the dimensions, go on with planes of the coordinates and end with servers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations

import numpy as np

from solvers.llm_training.network.evaluation import EvaluatedNetwork, evaluated, iteration_s, no_faster
from solvers.llm_training.network.fabrics import FabricNetwork
from solvers.stop import Stop
from topoopt.core.arrays import Ints
from topoopt.core.llm_training import LlmTrainingProblem, RankMap
from topoopt.core.parallelism import RANK_ORDERS, ParallelDimension, ParallelStrategy
from topoopt.core.routing import PathTable
from topoopt.simulate.llm_training.network.groups import FamilyGroups, rank_coordinates
from topoopt.simulate.llm_training.network.rates import network_rates
from topoopt.simulate.llm_training.network.sharing import shared_rates

MOST_EXCHANGED = 128
"""Servers up to which exchanges are tried: routes of all pairs are kept."""

EXCHANGES = 100
"""Exchanges of two servers that are drawn."""


class _Maps:
    def __init__(
        self, problem: LlmTrainingProblem, strategy: ParallelStrategy, groups: FamilyGroups, fabric: FabricNetwork
    ) -> None:
        self._problem, self._strategy, self._groups, self._fabric = problem, strategy, groups, fabric
        self._table = self._all_pairs()

    def _all_pairs(self) -> PathTable:
        assert self._fabric.routes is not None
        n = self._problem.cluster.servers
        source, target = np.nonzero(~np.eye(n, dtype=bool))
        return self._fabric.routes(source, target)

    def faster(self, places: Ints, best: EvaluatedNetwork) -> EvaluatedNetwork | None:
        """The map, if it is faster than the best; of most the rates alone tell that they are not."""
        network = self._fabric.placed(self._groups, places, self._table)
        found = network_rates(self._problem, self._strategy, network, self._groups)
        rates = shared_rates(self._problem, self._strategy, found)
        if no_faster(rates, best.rates):
            return None
        seconds = iteration_s(self._problem, self._strategy, rates)
        faster = seconds < best.iteration_time_s * (1.0 - 1e-9)
        return EvaluatedNetwork(network, found, rates, seconds) if faster else None

    def final(self, places: Ints) -> EvaluatedNetwork:
        """With routes of the pairs that send alone."""
        return evaluated(self._problem, self._strategy, self._fabric.placed(self._groups, places), self._groups)


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
    if problem.rank_map is RankMap.IN_ORDER or fabric.routes is None or n > MOST_EXCHANGED or not start.found.loads:
        return start
    maps = _Maps(problem, strategy, groups, fabric)
    places, best = start.network.places, start
    g = problem.cluster.gpus_per_server
    for exchange in chain(_orders(strategy, g), _planes(strategy, g), _drawn(n, problem.search.seed)):
        if stop.reason() is not None:
            break
        moved = places[exchange]
        one = maps.faster(moved, best)
        if one is not None:
            best, places = one, moved
    return maps.final(places)


def _orders(strategy: ParallelStrategy, gpus_per_server: int) -> Iterator[Ints]:
    """Blocks where another order of the dimensions has them, if the ranks of a block stay together there."""
    at = rank_coordinates(strategy)
    seen = [tuple(range(strategy.gpus // gpus_per_server))]
    for order in RANK_ORDERS:
        place, stride = np.zeros(strategy.gpus, dtype=np.int64), 1
        for dimension in order:
            place += at[dimension] * stride
            stride *= int(at[dimension].max()) + 1
        rows = (place // gpus_per_server).reshape(-1, gpus_per_server)
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
