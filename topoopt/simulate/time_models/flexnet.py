"""Time model `flexnet`: the segment model of the reference search (TopoOpt artifact), only for comparison with it.

Transfers go in segments of 1 MiB. A segment books every link of its path when it leaves the sender, so links further
along are held for the future and idle meanwhile; on direct-connect networks with forwarding this overstates the time
(up to 2.5 times). Each member of a ring AllReduce sends all its bytes as one such transfer, without rounds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoopt.core.errors import InputError, Problem
from topoopt.core.taskgraph import TaskGraph
from topoopt.core.units import MIB
from topoopt.simulate.insertion_heap import pop, push
from topoopt.simulate.jit import kernel
from topoopt.simulate.lower import ALLREDUCE, TRANSFER, GraphArrays, graph_arrays
from topoopt.simulate.network import Network
from topoopt.simulate.time_models.events import NetworkArrays, network_arrays

SEGMENT_BYTES = MIB
MAX_SEGMENTS = 1 << 30
"""Most segments simulated, which is about a minute."""

FORWARD_RING, BACKWARD_RING = 1, -1


def flexnet_times(
    graph: TaskGraph, network: Network, ring_directions: NDArray[np.int8] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Start and end of every task, ms; the iteration time is the largest end.

    The start of a task is when it begins to compute or becomes ready to send. A pair with several paths uses its first
    one only. Events at equal times are taken in the order they were created.

    Args:
        graph: T tasks.
        network: with a path for every transfer and rings for every group.
        ring_directions: int8[T], +1 or -1 (other way round the ring) for each AllReduce, ignored for other tasks; None:
            all +1. The reference draws them at random on switched fabrics. Needs opposite links for -1.

    Raises:
        InputError: the network lacks a path of a transfer, the tasks wait for each other in a circle, or their bytes
            make more than `MAX_SEGMENTS` segments.
        ValueError: the network lacks the rings of a group, or the opposite of a link.
    """
    arrays = graph_arrays(graph, network)
    require_paths(graph, network)
    size = np.array([len(members) for members in graph.groups] + [1], dtype=np.float64)[graph.group]
    wire = np.where(graph.kind == TRANSFER, 1.0, 2.0 * (size - 1.0)) * graph.bytes
    if wire.sum() > float(MAX_SEGMENTS) * SEGMENT_BYTES:
        raise InputError(
            [Problem("too much traffic for this time model", value=f"{wire.sum():.3g} bytes", allowed="2^50 bytes")]
        )
    directions = np.ones(graph.tasks, dtype=np.int8) if ring_directions is None else ring_directions.astype(np.int8)
    backward = bool((directions[graph.kind == ALLREDUCE] == BACKWARD_RING).any())
    opposite = opposite_links(network) if backward else np.zeros(0, dtype=np.int32)
    start, end, done = _simulate(arrays, network_arrays(network), directions, opposite)
    require_all_done(done, graph.tasks)
    return start, end


def require_paths(graph: TaskGraph, network: Network) -> None:
    """Refuse transfers between servers without a path.

    Raises:
        InputError: lists the first pairs.
    """
    moved = (graph.kind == TRANSFER) & (graph.source != graph.target)
    pair = np.unique(graph.source[moved].astype(np.int64) * network.servers + graph.target[moved])
    if graph.servers != network.servers:
        raise InputError(f"task graph of {graph.servers} servers on a network of {network.servers}")
    missing = pair[network.pair_ptr[pair + 1] == network.pair_ptr[pair]]
    if len(missing):
        raise InputError(
            [
                Problem(f"no path from server {p // network.servers} to {p % network.servers}", path="routes")
                for p in missing[:5].tolist()
            ]
        )


def require_all_done(done: int, tasks: int) -> None:
    """Refuse a simulation that got stuck.

    Raises:
        InputError: fewer tasks ran than there are.
    """
    if done < tasks:
        raise InputError(f"{tasks - done} of {tasks} tasks can never run: they wait for each other in a circle")


def opposite_links(network: Network) -> NDArray[np.int32]:
    """int32[L]: for each link the one from its head to its tail.

    Raises:
        ValueError: a link has none.
    """
    index = {(int(tail), int(head)): link for link, (tail, head) in enumerate(network.link_ends)}
    try:
        return np.array([index[(int(head), int(tail))] for tail, head in network.link_ends], dtype=np.int32)
    except KeyError as error:
        raise ValueError(f"no link opposite to {error.args[0][::-1]}") from error


@kernel
def member_bytes(payload: float, members: int, share: float) -> float:
    """Whole bytes each member sends on a ring with this share of the AllReduce.

    Shares that are 1/r are applied as a division by r, as the reference does, which may round otherwise.
    """
    wire = 2.0 * (members - 1) * payload / members
    rings = np.floor(1.0 / share + 0.5)
    if share == 1.0 / rings:
        return float(np.ceil(wire / rings))
    return float(np.ceil(wire * share))


@kernel
def _simulate(
    g: GraphArrays, w: NetworkArrays, directions: NDArray[np.int8], opposite: NDArray[np.int32]
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    tasks = len(g.kind)
    # A flow is a chain of segments over one path: flow t < tasks belongs to transfer t, later ones to ring members.
    flows = tasks
    for t in range(tasks):
        if g.kind[t] == ALLREDUCE and g.group[t] >= 0:
            first_ring, last_ring = w.group_ptr[g.group[t]], w.group_ptr[g.group[t] + 1]
            flows += w.ring_ptr[last_ring] - w.ring_ptr[first_ring]
    flow_left = np.zeros(flows, dtype=np.float64)
    flow_task = np.empty(flows, dtype=np.int32)
    flow_path = np.zeros(flows, dtype=np.int64)  # of a transfer: path; of a ring member: its index in member_ptr
    next_flow = tasks
    open_flows = np.zeros(tasks, dtype=np.int64)

    waiting = np.zeros(tasks, dtype=np.int32)
    for e in range(len(g.successor)):
        waiting[g.successor[e]] += 1
    start = np.zeros(tasks, dtype=np.float64)
    end = np.zeros(tasks, dtype=np.float64)
    ready = np.zeros(tasks, dtype=np.float64)
    device_free = np.zeros(w.servers, dtype=np.float64)
    link_free = np.zeros(len(w.link_rate), dtype=np.float64)

    # Events: value t < tasks is "task t is ready", tasks + f is "flow f may send its next segment".
    keys = np.empty(tasks + flows + 1, dtype=np.float64)
    order = np.empty(tasks + flows + 1, dtype=np.int64)
    values = np.empty(tasks + flows + 1, dtype=np.int64)
    count = 0
    serial = 0
    for t in range(tasks):
        if waiting[t] == 0:
            count = push(keys, order, values, count, 0.0, serial, int(t))
            serial += 1
    done = 0
    while count > 0:
        now = keys[0]
        event = values[0]
        count = pop(keys, order, values, count)
        finished = -1
        if event < tasks:
            t = event
            start[t] = now
            if g.kind[t] < TRANSFER:
                device = g.source[t]
                start[t] = max(now, device_free[device])
                end[t] = start[t] + g.duration[t]
                device_free[device] = end[t]
                finished = t
            elif g.kind[t] == TRANSFER:
                pair = np.int64(g.source[t]) * w.servers + g.target[t]
                if g.source[t] == g.target[t]:
                    end[t] = now
                    finished = t
                else:
                    open_flows[t] = 1
                    flow_left[t] = g.size[t]
                    flow_task[t] = t
                    flow_path[t] = w.pair_ptr[pair]
                    count = push(keys, order, values, count, now, serial, int(tasks + t))
                    serial += 1
            elif g.group[t] < 0:
                end[t] = now + g.duration[t]
                finished = t
            else:
                begin = now + g.duration[t]
                first_ring, last_ring = w.group_ptr[g.group[t]], w.group_ptr[g.group[t] + 1]
                k = w.group_size[g.group[t]]
                for place in range(k):
                    for ring in range(first_ring, last_ring):
                        f = next_flow
                        next_flow += 1
                        flow_left[f] = member_bytes(float(g.size[t]), k, w.ring_share[ring])
                        flow_task[f] = t
                        back = directions[t] < 0
                        flow_path[f] = w.ring_ptr[ring] + ((place - 1) % k if back else place)
                        open_flows[t] += 1
                        count = push(keys, order, values, count, begin, serial, int(tasks + f))
                        serial += 1
        else:
            f = event - tasks
            t = flow_task[f]
            if f < tasks:
                low, high = w.path_ptr[flow_path[f]], w.path_ptr[flow_path[f] + 1]
            else:
                low, high = w.member_ptr[flow_path[f]], w.member_ptr[flow_path[f] + 1]
            segment = min(flow_left[f], float(SEGMENT_BYTES))
            at = now
            first_free = now
            segment_end = now
            for hop in range(high - low):
                if f < tasks:
                    link = w.path_link[low + hop]
                elif directions[t] < 0:
                    link = opposite[w.member_link[high - 1 - hop]]
                else:
                    link = w.member_link[low + hop]
                at = max(link_free[link], at) + w.hop_latency
                free = at + segment / w.link_rate[link]
                link_free[link] = free
                segment_end = max(segment_end, free)
                if hop == 0:
                    first_free = free
            flow_left[f] -= segment
            if flow_left[f] > 0.0:
                count = push(keys, order, values, count, first_free, serial, int(event))
                serial += 1
            else:
                end[t] = max(end[t], segment_end)
                open_flows[t] -= 1
                if open_flows[t] == 0:
                    finished = t
        if finished >= 0:
            done += 1
            for e in range(g.successor_ptr[finished], g.successor_ptr[finished + 1]):
                t = g.successor[e]
                ready[t] = max(ready[t], end[finished])
                waiting[t] -= 1
                if waiting[t] == 0:
                    count = push(keys, order, values, count, ready[t], serial, int(t))
                    serial += 1
    return start, end, done
