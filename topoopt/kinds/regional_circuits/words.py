"""Figures of circuits of a region that the page, the terminal and the JSON object share."""

from __future__ import annotations

from topoopt.core.regional_circuits_solution import RegionalCircuitsSolution
from topoopt.drawing.format import ratio
from topoopt.drawing.sentences import quantity

StepRow = tuple[str, str, str, str, str]


def time_text(seconds: float) -> str:
    """A time in six digits: `62.4913 ms`."""
    return quantity(seconds, "s") if seconds >= 1 else quantity(1e3 * seconds, "ms")


def step_rows(solution: RegionalCircuitsSolution) -> tuple[StepRow, ...]:
    """(step, topology, stall, transfer, over an electrical switch)."""
    return tuple(
        (
            str(place),
            str(step.circuits),
            time_text(step.stall_s) if step.stall_s else "–",
            time_text(step.transfer_s),
            ratio(step.transfer_s / step.switch_s) if step.switch_s else "–",
        )
        for place, step in enumerate(solution.steps)
    )


def circuits_text(solution: RegionalCircuitsSolution, topology: int, most: int) -> str:
    """Pairs of a topology with their circuits, as many as are shown."""
    listed = [f"{each.one}↔{each.other}: {each.count}" for each in solution.topologies[topology]]
    more = f", and {len(listed) - most} more pairs" if len(listed) > most else ""
    return (", ".join(listed[:most]) + more) or "none"
