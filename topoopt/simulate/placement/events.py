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
from numpy.typing import NDArray

from topoopt.simulate.engine.queue import pop, push
from topoopt.simulate.jit import kernel
from topoopt.simulate.placement.arrays import ALONE, FAIR, STATIC, PlacementArrays
from topoopt.simulate.placement.rates import share_fairly

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def send_time(a: PlacementArrays, size: float, source: int, target: int, rates: Floats) -> float:
    """Time of a transfer between two devices when nothing else is sent; inf if its pair of servers has no rate."""
    if source == target:
        return 0.0
    s, t = a.server[source], a.server[target]
    if s == t:
        return float(a.alpha_inside + size / a.inside[s] if size > 0 else a.alpha_inside)
    if size <= 0:
        return a.alpha
    rate = rates[s, t] if a.sharing == STATIC else min(a.network[s], a.network[t])
    return float(a.alpha + size / rate)


@kernel
def tails(a: PlacementArrays, device: Ints, rates: Floats) -> Floats:
    """float64[n], longest path from the start of each operator to the end, with transfers as if each were alone."""
    n = len(device)
    tail = np.zeros(n, dtype=np.float64)
    for at in range(n - 1, -1, -1):
        i = a.topo[at]
        longest = 0.0
        d = device[i]
        for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
            size = a.tensor_size[tensor]
            for u in range(a.user_ptr[tensor], a.user_ptr[tensor + 1]):
                j = a.user[u]
                way = tail[j]
                if device[j] != d:
                    way += send_time(a, size, d, device[j], rates)
                longest = max(longest, way)
        tail[i] = longest + a.time[i, d]
    return tail


@kernel
def simulate(
    a: PlacementArrays, device: Ints, priority: Floats, tail: Floats, rates: Floats, limit: float
) -> tuple[float, Floats, Floats, int, Ints, Ints, Floats, Floats]:
    """(makespan, start[n], end[n], transfers, tensor[], target[], start[], end[] of transfers); inf beyond `limit`.

    `tail` is a lower bound on the time from each operator's start to the end of the step, to give up early.
    """
    n, k, servers = len(device), len(a.room), len(a.network)
    start, end = np.full(n, -1.0), np.full(n, -1.0)
    need = a.needs.copy()
    count_on = np.zeros(k + 1, dtype=np.int64)
    for i in range(n):
        count_on[device[i] + 1] += 1
    offset = np.cumsum(count_on)
    ready_key, ready_value = np.empty(n, dtype=np.float64), np.empty(n, dtype=np.int64)
    ready_count = np.zeros(k, dtype=np.int64)
    running = np.full(k, -1, dtype=np.int64)
    most = 0
    for tensor in range(len(a.tensor_size)):
        most += min(a.user_ptr[tensor + 1] - a.user_ptr[tensor], k - 1)
    way_tensor, way_target = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    way_start, way_end = np.empty(most, dtype=np.float64), np.full(most, -1.0)
    way_priority = np.empty(most, dtype=np.float64)
    ways = 0
    stamp, slot = np.full(k, -1, dtype=np.int64), np.zeros(k, dtype=np.int64)
    keys, values = np.empty(n + 2 * most + 1, dtype=np.float64), np.empty(n + 2 * most + 1, dtype=np.int64)
    events = 0
    # waiting transfers, a linked list for each queue: a server's way out, or a pair of servers
    queues = servers * servers if a.sharing == STATIC else servers
    first, after = np.full(queues, -1, dtype=np.int64), np.full(most, -1, dtype=np.int64)
    waiting = 0
    out_busy, in_busy = np.zeros(servers, dtype=np.bool_), np.zeros(servers, dtype=np.bool_)
    pair_busy = np.zeros(queues, dtype=np.bool_)
    # fair: what is under way
    flow, left, flow_rate = np.empty(most, dtype=np.int64), np.empty(most), np.empty(most)
    flow_out, flow_in = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    flows = 0
    changed = False
    done, done_count = np.empty(n, dtype=np.int64), 0
    now, finished = 0.0, 0
    for i in range(n):
        if need[i] == 0:
            if a.time[i, device[i]] == 0.0:
                done[done_count] = i
                done_count += 1
                start[i] = end[i] = 0.0
            else:
                d = device[i]
                o = offset[d]
                ready_count[d] = push(
                    ready_key[o : offset[d + 1]], ready_value[o : offset[d + 1]], ready_count[d], priority[i], i
                )
    while True:
        # what ended just now sends its tensors
        while done_count > 0:
            done_count -= 1
            i = done[done_count]
            finished += 1
            d = device[i]
            for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
                size = a.tensor_size[tensor]
                before = ways
                for u in range(a.user_ptr[tensor], a.user_ptr[tensor + 1]):
                    j = a.user[u]
                    e = device[j]
                    if e == d:
                        need[j] -= 1
                        if need[j] == 0:
                            if a.time[j, e] == 0.0:
                                start[j] = end[j] = now
                                done[done_count] = j
                                done_count += 1
                            else:
                                o = offset[e]
                                ready_count[e] = push(
                                    ready_key[o : offset[e + 1]],
                                    ready_value[o : offset[e + 1]],
                                    ready_count[e],
                                    priority[j],
                                    j,
                                )
                    elif stamp[e] == tensor:
                        way_priority[slot[e]] = min(way_priority[slot[e]], priority[j])
                    else:
                        stamp[e], slot[e] = tensor, ways
                        way_tensor[ways], way_target[ways], way_priority[ways] = tensor, e, priority[j]
                        way_start[ways] = now
                        ways += 1
                for way in range(before, ways):
                    e = way_target[way]
                    s, t = a.server[d], a.server[e]
                    if s == t or size <= 0 or a.sharing == ALONE:
                        events = push(keys, values, events, now + send_time(a, size, d, e, rates), n + way)
                    elif a.sharing == FAIR:
                        if a.alpha > 0:
                            events = push(keys, values, events, now + a.alpha, n + most + way)
                        else:
                            flow[flows], left[flows], flow_out[flows], flow_in[flows] = way, size, s, t
                            flows += 1
                            changed = True
                    else:
                        queue = s * servers + t if a.sharing == STATIC else s
                        after[way], first[queue] = first[queue], way
                        waiting += 1
        # devices
        for d in range(k):
            if running[d] < 0 and ready_count[d] > 0:
                o = offset[d]
                i = ready_value[o]
                ready_count[d] = pop(ready_key[o : offset[d + 1]], ready_value[o : offset[d + 1]], ready_count[d])
                running[d] = i
                start[i] = now
                if now + tail[i] > limit:
                    return np.inf, start, end, ways, way_tensor, way_target, way_start, way_end
                events = push(keys, values, events, now + a.time[i, d], i)
        # queues of transfers
        if waiting > 0:
            if a.sharing == STATIC:
                for queue in range(queues):
                    if first[queue] >= 0 and not pair_busy[queue]:
                        best, best_before = _least(first[queue], after, way_priority)
                        if best_before < 0:
                            first[queue] = after[best]
                        else:
                            after[best_before] = after[best]
                        waiting -= 1
                        pair_busy[queue] = True
                        way_start[best] = now
                        s, t = queue // servers, queue % servers
                        duration = a.alpha + a.tensor_size[way_tensor[best]] / rates[s, t]
                        events = push(keys, values, events, now + duration, n + best)
            else:
                while waiting > 0:
                    best, best_before, best_queue = -1, -1, -1
                    for queue in range(servers):
                        if out_busy[queue]:
                            continue
                        way, previous = first[queue], -1
                        while way >= 0:
                            if not in_busy[a.server[way_target[way]]] and (
                                best < 0
                                or way_priority[way] < way_priority[best]
                                or (way_priority[way] == way_priority[best] and way < best)
                            ):
                                best, best_before, best_queue = way, previous, queue
                            way, previous = after[way], way
                    if best < 0:
                        break
                    if best_before < 0:
                        first[best_queue] = after[best]
                    else:
                        after[best_before] = after[best]
                    waiting -= 1
                    t = a.server[way_target[best]]
                    out_busy[best_queue] = in_busy[t] = True
                    way_start[best] = now
                    duration = a.alpha + a.tensor_size[way_tensor[best]] / min(a.network[best_queue], a.network[t])
                    events = push(keys, values, events, now + duration, n + best)
        if changed:
            share_fairly(flow_out, flow_in, flows, a.network, flow_rate)
            changed = False
        soonest = np.inf
        for f in range(flows):
            soonest = min(soonest, now + left[f] / flow_rate[f])
        upcoming = min(soonest, keys[0] if events > 0 else np.inf)
        if upcoming == np.inf:
            break
        step, now = upcoming - now, upcoming
        if flows > 0:
            kept = 0
            for f in range(flows):
                left[f] -= flow_rate[f] * step
                if left[f] <= 1e-12 * now * flow_rate[f] or (upcoming == soonest and left[f] <= 0.0):
                    events = push(keys, values, events, now, n + flow[f])
                    changed = True
                else:
                    flow[kept], left[kept], flow_rate[kept] = flow[f], left[f], flow_rate[f]
                    flow_out[kept], flow_in[kept] = flow_out[f], flow_in[f]
                    kept += 1
            flows = kept
        while events > 0 and keys[0] == now:
            code = values[0]
            events = pop(keys, values, events)
            if code < n:
                end[code] = now
                running[device[code]] = -1
                done[done_count] = code
                done_count += 1
            elif code < n + most:
                way = code - n
                way_end[way] = now
                e, tensor = way_target[way], way_tensor[way]
                if a.sharing not in (FAIR, ALONE):
                    i = _producer(a.tensor_ptr, tensor)
                    s, t = a.server[device[i]], a.server[e]
                    if s != t and a.tensor_size[tensor] > 0:
                        if a.sharing == STATIC:
                            pair_busy[s * servers + t] = False
                        else:
                            out_busy[s] = in_busy[t] = False
                for u in range(a.user_ptr[tensor], a.user_ptr[tensor + 1]):
                    j = a.user[u]
                    if device[j] == e:
                        need[j] -= 1
                        if need[j] == 0:
                            if a.time[j, e] == 0.0:
                                start[j] = end[j] = now
                                done[done_count] = j
                                done_count += 1
                            else:
                                o = offset[e]
                                ready_count[e] = push(
                                    ready_key[o : offset[e + 1]],
                                    ready_value[o : offset[e + 1]],
                                    ready_count[e],
                                    priority[j],
                                    j,
                                )
            else:
                way = code - n - most
                e = way_target[way]
                flow[flows], left[flows] = way, a.tensor_size[way_tensor[way]]
                flow_out[flows] = a.server[device[_producer(a.tensor_ptr, way_tensor[way])]]
                flow_in[flows] = a.server[e]
                flows += 1
                changed = True
    if finished < n:  # a transfer without a rate never ends
        return np.inf, start, end, ways, way_tensor, way_target, way_start, way_end
    return now, start, end, ways, way_tensor, way_target, way_start, way_end


@kernel
def _least(way: int, after: Ints, priority: Floats) -> tuple[int, int]:
    """The waiting transfer of least priority number (then of least number), and the one before it in the list or -1."""
    best, best_before, previous = way, -1, -1
    while way >= 0:
        if priority[way] < priority[best] or (priority[way] == priority[best] and way < best):
            best, best_before = way, previous
        way, previous = after[way], way
    return best, best_before


@kernel
def _producer(tensor_ptr: Ints, tensor: int) -> int:
    """Operator that makes a tensor."""
    low, high = 0, len(tensor_ptr) - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if tensor_ptr[middle] <= tensor:
            low = middle
        else:
            high = middle
    return low


@kernel
def makespan(a: PlacementArrays, device: Ints, rates: Floats, limit: float) -> float:
    """Makespan with longest tails first; inf as soon as it is known to pass `limit`."""
    tail = tails(a, device, rates)
    return float(simulate(a, device, -tail, tail, rates, limit)[0])


@kernel
def in_order(a: PlacementArrays, device: Ints, order: Ints, rates: Floats) -> tuple[float, Floats, Floats]:
    """(makespan, start[n], end[n]) of operators run in a given order (producers first), nothing contending."""
    n = len(device)
    start, end, ready = np.zeros(n), np.zeros(n), np.zeros(n)
    free = np.zeros(len(a.room))
    last = 0.0
    for at in range(n):
        i = order[at]
        d = device[i]
        time = a.time[i, d]
        start[i] = max(ready[i], free[d]) if time > 0 else ready[i]
        end[i] = start[i] + time
        if time > 0:
            free[d] = end[i]
        last = max(last, end[i])
        for tensor in range(a.tensor_ptr[i], a.tensor_ptr[i + 1]):
            for u in range(a.user_ptr[tensor], a.user_ptr[tensor + 1]):
                j = a.user[u]
                arrives = end[i] + send_time(a, a.tensor_size[tensor], d, device[j], rates)
                ready[j] = max(ready[j], arrives)
    return last, start, end
