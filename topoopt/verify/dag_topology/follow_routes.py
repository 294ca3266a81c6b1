"""When the steps of a job begin and end where pods forward, followed change by change."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from topoopt.core.dag_topology import DagTopologyProblem, Pair
from topoopt.core.dag_topology_solution import Route

ROUNDING = 1e-12
"""Part of a volume, or of the rate of an arc, that is nothing."""

Arc = tuple[int, int]
"""A pod and the next one on a route."""


def fair_rates(
    flows: Mapping[Pair, int], arcs: Mapping[Pair, Sequence[Arc]], rate: Mapping[Arc, float]
) -> dict[Pair, float]:
    """Rate of one flow of each direction: all rise together, and those whose arc is full rise no further.

    Args:
        flows: how many each direction has.
        arcs: of the route of each.
        rate: of each arc.
    """
    spare = {arc: rate[arc] for each in flows for arc in arcs[each]}
    rising, reached = set(flows), dict.fromkeys(flows, 0.0)
    while rising:
        crowd: dict[Arc, int] = {}
        for each in rising:
            for arc in arcs[each]:
                crowd[arc] = crowd.get(arc, 0) + flows[each]
        step = min(spare[arc] / count for arc, count in crowd.items())
        full = set()
        for arc, count in crowd.items():
            spare[arc] -= step * count
            if spare[arc] <= ROUNDING * rate[arc]:
                full.add(arc)
        for each in rising:
            reached[each] += step
        rising = {each for each in rising if not full.intersection(arcs[each])}
    return reached


def follow_routes(
    problem: DagTopologyProblem, counts: Mapping[Pair, int], routes: Sequence[Route]
) -> tuple[list[float], list[float]]:
    """(start, end) of all steps; each begins once what it waits for has ended.

    What is under way shares the arcs of its routes max-min fairly; where routes meet, rates are worked out anew at each
    change.

    Args:
        counts: circuits by pair, the smaller pod first.
        routes: of what is forwarded; all else takes the circuits of its own pair.
    """
    after, transfers = problem.after, problem.transfers
    waits, later = [len(each) for each in after], [list[int]() for _ in after]
    for step, each in enumerate(after):
        for before in each:
            later[before].append(step)
    ways: dict[Pair, Sequence[int]] = {(move.source, move.target): (move.source, move.target) for move in transfers}
    ways |= {(route[0], route[-1]): route for route in routes}
    arcs = {ends: list(itertools.pairwise(way)) for ends, way in ways.items()}
    rate = {arc: counts[min(arc), max(arc)] * problem.rate for each in arcs.values() for arc in each}
    start, end = [0.0] * len(after), [0.0] * len(after)
    left: dict[Pair, dict[int, float]] = {}
    tasks: list[tuple[float, int]] = []
    ready = [step for step, count in enumerate(waits) if not count]
    now, speed, stale = 0.0, dict[Pair, float](), set[Pair]()
    while True:
        for step in ready:
            start[step] = now
            if step < len(transfers):
                ends = (transfers[step].source, transfers[step].target)
                left.setdefault(ends, {})[step] = transfers[step].volume
                stale.add(ends)
            else:
                heapq.heappush(tasks, (now + problem.tasks[step - len(transfers)].duration, step))
        ready = []
        if stale:
            meeting = {ends: len(left[ends]) for ends in _meeting(left, arcs, stale)}
            speed |= fair_rates(meeting, arcs, rate)
            stale = set()
        over = min((min(flows.values()) / speed[ends] for ends, flows in left.items()), default=math.inf)
        due = tasks[0][0] - now if tasks else math.inf
        if math.isinf(min(over, due)):
            return start, end
        passed = max(min(over, due), 0.0)
        now = tasks[0][0] if due <= over else now + passed
        ended = [heapq.heappop(tasks)[1]] if due <= over else []
        for ends in list(left):
            flows, moved = left[ends], speed[ends] * passed
            for step in flows:
                flows[step] -= moved
            done = [step for step, rest in flows.items() if rest <= ROUNDING * transfers[step].volume]
            if done:
                stale.add(ends)
                ended += done
            for step in done:
                del flows[step]
            if not flows:
                del left[ends]
        for step in ended:
            end[step] = now
            for one in later[step]:
                waits[one] -= 1
                if not waits[one]:
                    ready.append(one)


def _meeting(under_way: Iterable[Pair], arcs: Mapping[Pair, Sequence[Arc]], changed: Iterable[Pair]) -> list[Pair]:
    """Directions under way whose routes meet those of the changed ones, over others in between."""
    touched = {arc for ends in changed for arc in arcs[ends]}
    apart, found = list(under_way), list[Pair]()
    while True:
        near = [ends for ends in apart if not touched.isdisjoint(arcs[ends])]
        if not near:
            return found
        found += near
        touched.update(arc for ends in near for arc in arcs[ends])
        apart = [ends for ends in apart if ends not in set(near)]
