"""Zero-bubble orders under a limit of memory, by the greedy rounds of Qi et al. (arXiv:2401.10241, section 4).

After a warm-up that fills the memory or lasts until the first micro-batch comes back, each round does one forward and
one backward pass on every rank; gradients of weights fill the gaps before them, and are done early where memory is
short or where waiting would make this rank the one that idles most. Three switches, all eight ways tried, the one whose
slowest rank is done soonest kept.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.errors import InfeasibleError
from topoopt.core.pipeline import PipelineShape
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.pipeline.orders import FORWARD, INPUTS, WEIGHTS, PassOrders, in_a_line
from topoopt.simulate.pipeline.timeline import TickCosts, most_held, timed

F, B, W = 0, 1, 2
"""Rows of the tables below: forward, gradients of inputs, gradients of weights."""


class _Rounds(NamedTuple):
    """What the greedy rounds know.

    Attributes:
        cost: int64[3, p] ticks. transfer: ticks.
        adds: float64[3, p], memory that a pass takes, or gives back if negative.
        room: float64[p], limit of memory.
        done: int64[3, p], passes done. end: int64[p], of the last one. held: float64[p], memory. idle: int64[p].
        ended: int64[2, p, m], end of each pass F and B.
        order: int8[p, 3 m], kinds in the order in which they are done.
    """

    cost: Ints
    transfer: int
    adds: Floats
    room: Floats
    done: Ints
    end: Ints
    held: Floats
    idle: Ints
    ended: Ints
    order: Ints


def zero_bubble(shape: PipelineShape, ticks: TickCosts, adds: Floats, room: Floats) -> PassOrders:
    """The best of the eight ways.

    Args:
        shape: of one chunk a rank.
        ticks: costs of the stages.
        adds: float64[3, p], memory taken by F, B and W on each rank; B and W give back what F took.
        room: float64[p], limit of each rank.

    Raises:
        InfeasibleError: the memory is too small for the rounds.
    """
    m = shape.micro_batches
    best: PassOrders | None = None
    shortest = 0
    cost = np.ascontiguousarray(ticks.cost[[FORWARD, INPUTS, WEIGHTS]])
    for switches in itertools.product((True, False), repeat=3):
        kinds = _rounds(cost, ticks.transfer, adds, room, m, *switches)
        orders = in_a_line(shape, _passes(kinds), kinds.shape[1])
        if kinds.size and (most_held(orders, adds[F], -adds[W]) <= room).all():
            span = int(timed(orders, ticks).spans.max())
            if best is None or span < shortest:
                best, shortest = orders, span
    if best is None:
        raise InfeasibleError("zero-bubble schedules: the memory holds too few micro-batches on a rank")
    return best


@kernel
def _passes(kinds: Ints) -> Int32s:  # pragma: no cover - compiled
    ranks, length = kinds.shape
    passes = np.empty((ranks * length, 3), dtype=np.int32)
    names = (FORWARD, INPUTS, WEIGHTS)
    for rank in range(ranks):
        done = np.zeros(3, dtype=np.int64)
        for place in range(length):
            kind = kinds[rank, place]
            row = passes[rank * length + place]
            row[0], row[1], row[2] = names[kind], done[kind], rank
            done[kind] += 1
    return passes


@piece
def _arrival(s: _Rounds, kind: int, j: int) -> int:  # pragma: no cover - compiled
    """When what the next pass of a kind waits for has come; 0: it waits for nobody."""
    i = s.done[kind, j]
    if kind == F and j > 0:
        return int(s.ended[F, j - 1, i]) + s.transfer
    if kind == B and j + 1 < s.cost.shape[1]:
        return int(s.ended[B, j + 1, i]) + s.transfer
    return 0


@piece
def _do(s: _Rounds, kind: int, j: int) -> None:  # pragma: no cover - compiled
    """The next pass of a kind on rank j, as early as can be."""
    i = s.done[kind, j]
    begin = max(s.end[j], _arrival(s, kind, j))
    if s.done[F, j] > 0:
        s.idle[j] += begin - s.end[j]
    s.end[j] = begin + s.cost[kind, j]
    if kind != W:
        s.ended[kind, j, i] = s.end[j]
    s.held[j] += s.adds[kind, j]
    s.order[j, s.done[F, j] + s.done[B, j] + s.done[W, j]] = kind
    s.done[kind, j] += 1


@piece
def _warm_up(s: _Rounds, m: int, overlap_first: bool) -> None:  # pragma: no cover - compiled
    """The first micro-batch, and as many more forward passes as fit before it comes back."""
    p = s.cost.shape[1]
    for j in range(p):
        _do(s, F, j)
    more = np.zeros(p, dtype=np.int64)
    back = s.ended[F, p - 1, 0] + s.cost[B, p - 1]
    for j in range(p - 2, -1, -1):
        held, end = s.held[j], s.end[j]
        while s.done[F, j] + more[j] < m and held + s.adds[F, j] <= s.room[j]:
            if (end + s.cost[F, j] > back + s.transfer) if overlap_first else (end >= back + s.transfer):
                break
            held += s.adds[F, j]
            end += s.cost[F, j]
            more[j] += 1
        back = max(end, back + s.transfer) + s.cost[B, j]
    for j in range(1, p):
        while more[j] > 0 and more[j] >= more[j - 1] and s.done[F, j] + more[j] < m:
            more[j] -= 1
        more[j] = min(more[j], more[j - 1])  # what the rank before does not send cannot be done
    for j in range(p):
        for _ in range(more[j]):
            _do(s, F, j)
    for j in range(p - 1, -1, -1):
        _do(s, B, j)


@piece
def _may_forward(s: _Rounds, j: int, backward_first: bool) -> bool:  # pragma: no cover - compiled
    """Whether rank j does a forward pass in this round, or leaves it for the sake of the backward pass."""
    if j + 1 >= s.cost.shape[1] or not backward_first or s.done[F, j] < s.done[F, j + 1] + 2:
        return True
    behind = s.end[j + 1] + s.cost[F, j + 1] + s.cost[B, j + 1] + s.transfer
    if s.end[j] >= behind:
        return False
    spent, count, held = np.int64(0), 0, s.held[j] + s.adds[F, j]
    while held > s.room[j] and s.done[W, j] + count < s.done[B, j]:
        spent += s.cost[W, j]
        held += s.adds[W, j]
        count += 1
    if s.end[j] + s.cost[F, j] + spent <= behind:
        return True
    return bool(behind - s.end[j] > s.idle.max() - s.idle[j])


@piece
def _fill(s: _Rounds, kind: int, j: int, greedy: bool) -> bool:  # pragma: no cover - compiled
    """Gradients of weights before the next pass of a kind: for memory, then in its gap; whether memory suffices."""
    while s.held[j] + s.adds[kind, j] > s.room[j]:
        if s.done[W, j] >= s.done[B, j]:
            return False
        _do(s, W, j)
    arrival = _arrival(s, kind, j)
    while s.done[W, j] < s.done[B, j] and s.end[j] + s.cost[W, j] <= arrival:
        _do(s, W, j)
    late = greedy or arrival - s.end[j] > s.idle.max() - s.idle[j]
    if late and s.done[W, j] < s.done[B, j] and s.end[j] < arrival:
        _do(s, W, j)
    return True


@kernel
def _rounds(
    cost: Ints,
    transfer: int,
    adds: Floats,
    room: Floats,
    m: int,
    overlap_first: bool,
    backward_first: bool,
    greedy: bool,
) -> Ints:  # pragma: no cover - compiled
    """int8[p, 3 m], kinds of passes in order; of no size if memory does not suffice."""
    p = cost.shape[1]
    s = _Rounds(
        cost,
        transfer,
        adds,
        room,
        np.zeros((3, p), dtype=np.int64),
        np.zeros(p, dtype=np.int64),
        np.zeros(p),
        np.zeros(p, dtype=np.int64),
        np.zeros((2, p, m), dtype=np.int64),
        np.zeros((p, 3 * m), dtype=np.int8),
    )
    _warm_up(s, m, overlap_first)
    forward = np.zeros(p, dtype=np.bool_)
    for _ in range(1, m):
        for j in range(p):
            forward[j] = s.done[F, j] < m and _may_forward(s, j, backward_first)
        for j in range(p - 2, -1, -1):
            forward[j] = forward[j] and forward[j + 1]
        for j in range(p):
            if forward[j]:
                if not _fill(s, F, j, greedy):
                    return s.order[:, :0]
                _do(s, F, j)
        for j in range(p - 1, -1, -1):
            if not _fill(s, B, j, greedy):
                return s.order[:, :0]
            if j == 0 and s.done[F, 0] == m:
                while s.done[W, 0] < s.done[B, 0]:
                    _do(s, W, 0)
            _do(s, B, j)
    for j in range(p):
        while s.done[W, j] < m:
            _do(s, W, j)
    return s.order
