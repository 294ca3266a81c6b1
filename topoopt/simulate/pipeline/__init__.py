"""Pipelines of stages: how long an iteration takes by each schedule, and what the ranks hold."""

from __future__ import annotations

from dataclasses import dataclass, replace

from topoopt.core.parallelism import PipelineSchedule, PipelineShape, StageCosts
from topoopt.simulate.pipeline.orders import PassOrders
from topoopt.simulate.pipeline.periods import grown, shift_of
from topoopt.simulate.pipeline.table import SCHEDULES, PipelineMemory, pass_orders
from topoopt.simulate.pipeline.timeline import PipelineTimeline, TickCosts, timed


@dataclass(frozen=True, eq=False)
class PipelineTime:
    """How long the micro-batches of an iteration are on their way.

    Attributes:
        makespan_s: from the first begin to the last end.
        longest_span_s: the longest time from the first begin to the last end of one rank: what an iteration takes where
            no rank waits for all others in between (the optimizer step of zero-bubble schedules).
        orders: of the micro-batches whose passes were followed; fewer than there are if the rest is proven to repeat
            them. What ranks hold at most is the same.
        line: when those passes end.
    """

    makespan_s: float
    longest_span_s: float
    orders: PassOrders
    line: PipelineTimeline


def pipeline_time(
    schedule: PipelineSchedule,
    shape: PipelineShape,
    costs: StageCosts,
    memory: PipelineMemory | None = None,
    *,
    whole: bool = False,
) -> PipelineTime:
    """Follow the passes of all micro-batches, or of so few that the others repeat them.

    Args:
        costs: of the stages of the model: p v.
        memory: what `zb-2p` looks at; None: as is usual.
        whole: follow all.

    Raises:
        InputError: the schedule does not allow the shape.
        InfeasibleError: the room does not suffice.
    """
    entry = SCHEDULES[schedule]
    held = memory or PipelineMemory.usual(shape.stages)
    ticks = TickCosts.of(costs, shape.micro_batches)
    period = None if whole or entry.period is None else entry.period(shape)
    while period is not None:
        few = replace(shape, micro_batches=period.few)
        orders = pass_orders(schedule, few, ticks, held)
        part = timed(orders, ticks)
        shift = shift_of(period, orders, part)
        if shift is not None:
            later = (shape.micro_batches - period.few) // period.batches * shift
            longest = int(part.spans.max())
            return PipelineTime(ticks.seconds(part.makespan + later), ticks.seconds(longest + later), orders, part)
        period = grown(period, shape.micro_batches)
    orders = pass_orders(schedule, shape, ticks, held)
    line = timed(orders, ticks)
    return PipelineTime(line.makespan_s, line.longest_span_s, orders, line)
