"""A stage that lags behind: all that it computes takes longer, what it exchanges does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topoopt.core.switching import RailJob, StragglerFigures, SwitchedStep
from topoopt.simulate.switching.shares import RailShares
from topoopt.simulate.switching.step import Delays, RailOrders, electrical_s, follow


def slowed(job: RailJob, rank: int, slowdown: float) -> RailJob:
    """The job with the passes of a rank so many times as long."""
    by = np.where(np.arange(job.ranks * job.chunks) % job.ranks == rank, slowdown, 1.0)
    exchange = job.exchange
    if exchange is not None:
        exchange = tuple(
            replace(one, head_s=one.head_s * float(by[stage]), tail_s=one.tail_s * float(by[stage]))
            for stage, one in enumerate(exchange)
        )
    return replace(
        job,
        exchange=exchange,
        forward_s=tuple((by * job.forward_s).tolist()),
        inputs_s=tuple((by * job.inputs_s).tolist()),
        weights_s=tuple((by * job.weights_s).tolist()),
    )


def straggler_figures(
    job: RailJob, known: RailOrders, step: SwitchedStep, rank: int, slowdown: float
) -> StragglerFigures:
    """The step on the ports of a plan with one slow rank; passes keep their order."""
    slow, shares = slowed(job, rank, slowdown), RailShares.of(job, step.plan)
    late = follow(slow, known, shares, step.plan, Delays.same(step.delay_s), step.mode)
    return StragglerFigures(rank, late.step_s, electrical_s(slow, known))
