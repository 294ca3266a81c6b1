"""When the steps of a graph begin and end where pods forward: transfers share what they cross, max-min fairly.

All transfers from one pod to another take the same route, a path of pods joined by circuits. An arc is the circuits of
a pair in one direction. Those under way get rates that are max-min fair: none can be raised without lowering one that
is no larger. Where every route is one arc long this is an equal share of it. Rates change when a transfer begins or
ends, and then only where routes share arcs, over others in between, with its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.dag_topology import DagTopologyProblem, Pair
from topoopt.core.dag_topology_solution import Route
from topoopt.simulate.dag.shared_circuits import StepGraph
from topoopt.simulate.engine.queue import pop, push
from topoopt.simulate.jit import kernel


@dataclass(frozen=True, eq=False)
class RoutedJob:
    """A problem whose pods forward, as arrays.

    Attributes:
        problem: with its directions, which routes are given for.
        graph: of its steps.
        direction: int64[transfers], place of each in the directions.
    """

    problem: DagTopologyProblem
    graph: StepGraph
    direction: Ints

    @staticmethod
    def of(problem: DagTopologyProblem) -> RoutedJob:
        """Of a problem without circles."""
        place = {ends: k for k, ends in enumerate(problem.directions)}
        direction = np.array([place[m.source, m.target] for m in problem.transfers], dtype=np.int64)
        return RoutedJob(problem, StepGraph.of(problem), direction)

    @cached_property
    def volume(self) -> Floats:
        """float64[directions]."""
        volume: Floats = np.zeros(len(self.problem.directions))
        np.add.at(volume, self.direction, self.problem.volume)
        return volume

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs of pods, ascending: circuits may join any."""
        pods = range(self.problem.pods)
        return tuple((one, other) for one in pods for other in range(one + 1, self.problem.pods))

    @cached_property
    def number(self) -> Ints:
        """int64[pods, pods]: place of each pair in `pairs`."""
        places = np.zeros((self.problem.pods, self.problem.pods), dtype=np.int64)
        one, other = np.array(self.pairs).T
        places[one, other] = places[other, one] = np.arange(len(self.pairs))
        return places

    def arcs(self, route: Route) -> list[int]:
        """Twice the place of each pair on a route, plus 1 from the larger pod to the smaller."""
        return [2 * int(self.number[a, b]) + (a > b) for a, b in itertools.pairwise(route)]

    def followed(self, circuits: Ints, routes: Sequence[Route]) -> tuple[Floats, Floats]:
        """(start, end), float64[n] each, of the steps, all begun as early as they can.

        Args:
            circuits: int64[all pairs], at least 1 for each on a route.
            routes: of each direction.
        """
        graph, lists = self.graph, [self.arcs(route) for route in routes]
        first = np.concatenate(([0], np.cumsum([len(each) for each in lists]))).astype(np.int64)
        arc = np.array([one for each in lists for one in each], dtype=np.int64)
        used, own = np.unique(arc, return_inverse=True)
        carried = circuits[used // 2] * self.problem.rate
        arrays = (graph.first, graph.successor, graph.waits, graph.duration, graph.volume)
        return _followed(*arrays, self.direction, first, own.astype(np.int64), carried.astype(np.float64))

    def makespan(self, circuits: Ints, routes: Sequence[Route]) -> float:
        """When the last step ends."""
        return float(self.followed(circuits, routes)[1].max())


@kernel
def _share(
    touched: Bools, under_way: Ints, route: Ints, arc: Ints, capacity: Floats, speed: Floats, marked: Bools
) -> None:  # pragma: no cover - compiled
    """Max-min fair rates of a transfer of each direction whose route meets, over others in between, what is touched."""
    directions = len(under_way)
    marked[:] = False
    grown = True
    while grown:
        grown = False
        for c in range(directions):
            if marked[c] or under_way[c] == 0:
                continue
            meets = False
            for k in range(route[c], route[c + 1]):
                meets = meets or touched[arc[k]]
            if meets:
                marked[c], grown = True, True
                for k in range(route[c], route[c + 1]):
                    touched[arc[k]] = True
    left, load = capacity.copy(), np.zeros(len(capacity))
    open_ones = 0
    for c in range(directions):
        if marked[c]:
            open_ones += 1
            speed[c] = -1.0
            for k in range(route[c], route[c + 1]):
                load[arc[k]] += under_way[c]
    while open_ones > 0:
        least, narrow = np.inf, -1
        for a in range(len(capacity)):
            if load[a] > 0.5 and left[a] < least * load[a]:
                least, narrow = left[a] / load[a], a
        for c in range(directions):
            if not marked[c] or speed[c] >= 0.0:
                continue
            crosses = False
            for k in range(route[c], route[c + 1]):
                crosses = crosses or arc[k] == narrow
            if crosses:
                speed[c] = least
                open_ones -= 1
                for k in range(route[c], route[c + 1]):
                    left[arc[k]] = max(left[arc[k]] - least * under_way[c], 0.0)
                    load[arc[k]] -= under_way[c]
    touched[:] = False


@kernel
def _followed(
    first: Ints,
    successor: Ints,
    waits: Ints,
    duration: Floats,
    volume: Floats,
    direction: Ints,
    route: Ints,
    arc: Ints,
    capacity: Floats,
) -> tuple[Floats, Floats]:  # pragma: no cover - compiled
    n, transfers, directions = len(waits), len(volume), len(route) - 1
    left = waits.copy()
    start, end = np.zeros(n), np.zeros(n)
    time, code, count = np.empty(n + 1), np.empty(n + 1, dtype=np.int64), 0
    level, changed, speed = np.zeros(directions), np.zeros(directions), np.zeros(directions)
    least, due = np.full(directions, np.inf), np.full(directions, np.inf)
    under_way = np.zeros(directions, dtype=np.int64)
    done_at, offset = np.zeros(transfers), np.zeros(directions + 1, dtype=np.int64)
    for m in range(transfers):
        offset[direction[m] + 1] += 1
    for c in range(directions):
        offset[c + 1] += offset[c]
    member = np.empty(transfers, dtype=np.int64)
    touched, marked, moved = np.zeros(len(capacity), np.bool_), np.zeros(directions, np.bool_), False
    ready, waiting = np.empty(n, dtype=np.int64), 0
    for step in range(n):
        if left[step] == 0:
            ready[waiting] = step
            waiting += 1
    now = 0.0
    while True:
        while waiting > 0:
            waiting -= 1
            step = ready[waiting]
            start[step] = now
            if step >= transfers:
                count = push(time, code, count, now + duration[step], step)
                continue
            c = direction[step]
            if under_way[c] > 0:
                level[c] += (now - changed[c]) * speed[c]
            changed[c] = now
            done_at[step] = level[c] + volume[step]
            least[c] = min(least[c], done_at[step])
            member[offset[c] + under_way[c]] = step
            under_way[c] += 1
            moved = True
            for k in range(route[c], route[c + 1]):
                touched[arc[k]] = True
        if moved:
            before = speed.copy()
            _share(touched, under_way, route, arc, capacity, speed, marked)
            for c in range(directions):
                if marked[c]:
                    level[c] += (now - changed[c]) * before[c]
                    changed[c] = now
                    due[c] = now + max(least[c] - level[c], 0.0) / speed[c]
            moved = False
        at, over = np.inf, -1
        for c in range(directions):
            if due[c] < at:
                at, over = due[c], c
        if count > 0 and time[0] <= at:
            now, step = time[0], code[0]
            count = pop(time, code, count)
            end[step] = now
            for k in range(first[step], first[step + 1]):
                left[successor[k]] -= 1
                if left[successor[k]] == 0:
                    ready[waiting] = successor[k]
                    waiting += 1
            continue
        if over < 0:
            return start, end
        now = at
        level[over], changed[over], moved = least[over], now, True
        bound, least[over], due[over] = least[over], np.inf, np.inf
        for k in range(route[over], route[over + 1]):
            touched[arc[k]] = True
        k = offset[over]
        while k < offset[over] + under_way[over]:
            step = member[k]
            if done_at[step] > bound:
                least[over] = min(least[over], done_at[step])
                k += 1
                continue
            under_way[over] -= 1
            member[k] = member[offset[over] + under_way[over]]
            end[step] = now
            for j in range(first[step], first[step + 1]):
                left[successor[j]] -= 1
                if left[successor[j]] == 0:
                    ready[waiting] = successor[j]
                    waiting += 1
