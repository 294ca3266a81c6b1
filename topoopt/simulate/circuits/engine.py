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

import numpy as np

from topoopt.simulate.circuits.state import (
    ACTIVE,
    BACKLOG,
    CARRIED,
    COUNT,
    DIRTY,
    DONE,
    FINISHED,
    HELD,
    NOW,
    OPEN,
    OPENS,
    RATED,
    READY,
    SEND,
    STAGE,
    State,
    next_stage,
    push_event,
)
from topoopt.simulate.circuits.wires import Wires, route
from topoopt.simulate.circuits.work import Work
from topoopt.simulate.insertion_heap import pop
from topoopt.simulate.jit import kernel
from topoopt.simulate.lower import TRANSFER
from topoopt.simulate.time_models.fluid_rates import max_min_rates

SIMULTANEOUS_MS = 1e-9


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
                push_event(s, s.end[t], t, DONE)
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
        push_event(s, s.clock[OPENS], t, SEND)
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
            push_event(s, at, then, READY)
    if w.chunk_ptr[t] < w.chunk_ptr[t + 1]:
        s.stage_left[w.stage[t]] -= 1
        next_stage(w, s)


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
                push_event(s, s.start[t] + w.duration[t], t, following)
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
