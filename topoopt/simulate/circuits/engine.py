"""Flow-level simulation of a task graph over wires that come and go (compiled).

* Compute tasks of a server run one after another, in order of readiness.
* The bytes of a transfer or of a ring member's share of an AllReduce are chunks; chunks of one queue go in order of
  arrival, a task is done when its last chunk has arrived.
* Queues share links max-min fairly (progressive filling). Rates are set anew when queues become busy or empty, at most
  once in `interval` ms; until then what ended leaves its share unused and what began waits. Where no link is shared
  a queue has its circuit's rate at once.
* In a schedule of stages, traffic of a later stage waits until all traffic of the earlier ones has arrived and the dark
  time before its stage is over.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoopt.simulate.circuits.wires import Wires, route
from topoopt.simulate.circuits.work import Work
from topoopt.simulate.fluid_rates import max_min_rates
from topoopt.simulate.insertion_heap import pop, push
from topoopt.simulate.jit import kernel
from topoopt.simulate.lower import TRANSFER

READY, SEND, DONE = 0, 1, 2
COUNT, SERIAL, ACTIVE, BACKLOG, FINISHED, HELD, STAGE, OPEN, DIRTY = range(9)
NOW, RATED, CARRIED, OPENS, DARK = range(5)

SIMULTANEOUS_MS = 1e-9


class State(NamedTuple):
    """Everything that changes; T tasks, C chunks, Q queues.

    Attributes:
        waiting: int32[T], predecessors not done; start, end: float64[T]; open_chunks: int64[T].
        device_free: float64[n].
        keys, order, values: the heap of events.
        left: float64[C], bytes to send; following: int64[C], next chunk of the queue or -1.
        front, back: int64[Q], first and last chunk of each queue, -1 where it is empty.
        backlog, served: float64[Q], bytes that wait and bytes sent.
        active: int64[Q], busy queues that have a route (the first number[ACTIVE]); rate: float64[Q].
        held: int64[T], tasks that wait for their stage; stage_left: int64[S], tasks with traffic not done.
        number: int64[9]; clock: float64[5], counters and times by the names above.
    """

    waiting: NDArray[np.int32]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    open_chunks: NDArray[np.int64]
    device_free: NDArray[np.float64]
    keys: NDArray[np.float64]
    order: NDArray[np.int64]
    values: NDArray[np.int64]
    left: NDArray[np.float64]
    following: NDArray[np.int64]
    front: NDArray[np.int64]
    back: NDArray[np.int64]
    backlog: NDArray[np.float64]
    served: NDArray[np.float64]
    active: NDArray[np.int64]
    rate: NDArray[np.float64]
    held: NDArray[np.int64]
    stage_left: NDArray[np.int64]
    number: NDArray[np.int64]
    clock: NDArray[np.float64]


@kernel
def begin(w: Work, queues: int, now: float) -> State:
    """The state before an iteration that begins at `now`, all wires dark."""
    tasks, chunks = len(w.kind), len(w.chunk_bytes)
    waiting = np.zeros(tasks, dtype=np.int32)
    for e in range(len(w.successor)):
        waiting[w.successor[e]] += 1
    stage_left = np.zeros(len(w.stage_delay), dtype=np.int64)
    for t in range(tasks):
        if w.chunk_ptr[t] < w.chunk_ptr[t + 1]:
            stage_left[w.stage[t]] += 1
    s = State(
        waiting,
        np.zeros(tasks),
        np.zeros(tasks),
        np.zeros(tasks, dtype=np.int64),
        np.full(w.servers, now),
        np.empty(tasks + 1),
        np.empty(tasks + 1, dtype=np.int64),
        np.empty(tasks + 1, dtype=np.int64),
        w.chunk_bytes.copy(),
        np.full(chunks, -1, dtype=np.int64),
        np.full(queues, -1, dtype=np.int64),
        np.full(queues, -1, dtype=np.int64),
        np.zeros(queues),
        np.zeros(queues),
        np.empty(queues, dtype=np.int64),
        np.zeros(queues),
        np.empty(tasks, dtype=np.int64),
        stage_left,
        np.zeros(9, dtype=np.int64),
        np.zeros(5),
    )
    s.clock[NOW] = now
    s.clock[RATED] = -np.inf
    s.clock[DARK] = w.stage_delay[0]
    s.clock[OPENS] = now + w.stage_delay[0]
    for t in range(tasks):
        if waiting[t] == 0:
            _push(s, now, t, READY)
    _next_stage(w, s)
    return s


@kernel
def _push(s: State, at: float, t: int, what: int) -> None:
    s.number[COUNT] = push(s.keys, s.order, s.values, s.number[COUNT], at, s.number[SERIAL], 3 * t + what)
    s.number[SERIAL] += 1


@kernel
def _next_stage(w: Work, s: State) -> None:
    """Go on to the first stage that has traffic left, and let in what was held for it."""
    stage = s.number[STAGE]
    moved = False
    while s.stage_left[stage] == 0 and stage + 1 < len(s.stage_left):
        stage += 1
        s.clock[OPENS] = max(s.clock[OPENS], s.clock[NOW]) + w.stage_delay[stage]
        s.clock[DARK] += w.stage_delay[stage]
        moved = True
    if not moved:
        return
    s.number[STAGE] = stage
    kept = 0
    for i in range(s.number[HELD]):
        t = s.held[i]
        if w.stage[t] <= stage:
            _push(s, max(s.clock[NOW], s.clock[OPENS]), t, SEND)
        else:
            s.held[kept] = t
            kept += 1
    s.number[HELD] = kept


@kernel
def _activate(s: State, x: Wires, q: int) -> None:
    if route(x, q, s.backlog[q]) == 0:
        return
    s.active[s.number[ACTIVE]] = q
    s.number[ACTIVE] += 1
    if x.shared:
        s.rate[q] = 0.0
        s.number[DIRTY] = 1
    else:
        s.rate[q] = x.link_rate[x.store[x.low[q]]]


@kernel
def light(s: State, x: Wires) -> None:
    """Wires carry from now on."""
    s.number[OPEN] = 1
    s.number[ACTIVE] = 0
    s.clock[RATED] = -np.inf
    for q in range(len(s.front)):
        if s.front[q] >= 0:
            _activate(s, x, q)


@kernel
def darken(s: State) -> None:
    """Nothing is carried from now on; what was not sent waits."""
    s.number[OPEN] = 0
    s.number[ACTIVE] = 0
    s.number[DIRTY] = 0


@kernel
def _enqueue(w: Work, s: State, x: Wires, c: int) -> None:
    q = w.chunk_queue[c]
    s.backlog[q] += w.chunk_bytes[c]
    if s.front[q] >= 0:
        s.following[s.back[q]] = c
        s.back[q] = c
        return
    s.front[q] = s.back[q] = c
    s.number[BACKLOG] += 1
    if s.number[OPEN] == 1:
        _activate(s, x, q)


@kernel
def _serve(w: Work, s: State, x: Wires, span: float, slack: float) -> None:
    """Send for `span` ms; chunks that end within `slack` are done."""
    kept = 0
    for i in range(s.number[ACTIVE]):
        q = s.active[i]
        c = s.front[q]
        hops = x.high[q] - x.low[q]
        amount = min(s.rate[q] * span, s.left[c])
        if s.rate[q] > 0.0 and s.left[c] - amount <= s.rate[q] * slack:
            amount = s.left[c]
        s.left[c] -= amount
        s.backlog[q] -= amount
        s.served[q] += amount
        s.clock[CARRIED] += amount * hops
        if s.left[c] <= 0.0:
            t = w.chunk_task[c]
            s.end[t] = max(s.end[t], s.clock[NOW] + w.hop_ms[t] * hops)
            s.open_chunks[t] -= 1
            if s.open_chunks[t] == 0:
                _push(s, s.end[t], t, DONE)
            s.front[q] = s.following[c]
            if s.front[q] < 0:
                s.backlog[q] = 0.0
                s.number[BACKLOG] -= 1
                if x.shared:
                    s.number[DIRTY] = 1
                continue
        s.active[kept] = q
        kept += 1
    s.number[ACTIVE] = kept


@kernel
def _send(w: Work, s: State, x: Wires, t: int, at: float) -> None:
    if w.stage[t] > s.number[STAGE]:
        s.held[s.number[HELD]] = t
        s.number[HELD] += 1
    elif at < s.clock[OPENS]:
        _push(s, s.clock[OPENS], t, SEND)
    else:
        s.end[t] = at
        s.open_chunks[t] = w.chunk_ptr[t + 1] - w.chunk_ptr[t]
        for c in range(w.chunk_ptr[t], w.chunk_ptr[t + 1]):
            _enqueue(w, s, x, c)


@kernel
def _done(w: Work, s: State, t: int, at: float) -> None:
    s.end[t] = at
    s.number[FINISHED] += 1
    for e in range(w.successor_ptr[t], w.successor_ptr[t + 1]):
        then = w.successor[e]
        s.waiting[then] -= 1
        if s.waiting[then] == 0:
            _push(s, at, then, READY)
    if w.chunk_ptr[t] < w.chunk_ptr[t + 1]:
        s.stage_left[w.stage[t]] -= 1
        _next_stage(w, s)


@kernel
def _upcoming(s: State, interval: float) -> float:
    upcoming = s.keys[0] if s.number[COUNT] > 0 else np.inf
    now = s.clock[NOW]
    for i in range(s.number[ACTIVE]):
        q = s.active[i]
        if s.rate[q] > 0.0:
            upcoming = min(upcoming, now + s.left[s.front[q]] / s.rate[q])
    if s.number[DIRTY] == 1:
        upcoming = min(upcoming, max(now, s.clock[RATED] + interval))
    return upcoming


@kernel
def advance(w: Work, s: State, x: Wires, until: float, interval: float, until_busy: bool) -> None:
    """Go on to `until`, to the end of all that can happen, or (`until_busy`) until bytes wait."""
    while True:
        upcoming = _upcoming(s, interval)
        if upcoming == np.inf and until == np.inf:
            return
        if upcoming > until:
            span = max(0.0, until - s.clock[NOW])
            s.clock[NOW] = max(s.clock[NOW], until)
            _serve(w, s, x, span, 0.0)
            return
        span = max(0.0, upcoming - s.clock[NOW])
        s.clock[NOW] = max(s.clock[NOW], upcoming)
        slack = SIMULTANEOUS_MS + 1e-12 * s.clock[NOW]
        _serve(w, s, x, span, slack)
        while s.number[COUNT] > 0 and s.keys[0] <= s.clock[NOW] + slack:
            at = s.keys[0]
            t = s.values[0] // 3
            what = s.values[0] % 3
            s.number[COUNT] = pop(s.keys, s.order, s.values, s.number[COUNT])
            if what == READY:
                s.start[t] = at
                if w.kind[t] < TRANSFER:
                    s.start[t] = max(at, s.device_free[w.source[t]])
                    s.device_free[w.source[t]] = s.start[t] + w.duration[t]
                following = SEND if w.chunk_ptr[t] < w.chunk_ptr[t + 1] else DONE
                _push(s, s.start[t] + w.duration[t], t, following)
            elif what == SEND:
                _send(w, s, x, t, at)
            else:
                _done(w, s, t, at)
        if s.number[DIRTY] == 1 and s.clock[NOW] >= s.clock[RATED] + interval:
            max_min_rates(s.active[: s.number[ACTIVE]], x.low, x.high, x.store, x.link_rate, s.rate)
            s.number[DIRTY] = 0
            s.clock[RATED] = s.clock[NOW]
        if until_busy and s.number[BACKLOG] > 0:
            return
