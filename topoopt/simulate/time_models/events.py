"""Event simulation of a task graph on a network: time models `rounds` (for figures) and `hop` (for proposals).

Both process traffic hop by hop: a segment asks for a link when it gets there, and a link serves requests in order of
arrival. This removes the error of the reference's segment model, which books all hops of a segment when it leaves.

* Compute tasks of a server run one after another, in order of readiness.
* A transfer is cut into segments (65 535 at most). The next segment leaves when the first link is free of the previous
  one; a segment goes on to the next link one hop latency after it starts (cut-through), and never ends there before it
  can have arrived.
* `rounds`: a ring AllReduce of S bytes over k servers, share f of it on a ring, is 2(k-1) rounds of f S / k bytes
  per member; a round starts when the slowest member of the previous one is done, plus the fixed cost of a round.
  Tensors under 9000 k bytes go in one step of the same bytes and the same total fixed cost. Segments of 256 KiB.
* `hop`: the bytes of all rounds in at most 8 segments of at least 1 MiB, the fixed costs added at the end.

All members of a ring are advanced in one event (their links are distinct arcs of the same step). Events at the same
time are taken in the order of their codes: task or flow number, step, hop, kind.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoopt.core.units import KIB, MIB
from topoopt.simulate.heap import pop, push, put
from topoopt.simulate.jit import kernel
from topoopt.simulate.lower import ALLREDUCE, TRANSFER, GraphArrays
from topoopt.simulate.network import Network

READY, SEGMENT, STEP = 0, 1, 2
KIND_BITS, HOP_BITS, STEP_BITS = 2, 10, 16
HOP_SHIFT = KIND_BITS
STEP_SHIFT = HOP_SHIFT + HOP_BITS
FLOW_SHIFT = STEP_SHIFT + STEP_BITS
MAX_STEPS = 1 << STEP_BITS
SMALL_TENSOR_BYTES_PER_MEMBER = 9000


class NetworkArrays(NamedTuple):
    """A network as kernels see it; fields as in `topoopt.simulate.network.Network`."""

    servers: int
    hop_latency: float
    round_latency: float
    link_rate: NDArray[np.float64]
    pair_ptr: NDArray[np.int64]
    path_share: NDArray[np.float64]
    path_ptr: NDArray[np.int64]
    path_link: NDArray[np.int32]
    group_size: NDArray[np.int32]
    group_ptr: NDArray[np.int64]
    ring_share: NDArray[np.float64]
    ring_ptr: NDArray[np.int64]
    member_ptr: NDArray[np.int64]
    member_link: NDArray[np.int32]


class Outcome(NamedTuple):
    """What one simulated iteration did.

    `time` is the iteration time, or infinity if it passed the threshold; per task `start`, `end` (-1: never ran)
    and `cause` (the task whose end let it start, -1 for none); per link `carried` bytes and `busy` ms.
    """

    time: float
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    cause: NDArray[np.int32]
    carried: NDArray[np.float64]
    busy: NDArray[np.float64]


def network_arrays(network: Network) -> NetworkArrays:
    """The arrays of a network, checked for the ranges the kernels rely on."""
    longest = int(np.diff(network.path_ptr).max(initial=0))
    longest = max(longest, int(np.diff(network.member_ptr).max(initial=0)))
    if longest >= 1 << HOP_BITS:
        raise ValueError(f"a path has {longest} hops, more than the simulator's {(1 << HOP_BITS) - 1}")
    return NetworkArrays(
        network.servers,
        float(network.hop_latency_ms),
        float(network.ring_round_latency_ms),
        network.link_rate,
        network.pair_ptr,
        network.path_share,
        network.path_ptr,
        network.path_link,
        network.group_size,
        network.group_ptr,
        network.ring_share,
        network.ring_ptr,
        network.member_ptr,
        network.member_link,
    )


@kernel
def simulate_events(g: GraphArrays, w: NetworkArrays, rounds: bool, threshold: float, record: bool) -> Outcome:
    """Simulate one iteration; stop early, with infinite time, once it is sure to exceed `threshold` ms.

    Link loads are only added up if `record`: a search does not need them.
    """
    whole = np.array([0, len(g.kind)], dtype=np.int64)
    return simulate_jobs(g, w, rounds, threshold, record, whole, False)[0]


@kernel
def simulate_jobs(
    g: GraphArrays,
    w: NetworkArrays,
    rounds: bool,
    threshold: float,
    record: bool,
    job_ptr: NDArray[np.int64],
    restart: bool,
) -> tuple[Outcome, NDArray[np.float64]]:
    """Simulate jobs until each has done one iteration; the tasks of job j are job_ptr[j]..job_ptr[j+1].

    With `restart`, a job that is done begins again at once (unless it took no time), until the last one has finished
    its first iteration; the outcome then tells of the last iteration begun. Also returns float64[jobs], the end of each
    first iteration (-1: none).
    """
    tasks = len(g.kind)
    jobs = len(job_ptr) - 1
    n = w.servers
    links = len(w.link_rate)
    indegree = np.zeros(tasks, dtype=np.int32)
    for e in range(len(g.successor)):
        indegree[g.successor[e]] += 1
    fresh = indegree.copy() if restart else indegree
    job_of = np.zeros(tasks, dtype=np.int32)
    job_left = np.empty(jobs, dtype=np.int64)
    job_began = np.zeros(jobs, dtype=np.float64)
    job_end = np.zeros(jobs, dtype=np.float64)
    first_end = np.full(jobs, -1.0)
    unfinished = 0
    for j in range(jobs):
        if j > 0:
            job_of[job_ptr[j] : job_ptr[j + 1]] = j
        job_left[j] = job_ptr[j + 1] - job_ptr[j]
        if job_left[j] > 0:
            unfinished += 1
        else:
            first_end[j] = 0.0
    # Flows: one per path of a transfer, one per ring of an AllReduce.
    first_flow = np.empty(tasks + 1, dtype=np.int64)
    flows = 0
    for t in range(tasks):
        first_flow[t] = flows
        if g.kind[t] == TRANSFER:
            pair = np.int64(g.source[t]) * n + g.target[t]
            flows += w.pair_ptr[pair + 1] - w.pair_ptr[pair]
        elif g.kind[t] == ALLREDUCE and g.group[t] >= 0:
            flows += w.group_ptr[g.group[t] + 1] - w.group_ptr[g.group[t]]
    first_flow[tasks] = flows
    margin = 4  # most events one event may add
    for t in range(tasks):
        margin = max(margin, first_flow[t + 1] - first_flow[t] + 4, g.successor_ptr[t + 1] - g.successor_ptr[t] + 4)
    if restart:
        margin += tasks
    task_of = np.empty(flows, dtype=np.int32)
    route_of = np.empty(flows, dtype=np.int64)  # path or ring
    chunk = np.empty(flows, dtype=np.float64)
    last_chunk = np.empty(flows, dtype=np.float64)
    steps = np.empty(flows, dtype=np.int64)
    step_gap = np.empty(flows, dtype=np.float64)
    tail = np.empty(flows, dtype=np.float64)
    left = np.empty(flows, dtype=np.int64)
    slowest = np.empty(flows, dtype=np.float64)
    open_flows = np.zeros(tasks, dtype=np.int32)

    start = np.zeros(tasks, dtype=np.float64)
    end = np.full(tasks, -1.0)
    ready = np.zeros(tasks, dtype=np.float64)
    cause = np.full(tasks, -1, dtype=np.int32)
    device_free = np.zeros(n, dtype=np.float64)
    device_task = np.full(n, -1, dtype=np.int32)
    link_free = np.zeros(links, dtype=np.float64)
    carried = np.zeros(links, dtype=np.float64)
    busy = np.zeros(links, dtype=np.float64)
    segment = 256.0 * KIB if rounds else 1.0 * MIB

    capacity = tasks + 2 * flows + margin
    keys = np.empty(capacity, dtype=np.float64)
    values = np.empty(capacity, dtype=np.int64)
    count = 0
    for t in range(tasks):
        if indegree[t] == 0:
            count = push(keys, values, count, 0.0, int(t) << FLOW_SHIFT)
    time = 0.0
    while count > 0:
        now = keys[0]
        event = values[0]
        hole = True  # the first event is dealt with; the first new one takes its place
        if now > threshold:
            return Outcome(np.inf, start, end, cause, carried, busy), first_end
        if count + margin >= len(keys):  # several segments of one flow may be under way on a long path
            keys = np.concatenate((keys, np.empty(len(keys))))
            values = np.concatenate((values, np.empty(len(values), dtype=np.int64)))
        what = event & ((1 << KIND_BITS) - 1)
        index = event >> FLOW_SHIFT
        done = -1
        finish = 0.0
        if what == READY:
            t = index
            start[t] = now
            if g.kind[t] < TRANSFER:
                device = g.source[t]
                if device_free[device] > now:
                    start[t] = device_free[device]
                    cause[t] = device_task[device]
                finish = start[t] + g.duration[t]
                device_free[device] = finish
                device_task[device] = t
                done = t
            elif first_flow[t] == first_flow[t + 1]:
                finish = now + g.duration[t]
                done = t
            else:
                open_flows[t] = first_flow[t + 1] - first_flow[t]
                begin = now + g.duration[t]
                for f in range(first_flow[t], first_flow[t + 1]):
                    task_of[f] = t
                    step_gap[f] = tail[f] = slowest[f] = 0.0
                    if g.kind[t] == TRANSFER:
                        pair = np.int64(g.source[t]) * n + g.target[t]
                        route_of[f] = w.pair_ptr[pair] + f - first_flow[t]
                        amount = g.size[t] * w.path_share[route_of[f]]
                        size = segment if rounds else max(segment, amount / 8.0)
                        steps[f] = max(1, min(MAX_STEPS - 1, int(np.ceil(amount / size))))
                        chunk[f] = size if amount <= size * steps[f] else amount / steps[f]
                        last_chunk[f] = amount - chunk[f] * (steps[f] - 1)
                        left[f] = steps[f]
                    else:
                        k = w.group_size[g.group[t]]
                        route_of[f] = w.group_ptr[g.group[t]] + f - first_flow[t]
                        share = w.ring_share[route_of[f]]
                        amount = 2.0 * (k - 1) / k * g.size[t] * share
                        fixed = 2.0 * (k - 1) * w.round_latency
                        if g.size[t] < SMALL_TENSOR_BYTES_PER_MEMBER * k:
                            steps[f] = 1
                            tail[f] = fixed
                        elif rounds:
                            steps[f] = 2 * (k - 1)
                            step_gap[f] = w.round_latency
                        else:
                            steps[f] = max(1, min(8, int(np.ceil(amount / segment))))
                            tail[f] = fixed
                        chunk[f] = last_chunk[f] = amount / steps[f]
                        left[f] = 1
                    what_next = SEGMENT if g.kind[t] == TRANSFER else STEP
                    count = put(keys, values, count, hole, begin, (f << FLOW_SHIFT) | what_next)
                    hole = False
        elif what == SEGMENT:
            f = index
            hop = (event >> HOP_SHIFT) & ((1 << HOP_BITS) - 1)
            step = (event >> STEP_SHIFT) & (MAX_STEPS - 1)
            amount = last_chunk[f] if step == steps[f] - 1 else chunk[f]
            path = route_of[f]
            link = w.path_link[w.path_ptr[path] + hop]
            began = max(now, link_free[link])
            span = amount / w.link_rate[link]
            link_free[link] = began + span
            if record:
                carried[link] += amount
                busy[link] += span
            if hop == 0 and step + 1 < steps[f]:
                event_next = (f << FLOW_SHIFT) | ((step + 1) << STEP_SHIFT) | SEGMENT
                count = put(keys, values, count, hole, link_free[link], event_next)
                hole = False
            if w.path_ptr[path] + hop + 1 < w.path_ptr[path + 1]:
                rate = w.link_rate[w.path_link[w.path_ptr[path] + hop + 1]]
                arrival = max(began, link_free[link] - amount / rate) + w.hop_latency
                event_next = event + (1 << HOP_SHIFT)
                count = put(keys, values, count, hole, arrival, event_next)
                hole = False
            else:
                slowest[f] = max(slowest[f], link_free[link] + w.hop_latency)
                left[f] -= 1
                if left[f] == 0:
                    t = task_of[f]
                    end[t] = max(end[t], slowest[f])
                    open_flows[t] -= 1
                    if open_flows[t] == 0:
                        done = t
                        finish = end[t]
        else:
            f = index
            hop = (event >> HOP_SHIFT) & ((1 << HOP_BITS) - 1)
            step = (event >> STEP_SHIFT) & (MAX_STEPS - 1)
            amount = chunk[f]
            ring = route_of[f]
            latest_start = now
            latest_end = 0.0
            more = False
            first, last = w.ring_ptr[ring], w.ring_ptr[ring + 1]
            low, high = w.member_ptr[first], w.member_ptr[last]
            if high - low == last - first and not record:  # one hop per member: their links stand in a row
                for at in range(low, high):
                    link = w.member_link[at]
                    freed = max(now, link_free[link]) + amount / w.link_rate[link]
                    link_free[link] = freed
                    latest_end = max(latest_end, freed)
            else:
                for m in range(first, last):
                    at = w.member_ptr[m] + hop
                    if at >= w.member_ptr[m + 1]:
                        continue
                    more = more or at + 1 < w.member_ptr[m + 1]
                    link = w.member_link[at]
                    began = max(now, link_free[link])
                    span = amount / w.link_rate[link]
                    link_free[link] = began + span
                    latest_start = max(latest_start, began)
                    latest_end = max(latest_end, began + span)
                    if record:
                        carried[link] += amount
                        busy[link] += span
            slowest[f] = max(slowest[f], latest_end)
            if more:
                event_next = event + (1 << HOP_SHIFT)
                count = put(keys, values, count, hole, latest_start + w.hop_latency, event_next)
                hole = False
            elif step + 1 < steps[f]:
                event_next = (f << FLOW_SHIFT) | ((step + 1) << STEP_SHIFT) | STEP
                count = put(keys, values, count, hole, slowest[f] + step_gap[f], event_next)
                hole = False
            else:
                t = task_of[f]
                end[t] = max(end[t], slowest[f] + step_gap[f] + tail[f])
                open_flows[t] -= 1
                if open_flows[t] == 0:
                    done = t
                    finish = end[t]
        if done >= 0:
            end[done] = finish
            time = max(time, finish)
            if finish > threshold:
                return Outcome(np.inf, start, end, cause, carried, busy), first_end
            for e in range(g.successor_ptr[done], g.successor_ptr[done + 1]):
                t = g.successor[e]
                if finish >= ready[t]:
                    ready[t] = finish
                    cause[t] = done
                indegree[t] -= 1
                if indegree[t] == 0:
                    count = put(keys, values, count, hole, ready[t], int(t) << FLOW_SHIFT)
                    hole = False
            j = job_of[done]
            job_left[j] -= 1
            job_end[j] = max(job_end[j], finish)
            if job_left[j] == 0:
                if first_end[j] < 0.0:
                    first_end[j] = job_end[j]
                    unfinished -= 1
                if unfinished == 0:
                    break
                if restart and job_end[j] > job_began[j]:  # one that takes no time would never let go
                    job_began[j] = job_end[j]
                    job_left[j] = job_ptr[j + 1] - job_ptr[j]
                    for t in range(job_ptr[j], job_ptr[j + 1]):
                        indegree[t] = fresh[t]
                        ready[t], end[t], cause[t] = job_end[j], -1.0, -1
                        if indegree[t] == 0:
                            count = put(keys, values, count, hole, ready[t], int(t) << FLOW_SHIFT)
                            hole = False
        if hole:
            count = pop(keys, values, count)
    return Outcome(time, start, end, cause, carried, busy), first_end
