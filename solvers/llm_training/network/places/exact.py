"""The fastest map of blocks of ranks to servers on a given graph, by going through all that may be faster.

Depth first through the maps that no symmetry makes the same. No rate is above what the fullest link of a family leaves,
nor above that of an ideal switch, and no iteration takes longer at higher rates. So a family whose fullest link has so
much that the iteration were no faster than the best known, all others at the least they have on any map, ends a branch:
links only get fuller as blocks are placed. What is left differs in few outcomes (fullest links, longest routes, how two
families meet on links); the time of each is that of the time model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from solvers.llm_training.network.evaluation import EvaluatedNetwork, iteration_s
from solvers.llm_training.network.places.kernels import FULL, LONG, walk
from solvers.llm_training.network.places.symmetry import first_servers, lower_blocks
from solvers.llm_training.network.places.tables import PlaceTables
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.simulate.llm_training.network.links import FamilyLoad
from topoopt.simulate.llm_training.network.rates import group_rates
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.llm_training.transfers import GroupRates

MOST_PROVEN = 12
"""Servers up to which maps are gone through."""

MOST_STEPS = 10_000_000
"""Blocks placed, in all: some seconds."""

MOST_OUTCOMES = 1 << 16
"""Different outcomes that are kept at once."""

Faster = Callable[[Ints, EvaluatedNetwork], EvaluatedNetwork | None]


@dataclass(frozen=True, eq=False)
class _Order:
    """Blocks in the order they are placed, and what is complete with each of them."""

    blocks: Ints
    lower: Bools
    firsts: tuple[int, ...]
    parts: tuple[np.ndarray, ...]


class _Times:
    """Least seconds of an iteration when the fullest links of families have so much."""

    def __init__(self, problem: LlmTrainingProblem, strategy: ParallelStrategy, tables: PlaceTables) -> None:
        self._problem, self._strategy = problem, strategy
        self._network = problem.device.reached.network
        self._families = (*tables.families, F.PIPELINE) if len(tables.source) else tables.families
        self._ideal = GroupRates.of(
            problem.cluster, problem.device.reached, columns_of([strategy], problem.model.layers)
        )
        names = {F.TENSOR: "tensor", F.CONTEXT: "context", F.EXPERT: "expert", F.PIPELINE: "hop",
                 F.DATA: "data", F.EXPERT_DATA: "expert_data"}  # fmt: skip
        most = [float(getattr(self._ideal, names[family])[0]) for family in self._families]
        self.least = self._network / np.array(most)

    def at(self, fullest: Floats) -> float:
        """Of an iteration."""
        seconds = np.maximum(fullest, self.least)
        alone = {family: self._network / one for family, one in zip(self._families, seconds.tolist(), strict=True)}
        loads = {family: FamilyLoad(np.zeros(0), 0.0, 1) for family in self._families}
        return iteration_s(self._problem, self._strategy, group_rates(alone, loads, self._ideal))

    def cuts(self, least: Floats, below: float) -> Floats:
        """For each family what its fullest link has less of on every map that takes less; others have the least."""
        cuts = np.full(len(least), np.inf)
        for family in range(len(least)):
            one = least.copy()
            low, high = least[family], max(least[family], self.least[family]) * 2.0**40
            one[family] = high
            if self.at(one) < below:
                continue
            for _ in range(60):
                one[family] = middle = float(np.sqrt(low * high))
                low, high = (middle, high) if self.at(one) < below else (low, middle)
                if high <= low * (1.0 + 1e-9):
                    break
            cuts[family] = high
        return cuts


def fastest_map(
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    tables: PlaceTables,
    ends: tuple[Ints, Ints],
    best: EvaluatedNetwork,
    faster: Faster,
    stop: Stop,
) -> tuple[EvaluatedNetwork, bool]:
    """The fastest of all maps, and whether that is proven: not where a limit or the room for outcomes ends the search.

    Args:
        ends: tail and head of the links.
        best: the fastest known.
        faster: the network of a map if it is faster than another one.
    """
    times = _Times(problem, strategy, tables)
    search = _Search(tables, _order(tables, ends), times, stop)
    least = search.least()
    if least is None:
        return best, False
    target = best.iteration_time_s * (1.0 - 1e-9)
    if times.at(least) >= target:
        return best, True
    maps = search.outcomes(times.cuts(least, target))
    for places in maps or ():
        if stop.reason() is not None:
            return best, False
        best = faster(places, best) or best
    return best, maps is not None


def _order(tables: PlaceTables, ends: tuple[Ints, Ints]) -> _Order:
    """Next is the block that completes most groups and hops, then the one that has most in common with those placed."""
    n = tables.servers
    members = [frozenset(row[row >= 0].tolist()) for row in tables.members]
    hops = [frozenset(pair) for pair in zip(tables.source.tolist(), tables.target.tolist(), strict=True)]
    order: list[int] = []
    while len(order) < n:
        placed = set(order)

        def worth(block: int, placed: set[int] = placed) -> tuple[int, int, int]:
            own = [one for one in (*members, *hops) if block in one]
            return sum(one <= placed | {block} for one in own), sum(len(one & placed) for one in own), -block

        order.append(max(set(range(n)) - placed, key=worth))
    blocks = np.array(order, dtype=np.int64)
    place = np.argsort(blocks)
    rows = np.where(tables.members >= 0, place[tables.members], -1)
    last = rows.max(axis=1, initial=-1)
    by_group = np.argsort(last, kind="stable")
    source, target = place[tables.source], place[tables.target]
    latest = np.maximum(source, target)
    by_hop = np.argsort(latest, kind="stable")

    def begins(ends_at: Ints) -> Ints:
        return np.concatenate([[0], np.cumsum(np.bincount(ends_at, minlength=n))]).astype(np.int64)

    parts = (
        rows[by_group], tables.class_of[by_group], tables.family_of[by_group], tables.weight[by_group], begins(last),
        source[by_hop], target[by_hop], tables.ranks[by_hop], begins(latest),
    )  # fmt: skip
    firsts = first_servers(tables, *ends)
    alone = len(firsts) == n
    return _Order(blocks, lower_blocks(tables, blocks, first=alone), tuple(firsts), parts)


class _Search:
    def __init__(self, tables: PlaceTables, order: _Order, times: _Times, stop: Stop) -> None:
        self._tables, self._order, self._stop = tables, order, stop
        self._families = len(tables.families)
        self._hops = len(tables.source) > 0
        self._unit = np.ones(self._families + 1)
        self._unit[: len(times.least)] = 1e-9 * times.least
        self._left = MOST_STEPS

    def least(self) -> Floats | None:
        """Of each family the least that its fullest link has on any map; None: a limit came."""
        count = self._families + self._hops
        found = np.zeros(count)
        for family in range(count):
            cut = np.full(self._families + 1, np.inf)
            if self._walked(cut, family, 1) is None:
                return None
            found[family] = cut[family] / (1.0 - 1e-12)
        return found

    def outcomes(self, cuts: Floats) -> list[Ints] | None:
        """One map for each different outcome that no cut rules out; None: a limit came, or they are too many."""
        cut = np.full(self._families + 1, np.inf)
        cut[: len(cuts)] = cuts
        return self._walked(cut, -1, MOST_OUTCOMES)

    def _prefixes(self) -> Iterator[Ints]:
        n = self._tables.servers
        for first in self._order.firsts:
            for second in range(n):
                if second != first and not (self._order.lower[0, 1] and second < first):
                    yield np.array([first, second], dtype=np.int64)

    def _walked(self, cut: Floats, tighten: int, room: int) -> list[Ints] | None:
        n, tables = self._tables.servers, self._tables
        width = 2 * len(cut) + len(cut) * (len(cut) - 1) // 2
        keys, maps = np.zeros((room, width), dtype=np.int64), np.zeros((room, n), dtype=np.int64)
        used = np.zeros(room, dtype=np.bool_)
        for prefix in self._prefixes():
            if self._stop.reason() is not None:
                return None
            found, steps = walk(
                prefix, self._order.lower, cut, tighten, self._unit, self._left, keys, maps, used,
                tables.pair, tables.pair_hops, tables.sets, tables.set_hops, *self._order.parts,
            )  # fmt: skip
            self._left -= steps
            if found in (FULL, LONG):
                return None
        places = np.empty(n, dtype=np.int64)
        made = []
        for row in maps[used]:
            places[self._order.blocks] = row
            made.append(places.copy())
        return made
