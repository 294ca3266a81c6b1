"""Pipelines of least load: the state of one search, order slicing, and local search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from formulations.placement.stage_graph import StageGraph, device_slots, stage_graph
from solvers.placement.local_search import improved
from solvers.placement.order_slices import COARSE, THRESHOLDS, late_sources, random_order, slice_order
from solvers.placement.reduce import reduced
from solvers.stop import Stop
from topoopt.core.arrays import Int32s, Ints
from topoopt.core.errors import LimitError
from topoopt.core.placement import PlacementProblem, Schedule, StageShape, Throughput
from topoopt.simulate.placement.stage_loads import device_loads, max_load_ms

CLOSED = 1e-7
"""Relative gap at which nothing is left to prove."""

ORDER_WORK = 4e8
"""Table entries that the orders tried may take together: about a second."""

MOST_ORDERS = 60

POLISHES = 6
"""Rounds of local search, each from the best so far."""


@dataclass(frozen=True, eq=False)
class Positions:
    """int64[blocks] stage of each block (slot, for free sets), and int64[slots] group of each slot."""

    stage: Ints
    group: Ints


def program_columns(problem: PlacementProblem) -> int:
    """About how many columns the stage-order program has, before reductions."""
    settings = settings_of(problem)
    return (len(problem.colocated()) * settings.stages_per_device + len(problem.tensors)) * len(problem.devices)


def settings_of(problem: PlacementProblem) -> Throughput:
    """The objective; anything else is our own mistake."""
    assert isinstance(problem.objective, Throughput)
    return problem.objective


def work_bound(graph: StageGraph, settings: Throughput) -> float:
    """Mean work over the devices and the largest block, each on its fastest class."""
    phases = [[0], [1]] if settings.schedule is Schedule.GPIPE else [[0, 1]]
    total = 0.0
    for phase in phases:
        fastest = graph.time_ms[phase].sum(axis=0).min(axis=1)
        total += max(float(fastest.sum()) / graph.devices, float(fastest.max(initial=0.0)))
    return total


def to_devices(graph: StageGraph, settings: Throughput, found: Positions) -> Int32s:
    """Device of every operator; stages take the devices of their group in file order."""
    k = graph.devices
    if settings.stages is StageShape.CONTIGUOUS:
        left = [list(group.devices) for group in graph.groups]
        device_of = np.array([left[q].pop(0) for q in found.group.tolist()])
    else:
        device_of = np.arange(max(k, int(found.stage.max()) + 1)) % k
    n = sum(len(block) for block in graph.blocks)
    device = np.empty(n, dtype=np.int32)
    for block, operators in enumerate(graph.blocks):
        device[list(operators)] = device_of[found.stage[block]]
    return device


class Search:
    """One problem being solved: the reduced graph and the best placement so far, valued on the original graph.

    Attributes:
        better: called after each placement that is better than those before.
    """

    def __init__(self, problem: PlacementProblem) -> None:
        self.problem, self.settings = problem, settings_of(problem)
        self.graph = reduced(stage_graph(problem), self.settings)
        self.best: Positions | None = None
        self.value = np.inf
        self.better: Callable[[], None] | None = None

    def offer(self, positions: Positions | None) -> None:
        """Keep a placement if it is the best."""
        if positions is None:
            return
        device = to_devices(self.graph, self.settings, positions)
        value = max_load_ms(self.settings, device_loads(self.problem, device))
        if value < self.value:
            self.best, self.value = positions, value
            if self.better is not None:
                self.better()

    def closed(self) -> bool:
        """Whether the best placement meets the work bound."""
        return self.value <= work_bound(self.graph, self.settings) * (1 + CLOSED)

    def placement(self) -> Int32s:
        """Device of every operator, of the best placement.

        Raises:
            LimitError: nothing was found.
        """
        if self.best is None:
            raise LimitError("no placement was found within the limit")
        return to_devices(self.graph, self.settings, self.best)


def slice_orders(search: Search, seed: int, stop: Stop, most: int | None = None) -> int:
    """Offer the best slices of several topological orders, at most so many; free sets start from contiguous ones.

    Returns the number of orders, which is one at least.
    """
    graph, settings = search.graph, search.settings
    free = settings.stages is StageShape.FREE
    if free:
        contiguous = replace(settings, stages=StageShape.CONTIGUOUS)
        graph = stage_graph(replace(search.problem, objective=contiguous))
    tables = graph.devices * (THRESHOLDS if settings.schedule is Schedule.GPIPE else 1)
    count = int(np.clip(ORDER_WORK / max(min(graph.size, COARSE) ** 2 * tables, 1), 3, MOST_ORDERS))
    if most is not None:
        count = max(1, min(count, most))
    rng = np.random.default_rng(seed)
    for trial in range(count):
        order = random_order(graph, None if trial == 0 else rng)
        if trial % 2:
            order = late_sources(graph, order)
        offer_order(search, graph, order)
        if stop.reason() is not None:
            return trial + 1
    return count


def offer_order(search: Search, graph: StageGraph, order: list[int]) -> None:
    """Offer the best slices of one topological order of the graph, which for free sets is the contiguous one."""
    settings = search.settings
    fixed = None if settings.stages is StageShape.CONTIGUOUS else device_slots(graph)
    for average in (False,) if graph.costs.uniform else (False, True):
        found = slice_order(graph, settings, order, fixed, average=average)
        if found is not None:
            stage = found.stage if graph is search.graph else _onto(search.graph, graph, found.stage)
            search.offer(Positions(stage, found.group))


def _onto(graph: StageGraph, other: StageGraph, stage: Ints) -> Ints:
    """Stages of the blocks of one graph as those of another, whose blocks are parts of the first one's."""
    at = {operator: int(stage[b]) for b, operators in enumerate(other.blocks) for operator in operators}
    return np.array([at[operators[0]] for operators in graph.blocks], dtype=np.int64)


def polish(search: Search, seed: int, stop: Stop, moves: int | None = None) -> None:
    """Offer what local search makes of the best placement; `moves`: limit on the moves tried."""
    if search.best is None:
        return
    graph, settings, k = search.graph, search.settings, search.graph.devices
    stages = k * settings.stages_per_device if settings.stages is StageShape.INTERLEAVED else k
    slots = [stage % k for stage in range(stages)]
    contiguous = settings.stages is StageShape.CONTIGUOUS
    steps = int(np.clip(500_000 // (graph.size + 10 * k), 1_000, 10_000))
    rng = np.random.default_rng(seed)
    left = POLISHES * steps if moves is None else min(moves, POLISHES * steps)
    while left > 0:
        if stop.reason() is not None or search.closed():
            return
        trials = min(steps, left)
        left -= trials
        start = search.best
        if not contiguous:
            start = replace(start, group=np.array(device_slots(graph)))
        swaps = contiguous and len(graph.groups) > 1
        stage, group = improved(graph, settings, start.stage, slots, start.group.tolist(), rng, trials, swaps=swaps)
        search.offer(Positions(stage, group))
