"""DualPipe (DeepSeek-V3, arXiv:2412.19437, section 3.2.1) and its V shape: micro-batches flow both ways at once.

In DualPipe every rank holds two stages of the model, r and p-1-r: the model is held twice, and half of the
micro-batches enter at each end. In the V shape the model has 2p stages, of which rank r holds r and 2p-1-r.
In both a rank sees two streams: 0, which enters at the nearer end, and 1, which comes back or from the other end.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from topoopt.core.arrays import Int32s, Ints
from topoopt.core.parallelism import PipelineShape
from topoopt.simulate.pipeline.orders import BACKWARD, FORWARD, INPUTS, JOINED, WEIGHTS, PassOrders


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


class _Rank:
    """The passes of one rank as they are written down; streams: (stage, first micro-batch) of both on this rank."""

    def __init__(self, streams: list[tuple[int, int]]) -> None:
        self.passes: list[tuple[int, int, int]] = []
        self.waiting: deque[tuple[int, int]] = deque()
        self._streams, self._there, self._back = streams, [0, 0], [0, 0]

    def _next(self, done: list[int], s: int) -> tuple[int, int]:
        stage, first = self._streams[s]
        done[s] += 1
        return first + done[s] - 1, stage

    def forward(self, s: int, kind: int = FORWARD) -> None:
        """Of the next micro-batch of a stream."""
        self.passes.append((kind, *self._next(self._there, s)))

    def backward(self, s: int) -> None:
        """The same the other way."""
        self.passes.append((BACKWARD, *self._next(self._back, s)))

    def inputs(self, s: int) -> None:
        """The weights of this one wait in a queue."""
        self.waiting.append(self._next(self._back, s))
        self.passes.append((INPUTS, *self.waiting[-1]))

    def weights(self) -> None:
        """Of the one that waits longest."""
        self.passes.append((WEIGHTS, *self.waiting.popleft()))


def _passes(depth: Ints, half: int, m: int, streams: Ints) -> tuple[Ints, Int32s]:
    """Orders by eight steps.

    Args:
        depth: int64[p], ranks between each one and the end where its stream 0 enters.
        half: ranks from there to where the streams turn or meet.
        m: micro-batches of each stream.
        streams: int64[2, 2, p], stage and first micro-batch of both streams on each rank.
    """
    passes: list[tuple[int, int, int]] = []
    start = [0]
    for h, own in zip(depth.tolist(), streams.transpose(2, 0, 1).tolist(), strict=True):
        rank, rest = _Rank(own), half - h - 1
        for _ in range(2 * rest):  # 1
            rank.forward(0)
        for _ in range(h + 1):  # 2
            rank.forward(0)
            rank.forward(1)
        for _ in range(rest):  # 3
            rank.inputs(1)
            rank.weights()
            rank.forward(1)
        for i in range(m - 2 * half + h + 1):  # 4, the steady part
            rank.forward(0, FORWARD if i == 0 and rest == 0 else JOINED)
            rank.backward(1)
            rank.forward(1, JOINED)
            rank.backward(0)
        for _ in range(rest):  # 5
            rank.backward(1)
            rank.forward(1, JOINED)
            rank.backward(0)
        for i in range(2 * (h + 1)):  # 6: from the middle on, weights wait
            (rank.inputs if i >= h + 1 else rank.backward)(1 - i % 2)
        for _ in range(rest):  # 7
            rank.weights()
            rank.inputs(0)
        while rank.waiting:  # 8
            rank.weights()
        passes += rank.passes
        start.append(len(passes))
    return np.array(start, dtype=np.int64), np.array(passes, dtype=np.int32).reshape(-1, 3)
