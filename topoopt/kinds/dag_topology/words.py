"""Figures of circuits that the page, the terminal and the JSON object share."""

from __future__ import annotations

from topoopt.core.dag_topology_solution import DagTopologySolution, StepSpan
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


def in_use(solution: DagTopologySolution) -> dict[Channel, float]:
    """Part of the makespan in which something is transferred, by the circuits of a pair in one direction."""
    makespan = solution.objective.value
    shares = {}
    for channel, steps in transfers_by_channel(solution).items():
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
