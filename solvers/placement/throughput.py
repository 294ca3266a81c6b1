"""Pipelines of least load: order slicing, then the stage-order program by an exact solver, with a proven bound."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from formulations.stage_graph import StageGraph, stage_graph
from formulations.stage_order import StageOrder, build_arrays, positions_of, rounded_down, start_values
from solvers.backends import SolverLimits, solve_guarded
from solvers.placement.local_search import improved
from solvers.placement.order_slices import Slices, late_sources, random_order, slice_order
from solvers.placement.reduce import reduced
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.placement import Communication, PlacementProblem, Schedule, StageShape, Throughput
from topoopt.core.status import Status, StopReason
from topoopt.simulate.stage_loads import device_loads, max_load_ms

Int = NDArray[np.int64]

ROUNDING = 1e-8
"""Part of the objective that rounding times down to whole units may lose in all."""

ORDER_WORK = 4e8
"""Table entries that the orders tried may take together: about a second."""

MOST_ORDERS = 60

EXACT_UP_TO = 60_000
"""Columns of the stage-order program up to which it is worth a try."""


@dataclass(frozen=True, eq=False)
class Found:
    """A placement and what is proven.

    Attributes:
        device: int32[operators].
        stage: int32[operators], None for free sets.
        bound: lower bound on the objective; `proved_by` says how.
        stopped_by: why it ended.
        method: what ran.
        blocks: of the stage graph after reductions.
    """

    device: NDArray[np.int32]
    stage: NDArray[np.int32] | None
    bound: float
    proved_by: str
    stopped_by: StopReason
    method: str
    blocks: int


@dataclass(frozen=True, eq=False)
class Positions:
    """int64[blocks] stage of each block (slot, for free sets), and int64[slots] group of each slot."""

    stage: Int
    group: Int


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


def fixed_groups(graph: StageGraph) -> tuple[int, ...]:
    """Group of each device, in file order."""
    group_of = {device: q for q, group in enumerate(graph.groups) for device in group.devices}
    return tuple(group_of[device] for device in range(graph.devices))


def to_devices(graph: StageGraph, settings: Throughput, found: Positions) -> tuple[NDArray[np.int32], Int]:
    """Device and stage of every operator; stages take the devices of their group in file order."""
    k = graph.devices
    if settings.stages is StageShape.CONTIGUOUS:
        left = [list(group.devices) for group in graph.groups]
        device_of = np.array([left[q].pop(0) for q in found.group.tolist()])
    else:
        device_of = np.arange(max(k, int(found.stage.max()) + 1)) % k
    n = sum(len(block) for block in graph.blocks)
    device, stage = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int64)
    for block, operators in enumerate(graph.blocks):
        device[list(operators)] = device_of[found.stage[block]]
        stage[list(operators)] = found.stage[block]
    return device, stage


class Search:
    """One problem being solved: the reduced graph and the best placement so far, valued on the original graph."""

    def __init__(self, problem: PlacementProblem) -> None:
        self.problem, self.settings = problem, settings_of(problem)
        self.graph = reduced(stage_graph(problem), self.settings)
        self.best: Positions | None = None
        self.value = np.inf

    def offer(self, positions: Positions | None) -> None:
        """Keep a placement if it is the best."""
        if positions is None:
            return
        device, _ = to_devices(self.graph, self.settings, positions)
        value = max_load_ms(self.settings, device_loads(self.problem, device))
        if value < self.value:
            self.best, self.value = positions, value

    def result(self, bound: float, proved_by: str, stopped_by: StopReason, method: str) -> Found:
        """What is known now.

        Raises:
            LimitError: nothing was found.
        """
        if self.best is None:
            raise LimitError("no placement was found within the limit")
        device, stage = to_devices(self.graph, self.settings, self.best)
        ordered = self.settings.stages is not StageShape.FREE
        floor = work_bound(self.graph, self.settings)
        if floor >= bound:
            bound, proved_by = floor, "work of the devices and of the largest block"
        return Found(
            device, stage.astype(np.int32) if ordered else None, bound, proved_by, stopped_by, method, self.graph.size
        )


def slice_orders(search: Search, seed: int, deadline: float | None) -> None:
    """Offer the best slices of several topological orders."""
    graph, settings = search.graph, search.settings
    fixed = None if settings.stages is StageShape.CONTIGUOUS else fixed_groups(graph)
    ordered = graph
    work = min(graph.size, 1500) ** 2 * graph.devices * (24 if settings.schedule is Schedule.GPIPE else 1)
    count = int(np.clip(ORDER_WORK / max(work, 1), 3, MOST_ORDERS))
    rng = np.random.default_rng(seed)
    for trial in range(count):
        order = random_order(ordered, None if trial == 0 else rng)
        if trial % 2:
            order = late_sources(ordered, order)
        found = slice_order(graph, settings, order, fixed)
        search.offer(None if found is None else _positions(graph, settings, found))
        if deadline is not None and time.monotonic() > deadline:
            return


def _positions(graph: StageGraph, settings: Throughput, found: Slices) -> Positions:
    return Positions(found.stage, found.group)


def stage_order(search: Search, upper: float) -> StageOrder:
    """Data of the stage-order program; blocks slower than the incumbent on a class cannot be there."""
    graph, settings, k = search.graph, search.settings, search.graph.devices
    gpipe = settings.schedule is Schedule.GPIPE
    times = graph.time_ms.copy()
    if not gpipe:
        times[:, times.sum(axis=0) > upper] = np.inf
    known = settings.stages is not StageShape.CONTIGUOUS or len(graph.groups) == 1
    slots: tuple[int, ...] | None = tuple(range(k))
    if settings.stages is StageShape.INTERLEAVED:
        slots = tuple(j % k for j in range(k * settings.stages_per_device))
    elif settings.stages is StageShape.FREE:
        slots = None
    return StageOrder(
        time=times,
        memory=graph.memory_bytes.astype(np.float64),
        order=graph.order,
        nets=graph.nets,
        slot_of_stage=slots,
        group_of_slot=fixed_groups(graph) if known else None,
        group_count=tuple(len(group.devices) for group in graph.groups),
        group_memory=tuple(float("inf") if g.memory_bytes is None else float(g.memory_bytes) for g in graph.groups),
        group_host=tuple(group.host for group in graph.groups),
        gpipe=gpipe,
        overlapped=settings.communication is Communication.OVERLAPPED,
        lower=work_bound(graph, settings),
        upper=upper,
    )
