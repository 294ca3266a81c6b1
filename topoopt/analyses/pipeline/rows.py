"""One schedule of a pipeline, as a line of `topoopt pipeline`."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.pipeline import PassKind, PipelineSchedule


@dataclass(frozen=True)
class DrawnPass:
    """A bar of the picture; times in ms."""

    rank: int
    kind: PassKind
    micro_batch: int
    stage: int
    begin_ms: float
    end_ms: float


@dataclass(frozen=True)
class ScheduleRow:
    """What a schedule comes to.

    Attributes:
        summary: what it is, for people.
        makespan_ms: from the first begin to the last end.
        longest_span_ms: the longest time between the first begin and the last end of one rank.
        bubble_ms: of that, beyond the work of the busiest rank.
        formula_ms: makespan by the closed form, where one is exact.
        in_flight: the most that each rank holds at a time, in activations of one micro-batch in all its stages.
        evaluated: micro-batches that were followed; the others are proven to repeat them.
        bound_ms: no order is below; None for DualPipe.
        stage_layers: layers of each stage, where layers were given.
        best_ms: the least longest_span_ms found in the memory of this schedule; None: not asked for.
        best_bound_ms: no order in that memory is below; equal to it where it is proven.
        passes: of the picture; empty if none was asked for, or there are too many.
    """

    schedule: PipelineSchedule
    summary: str
    makespan_ms: float
    longest_span_ms: float
    bubble_ms: float
    formula_ms: float | None
    in_flight: tuple[float, ...]
    evaluated: int
    bound_ms: float | None = None
    stage_layers: tuple[int, ...] = ()
    best_ms: float | None = None
    best_bound_ms: float | None = None
    passes: tuple[DrawnPass, ...] = ()
