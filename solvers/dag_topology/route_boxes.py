"""What must hold in a box of circuits and routes where pods forward, if the job is to be done before a given time.

A box has for every pair of pods the circuits that it may have, and for every direction that something is transferred in
the routes that it may take. Each transfer gets at most what its widest route may carry. All routes of a direction may
have arcs in common, which its transfers cross in any case, and pods that they leave or enter: those share the circuits
of the arc, and the ports of the pod, whatever the routes. Where there are too many routes to list, a transfer gets at
most what the ports of its own pods carry, and the windows of the pods are all there is: these hold for any way to
forward, also one that splits transfers or changes while they are under way.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solvers.dag_topology.box import MARGIN, heads_and_tails, one_machine
from topoopt.core.arrays import Floats, Ints
from topoopt.core.dag_topology_solution import Route, Split
from topoopt.simulate.dag.forwarded_circuits import RoutedJob

MOST_ROUTES = 2_000
"""Routes of all directions above which none are listed."""


@dataclass(frozen=True, eq=False)
class RoutedBox:
    """Circuits of all pairs, from `least` to `most`, and the routes of each direction that are left, by number."""

    least: Ints
    most: Ints
    routes: tuple[tuple[int, ...], ...]

    @property
    def point(self) -> bool:
        """Nothing is left to choose."""
        return bool((self.least == self.most).all()) and all(len(each) == 1 for each in self.routes)

    def parts(self, split: Split) -> tuple[RoutedBox, RoutedBox]:
        """The two parts of a split."""
        place, value = split
        if place < len(self.least):
            low, high = self.most.copy(), self.least.copy()
            low[place], high[place] = value, value + 1
            return RoutedBox(self.least, low, self.routes), RoutedBox(high, self.most, self.routes)
        k = place - len(self.least)
        rest = tuple(one for one in self.routes[k] if one != value)
        before, behind = self.routes[:k], self.routes[k + 1 :]
        return (
            RoutedBox(self.least, self.most, (*before, (value,), *behind)),
            RoutedBox(self.least, self.most, (*before, rest, *behind)),
        )


def routes_between(pods: int, source: int, target: int, max_hops: int) -> list[Route]:
    """All ways without circles, the shortest first, then by their pods."""
    others = [pod for pod in range(pods) if pod not in (source, target)]
    return [(source, *between, target) for hops in range(max_hops) for between in itertools.permutations(others, hops)]


@dataclass(frozen=True, eq=False)
class Narrowed:
    """What of a box is left, and what it is bounded by.

    Attributes:
        box: the part.
        bound: nothing in it is done earlier.
        ports: int64[pods], that each needs.
    """

    box: RoutedBox
    bound: float
    ports: Ints


class RouteLaws:
    """The rules of a problem whose pods forward."""

    def __init__(self, job: RoutedJob) -> None:
        self.job, self.problem = job, job.problem
        problem = self.problem
        self.ports: Ints = np.array(problem.ports, dtype=np.int64)
        self.ends: Ints = np.array(job.pairs, dtype=np.int64)
        per_direction = sum(math.perm(problem.pods - 2, hops) for hops in range(problem.max_hops))
        self.listed = per_direction * len(problem.directions) <= MOST_ROUTES
        self.members = [np.flatnonzero(job.direction == k) for k in range(len(problem.directions))]

    @cached_property
    def routes(self) -> list[list[Route]]:
        """Of each direction; only the direct one where there are too many."""
        pods, hops = self.problem.pods, self.problem.max_hops if self.listed else 1
        return [routes_between(pods, *ends, hops) for ends in self.problem.directions]

    @cached_property
    def arcs(self) -> list[list[tuple[int, ...]]]:
        """Of each route: twice the place of each pair, plus 1 from the larger pod to the smaller."""
        return [[tuple(self.job.arcs(route)) for route in each] for each in self.routes]

    @cached_property
    def whole(self) -> RoutedBox:
        """All circuits that the ports allow a pair, and all routes."""
        most = self.ports[self.ends].min(axis=1)
        return RoutedBox(np.zeros_like(most), most, tuple(tuple(range(len(each))) for each in self.routes))

    def narrowed(self, box: RoutedBox, target: float) -> Narrowed | None:
        """The part of a box that can be done before the target; None: no part of it."""
        late = target * (1.0 - MARGIN)
        least, most, routes = box.least.copy(), box.most.copy(), list(box.routes)
        while True:
            needed = np.bincount(self.ends.ravel(), np.repeat(least, 2), minlength=len(self.ports)).astype(np.int64)
            most = np.minimum(most, (self.ports - needed)[self.ends].min(axis=1) + least)
            if self.listed:
                routes = [self._open(k, left, most) for k, left in enumerate(routes)]
                used = {arc // 2 for k, left in enumerate(routes) for one in left for arc in self.arcs[k][one]}
                idle = np.ones(len(most), dtype=bool)
                idle[list(used)] = False
                most = np.where(idle, np.minimum(most, least), most)
            if (most < least).any() or not all(routes):
                return None
            head, length, tail = self._windows(most, routes)
            bound = float((head + length + tail).max())
            kept = [self._in_time(k, left, most, head, tail, late) for k, left in enumerate(routes)]
            ports, over = self._pods(kept, least, most, head, tail, late)
            bound = max(bound, over)
            raised, over = self._crossed(kept, least, most, head, tail, late)
            bound = max(bound, over)
            if bound >= late or not all(kept):
                return None
            if kept == routes and (raised == least).all():
                return Narrowed(RoutedBox(least, most, tuple(routes)), bound, ports)
            least, routes = raised, kept

    def _open(self, k: int, left: tuple[int, ...], most: Ints) -> tuple[int, ...]:
        return tuple(one for one in left if all(most[arc // 2] > 0 for arc in self.arcs[k][one]))

    def _width(self, k: int, one: int, most: Ints) -> int:
        return min(int(most[arc // 2]) for arc in self.arcs[k][one])

    def _windows(self, most: Ints, routes: list[tuple[int, ...]]) -> tuple[Floats, Floats, Floats]:
        """(head, length, tail) of all steps, each transfer on its widest route alone."""
        graph, rate = self.job.graph, self.problem.rate
        length = graph.duration.copy()
        for k, (source, target) in enumerate(self.problem.directions):
            own = self.members[k]
            if self.listed:
                width = max(self._width(k, one, most) for one in routes[k])
            else:
                width = int(min(self.ports[source], self.ports[target]))
            length[own] = graph.volume[own] / (rate * width)
        head, tail = heads_and_tails(graph.first, graph.successor, graph.order, length)
        return head, length, tail

    def _in_time(
        self, k: int, left: tuple[int, ...], most: Ints, head: Floats, tail: Floats, late: float
    ) -> tuple[int, ...]:
        """Routes over which no transfer of a direction is too late, alone on it."""
        if len(left) < 2 or not self.listed:
            return left
        own, graph = self.members[k], self.job.graph
        slow = {
            width
            for width in {self._width(k, one, most) for one in left}
            if (head[own] + graph.volume[own] / (self.problem.rate * width) + tail[own]).max() >= late
        }
        return tuple(one for one in left if self._width(k, one, most) not in slow)

    def _pods(
        self, routes: list[tuple[int, ...]], least: Ints, most: Ints, head: Floats, tail: Floats, late: float
    ) -> tuple[Ints, float]:
        """Ports that each pod needs for what leaves and enters it in any case, and when it is done at best."""
        pods = self.problem.pods
        flat = self.ends.ravel()
        needed = np.bincount(flat, np.repeat(least, 2), minlength=pods).astype(np.int64)
        most_at = np.bincount(flat, np.repeat(most, 2), minlength=pods).astype(np.int64)
        possible = np.minimum(self.ports, most_at) if self.listed else self.ports
        through: list[set[int]] = [set() for _ in range(2 * pods)]
        for k, left in enumerate(routes):
            for side in range(2):
                sets = [self.routes[k][one][1:] if side else self.routes[k][one][:-1] for one in left]
                for pod in set.intersection(*map(set, sets)) if sets else ():
                    through[2 * pod + side].add(k)
        bound = 0.0
        for place, directions in enumerate(through):
            if not directions:
                continue
            own, pod = self._together(directions, head), place // 2
            done = self._machine(own, head, tail, int(possible[pod]))
            bound = max(bound, done)
            while done < late and needed[pod] < possible[pod]:
                if needed[pod] > 0 and self._machine(own, head, tail, int(needed[pod])) < late:
                    break
                needed[pod] += 1
        return needed, bound

    def _crossed(
        self, routes: list[tuple[int, ...]], least: Ints, most: Ints, head: Floats, tail: Floats, late: float
    ) -> tuple[Ints, float]:
        """Circuits that each pair needs for what crosses it in any case, and when it is done at best."""
        raised, bound = least.copy(), 0.0
        if not self.listed:
            return raised, bound
        crossing: dict[int, set[int]] = {}
        for k, left in enumerate(routes):
            for arc in set.intersection(*(set(self.arcs[k][one]) for one in left)) if left else ():
                crossing.setdefault(arc, set()).add(k)
        for arc, directions in sorted(crossing.items()):
            own, pair = self._together(directions, head), arc // 2
            bound = max(bound, self._machine(own, head, tail, int(most[pair])))
            raised[pair] = max(raised[pair], 1)
            while raised[pair] < most[pair] and self._machine(own, head, tail, int(raised[pair])) >= late:
                raised[pair] += 1
        return raised, bound

    def _together(self, directions: set[int], head: Floats) -> Ints:
        own: Ints = np.concatenate([self.members[k] for k in sorted(directions)])
        return own[np.argsort(head[own], kind="stable")]

    def _machine(self, own: Ints, head: Floats, tail: Floats, circuits: int) -> float:
        return float(one_machine(own, head, tail, self.job.graph.volume, self.problem.rate * circuits))

    @cached_property
    def spanning(self) -> int:
        """Circuits without which pods that transfer to each other, over others, are not joined."""
        import networkx as nx  # takes a while

        graph: nx.Graph[int] = nx.Graph(self.problem.directions)
        return graph.number_of_nodes() - nx.number_connected_components(graph)

    def circuits(self, left: Narrowed) -> int:
        """No plan of what is left of a box has fewer circuits."""
        return max(int(left.box.least.sum()), -(-int(left.ports.sum()) // 2), self.spanning)
