"""The largest delay at which a scheme beats the one-shot network, found by simulation on both sides of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from topoopt.core.comparison import BreakEven, DelayPoint, WhenBetter

FASTER = 1e-9
"""Relative difference that counts as faster."""

BISECTION_RATIO = 1.02
"""Break-even delays of simulations are known to this factor."""

LEAST_DELAY_MS = 1e-6
"""Below a nanosecond no break-even is looked for."""

At = Callable[[float], DelayPoint]
"""A scheme simulated at a delay, ms."""


def break_even(at: At, points: Sequence[DelayPoint], one_shot_ms: float, ratio: float = BISECTION_RATIO) -> BreakEven:
    """The largest delay at which a scheme beats the one-shot network, between two simulated delays.

    Of several crossings on the grid of `points` (ascending, at least one) the last is taken; where no point wins, the
    scheme is also tried without delay. The two delays are at most `ratio` apart.
    """

    def wins(point: DelayPoint) -> bool:
        return point.iteration_time_ms < one_shot_ms * (1 - FASTER)

    winning = [place for place, point in enumerate(points) if wins(point)]
    if winning:
        low = points[winning[-1]]
        if winning[-1] + 1 == len(points):
            return BreakEven(WhenBetter.ALWAYS, low)
        high = points[winning[-1] + 1]
    else:
        low, high = at(0.0), points[0]
        if not wins(low) or high.delay_ms == 0.0:
            return BreakEven(WhenBetter.NEVER, None, low)
    while high.delay_ms > max(low.delay_ms * ratio, LEAST_DELAY_MS):
        middle = at(math.sqrt(max(low.delay_ms, LEAST_DELAY_MS / 2) * high.delay_ms))
        low, high = (middle, high) if wins(middle) else (low, middle)
    return BreakEven(WhenBetter.UP_TO, low, high)
