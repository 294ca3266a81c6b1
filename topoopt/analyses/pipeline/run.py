"""Schedules of one pipeline side by side: how long they take, what their ranks hold, when every pass runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.analyses.pipeline.layers import Layers, numbers, split_layers
from topoopt.analyses.pipeline.rows import DrawnPass, ScheduleRow
from topoopt.core.arrays import Floats
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.pipeline import PassKind, PipelineSchedule, PipelineShape, StageCosts
from topoopt.simulate.pipeline import pipeline_time
from topoopt.simulate.pipeline.bounds import makespan_bound_s
from topoopt.simulate.pipeline.closed_forms import closed_form_s
from topoopt.simulate.pipeline.orders import PassOrders
from topoopt.simulate.pipeline.table import SCHEDULES, PipelineMemory, schedule_problems
from topoopt.simulate.pipeline.timeline import PipelineTimeline, most_held

ALL = "all"
MOST_DRAWN = 12_000
"""Passes of a schedule that is drawn."""


@dataclass(frozen=True)
class PipelineQuestion:
    """What is asked.

    Attributes:
        schedules: to compare.
        named: the user named them: one that does not allow the shape is an error, else it is left out.
        shape: of the pipeline.
        costs: of its stages; seconds.
        layers: to be split over the stages, which then cost what their layers do.
        drawn: whether all passes are wanted.
    """

    schedules: tuple[PipelineSchedule, ...]
    named: bool
    shape: PipelineShape
    costs: StageCosts
    layers: Layers | None = None
    drawn: bool = False


def chosen_schedules(text: str) -> tuple[PipelineSchedule, ...]:
    """Schedules by their names, parted by commas, or all.

    Raises:
        InputError: there is none of such a name.
    """
    names = list(PipelineSchedule) if text == ALL else [name.strip() for name in text.split(",")]
    allowed = ", ".join((ALL, *PipelineSchedule))
    problems = [
        Problem("unknown schedule", path="--schedule", value=name, allowed=allowed)
        for name in names
        if name not in list(PipelineSchedule)
    ]
    if problems:
        raise InputError(problems)
    return tuple(dict.fromkeys(PipelineSchedule(name) for name in names))


def stage_times(option: str, text: str, shape: PipelineShape) -> Floats:
    """float64[stages] of an option in ms: one number for a rank, shared by its chunks, or one for each stage.

    Raises:
        InputError: not as many positive numbers.
    """
    allowed = f"one number of at least 0 and below 1e9 for all ranks, or {shape.stages} parted by commas, in ms"
    values = numbers(option, text, shape.stages, allowed)
    return values if "," in text or "x" in text else values / shape.chunks


def schedule_rows(question: PipelineQuestion) -> tuple[list[ScheduleRow], dict[str, str]]:
    """A row for each schedule that can be run, in the order asked for; and why others cannot.

    Raises:
        InputError, InfeasibleError: one that was named cannot be run, or none can.
    """
    rows = []
    problems: list[Problem] = []
    left_out: dict[str, str] = {}
    short: InfeasibleError | None = None
    for schedule in question.schedules:
        try:
            found = schedule_problems(schedule, question.shape)
            if found:
                raise InputError(found)
            rows.append(_row(question, schedule))
        except InputError as error:
            problems += error.problems
            left_out[schedule] = str(error)
        except InfeasibleError as error:
            short = short or InfeasibleError(f"{schedule}: {error}")
            left_out[schedule] = str(error)
    if short is not None and (question.named or not rows):
        raise short
    if problems and (question.named or not rows):
        raise InputError(problems)
    return rows, left_out


def _row(question: PipelineQuestion, schedule: PipelineSchedule) -> ScheduleRow:
    shape, costs = question.shape, question.costs
    split: tuple[int, ...] = ()
    if question.layers is not None:
        split, costs = split_layers(question.layers, schedule, shape, costs)
    memory = PipelineMemory.usual(shape.stages)
    time = pipeline_time(schedule, shape, costs, memory, whole=question.drawn)
    share = np.full(shape.stages, 1.0 / shape.chunks)
    held = most_held(time.orders, share, share * memory.for_weights)
    formula = closed_form_s(schedule, shape, costs)
    return ScheduleRow(
        schedule=schedule,
        summary=SCHEDULES[schedule].summary,
        makespan_ms=time.makespan_s * 1e3,
        longest_span_ms=time.longest_span_s * 1e3,
        bubble_ms=(time.longest_span_s - _busiest_s(time.orders, costs, shape.micro_batches)) * 1e3,
        formula_ms=None if formula is None else formula * 1e3,
        in_flight=tuple(held.tolist()),
        evaluated=time.orders.micro_batches,
        bound_ms=_bound_ms(schedule, shape, costs),
        stage_layers=split,
        passes=_drawn(time.orders, time.line) if question.drawn else (),
    )


def _bound_ms(schedule: PipelineSchedule, shape: PipelineShape, costs: StageCosts) -> float | None:
    if schedule in (PipelineSchedule.DUALPIPE, PipelineSchedule.DUALPIPE_V):
        return None
    return makespan_bound_s(shape, costs, split=SCHEDULES[schedule].splits) * 1e3


def _busiest_s(orders: PassOrders, costs: StageCosts, micro_batches: int) -> float:
    """Work of the rank that has the most, micro-batches shared out evenly where the model is held several times."""
    work = costs.forward_s + costs.inputs_s + costs.weights_s
    of_rank = np.zeros(orders.ranks)
    np.add.at(of_rank, orders.rank_of_stage, np.tile(work, orders.copies) * (micro_batches / orders.copies))
    return float(of_rank.max())


def _drawn(orders: PassOrders, line: PipelineTimeline) -> tuple[DrawnPass, ...]:
    """All passes with their times, or none if there are too many for a picture."""
    if len(orders.passes) > MOST_DRAWN:
        return ()
    drawn = []
    cost, ends, stages = line.costs.cost, line.ends, orders.model_stages
    for rank in range(orders.ranks):
        for place in range(int(orders.start[rank]), int(orders.start[rank + 1])):
            kind, micro_batch, stage = (int(part) for part in orders.passes[place])
            end = int(ends[place])
            if kind == PassKind.JOINED:  # its own part of the time that both take; the other one follows
                kind, end = (
                    int(PassKind.FORWARD),
                    end - int(cost[PassKind.BACKWARD, orders.passes[place + 1][2] % stages]),
                )
            begin = end - int(cost[kind, stage % stages])
            ms = 1e3 / line.costs.per_second
            drawn.append(DrawnPass(rank, PassKind(kind), micro_batch, stage, begin * ms, end * ms))
    return tuple(drawn)
