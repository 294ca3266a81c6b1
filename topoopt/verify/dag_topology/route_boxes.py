"""Boxes of circuits and routes that cannot do the job before a time, where pods forward; counted again.

A transfer gets at most what the widest route left carries, alone on it. What all routes left of some directions have in
common, an arc or the ports of a pod that they leave or enter, their transfers share as on one machine (Jackson 1955).
If there are too many routes to list, a transfer gets at most what the ports of its two pods carry, and only these pods
are looked at: so much holds for any way to forward, whether split or changed under way.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TypeVar

from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.dag_topology_solution import Route
from topoopt.verify.dag_topology.boxes import Boxes
from topoopt.verify.dag_topology.route_box import Counts, RouteBox

MOST_ROUTES = 2_000
"""Routes of all directions up to which they are listed."""

Arc = tuple[int, int]
Item = TypeVar("Item")


class RouteBoxes:
    """A problem whose pods forward, and a time that the job is to be done before."""

    def __init__(self, problem: DagTopologyProblem, target: float) -> None:
        self.problem, self._windows = problem, Boxes(problem, target)
        self.late = self._windows.late
        pods = range(problem.pods)
        self.pairs = [(a, b) for a in pods for b in pods if a < b]
        self._place = {pair: k for k, pair in enumerate(self.pairs)}
        each = sum(math.perm(problem.pods - 2, between) for between in range(problem.max_hops))
        self.listed = each * len(problem.directions) <= MOST_ROUTES
        self._own: list[list[int]] = [[] for _ in problem.directions]
        number = {ends: k for k, ends in enumerate(problem.directions)}
        for m, move in enumerate(problem.transfers):
            self._own[number[move.source, move.target]].append(m)

    @cached_property
    def routes(self) -> list[list[Route]]:
        """Of each direction, the shortest first, then by their pods."""
        found = []
        for source, target in self.problem.directions:
            others = [pod for pod in range(self.problem.pods) if pod not in (source, target)]
            hops = range(self.problem.max_hops if self.listed else 1)
            ways = [each for count in hops for each in itertools.permutations(others, count)]
            found.append([(source, *way, target) for way in ways])
        return found

    @cached_property
    def whole(self) -> RouteBox:
        """All circuits that the ports of two pods allow, and all routes."""
        ports = self.problem.ports
        most = tuple(min(ports[a], ports[b]) for a, b in self.pairs)
        return RouteBox((0,) * len(most), most, tuple(tuple(range(len(each))) for each in self.routes))

    def counts(self, box: RouteBox) -> dict[tuple[int, int], int]:
        """Circuits by pair of a box with one choice."""
        return dict(zip(self.pairs, box.least, strict=True))

    def chosen(self, box: RouteBox) -> list[Route]:
        """Routes of a box with one choice."""
        return [self.routes[k][left[0]] for k, left in enumerate(box.routes)]

    def narrowed(self, box: RouteBox) -> RouteBox | None:
        """What of a box is left when all rules have been applied until nothing changes; None: nothing.

        A pair that no route left crosses needs no circuits: a plan does as well without them.
        """
        least, most, routes = list(box.least), list(box.most), list(box.routes)
        while True:
            taken = self._at_pods(least)
            for p, (a, b) in enumerate(self.pairs):
                room = min(self.problem.ports[a] - taken[a], self.problem.ports[b] - taken[b])
                most[p] = min(most[p], room + least[p])
                if most[p] < least[p]:
                    return None
            if self.listed:
                routes = [tuple(one for one in left if self._width(k, one, most) > 0) for k, left in enumerate(routes)]
                crossed = {
                    self._pair(arc)
                    for k, left in enumerate(routes)
                    for one in left
                    for arc in _arcs(self.routes[k][one])
                }
                most = [count if p in crossed else least[p] for p, count in enumerate(most)]
            if not all(routes):
                return None
            head, tail = self._around(most, routes)
            kept = [self._in_time(k, left, most, head, tail) for k, left in enumerate(routes)]
            if not all(kept) or any(need > may for need, may in self._pods(kept, least, most, head, tail)):
                return None
            raised = self._crossed(kept, least, most, head, tail)
            if raised is None:
                return None
            if kept == routes and raised == least:
                return RouteBox(tuple(least), tuple(most), tuple(routes))
            least, routes = raised, kept

    def circuits(self, box: RouteBox) -> int:
        """Plans of a narrowed box that are in time have no fewer circuits."""
        head, tail = self._around(box.most, box.routes)
        needed = [need for need, _ in self._pods(box.routes, box.least, box.most, head, tail)]
        return max(sum(box.least), -(-sum(needed) // 2), self._spanning)

    def _around(self, most: Sequence[int], routes: Sequence[Counts]) -> tuple[list[float], list[float]]:
        return self._windows.around(self._lengths(most, routes))

    def _lengths(self, most: Sequence[int], routes: Sequence[Counts]) -> list[float]:
        problem, ports = self.problem, self.problem.ports
        length = [0.0] * len(problem.transfers) + [task.duration for task in problem.tasks]
        for k, (source, target) in enumerate(problem.directions):
            wide = min(ports[source], ports[target])
            if self.listed:
                wide = max(self._width(k, one, most) for one in routes[k])
            for m in self._own[k]:
                length[m] = problem.transfers[m].volume / (problem.rate * wide)
        return length

    def _in_time(
        self, k: int, left: Counts, most: Sequence[int], head: Sequence[float], tail: Sequence[float]
    ) -> Counts:
        """Routes over which no transfer is too late when nothing else is under way."""
        ports, ends = self.problem.ports, self.problem.directions[k]
        kept = []
        for one in left:
            wide = self._width(k, one, most) if self.listed else min(ports[pod] for pod in ends)
            rate = wide * self.problem.rate
            if all(head[m] + self.problem.transfers[m].volume / rate + tail[m] < self.late for m in self._own[k]):
                kept.append(one)
        return tuple(kept)

    def _pods(
        self,
        routes: Sequence[Counts],
        least: Sequence[int],
        most: Sequence[int],
        head: list[float],
        tail: list[float],
    ) -> list[tuple[int, int]]:
        """(ports needed, ports there may be) of each pod, for what leaves and enters it in any case."""
        needed, may = self._at_pods(least), list(self.problem.ports)
        if self.listed:
            may = [min(ports, count) for ports, count in zip(may, self._at_pods(most), strict=True)]
        for side in (slice(None, -1), slice(1, None)):
            passing: dict[int, list[int]] = {}
            for k, left in enumerate(routes):
                for pod in _common(self.routes[k][one][side] for one in left):
                    passing.setdefault(pod, []).extend(self._own[k])
            for pod, members in passing.items():
                needed[pod] = max(needed[pod], 1)
                while needed[pod] <= may[pod] and self._late(members, head, tail, needed[pod]):
                    needed[pod] += 1
        return list(zip(needed, may, strict=True))

    def _crossed(
        self,
        routes: Sequence[Counts],
        least: Sequence[int],
        most: Sequence[int],
        head: list[float],
        tail: list[float],
    ) -> list[int] | None:
        """Circuits that pairs need for what crosses them in any case; None: more than they may have."""
        raised = list(least)
        if not self.listed:
            return raised
        crossing: dict[Arc, list[int]] = {}
        for k, left in enumerate(routes):
            for arc in _common(_arcs(self.routes[k][one]) for one in left):
                crossing.setdefault(arc, []).extend(self._own[k])
        for arc, members in crossing.items():
            p = self._pair(arc)
            raised[p] = max(raised[p], 1)
            while raised[p] <= most[p] and self._late(members, head, tail, raised[p]):
                raised[p] += 1
            if raised[p] > most[p]:
                return None
        return raised

    def _late(self, members: list[int], head: list[float], tail: list[float], circuits: int) -> bool:
        return self._windows.done(members, head, tail, self.problem.rate * circuits) >= self.late

    def _width(self, k: int, one: int, most: Sequence[int]) -> int:
        return min(most[self._pair(arc)] for arc in _arcs(self.routes[k][one]))

    def _pair(self, arc: Arc) -> int:
        return self._place[min(arc), max(arc)]

    def _at_pods(self, counts: Sequence[int]) -> list[int]:
        total = [0] * self.problem.pods
        for (a, b), count in zip(self.pairs, counts, strict=True):
            total[a] += count
            total[b] += count
        return total

    @cached_property
    def _spanning(self) -> int:
        """Pods that transfer, less the groups of them that have to be joined."""
        group = list(range(self.problem.pods))
        joins = 0
        for a, b in self.problem.directions:
            one, other = group[a], group[b]
            if one != other:
                joins += 1
                group = [one if each == other else each for each in group]
        return joins


def _arcs(route: Route) -> list[Arc]:
    return list(itertools.pairwise(route))


def _common(lists: Iterable[Sequence[Item]]) -> set[Item]:
    """What all of them hold."""
    sets = [set(each) for each in lists]
    return set.intersection(*sets) if sets else set()
