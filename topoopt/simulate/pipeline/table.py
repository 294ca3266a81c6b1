"""The table of schedules: what each allows, its order, and after how many micro-batches the order repeats itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.parallelism import PipelineSchedule, PipelineShape
from topoopt.simulate.pipeline import dualpipe, orders
from topoopt.simulate.pipeline.orders import PassOrders
from topoopt.simulate.pipeline.periods import (
    Period,
    dualpipe_period,
    dualpipe_v_period,
    interleaved_period,
    one_f_one_b_period,
    zb_h1_period,
)
from topoopt.simulate.pipeline.timeline import TickCosts
from topoopt.simulate.pipeline.zero_bubble import zero_bubble

Rule = tuple[str, Callable[[PipelineShape], bool], str]
"""Name of a size, whether a shape keeps the rule, what is allowed."""


@dataclass(frozen=True, eq=False)
class PipelineMemory:
    """What ranks hold while micro-batches are on their way; the unit is the user's.

    Attributes:
        activations: float64[stages], what a forward pass leaves behind.
        for_weights: float64[stages], the part of it that is kept until the gradients of weights.
        room: float64[ranks]; None: twice p activations (only schedules that are made for a room look at it).
    """

    activations: Floats
    for_weights: Floats
    room: Floats | None = None

    @staticmethod
    def usual(stages: int) -> PipelineMemory:
        """In micro-batches; of the 34 s b h bytes of a layer, 32 wait for the weights (arXiv:2401.10241, table 2)."""
        return PipelineMemory(np.ones(stages), np.full(stages, 32.0 / 34.0))


@dataclass(frozen=True)
class ScheduleLine:
    """A line of the table.

    Attributes:
        summary: for people.
        order: of all passes.
        rules: for the sizes.
        period: how the order repeats itself; None: it does not, or nothing is proven.
        splits: whether gradients of inputs and weights are passes of their own.
        chunked: whether ranks may hold any number of stages.
    """

    summary: str
    order: Callable[[PipelineShape, TickCosts, PipelineMemory], PassOrders]
    rules: tuple[Rule, ...]
    period: Callable[[PipelineShape], Period | None] | None = None
    splits: bool = False


def _plain(order: Callable[[PipelineShape], PassOrders]) -> Callable[..., PassOrders]:
    return lambda shape, ticks, memory: order(shape)


def _zb_2p(shape: PipelineShape, ticks: TickCosts, memory: PipelineMemory) -> PassOrders:
    held, late = memory.activations, memory.for_weights
    room = 2.0 * shape.ranks * held if memory.room is None else memory.room
    return zero_bubble(shape, ticks, np.stack([held, late - held, -late]), room)


ONE_CHUNK: Rule = ("chunks", lambda shape: shape.chunks == 1, "1 for this schedule")
SEVERAL_CHUNKS: Rule = ("chunks", lambda shape: shape.chunks > 1, "at least 2 for this schedule")
TWO_CHUNKS: Rule = ("chunks", lambda shape: shape.chunks == 2, "2 for this schedule")
EVEN: Rule = ("stages", lambda shape: shape.ranks % 2 == 0, "an even number for this schedule")
EVEN_BATCHES: Rule = ("micro-batches", lambda shape: shape.micro_batches % 2 == 0, "an even number for this schedule")
FULL: Rule = ("micro-batches", lambda shape: shape.micro_batches >= 2 * shape.ranks, "at least twice the stages")


def _group(shape: PipelineShape) -> int:
    return shape.group or shape.ranks


GROUPS: tuple[Rule, ...] = (
    SEVERAL_CHUNKS,
    ("group", lambda shape: _group(shape) >= shape.ranks, "at least as many as stages"),
    (
        "micro-batches",
        lambda shape: shape.micro_batches % _group(shape) == 0 or shape.micro_batches % _group(shape) >= shape.ranks,
        "so many that those beside whole groups are none, or at least as many as stages",
    ),
)

SCHEDULES: Mapping[PipelineSchedule, ScheduleLine] = {
    PipelineSchedule.GPIPE: ScheduleLine(
        "all forward passes, then all backward ones", _plain(orders.gpipe), (ONE_CHUNK,)
    ),
    PipelineSchedule.ONE_F_ONE_B: ScheduleLine(
        "one forward, one backward pass in turn",
        _plain(orders.one_f_one_b),
        (ONE_CHUNK,),
        one_f_one_b_period,
    ),
    PipelineSchedule.INTERLEAVED: ScheduleLine(
        "the same over several stages a rank", _plain(orders.interleaved), GROUPS, interleaved_period
    ),
    PipelineSchedule.ZB_H1: ScheduleLine(
        "1f1b with gradients of weights put off, in its memory",
        _plain(orders.zb_h1),
        (ONE_CHUNK,),
        zb_h1_period,
        splits=True,
    ),
    PipelineSchedule.ZB_2P: ScheduleLine(
        "greedy zero-bubble rounds in twice the memory", _zb_2p, (ONE_CHUNK,), splits=True
    ),
    PipelineSchedule.DUALPIPE: ScheduleLine(
        "micro-batches enter at both ends, the model is held twice",
        _plain(dualpipe.dualpipe),
        (ONE_CHUNK, EVEN, EVEN_BATCHES, FULL),
        dualpipe_period,
        splits=True,
    ),
    PipelineSchedule.DUALPIPE_V: ScheduleLine(
        "micro-batches go up the ranks and come back",
        _plain(dualpipe.dualpipe_v),
        (TWO_CHUNKS, FULL),
        dualpipe_v_period,
        splits=True,
    ),
}


def schedule_problems(schedule: PipelineSchedule, shape: PipelineShape) -> list[Problem]:
    """What a schedule does not allow of a shape."""
    values = {
        "stages": shape.ranks,
        "micro-batches": shape.micro_batches,
        "chunks": shape.chunks,
        "group": _group(shape),
    }
    return [
        Problem(f"schedule {schedule} does not allow this", path=name, value=str(values[name]), allowed=allowed)
        for name, kept, allowed in SCHEDULES[schedule].rules
        if not kept(shape)
    ]


def pass_orders(
    schedule: PipelineSchedule, shape: PipelineShape, ticks: TickCosts, memory: PipelineMemory
) -> PassOrders:
    """The order of all passes.

    Raises:
        InputError: the schedule does not allow the shape.
        InfeasibleError: the room does not suffice.
    """
    problems = schedule_problems(schedule, shape)
    if problems:
        raise InputError(problems)
    return SCHEDULES[schedule].order(shape, ticks, memory)
