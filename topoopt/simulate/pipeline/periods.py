"""Orders that repeat themselves: a pipeline of many micro-batches from one of few, where that is proven.

1F1B, interleaved and ZB-H1 go in rounds: round x of rank r does the forward pass x + w_r of its list, the backward pass
x, and gradients of weights some rounds later. Counted from o_r = r, what a round waits for on other ranks lies in the
same round or an earlier one, by at most a period of L rounds: for the forward pass w_(r-1) - w_r = 1 or 2 rounds, less
o_r - o_(r-1) = 1; for the backward pass 0 rounds plus 1; from the last rank to the first and back, a group's rounds
less p - 1 or so. Ends of passes are maxima of sums: if all ends of one period are those of the period before plus D,
then so are those of all periods after it, as long as the order lasts, and those of what follows the last period. So
T(m + k g) = T(m) + k D, g being the micro-batches of a period. In the steady part of DualPipe a round is two forward
and two backward passes; what they wait for lies in the same round of another rank or in the one before, o_r = 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.parallelism import PipelineShape
from topoopt.simulate.pipeline.orders import PassOrders
from topoopt.simulate.pipeline.timeline import PipelineTimeline


@dataclass(frozen=True)
class Period:
    """How an order repeats itself.

    Attributes:
        few: micro-batches of the pipeline that stands for the large one; they differ by a multiple of `batches`.
        batches: micro-batches of a period.
        rounds: L, of a period.
        passes: of a round.
        first: round, counted from o_r, at which the first of the two periods begins.
        skipped: passes of rank r before round x are `passes * x + skipped[r]`.
    """

    few: int
    batches: int
    rounds: int
    passes: int
    first: int
    skipped: tuple[int, ...]


def one_f_one_b_period(shape: PipelineShape) -> Period | None:
    """That of p micro-batches."""
    p = shape.ranks
    return _simple(shape, 2, tuple(p - 1 - rank for rank in range(p)))


def zb_h1_period(shape: PipelineShape) -> Period | None:
    """The same; gradients of weights begin in round r of rank r."""
    p = shape.ranks
    return _simple(shape, 3, tuple(p - 1 - 2 * rank for rank in range(p)))


def _simple(shape: PipelineShape, passes: int, skipped: tuple[int, ...]) -> Period | None:
    p, m = shape.ranks, shape.micro_batches
    few = 3 * p + (m - 3 * p) % p
    return Period(few, p, p, passes, few - (p - 1) - 2 * p, skipped) if few < m else None


def interleaved_period(shape: PipelineShape) -> Period | None:
    """That of a group of micro-batches in all chunks; both periods lie in whole groups."""
    p, m, v = shape.ranks, shape.micro_batches, shape.chunks
    group = shape.group or p
    rounds, ahead = group * v, 2 * (p - 1) + (v - 1) * group
    groups = 2 - (-ahead // rounds)
    few = groups * group + m % group
    skipped = tuple(ahead - 2 * rank for rank in range(p))
    return Period(few, group, rounds, 2, (groups - 2) * rounds - ahead, skipped) if few < m else None


def dualpipe_period(shape: PipelineShape) -> Period | None:
    """That of p micro-batches, half of them from each end."""
    half = shape.ranks // 2
    depth = [min(rank, shape.ranks - 1 - rank) for rank in range(shape.ranks)]
    return _two_streams(shape, half, 2, depth)


def dualpipe_v_period(shape: PipelineShape) -> Period | None:
    """The same in the V shape."""
    return _two_streams(shape, shape.ranks, 1, list(range(shape.ranks)))


def _two_streams(shape: PipelineShape, half: int, streams: int, depth: list[int]) -> Period | None:
    """Rounds of the steady part, four passes each.

    Args:
        half: ranks from the end where a stream enters to where streams turn or meet.
        streams: that micro-batches are shared out to.
        depth: ranks between each one and that end.
    """
    m, batches = shape.micro_batches, half * streams
    few = 5 * batches + m % batches
    before = [5 * (half - one - 1) + 2 * (one + 1) for one in depth]
    skipped = tuple(passes - 4 * rank for rank, passes in enumerate(before))
    return Period(few, batches, half, 4, few // streams - 4 * half + 1, skipped) if few < m else None


def grown(period: Period, micro_batches: int) -> Period | None:
    """The same behind about twice as many micro-batches; None: that is all there are."""
    more = -(-period.few // period.batches)
    few = period.few + more * period.batches
    return replace(period, few=few, first=period.first + more * period.rounds) if few < micro_batches else None


def periods_compared(period: Period, start: Ints) -> tuple[Ints, Ints]:
    """Places of the passes of two periods, the second right behind the first; int64[ranks, rounds of both] each.

    Args:
        start: int64[p + 1], where the passes of each rank begin.
    """
    ranks, length = np.arange(len(period.skipped)), period.rounds * period.passes
    begin = start[:-1] + np.array(period.skipped) + period.passes * (period.first + ranks)
    first = begin[:, None] + np.arange(length)
    return first, first + length


def shift_of(period: Period, orders: PassOrders, line: PipelineTimeline) -> int | None:
    """D in ticks: by how much all ends of the second period are later than those of the first; None: it varies.

    Args:
        orders, line: of `few` micro-batches.
    """
    first, second = periods_compared(period, orders.start)
    later = line.ends[second] - line.ends[first]
    shift = int(later[0, 0])
    return shift if (later == shift).all() else None
