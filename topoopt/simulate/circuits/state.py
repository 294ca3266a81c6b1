"""State of a simulation on changing circuits: tasks, queues, events, and the stages of a schedule (compiled)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.circuits.work import Work
from topoopt.simulate.engine.graph_events import SEND, announce, event
from topoopt.simulate.engine.queue import Queue, new_queue
from topoopt.simulate.engine.tasks import Tasks, announce_first, new_tasks
from topoopt.simulate.jit import kernel, piece

ACTIVE, BACKLOG, HELD, STAGE, OPEN, DIRTY = range(6)
NOW, RATED, CARRIED, OPENS, DARK = range(5)


class State(NamedTuple):
    """Everything that changes; T tasks, C chunks, Q queues of chunks.

    Attributes:
        tasks, events: of the engine; open_chunks: int64[T].
        left: float64[C], bytes to send; following: int64[C], next chunk of the queue or -1.
        front, back: int64[Q], first and last chunk of each queue, -1 where it is empty.
        backlog, served: float64[Q], bytes that wait and bytes sent.
        active: int64[Q], busy queues that have a route (the first number[ACTIVE]); rate: float64[Q].
        held: int64[T], tasks that wait for their stage; stage_left: int64[S], tasks with traffic not done.
        number: int64[6]; clock: float64[5], counters and times by the names above.
    """

    tasks: Tasks
    events: Queue
    open_chunks: Ints
    left: Floats
    following: Ints
    front: Ints
    back: Ints
    backlog: Floats
    served: Floats
    active: Ints
    rate: Floats
    held: Ints
    stage_left: Ints
    number: Ints
    clock: Floats


@piece
def next_stage(w: Work, s: State, q: Queue) -> None:
    """Go on to the first stage that has traffic left, and let in what was held for it."""
    stage = s.number[STAGE]
    while s.stage_left[stage] == 0 and stage + 1 < len(s.stage_left):
        stage += 1
        s.clock[OPENS] = max(s.clock[OPENS], s.clock[NOW]) + w.stage_delay[stage]
        s.clock[DARK] += w.stage_delay[stage]
    if stage == s.number[STAGE]:
        return
    s.number[STAGE] = stage
    kept = 0
    for i in range(s.number[HELD]):
        t = s.held[i]
        if w.stage[t] <= stage:
            event(q, max(s.clock[NOW], s.clock[OPENS]), t, SEND)
        else:
            s.held[kept] = t
            kept += 1
    s.number[HELD] = kept


@kernel
def begin(w: Work, queues: int, now: float) -> State:
    """The state before an iteration that begins at `now`, all wires dark."""
    tasks, chunks = len(w.kind), len(w.chunk_bytes)
    stage_left = np.zeros(len(w.stage_delay), dtype=np.int64)
    for t in range(tasks):
        if w.chunk_ptr[t] < w.chunk_ptr[t + 1]:
            stage_left[w.stage[t]] += 1
    s = State(
        new_tasks(w.successor, np.array([0, tasks]), w.servers, now),
        new_queue(tasks + 3),
        np.zeros(tasks, dtype=np.int64),
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
        np.zeros(6, dtype=np.int64),
        np.zeros(5),
    )
    s.clock[NOW] = now
    s.clock[RATED] = -np.inf
    s.clock[DARK] = w.stage_delay[0]
    s.clock[OPENS] = now + w.stage_delay[0]
    announce_first(s.tasks, s.events, 0, tasks, announce)
    next_stage(w, s, s.events)
    return s
