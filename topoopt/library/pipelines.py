"""Schedules of a pipeline side by side: how long they take and what their ranks hold, every pass followed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.parallelism import PipelineSchedule, PipelineShape, StageCosts
from topoopt.simulate.pipeline import pipeline_time
from topoopt.simulate.pipeline.bounds import makespan_bound_s
from topoopt.simulate.pipeline.orders import PassOrders
from topoopt.simulate.pipeline.table import SCHEDULES, PipelineMemory, schedule_problems
from topoopt.simulate.pipeline.timeline import most_held

Times = float | Sequence[float]
"""ms of a micro-batch on every rank, or on each stage in the order of the model."""

DOUBLED = (PipelineSchedule.DUALPIPE, PipelineSchedule.DUALPIPE_V)
"""The bound is not theirs: micro-batches enter at both ends."""


@dataclass(frozen=True)
class PipelineTimes:
    """What a schedule comes to.

    Attributes:
        makespan_ms: from the first begin to the last end.
        longest_rank_ms: the longest time between the first begin and the last end of one rank.
        bubble_ms: of that, beyond the work of the busiest rank.
        in_flight: the most that each rank holds at a time, in activations of one micro-batch in all its stages.
        micro_batches_followed: the others are proven to repeat them.
        bound_ms: no order is below; None for DualPipe.
    """

    makespan_ms: float
    longest_rank_ms: float
    bubble_ms: float
    in_flight: tuple[float, ...]
    micro_batches_followed: int
    bound_ms: float | None


def pipeline_schedules(
    ranks: int,
    micro_batches: int,
    schedules: Sequence[str] | None = None,
    *,
    chunks: int = 1,
    group: int = 0,
    forward_ms: Times = 1.0,
    backward_ms: Times = 2.0,
    weights_ms: Times | None = None,
    transfer_ms: float = 0.0,
    blocking: bool = False,
) -> dict[str, PipelineTimes]:
    """Times of schedules of one pipeline.

    Args:
        ranks: of the pipeline, p.
        micro_batches: of one iteration, m.
        schedules: names; None: all that allow the sizes.
        chunks: stages of each rank, v.
        group: micro-batches that pass a chunk in turn; 0: p.
        forward_ms: of a micro-batch on a rank, or one number for each of the p v stages.
        backward_ms: the same, gradients of inputs and weights together.
        weights_ms: the part of it for weights; None: half.
        transfer_ms: from a stage to the next.
        blocking: a rank waits for what it sends to arrive.

    Raises:
        InputError: unknown names, times of another length, sizes that a schedule does not allow.
    """
    shape = PipelineShape(ranks, micro_batches, chunks, group)
    _require(shape, schedules)
    ahead, back = _stage_times("forward_ms", forward_ms, shape), _stage_times("backward_ms", backward_ms, shape)
    late = back / 2 if weights_ms is None else _stage_times("weights_ms", weights_ms, shape)
    if (late > back).any():
        text = "more than the whole backward pass"
        raise InputError([Problem(text, path="weights_ms", value=str(weights_ms), allowed=f"at most {backward_ms}")])
    costs = StageCosts(ahead * 1e-3, (back - late) * 1e-3, late * 1e-3, transfer_ms * 1e-3, blocking)
    named = [PipelineSchedule(name) for name in schedules or PipelineSchedule]
    wrong = {name: schedule_problems(name, shape) for name in named}
    if schedules is not None and any(wrong.values()):
        raise InputError([problem for problems in wrong.values() for problem in problems])
    return {name.value: _times(name, shape, costs) for name in named if not wrong[name]}


def _require(shape: PipelineShape, schedules: Sequence[str] | None) -> None:
    problems = []
    for path, value in (("ranks", shape.ranks), ("micro_batches", shape.micro_batches), ("chunks", shape.chunks)):
        if value < 1:
            problems.append(Problem("too small", path=path, value=str(value), allowed="1 or more"))
    allowed = ", ".join(PipelineSchedule)
    problems += [
        Problem("unknown schedule", path="schedules", value=name, allowed=allowed)
        for name in schedules or ()
        if name not in list(PipelineSchedule)
    ]
    if problems:
        raise InputError(problems)


def _stage_times(path: str, times: Times, shape: PipelineShape) -> Floats:
    """float64[stages], ms; one number for a rank is shared by its chunks."""
    values = np.array(times, dtype=np.float64)
    if values.ndim == 0:
        values = np.full(shape.stages, values / shape.chunks)
    if values.shape != (shape.stages,) or not ((values >= 0) & (values < 1e9)).all():
        allowed = f"one number of at least 0 and below 1e9 for all ranks, or {shape.stages}"
        raise InputError([Problem("not times of the stages", path=path, value=str(times), allowed=allowed)])
    return values


def _times(schedule: PipelineSchedule, shape: PipelineShape, costs: StageCosts) -> PipelineTimes:
    memory = PipelineMemory.usual(shape.stages)
    time = pipeline_time(schedule, shape, costs, memory)
    share = np.full(shape.stages, 1.0 / shape.chunks)
    held = most_held(time.orders, share, share * memory.for_weights)
    bound_s = None if schedule in DOUBLED else makespan_bound_s(shape, costs, split=SCHEDULES[schedule].splits)
    return PipelineTimes(
        time.makespan_s * 1e3,
        time.longest_span_s * 1e3,
        (time.longest_span_s - _busiest_s(time.orders, costs, shape.micro_batches)) * 1e3,
        tuple(held.tolist()),
        time.orders.micro_batches,
        None if bound_s is None else bound_s * 1e3,
    )


def _busiest_s(orders: PassOrders, costs: StageCosts, micro_batches: int) -> float:
    """Work of the rank that has the most, micro-batches shared out evenly where the model is held several times."""
    work = costs.forward_s + costs.inputs_s + costs.weights_s
    of_rank = np.zeros(orders.ranks)
    np.add.at(of_rank, orders.rank_of_stage, np.tile(work, orders.copies) * (micro_batches / orders.copies))
    return float(of_rank.max())
