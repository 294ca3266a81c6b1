"""Zero-bubble orders under a limit of memory: the greedy rounds of Qi et al. (arXiv:2401.10241, section 4).

The rounds have three switches; all eight settings are run, and the one whose slowest rank is done soonest is kept.
"""

from __future__ import annotations

import itertools

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InfeasibleError
from topoopt.core.parallelism import PipelineShape
from topoopt.native import pipeline
from topoopt.simulate.pipeline.orders import FORWARD, INPUTS, WEIGHTS, PassOrders, in_a_line
from topoopt.simulate.pipeline.timeline import TickCosts, most_held, timed


def zero_bubble(shape: PipelineShape, ticks: TickCosts, adds: Floats, room: Floats) -> PassOrders:
    """The best of the eight settings.

    Args:
        shape: of one chunk a rank.
        ticks: costs of the stages.
        adds: float64[3, p], memory taken by forward passes, gradients of inputs and gradients of
            weights on each rank; the latter two give back what the first took.
        room: float64[p], limit of each rank.

    Raises:
        InfeasibleError: the memory is too small for the rounds.
    """
    m = shape.micro_batches
    best: PassOrders | None = None
    shortest = 0
    cost = np.ascontiguousarray(ticks.cost[[FORWARD, INPUTS, WEIGHTS]])
    for switches in itertools.product((True, False), repeat=3):
        passes = pipeline.zero_bubble(cost, ticks.transfer, adds, room, m, *switches)
        orders = in_a_line(shape, passes, 3 * m)
        if len(passes) and (most_held(orders, adds[0], -adds[2]) <= room).all():
            span = int(timed(orders, ticks).spans.max())
            if best is None or span < shortest:
                best, shortest = orders, span
    if best is None:
        raise InfeasibleError("zero-bubble schedules: the memory holds too few micro-batches on a rank")
    return best
