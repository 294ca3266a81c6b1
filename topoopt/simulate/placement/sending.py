"""Transfers of a step: when tensors are sent, what waits for what, and the rates they get."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.simulate.engine.queue import Queue, add
from topoopt.simulate.jit import piece
from topoopt.simulate.placement.arrays import ALONE, FAIR, STATIC
from topoopt.simulate.placement.rates import share_fairly
from topoopt.simulate.placement.state import (
    CHANGED,
    DONE,
    FINISHED,
    FLOWS,
    NOW,
    SENT,
    SOONEST,
    WAITING,
    Step,
    input_arrived,
)
from topoopt.simulate.placement.transfer_times import send_time


@piece
def producer(tensor_ptr: Ints, tensor: int) -> int:
    """Operator that makes a tensor."""
    low, high = 0, len(tensor_ptr) - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if tensor_ptr[middle] <= tensor:
            low = middle
        else:
            high = middle
    return low


@piece
def arrival_code(x: Step, way: int) -> int:
    """Event: a transfer has arrived. Lower codes are ends of operators."""
    return len(x.device) + way


@piece
def _begin_flow(x: Step, way: int, size: float, source: int, target: int) -> None:
    f = x.number[FLOWS]
    x.flows.transfer[f], x.flows.left[f], x.flows.out[f], x.flows.into[f] = way, size, source, target
    x.number[FLOWS] += 1
    x.number[CHANGED] = 1


@piece
def latency_over(x: Step, way: int) -> None:
    """A transfer of sharing FAIR begins to load links."""
    tensor = x.transfers.tensor[way]
    source = x.a.server[x.device[producer(x.a.tensor_ptr, tensor)]]
    _begin_flow(x, way, x.a.tensor_size[tensor], source, x.a.server[x.transfers.target[way]])


@piece
def _send(x: Step, q: Queue, way: int, source: int, size: float) -> None:
    """A transfer from a device begins, or waits."""
    y, now = x.transfers, x.clock[NOW]
    target = y.target[way]
    s, t = x.a.server[source], x.a.server[target]
    if s == t or size <= 0 or x.a.sharing == ALONE:
        add(q, now + send_time(x.a, size, source, target, x.rates), arrival_code(x, way))
    elif x.a.sharing != FAIR:
        queue = s * len(x.a.network) + t if x.a.sharing == STATIC else s
        y.after[way], y.first[queue] = y.first[queue], way
        x.number[WAITING] += 1
    elif x.a.alpha > 0:
        add(q, now + x.a.alpha, arrival_code(x, len(y.tensor) + way))
    else:
        _begin_flow(x, way, size, s, t)


@piece
def _send_tensor(x: Step, q: Queue, tensor: int, source: int) -> None:
    """To every other device with a consumer, once, with the priority of the first of them."""
    y, before = x.transfers, x.number[SENT]
    for u in range(x.a.user_ptr[tensor], x.a.user_ptr[tensor + 1]):
        j = x.a.user[u]
        target = x.device[j]
        if target == source:
            input_arrived(x, j)
        elif y.stamp[target] == tensor:
            way = y.slot[target]
            y.priority[way] = min(y.priority[way], x.priority[j])
        else:
            way = x.number[SENT]
            y.stamp[target], y.slot[target] = tensor, way
            y.tensor[way], y.target[way], y.priority[way] = tensor, target, x.priority[j]
            y.start[way] = x.clock[NOW]
            x.number[SENT] += 1
    for way in range(before, x.number[SENT]):
        _send(x, q, way, source, x.a.tensor_size[tensor])


@piece
def send_done(x: Step, q: Queue) -> None:
    """What ended just now sends its tensors."""
    while x.number[DONE] > 0:
        x.number[DONE] -= 1
        x.number[FINISHED] += 1
        i = x.done[x.number[DONE]]
        for tensor in range(x.a.tensor_ptr[i], x.a.tensor_ptr[i + 1]):
            _send_tensor(x, q, tensor, x.device[i])


@piece
def _precedes(x: Step, way: int, other: int) -> bool:
    """Whether a waiting transfer has the lower priority number, or at equal ones the lower number."""
    mine, its = x.transfers.priority[way], x.transfers.priority[other]
    return bool(mine < its or (mine == its and way < other))


@piece
def _start_first(x: Step, q: Queue, queue: int, way: int, before: int, rate: float) -> None:
    """Take a transfer, which stands after `before` (-1: first), from its queue, and let it go at that rate."""
    y = x.transfers
    if before < 0:
        y.first[queue] = y.after[way]
    else:
        y.after[before] = y.after[way]
    x.number[WAITING] -= 1
    y.start[way] = x.clock[NOW]
    add(q, x.clock[NOW] + (x.a.alpha + x.a.tensor_size[y.tensor[way]] / rate), arrival_code(x, way))


@piece
def _start_pairs(x: Step, q: Queue) -> None:
    """STATIC: the first of each pair of servers that is free."""
    y, servers = x.transfers, len(x.a.network)
    for queue in range(len(y.first)):
        if y.first[queue] >= 0 and not y.pair_busy[queue]:
            best, best_before, previous, way = y.first[queue], -1, -1, y.first[queue]
            while way >= 0:
                if _precedes(x, way, best):
                    best, best_before = way, previous
                way, previous = y.after[way], way
            y.pair_busy[queue] = True
            _start_first(x, q, queue, best, best_before, x.rates[queue // servers, queue % servers])


@piece
def _start_ports(x: Step, q: Queue) -> None:
    """FIFO: as long as there are, the first of those whose way out and way in are free."""
    y = x.transfers
    while x.number[WAITING] > 0:
        best, best_before, best_queue = -1, -1, -1
        for queue in range(len(y.first)):
            way, previous = -1 if y.out_busy[queue] else y.first[queue], -1
            while way >= 0:
                if not y.in_busy[x.a.server[y.target[way]]] and (best < 0 or _precedes(x, way, best)):
                    best, best_before, best_queue = way, previous, queue
                way, previous = y.after[way], way
        if best < 0:
            return
        t = x.a.server[y.target[best]]
        y.out_busy[best_queue] = y.in_busy[t] = True
        _start_first(x, q, best_queue, best, best_before, min(x.a.network[best_queue], x.a.network[t]))


@piece
def start_transfers(x: Step, q: Queue) -> None:
    """Let what may begin now begin; rates anew where they are fair."""
    if x.number[WAITING] > 0:
        if x.a.sharing == STATIC:
            _start_pairs(x, q)
        else:
            _start_ports(x, q)
    if x.number[CHANGED]:
        share_fairly(x.flows.out, x.flows.into, x.number[FLOWS], x.a.network, x.flows.rate)
        x.number[CHANGED] = 0


@piece
def next_flow_end(x: Step) -> float:
    """When the first flow ends at the rates of now."""
    soonest = np.inf
    for f in range(x.number[FLOWS]):
        soonest = min(soonest, x.clock[NOW] + x.flows.left[f] / x.flows.rate[f])
    x.clock[SOONEST] = soonest
    return soonest


@piece
def let_flow(x: Step, q: Queue, at: float) -> float:
    """Time passes until then; flows that end arrive."""
    y = x.flows
    span = at - x.clock[NOW]
    x.clock[NOW] = at
    kept = 0
    for f in range(x.number[FLOWS]):
        y.left[f] -= y.rate[f] * span
        if y.left[f] <= 1e-12 * at * y.rate[f] or (at == x.clock[SOONEST] and y.left[f] <= 0.0):
            add(q, at, arrival_code(x, y.transfer[f]))
            x.number[CHANGED] = 1
        else:
            y.transfer[kept], y.left[kept], y.rate[kept] = y.transfer[f], y.left[f], y.rate[f]
            y.out[kept], y.into[kept] = y.out[f], y.into[f]
            kept += 1
    x.number[FLOWS] = kept
    return at


@piece
def arrived(x: Step, way: int) -> None:
    """A transfer has arrived: what it held is free, its consumers have their input."""
    y = x.transfers
    y.end[way] = x.clock[NOW]
    target, tensor = y.target[way], y.tensor[way]
    if x.a.sharing not in (FAIR, ALONE):
        s, t = x.a.server[x.device[producer(x.a.tensor_ptr, tensor)]], x.a.server[target]
        if s != t and x.a.tensor_size[tensor] > 0:
            if x.a.sharing == STATIC:
                y.pair_busy[s * len(x.a.network) + t] = False
            else:
                y.out_busy[s] = y.in_busy[t] = False
    for u in range(x.a.user_ptr[tensor], x.a.user_ptr[tensor + 1]):
        if x.device[x.a.user[u]] == target:
            input_arrived(x, x.a.user[u])
