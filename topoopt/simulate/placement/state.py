"""State of a step of a placed graph while it is simulated, and operators on their devices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.simulate.engine.queue import Queue, add, pop, push
from topoopt.simulate.jit import piece
from topoopt.simulate.placement.arrays import STATIC, PlacementArrays

Flags = Bools

DONE, FINISHED, SENT, WAITING, FLOWS, CHANGED, BEYOND = range(7)
NOW, SOONEST = range(2)


class Transfers(NamedTuple):
    """W transfers at most, in the order they begin; S servers.

    Attributes:
        tensor, target: int64[W], the target a device; start, end, priority: float64[W].
        stamp, slot: int64[k], the tensor sent last to each device, and which transfer that is.
        first: int64[queues], after: int64[W]; linked lists of those that wait for a way out or a pair of servers.
        out_busy, in_busy: bool[S]; pair_busy: bool[queues].
    """

    tensor: Ints
    target: Ints
    start: Floats
    end: Floats
    priority: Floats
    stamp: Ints
    slot: Ints
    first: Ints
    after: Ints
    out_busy: Flags
    in_busy: Flags
    pair_busy: Flags


class PlacedFlows(NamedTuple):
    """Transfers under way at fair rates: number, bytes left, rate, and the servers they leave and enter."""

    transfer: Ints
    left: Floats
    rate: Floats
    out: Ints
    into: Ints


class Step(NamedTuple):
    """A step; operators i, devices d.

    Attributes:
        a, device, priority, tail, rates, limit: as given.
        start, end: float64[n], -1: not yet; need: int64[n], inputs that are not there.
        ready_key, ready_value: heaps of the operators that are ready, device d's from ready_ptr[d] to ready_ptr[d+1];
            ready_count: int64[k]; running: int64[k], -1: none.
        done: int64[n], operators that ended just now; number[DONE] of them.
        number: int64[7], clock: float64[2]; counters and times by the names above.
    """

    a: PlacementArrays
    device: Ints
    priority: Floats
    tail: Floats
    rates: Floats
    limit: float
    start: Floats
    end: Floats
    need: Ints
    ready_key: Floats
    ready_value: Ints
    ready_ptr: Ints
    ready_count: Ints
    running: Ints
    done: Ints
    transfers: Transfers
    flows: PlacedFlows
    number: Ints
    clock: Floats


@piece
def most_transfers(a: PlacementArrays) -> int:
    """A tensor is sent to every other device at most."""
    most = 0
    for tensor in range(len(a.tensor_size)):
        most += min(a.user_ptr[tensor + 1] - a.user_ptr[tensor], len(a.room) - 1)
    return most


@piece
def new_step(a: PlacementArrays, device: Ints, priority: Floats, tail: Floats, rates: Floats, limit: float) -> Step:
    """Before anything has started."""
    n, k, servers, most = len(device), len(a.room), len(a.network), most_transfers(a)
    on = np.zeros(k + 1, dtype=np.int64)
    for i in range(n):
        on[device[i] + 1] += 1
    queues = servers * servers if a.sharing == STATIC else servers
    transfers = Transfers(
        np.empty(most, dtype=np.int64),
        np.empty(most, dtype=np.int64),
        np.empty(most),
        np.full(most, -1.0),
        np.empty(most),
        np.full(k, -1, dtype=np.int64),
        np.zeros(k, dtype=np.int64),
        np.full(queues, -1, dtype=np.int64),
        np.full(most, -1, dtype=np.int64),
        np.zeros(servers, dtype=np.bool_),
        np.zeros(servers, dtype=np.bool_),
        np.zeros(queues, dtype=np.bool_),
    )
    flows = PlacedFlows(
        np.empty(most, dtype=np.int64),
        np.empty(most),
        np.empty(most),
        np.empty(most, dtype=np.int64),
        np.empty(most, dtype=np.int64),
    )
    return Step(
        a,
        device,
        priority,
        tail,
        rates,
        limit,
        np.full(n, -1.0),
        np.full(n, -1.0),
        a.needs.copy(),
        np.empty(n),
        np.empty(n, dtype=np.int64),
        np.cumsum(on),
        np.zeros(k, dtype=np.int64),
        np.full(k, -1, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        transfers,
        flows,
        np.zeros(7, dtype=np.int64),
        np.zeros(2),
    )


@piece
def ended(x: Step, i: int) -> None:
    """An operator ends now; its tensors are sent when all that ends now has ended."""
    x.end[i] = x.clock[NOW]
    x.done[x.number[DONE]] = i
    x.number[DONE] += 1


@piece
def became_ready(x: Step, i: int) -> None:
    """All inputs of an operator are there: it waits for its device, unless it takes no time."""
    d = x.device[i]
    if x.a.time[i, d] == 0.0:
        x.start[i] = x.clock[NOW]
        ended(x, i)
        return
    low, high = x.ready_ptr[d], x.ready_ptr[d + 1]
    keys, values = x.ready_key[low:high], x.ready_value[low:high]
    x.ready_count[d] = push(keys, values, x.ready_count[d], x.priority[i], i)


@piece
def input_arrived(x: Step, i: int) -> None:
    """One input more of an operator is on its device."""
    x.need[i] -= 1
    if x.need[i] == 0:
        became_ready(x, i)


@piece
def start_operators(x: Step, q: Queue) -> bool:
    """Let every idle device take the ready operator of least priority number; False: the limit cannot be met."""
    for d in range(len(x.running)):
        if x.running[d] < 0 and x.ready_count[d] > 0:
            low, high = x.ready_ptr[d], x.ready_ptr[d + 1]
            i = x.ready_value[low]
            x.ready_count[d] = pop(x.ready_key[low:high], x.ready_value[low:high], x.ready_count[d])
            x.running[d] = i
            x.start[i] = x.clock[NOW]
            if x.clock[NOW] + x.tail[i] > x.limit:
                return False
            add(q, x.clock[NOW] + x.a.time[i, d], i)
    return True
