"""One step of a placed operator graph, by events: operators on devices, tensors between them.

* A device runs one operator at a time; of those whose inputs are there it takes the one of least priority number.
  Operators of zero time take no turn.
* A tensor is sent once to every other device with a consumer, when its producer ends. Devices of one server have a
  link of their own for each pair. Empty tensors arrive after the fixed latency and load no link.
* Between servers, by the sharing of the problem. FAIR: after the latency all transfers run at once, at max-min fair
  rates below what each server's links together carry, out and in. FIFO: a transfer holds the way out of one server
  and into the other for its latency and its bytes at the smaller of the two rates; of the waiting ones that could
  start the one of least priority number does. STATIC: as FIFO, but for each pair of servers alone, at its own rate.
  A transfer has the priority of its first consumer. ALONE: every transfer has the full rate of its two servers.

Events at the same time are all seen before anything new starts.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.engine.loop import run
from topoopt.simulate.engine.queue import Queue, new_queue
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.placement.arrays import PlacementArrays
from topoopt.simulate.placement.sending import (
    arrived,
    latency_over,
    let_flow,
    next_flow_end,
    send_done,
    start_transfers,
)
from topoopt.simulate.placement.state import (
    BEYOND,
    FINISHED,
    NOW,
    SENT,
    Step,
    became_ready,
    ended,
    new_step,
    start_operators,
)
from topoopt.simulate.placement.transfer_times import tails
from topoopt.simulate.views import borrowed


@piece
def _handle(x: Step, q: Queue, at: float, code: int) -> bool:
    n, most = len(x.device), len(x.transfers.tensor)
    if code < n:
        x.running[x.device[code]] = -1
        ended(x, code)
    elif code < n + most:
        arrived(x, code - n)
    else:
        latency_over(x, code - n - most)
    return False


@piece
def _settle(x: Step, q: Queue) -> bool:
    send_done(x, q)
    if not start_operators(x, q):
        x.number[BEYOND] = 1
        return True
    start_transfers(x, q)
    return False


@kernel
def simulate(
    a: PlacementArrays, device: Ints, priority: Floats, tail: Floats, rates: Floats, limit: float
) -> tuple[float, Floats, Floats, int, Ints, Ints, Floats, Floats]:
    """(makespan, start[n], end[n], transfers, tensor[], target[], start[], end[] of transfers); inf beyond `limit`.

    `tail` is a lower bound on the time from each operator's start to the end of the step, to give up early.
    """
    whole = new_step(a, device, priority, tail, rates, limit)
    x = borrowed(whole)
    n, y = len(device), whole.transfers
    events = new_queue(n + 2 * len(y.tensor) + 3)
    q = borrowed(events)
    for i in range(n):
        if x.need[i] == 0:
            became_ready(x, i)
    if not _settle(x, q):
        run(whole, events, np.inf, 1, next_flow_end, let_flow, _handle, _settle)
    over = x.number[BEYOND] == 1 or x.number[FINISHED] < n  # a transfer without a rate never ends
    makespan = np.inf if over else x.clock[NOW]
    return makespan, whole.start, whole.end, x.number[SENT], y.tensor, y.target, y.start, y.end


@kernel
def makespan(a: PlacementArrays, device: Ints, rates: Floats, limit: float) -> float:
    """Makespan with longest tails first; inf as soon as it is known to pass `limit`."""
    tail = tails(a, device, rates)
    return float(simulate(a, device, -tail, tail, rates, limit)[0])
