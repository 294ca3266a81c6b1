"""Time model `fluid`: traffic as flows that share links max-min fairly (progressive filling), an independent check.

* Compute tasks of a server run one after another, in order of readiness.
* A transfer is one flow per path of its pair, its bytes split by the shares of the paths.
* An AllReduce of S bytes over k servers with share f on a ring is one flow of 2 (k-1)/k f S bytes over the links of all
  members at once, all at the same rate; a link that appears m times in the ring carries m times the rate.
* Rates are those of max-min fairness (Bertsekas and Gallager, Data Networks, section 6.5), recomputed whenever flows
  start or end. Latency is added at the end: one per hop of a transfer, 2 (k-1) ring rounds for an AllReduce.

Costs a rate computation per distinct time of change: slow on large model-parallel jobs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoopt.core.taskgraph import TaskGraph
from topoopt.simulate.events import NetworkArrays, network_arrays
from topoopt.simulate.flexnet import require_all_done, require_paths
from topoopt.simulate.fluid_rates import max_min_rates
from topoopt.simulate.insertion_heap import pop, push
from topoopt.simulate.jit import kernel
from topoopt.simulate.lower import ALLREDUCE, TRANSFER, GraphArrays, graph_arrays
from topoopt.simulate.network import Network

SIMULTANEOUS_MS = 1e-9
"""Events this close (one picosecond) are taken together."""

READY, SEND, DONE = 0, 1, 2


def fluid_times(graph: TaskGraph, network: Network) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Start and end of every task, ms; the iteration time is the largest end.

    Raises:
        InputError: the network lacks a path of a transfer, or the tasks wait for each other in a circle.
        ValueError: the network lacks the rings of a group.
    """
    require_paths(graph, network)
    start, end, done = _simulate(graph_arrays(graph, network), network_arrays(network))
    require_all_done(done, graph.tasks)
    return start, end


@kernel
def _simulate(g: GraphArrays, w: NetworkArrays) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    tasks = len(g.kind)
    # Flows, numbered by task; the links of flow f are flow_link[flow_low[f]:flow_high[f]].
    first_flow = np.zeros(tasks + 1, dtype=np.int64)
    for t in range(tasks):
        first_flow[t + 1] = first_flow[t]
        if g.kind[t] == TRANSFER and g.source[t] != g.target[t]:
            pair = np.int64(g.source[t]) * w.servers + g.target[t]
            first_flow[t + 1] += w.pair_ptr[pair + 1] - w.pair_ptr[pair]
        elif g.kind[t] == ALLREDUCE and g.group[t] >= 0:
            first_flow[t + 1] += w.group_ptr[g.group[t] + 1] - w.group_ptr[g.group[t]]
    flows = first_flow[tasks]
    flow_link = np.concatenate((w.path_link, w.member_link))
    flow_low = np.empty(flows, dtype=np.int64)
    flow_high = np.empty(flows, dtype=np.int64)
    flow_task = np.empty(flows, dtype=np.int32)
    flow_left = np.empty(flows, dtype=np.float64)
    flow_tail = np.empty(flows, dtype=np.float64)
    for t in range(tasks):
        for f in range(first_flow[t], first_flow[t + 1]):
            flow_task[f] = t
            if g.kind[t] == TRANSFER:
                path = w.pair_ptr[np.int64(g.source[t]) * w.servers + g.target[t]] + f - first_flow[t]
                flow_low[f], flow_high[f] = w.path_ptr[path], w.path_ptr[path + 1]
                flow_left[f] = g.size[t] * w.path_share[path]
                flow_tail[f] = (flow_high[f] - flow_low[f]) * w.hop_latency
            else:
                ring = w.group_ptr[g.group[t]] + f - first_flow[t]
                k = w.group_size[g.group[t]]
                flow_low[f] = w.member_ptr[w.ring_ptr[ring]] + len(w.path_link)
                flow_high[f] = w.member_ptr[w.ring_ptr[ring + 1]] + len(w.path_link)
                flow_left[f] = 2.0 * (k - 1) / k * g.size[t] * w.ring_share[ring]
                flow_tail[f] = 2.0 * (k - 1) * w.round_latency

    waiting = np.zeros(tasks, dtype=np.int32)
    for e in range(len(g.successor)):
        waiting[g.successor[e]] += 1
    start = np.zeros(tasks, dtype=np.float64)
    end = np.zeros(tasks, dtype=np.float64)
    open_flows = np.zeros(tasks, dtype=np.int64)
    device_free = np.zeros(w.servers, dtype=np.float64)
    active = np.empty(flows, dtype=np.int64)
    active_count = 0
    rate = np.zeros(flows, dtype=np.float64)

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
    while True:
        upcoming = keys[0] if count > 0 else np.inf
        for i in range(active_count):
            f = active[i]
            if rate[f] > 0.0:
                upcoming = min(upcoming, now + flow_left[f] / rate[f])
        if upcoming == np.inf:
            break
        span = max(0.0, upcoming - now)
        now = max(now, upcoming)
        slack = SIMULTANEOUS_MS + 1e-12 * now  # never below the rounding of `now`, or time would stand still
        changed = False
        kept = 0
        for i in range(active_count):
            f = active[i]
            flow_left[f] -= rate[f] * span
            if flow_left[f] > rate[f] * slack or rate[f] <= 0.0:
                active[kept] = f
                kept += 1
                continue
            changed = True
            t = flow_task[f]
            end[t] = max(end[t], now + flow_tail[f])
            open_flows[t] -= 1
            if open_flows[t] == 0:
                count = push(keys, order, values, count, end[t], serial, int(3 * t + DONE))
                serial += 1
        active_count = kept
        while count > 0 and keys[0] <= now + slack:
            at = keys[0]
            t = values[0] // 3
            what = values[0] % 3
            count = pop(keys, order, values, count)
            if what == READY:
                start[t] = at
                if g.kind[t] < TRANSFER:
                    device = g.source[t]
                    start[t] = max(at, device_free[device])
                    device_free[device] = start[t] + g.duration[t]
                then = start[t] + g.duration[t]  # no duration for transfers
                following = SEND if first_flow[t] < first_flow[t + 1] else DONE
                count = push(keys, order, values, count, then, serial, int(3 * t + following))
                serial += 1
            elif what == SEND:
                end[t] = at
                for f in range(first_flow[t], first_flow[t + 1]):
                    if flow_left[f] > 0.0:
                        active[active_count] = f
                        active_count += 1
                        open_flows[t] += 1
                        changed = True
                    else:
                        end[t] = max(end[t], at + flow_tail[f])
                if open_flows[t] == 0:
                    count = push(keys, order, values, count, end[t], serial, int(3 * t + DONE))
                    serial += 1
            else:
                end[t] = at
                done += 1
                for e in range(g.successor_ptr[t], g.successor_ptr[t + 1]):
                    then = g.successor[e]
                    waiting[then] -= 1
                    if waiting[then] == 0:
                        count = push(keys, order, values, count, at, serial, int(3 * then + READY))
                        serial += 1
        if changed:
            max_min_rates(active[:active_count], flow_low, flow_high, flow_link, w.link_rate, rate)
    return start, end, done
