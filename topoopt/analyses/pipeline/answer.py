"""What a comparison of pipeline schedules answers, in one sentence: the shortest, its bubble, what it holds."""

from __future__ import annotations

from collections.abc import Sequence

from topoopt.analyses.pipeline.rows import ScheduleRow
from topoopt.drawing.format import counted, milliseconds, number, percent, quotient


def answer(rows: Sequence[ScheduleRow]) -> str:
    """The schedule whose longest rank ends soonest; among equals the one that holds least."""
    if not rows:
        return "None of the schedules allows these sizes."
    best = min(rows, key=lambda row: (round(row.longest_span_ms, 9), max(row.in_flight)))
    bubble = percent(quotient(best.bubble_ms, best.longest_span_ms))
    proven = best.bound_ms is not None and best.longest_span_ms <= best.bound_ms * (1 + 1e-9)
    held = max(best.in_flight)
    return (
        f"Of {counted(len(rows), 'schedule')} {best.schedule.value} ends soonest: "
        f"{milliseconds(best.longest_span_ms)}, {bubble} of it bubble, holding the activations of up to "
        f"{number(held)} micro-batches{'; no order of the passes is shorter (proven)' if proven else ''}."
    )
