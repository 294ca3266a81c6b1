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

from topoopt.simulate.circuits.state import (
    ACTIVE,
    BACKLOG,
    CARRIED,
    DIRTY,
    HELD,
    NOW,
    OPEN,
    OPENS,
    RATED,
    STAGE,
    State,
    next_stage,
)
from topoopt.simulate.circuits.wires import Wires, route
from topoopt.simulate.circuits.work import Work
from topoopt.simulate.engine.graph_events import DONE, READY, SEND, announce, begin_task, event, task_of, what_of
from topoopt.simulate.engine.loop import run
from topoopt.simulate.engine.max_min import max_min_rates
from topoopt.simulate.engine.queue import Queue
from topoopt.simulate.engine.tasks import release
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.time_models.fluid import TOGETHER


class Circuits(NamedTuple):
    """What the loop works on: rates are set at most once in `interval` ms; `until_busy`: go on until bytes wait."""

    work: Work
    state: State
    wires: Wires
    interval: float
    until_busy: bool


@piece
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


@piece
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


@piece
def _transmit(w: Work, s: State, x: Wires, q: Queue, until: float, slack: float) -> None:
    """Send until then; chunks that end within `slack` are done."""
    span = max(0.0, until - s.clock[NOW])
    s.clock[NOW] = max(s.clock[NOW], until)
    kept = 0
    for i in range(s.number[ACTIVE]):
        line = s.active[i]
        c = s.front[line]
        hops = x.high[line] - x.low[line]
        amount = min(s.rate[line] * span, s.left[c])
        if s.rate[line] > 0.0 and s.left[c] - amount <= s.rate[line] * slack:
            amount = s.left[c]
        s.left[c] -= amount
        s.backlog[line] -= amount
        s.served[line] += amount
        s.clock[CARRIED] += amount * hops
        if s.left[c] <= 0.0:
            t = w.chunk_task[c]
            s.tasks.end[t] = max(s.tasks.end[t], s.clock[NOW] + w.hop_ms[t] * hops)
            s.open_chunks[t] -= 1
            if s.open_chunks[t] == 0:
                event(q, s.tasks.end[t], t, DONE)
            s.front[line] = s.following[c]
            if s.front[line] < 0:
                s.backlog[line] = 0.0
                s.number[BACKLOG] -= 1
                if x.shared:
                    s.number[DIRTY] = 1
                continue
        s.active[kept] = line
        kept += 1
    s.number[ACTIVE] = kept


@piece
def _send(w: Work, s: State, x: Wires, q: Queue, t: int, at: float) -> None:
    if w.stage[t] > s.number[STAGE]:
        s.held[s.number[HELD]] = t
        s.number[HELD] += 1
    elif at < s.clock[OPENS]:
        event(q, s.clock[OPENS], t, SEND)
    else:
        s.tasks.end[t] = at
        s.open_chunks[t] = w.chunk_ptr[t + 1] - w.chunk_ptr[t]
        for c in range(w.chunk_ptr[t], w.chunk_ptr[t + 1]):
            _enqueue(w, s, x, c)


@piece
def _done(w: Work, s: State, q: Queue, t: int, at: float) -> None:
    release(s.tasks, q, w.successor_ptr, w.successor, t, at, announce)
    s.tasks.job_left[0] -= 1
    if w.chunk_ptr[t] < w.chunk_ptr[t + 1]:
        s.stage_left[w.stage[t]] -= 1
        next_stage(w, s, q)


@piece
def _next_change(c: Circuits) -> float:
    """When a chunk has been sent, or rates may be set."""
    s = c.state
    upcoming, now = np.inf, s.clock[NOW]
    for i in range(s.number[ACTIVE]):
        line = s.active[i]
        if s.rate[line] > 0.0:
            upcoming = min(upcoming, now + s.left[s.front[line]] / s.rate[line])
    if s.number[DIRTY] == 1:
        upcoming = min(upcoming, max(now, s.clock[RATED] + c.interval))
    return upcoming


@piece
def _serve(c: Circuits, q: Queue, at: float) -> float:
    slack = TOGETHER * max(c.state.clock[NOW], at)
    _transmit(c.work, c.state, c.wires, q, at, slack)
    return float(c.state.clock[NOW] + slack)


@piece
def _handle(c: Circuits, q: Queue, at: float, code: int) -> bool:
    w, t, what = c.work, task_of(code), what_of(code)
    if what == READY:
        begin_task(c.state.tasks, q, w.kind, w.source, w.duration, w.chunk_ptr, t, at)
    elif what == SEND:
        _send(w, c.state, c.wires, q, t, at)
    else:
        _done(w, c.state, q, t, at)
    return False


@piece
def _settle(c: Circuits, q: Queue) -> bool:
    """Rates anew, if they may be set; True: bytes wait, and that was asked for."""
    s, x = c.state, c.wires
    if s.number[DIRTY] == 1 and s.clock[NOW] >= s.clock[RATED] + c.interval:
        max_min_rates(s.active[: s.number[ACTIVE]], x.low, x.high, x.store, x.link_rate, s.rate)
        s.number[DIRTY] = 0
        s.clock[RATED] = s.clock[NOW]
    return c.until_busy and s.number[BACKLOG] > 0


@kernel
def advance(w: Work, s: State, x: Wires, until: float, interval: float, until_busy: bool) -> None:
    """Go on to `until`, to the end of all that can happen, or (`until_busy`) until bytes wait."""
    c = Circuits(w, s, x, interval, until_busy)
    upcoming = run(c, s.events, until, 1, _next_change, _serve, _handle, _settle)
    if until < upcoming:
        _transmit(w, s, x, s.events, until, 0.0)
