"""Events of a task graph whose traffic has rates: a task is ready, sends, is done; alike ones in order of insertion."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.simulate.engine.queue import DETAIL, DETAIL_BITS, Queue, add, next_serial
from topoopt.simulate.engine.tasks import Tasks, compute
from topoopt.simulate.jit import piece
from topoopt.simulate.lower import TRANSFER

READY, SEND, DONE = 0, 1, 2


@piece
def event(q: Queue, at: float, t: int, what: int) -> None:
    """Add an event of a task."""
    add(q, at, (next_serial(q) << DETAIL_BITS) | (4 * t + what))


@piece
def announce(q: Queue, at: float, t: int) -> None:
    """A task is ready at that time."""
    event(q, at, t, READY)


@piece
def task_of(code: int) -> int:
    """Whose event it is."""
    return (code & DETAIL) >> 2


@piece
def what_of(code: int) -> int:
    """READY, SEND or DONE."""
    return code & 3


@piece
def begin_task(
    k: Tasks, q: Queue, kind: NDArray[np.int8], device: Int32s, duration: Floats, first_flow: Ints, t: int, at: float
) -> None:
    """A task is ready: it computes, and then sends if it has flows, first_flow[t]..first_flow[t+1]."""
    if kind[t] < TRANSFER:
        then = compute(k, t, device[t], duration[t], at)
    else:
        k.start[t] = at
        then = at + duration[t]
    event(q, then, t, SEND if first_flow[t] < first_flow[t + 1] else DONE)
