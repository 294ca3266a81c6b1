"""DualPipe (DeepSeek-V3, arXiv:2412.19437, section 3.2.1) and its V shape: micro-batches flow both ways at once.

In DualPipe every rank holds two stages of the model, r and p-1-r: the model is held twice, and half of the
micro-batches enter at each end. In the V shape the model has 2p stages, of which rank r holds r and 2p-1-r.
In both a rank sees two streams: 0, which enters at the nearer end, and 1, which comes back or from the other end.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Int32s, Ints
from topoopt.core.pipeline import PipelineShape
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.pipeline.orders import BACKWARD, FORWARD, INPUTS, JOINED, WEIGHTS, PassOrders, put


def dualpipe(shape: PipelineShape) -> PassOrders:
    """Both ends of the ranks enter micro-batches; p even, m even and at least 2p.

    Stages 0 to p-1 are the copy of the model that runs up the ranks, p to 2p-1 the one that runs down.
    """
    p, m = shape.ranks, shape.micro_batches
    ranks, numbers = np.arange(p), np.arange(2 * p)
    up, down = (ranks, 0 * ranks), (2 * p - 1 - ranks, 0 * ranks + m // 2)
    near = np.where(ranks < p // 2, (up, down), (down, up))
    before, after = numbers - 1, numbers + 1
    before[p], after[p - 1], after[-1] = -1, -1, -1
    start, passes = _passes(np.minimum(ranks, p - 1 - ranks), p // 2, m // 2, near)
    home = np.where(numbers < p, numbers, 2 * p - 1 - numbers)
    return PassOrders(start, passes, home, before, after, m, model_stages=p)


def dualpipe_v(shape: PipelineShape) -> PassOrders:
    """The V shape: two stages a rank; m at least 2p."""
    p, m = shape.ranks, shape.micro_batches
    ranks, numbers = np.arange(p), np.arange(2 * p)
    streams = np.array([(ranks, 0 * ranks), (2 * p - 1 - ranks, 0 * ranks)])
    start, passes = _passes(ranks, p, m, streams)
    home = np.minimum(numbers, 2 * p - 1 - numbers)
    return PassOrders(start, passes, home, numbers - 1, np.append(numbers[1:], -1), m, model_stages=2 * p)


@piece
def _forward(
    passes: Int32s, at: int, done: Ints, streams: Ints, rank: int, s: int, kind: int = FORWARD
) -> int:  # pragma: no cover - compiled
    i = done[0, s]
    done[0, s] += 1
    return put(passes, at, kind, streams[s, 1, rank] + i, streams[s, 0, rank])


@piece
def _backward(passes: Int32s, at: int, done: Ints, streams: Ints, rank: int, s: int) -> int:  # pragma: no cover
    i = done[1, s]
    done[1, s] += 1
    return put(passes, at, BACKWARD, streams[s, 1, rank] + i, streams[s, 0, rank])


@piece
def _inputs(
    passes: Int32s, at: int, done: Ints, streams: Ints, rank: int, s: int, waiting: Ints, ends: Ints
) -> int:  # pragma: no cover - compiled
    """The weights of this one wait in a queue."""
    waiting[ends[1], 0], waiting[ends[1], 1] = streams[s, 1, rank] + done[1, s], streams[s, 0, rank]
    ends[1] += 1
    done[1, s] += 1
    return put(passes, at, INPUTS, waiting[ends[1] - 1, 0], waiting[ends[1] - 1, 1])


@piece
def _weights(passes: Int32s, at: int, waiting: Ints, ends: Ints) -> int:  # pragma: no cover - compiled
    """Of the one that waits longest."""
    ends[0] += 1
    return put(passes, at, WEIGHTS, waiting[ends[0] - 1, 0], waiting[ends[0] - 1, 1])


@kernel
def _passes(depth: Ints, half: int, m: int, streams: Ints) -> tuple[Ints, Int32s]:  # pragma: no cover - compiled
    """Orders by eight steps.

    Args:
        depth: int64[p], ranks between each one and the end where its stream 0 enters.
        half: ranks from there to where the streams turn or meet.
        m: micro-batches of each stream.
        streams: int64[2, 2, p], stage and first micro-batch of both streams on each rank.
    """
    ranks = len(depth)
    passes = np.empty((ranks * 6 * m, 3), dtype=np.int32)
    start = np.zeros(ranks + 1, dtype=np.int64)
    at = 0
    for r in range(ranks):
        done, waiting, ends = np.zeros((2, 2), np.int64), np.empty((2 * m, 2), np.int64), np.zeros(2, np.int64)
        h, rest = depth[r], half - depth[r] - 1
        for _ in range(2 * rest):  # 1
            at = _forward(passes, at, done, streams, r, 0)
        for _ in range(h + 1):  # 2
            at = _forward(passes, at, done, streams, r, 0)
            at = _forward(passes, at, done, streams, r, 1)
        for _ in range(rest):  # 3
            at = _inputs(passes, at, done, streams, r, 1, waiting, ends)
            at = _weights(passes, at, waiting, ends)
            at = _forward(passes, at, done, streams, r, 1)
        for i in range(m - 2 * half + h + 1):  # 4, the steady part
            at = _forward(passes, at, done, streams, r, 0, FORWARD if i == 0 and rest == 0 else JOINED)
            at = _backward(passes, at, done, streams, r, 1)
            at = _forward(passes, at, done, streams, r, 1, JOINED)
            at = _backward(passes, at, done, streams, r, 0)
        for _ in range(rest):  # 5
            at = _backward(passes, at, done, streams, r, 1)
            at = _forward(passes, at, done, streams, r, 1, JOINED)
            at = _backward(passes, at, done, streams, r, 0)
        for i in range(2 * (h + 1)):  # 6: from the middle on, weights wait
            if i >= h + 1:
                at = _inputs(passes, at, done, streams, r, 1 - i % 2, waiting, ends)
            else:
                at = _backward(passes, at, done, streams, r, 1 - i % 2)
        for _ in range(rest):  # 7
            at = _weights(passes, at, waiting, ends)
            at = _inputs(passes, at, done, streams, r, 0, waiting, ends)
        while ends[0] < ends[1]:  # 8
            at = _weights(passes, at, waiting, ends)
        start[r + 1] = at
    return start, passes[:at]
