"""Time model `fluid`: traffic as flows that share links max-min fairly (progressive filling), an independent check.

* Compute tasks of a server run one after another, in order of readiness.
* A transfer is one flow per path of its pair, its bytes split by the shares of the paths.
* An AllReduce of S bytes over k servers with share f on a ring is one flow of 2 (k-1)/k f S bytes over the links of all
  members at once, all at the same rate; a link that appears m times in the ring carries m times the rate.
* Rates are those of max-min fairness (Bertsekas and Gallager, Data Networks, section 6.5), recomputed whenever flows
  start or end. Latency is added at the end: one per hop of a transfer, 2 (k-1) ring rounds for an AllReduce.

Flows of one route (a path or a ring) always have the same rate. So a route has one clock, the bytes it has given each
of its flows so far, and a flow ends when that clock reaches the mark set when it began: an event costs the routes whose
rate changes and one rate computation, however many flows are under way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoopt.core.taskgraph import TaskGraph
from topoopt.simulate.insertion_heap import pop, push
from topoopt.simulate.jit import kernel
from topoopt.simulate.lower import ALLREDUCE, TRANSFER, GraphArrays, graph_arrays
from topoopt.simulate.network import Network
from topoopt.simulate.time_models.events import NetworkArrays, network_arrays
from topoopt.simulate.time_models.flexnet import require_all_done, require_paths
from topoopt.simulate.time_models.fluid_rates import fill_rates, filling_space

SIMULTANEOUS_MS = 1e-9
"""Events this close (one picosecond) are taken together."""

READY, SEND, DONE = 0, 1, 2


class FluidOutcome(NamedTuple):
    """What a run did: per task `start` and `end` in the first iteration of its job, ms; `done` tasks of these; per job
    the end of its first iteration, -1 if it has none; per link the bytes carried, those of later iterations included.
    """

    start: NDArray[np.float64]
    end: NDArray[np.float64]
    done: int
    first_end: NDArray[np.float64]
    carried: NDArray[np.float64]


def fluid_times(graph: TaskGraph, network: Network) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Start and end of every task, ms; the iteration time is the largest end.

    Raises:
        InputError: the network lacks a path of a transfer, or the tasks wait for each other in a circle.
        ValueError: the network lacks the rings of a group.
    """
    outcome = fluid_outcome(graph, network, np.array([0, graph.tasks], dtype=np.int64), restart=False)
    return outcome.start, outcome.end


def fluid_outcome(graph: TaskGraph, network: Network, job_ptr: NDArray[np.int64], *, restart: bool) -> FluidOutcome:
    """Run jobs until each has done one iteration; the tasks of job j are job_ptr[j]..job_ptr[j+1].

    With `restart`, a job that is done begins again at once (unless it took no time), until the last one has finished
    its first iteration.

    Raises:
        InputError: the network lacks a path of a transfer, or the tasks wait for each other in a circle.
        ValueError: the network lacks the rings of a group.
    """
    require_paths(graph, network)
    outcome: FluidOutcome = _simulate(graph_arrays(graph, network), network_arrays(network), job_ptr, restart)
    require_all_done(outcome.done, graph.tasks)
    return outcome


@kernel
def _simulate(g: GraphArrays, w: NetworkArrays, job_ptr: NDArray[np.int64], restart: bool) -> FluidOutcome:
    tasks = len(g.kind)
    jobs = len(job_ptr) - 1
    # Routes: all paths, then all rings; the links of route r are route_link[route_low[r]:route_high[r]].
    paths = len(w.path_ptr) - 1
    rings = len(w.ring_ptr) - 1
    routes = paths + rings
    route_link = np.concatenate((w.path_link, w.member_link))
    route_low = np.empty(routes, dtype=np.int64)
    route_high = np.empty(routes, dtype=np.int64)
    for r in range(paths):
        route_low[r], route_high[r] = w.path_ptr[r], w.path_ptr[r + 1]
    for r in range(rings):
        route_low[paths + r] = w.member_ptr[w.ring_ptr[r]] + len(w.path_link)
        route_high[paths + r] = w.member_ptr[w.ring_ptr[r + 1]] + len(w.path_link)
    # Flows, numbered by task.
    first_flow = np.zeros(tasks + 1, dtype=np.int64)
    for t in range(tasks):
        first_flow[t + 1] = first_flow[t]
        if g.kind[t] == TRANSFER and g.source[t] != g.target[t]:
            pair = np.int64(g.source[t]) * w.servers + g.target[t]
            first_flow[t + 1] += w.pair_ptr[pair + 1] - w.pair_ptr[pair]
        elif g.kind[t] == ALLREDUCE and g.group[t] >= 0:
            first_flow[t + 1] += w.group_ptr[g.group[t] + 1] - w.group_ptr[g.group[t]]
    flows = first_flow[tasks]
    flow_route = np.empty(flows, dtype=np.int64)
    flow_task = np.empty(flows, dtype=np.int32)
    flow_bytes = np.empty(flows, dtype=np.float64)
    flow_tail = np.empty(flows, dtype=np.float64)
    for t in range(tasks):
        for f in range(first_flow[t], first_flow[t + 1]):
            flow_task[f] = t
            if g.kind[t] == TRANSFER:
                path = w.pair_ptr[np.int64(g.source[t]) * w.servers + g.target[t]] + f - first_flow[t]
                flow_route[f] = path
                flow_bytes[f] = g.size[t] * w.path_share[path]
                flow_tail[f] = (route_high[path] - route_low[path]) * w.hop_latency
            else:
                ring = w.group_ptr[g.group[t]] + f - first_flow[t]
                k = w.group_size[g.group[t]]
                flow_route[f] = paths + ring
                flow_bytes[f] = 2.0 * (k - 1) / k * g.size[t] * w.ring_share[ring]
                flow_tail[f] = 2.0 * (k - 1) * w.round_latency

    indegree = np.zeros(tasks, dtype=np.int32)
    for e in range(len(g.successor)):
        indegree[g.successor[e]] += 1
    waiting = indegree.copy()
    job_of = np.zeros(tasks, dtype=np.int32)
    job_left = np.empty(jobs, dtype=np.int64)
    job_began = np.zeros(jobs, dtype=np.float64)
    first_end = np.full(jobs, -1.0)
    unfinished = jobs
    for j in range(jobs):
        job_of[job_ptr[j] : job_ptr[j + 1]] = j
        job_left[j] = job_ptr[j + 1] - job_ptr[j]
        if job_left[j] == 0:
            first_end[j] = 0.0
            unfinished -= 1
    start = np.zeros(tasks, dtype=np.float64)
    end = np.zeros(tasks, dtype=np.float64)
    again_end = np.zeros(tasks, dtype=np.float64)  # of later iterations
    open_flows = np.zeros(tasks, dtype=np.int64)
    device_free = np.zeros(w.servers, dtype=np.float64)

    # A route gives each of its `weight` flows the rate since `since`, when its clock stood at `clock`; its flows are a
    # list in the order of their marks.
    weight = np.zeros(routes, dtype=np.int64)
    rate = np.zeros(routes, dtype=np.float64)
    filled = np.zeros(routes, dtype=np.float64)
    clock = np.zeros(routes, dtype=np.float64)
    since = np.zeros(routes, dtype=np.float64)
    ends_at = np.full(routes, np.inf)
    touched = np.zeros(routes, dtype=np.bool_)
    head = np.full(routes, -1, dtype=np.int64)
    following_flow = np.full(flows, -1, dtype=np.int64)
    mark = np.zeros(flows, dtype=np.float64)
    active = np.empty(routes, dtype=np.int64)
    active_count = 0
    carried = np.zeros(len(w.link_rate), dtype=np.float64)
    moved = np.zeros(routes, dtype=np.float64)
    space = filling_space(len(w.link_rate), routes)

    keys = np.empty(tasks + 1, dtype=np.float64)  # each task has at most one event at a time
    order = np.empty(tasks + 1, dtype=np.int64)
    values = np.empty(tasks + 1, dtype=np.int64)
    count = 0
    serial = 0
    for t in range(tasks):
        if waiting[t] == 0:
            count = push(keys, order, values, count, 0.0, serial, int(3 * t + READY))
            serial += 1
    now = 0.0
    done = 0
    while unfinished > 0:
        upcoming = keys[0] if count > 0 else np.inf
        for i in range(active_count):
            upcoming = min(upcoming, ends_at[active[i]])
        if upcoming == np.inf:
            break
        now = max(now, upcoming)
        slack = SIMULTANEOUS_MS + 1e-12 * now  # never below the rounding of `now`, or time would stand still
        changed = False
        kept = 0
        for i in range(active_count):
            r = active[i]
            if ends_at[r] <= now + slack:
                span = max(0.0, now - since[r])
                clock[r] += rate[r] * span
                moved[r] += rate[r] * span * weight[r]
                since[r] = now
                while head[r] >= 0 and mark[head[r]] - clock[r] <= rate[r] * slack:
                    f = head[r]
                    head[r] = following_flow[f]
                    moved[r] += mark[f] - clock[r]
                    weight[r] -= 1
                    changed = touched[r] = True
                    t = flow_task[f]
                    again_end[t] = max(again_end[t], now + flow_tail[f])
                    open_flows[t] -= 1
                    if open_flows[t] == 0:
                        count = push(keys, order, values, count, again_end[t], serial, int(3 * t + DONE))
                        serial += 1
                if head[r] < 0:
                    rate[r] = 0.0
                    ends_at[r] = np.inf
                    touched[r] = False
                    continue
                ends_at[r] = now + (mark[head[r]] - clock[r]) / rate[r]
            active[kept] = r
            kept += 1
        active_count = kept
        while count > 0 and keys[0] <= now + slack and unfinished > 0:
            at = keys[0]
            t = values[0] // 3
            what = values[0] % 3
            count = pop(keys, order, values, count)
            if what == READY:
                begin = at
                if g.kind[t] < TRANSFER:
                    device = g.source[t]
                    begin = max(at, device_free[device])
                    device_free[device] = begin + g.duration[t]
                if first_end[job_of[t]] < 0.0:
                    start[t] = begin
                then = begin + g.duration[t]  # no duration for transfers
                following = SEND if first_flow[t] < first_flow[t + 1] else DONE
                count = push(keys, order, values, count, then, serial, int(3 * t + following))
                serial += 1
            elif what == SEND:
                again_end[t] = at
                for f in range(first_flow[t], first_flow[t + 1]):
                    if flow_bytes[f] > 0.0:
                        r = flow_route[f]
                        if weight[r] == 0:
                            active[active_count] = r
                            active_count += 1
                            clock[r] = 0.0
                        else:
                            span = max(0.0, now - since[r])
                            clock[r] += rate[r] * span
                            moved[r] += rate[r] * span * weight[r]
                        since[r] = now
                        mark[f] = clock[r] + flow_bytes[f]
                        before = -1
                        after = head[r]
                        while after >= 0 and mark[after] <= mark[f]:
                            before, after = after, following_flow[after]
                        following_flow[f] = after
                        if before < 0:
                            head[r] = f
                        else:
                            following_flow[before] = f
                        weight[r] += 1
                        open_flows[t] += 1
                        changed = touched[r] = True
                    else:
                        again_end[t] = max(again_end[t], at + flow_tail[f])
                if open_flows[t] == 0:
                    count = push(keys, order, values, count, again_end[t], serial, int(3 * t + DONE))
                    serial += 1
            else:
                j = job_of[t]
                if first_end[j] < 0.0:
                    end[t] = at
                    done += 1
                for e in range(g.successor_ptr[t], g.successor_ptr[t + 1]):
                    then = g.successor[e]
                    waiting[then] -= 1
                    if waiting[then] == 0:
                        count = push(keys, order, values, count, at, serial, int(3 * then + READY))
                        serial += 1
                job_left[j] -= 1
                if job_left[j] > 0:
                    continue
                if first_end[j] < 0.0:
                    first_end[j] = at  # events come in order of time
                    unfinished -= 1
                if restart and unfinished > 0 and at > job_began[j]:  # one that takes no time would never let go
                    job_began[j] = at
                    job_left[j] = job_ptr[j + 1] - job_ptr[j]
                    for then in range(job_ptr[j], job_ptr[j + 1]):
                        waiting[then] = indegree[then]
                        if waiting[then] == 0:
                            count = push(keys, order, values, count, at, serial, int(3 * then + READY))
                            serial += 1
        if changed and unfinished > 0:
            fill_rates(active[:active_count], weight, route_low, route_high, route_link, w.link_rate, filled, space)
            for i in range(active_count):
                r = active[i]
                if filled[r] == rate[r] and not touched[r]:
                    continue
                span = max(0.0, now - since[r])
                clock[r] += rate[r] * span
                moved[r] += rate[r] * span * weight[r]
                since[r] = now
                rate[r] = max(0.0, filled[r])
                touched[r] = False
                ends_at[r] = now + (mark[head[r]] - clock[r]) / rate[r] if rate[r] > 0.0 else np.inf
    for r in range(routes):
        for at in range(route_low[r], route_high[r]):
            carried[route_link[at]] += moved[r]
    return FluidOutcome(start, end, done, first_end, carried)
