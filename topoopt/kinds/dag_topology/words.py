"""Figures of circuits that the page, the terminal and the JSON object share."""

from __future__ import annotations

import itertools

from topoopt.core.dag_topology_solution import DagTopologySolution, Route, StepSpan
from topoopt.drawing.sentences import quantity

Channel = tuple[int, int]
"""Source and target."""


def time_text(solution: DagTopologySolution, value: float) -> str:
    """A time with the unit of the instance."""
    return quantity(value, solution.objective.unit)


def transfers_by_channel(solution: DagTopologySolution) -> dict[Channel, list[StepSpan]]:
    """Transfers of each direction of each pair, by their begin; channels ascending."""
    found: dict[Channel, list[StepSpan]] = {}
    for step in solution.steps:
        if step.source >= 0:
            found.setdefault((step.source, step.target), []).append(step)
    return {
        channel: sorted(found[channel], key=lambda step: (step.start, step.end, step.name)) for channel in sorted(found)
    }


def route_of(solution: DagTopologySolution, channel: Channel) -> Route:
    """Pods on the way of what is transferred in a direction."""
    return {(route[0], route[-1]): route for route in solution.routes}.get(channel, channel)


def route_rows(solution: DagTopologySolution) -> tuple[tuple[str, str, int], ...]:
    """(direction, way, transfers) of what pods forward."""
    by_channel = transfers_by_channel(solution)
    return tuple(
        (
            f"{route[0]} → {route[-1]}",
            " → ".join(map(str, route)),
            len(by_channel.get((route[0], route[-1]), [])),
        )
        for route in solution.routes
    )


def in_use(solution: DagTopologySolution) -> dict[Channel, float]:
    """Part of the makespan in which something is transferred, by the circuits of a pair in one direction."""
    makespan = solution.objective.value
    ways = {(route[0], route[-1]): route for route in solution.routes}
    crossing: dict[Channel, list[StepSpan]] = {}
    for channel, own in transfers_by_channel(solution).items():
        way = ways.get(channel, channel)
        for arc in itertools.pairwise(way):
            crossing.setdefault(arc, []).extend(own)
    shares = {}
    for channel, steps in crossing.items():
        steps.sort(key=lambda step: step.start)
        busy, until = 0.0, 0.0
        for step in steps:
            busy += max(0.0, step.end - max(step.start, until))
            until = max(until, step.end)
        shares[channel] = busy / makespan if makespan > 0 else 0.0
    return shares


def circuit_rows(solution: DagTopologySolution) -> tuple[tuple[str, int, float, float], ...]:
    """(pair, circuits, part of the time in use in each direction), most circuits first."""
    used = in_use(solution)
    rows = [
        (f"{e.one} ↔ {e.other}", e.count, used.get((e.one, e.other), 0.0), used.get((e.other, e.one), 0.0))
        for e in solution.circuits
    ]
    return tuple(sorted(rows, key=lambda row: -row[1]))
