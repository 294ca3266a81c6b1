"""Time model `flexnet`: the segment model of the reference search (TopoOpt artifact), only for comparison with it.

Transfers go in segments of 1 MiB. A segment books every link of its path when it leaves the sender, so links further
along are held for the future and idle meanwhile; on direct-connect networks with forwarding this overstates the time
(up to 2.5 times). Each member of a ring AllReduce sends all its bytes as one such transfer, without rounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.core.taskgraph import TaskGraph
from topoopt.core.units import MIB
from topoopt.simulate.engine.loop import go_on, never, nothing_flows, run
from topoopt.simulate.engine.outcome import Outcome
from topoopt.simulate.engine.queue import DETAIL, DETAIL_BITS, Queue, add, new_queue, next_serial
from topoopt.simulate.engine.tasks import Tasks, all_jobs_done, announce_first, compute, new_tasks, release, tasks_left
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.lower import ALLREDUCE, TRANSFER, GraphArrays, graph_arrays
from topoopt.simulate.network import Network, NetworkArrays, network_arrays
from topoopt.simulate.time_models.time_model import Simulation, TimeModel, require_paths, simulation_of, whole

SEGMENT_BYTES = MIB
MAX_SEGMENTS = 1 << 30
"""Most segments simulated, which is about a minute."""

FORWARD_RING, BACKWARD_RING = 1, -1


def simulate(graph: TaskGraph, network: Network, ring_directions: NDArray[np.int8] | None = None) -> Simulation:
    """One iteration.

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
    network.require_rings("flexnet")
    size = np.array([len(members) for members in graph.groups] + [1], dtype=np.float64)[graph.group]
    wire = np.where(graph.kind == TRANSFER, 1.0, 2.0 * (size - 1.0)) * graph.bytes
    if wire.sum() > float(MAX_SEGMENTS) * SEGMENT_BYTES:
        raise InputError(
            [Problem("too much traffic for this time model", value=f"{wire.sum():.3g} bytes", allowed="2^50 bytes")]
        )
    directions = np.ones(graph.tasks, dtype=np.int8) if ring_directions is None else ring_directions.astype(np.int8)
    backward = bool((directions[graph.kind == ALLREDUCE] == BACKWARD_RING).any())
    opposite = opposite_links(network) if backward else np.zeros(0, dtype=np.int32)
    outcome = _simulate(arrays, network_arrays(network), directions, opposite, whole(graph))
    return simulation_of(outcome, graph.tasks)


def opposite_links(network: Network) -> Int32s:
    """int32[L]: for each link the one from its head to its tail.

    Raises:
        ValueError: a link has none.
    """
    index = {(int(tail), int(head)): link for link, (tail, head) in enumerate(network.link_ends)}
    try:
        return np.array([index[(int(head), int(tail))] for tail, head in network.link_ends], dtype=np.int32)
    except KeyError as error:
        raise ValueError(f"no link opposite to {error.args[0][::-1]}") from error


@piece
def member_bytes(payload: float, members: int, share: float) -> float:
    """Whole bytes each member sends on a ring with this share of the AllReduce.

    Shares that are 1/r are applied as a division by r, as the reference does, which may round otherwise.
    """
    wire = 2.0 * (members - 1) * payload / members
    rings = np.floor(1.0 / share + 0.5)
    if share == 1.0 / rings:
        return float(np.ceil(wire / rings))
    return float(np.ceil(wire * share))


class Booking(NamedTuple):
    """State of a simulation; F flows, each a chain of segments over one path.

    Flow t < T belongs to transfer t, later ones to ring members, in the order they begin.

    Attributes:
        directions: int8[T]; opposite: int32[L]; see `simulate`.
        task: int32[F]; left: float64[F], bytes not sent; path: int64[F], of a transfer its path, of a ring member its
            index in member_ptr.
        next_flow: int64[1]; under_way: int64[T], flows not done.
        free: float64[L], end of what a link is booked for; carried, busy: float64[L], bytes and ms.
    """

    g: GraphArrays
    w: NetworkArrays
    tasks: Tasks
    directions: NDArray[np.int8]
    opposite: Int32s
    task: Int32s
    left: Floats
    path: Ints
    next_flow: Ints
    under_way: Ints
    free: Floats
    carried: Floats
    busy: Floats


@piece
def _most_flows(g: GraphArrays, w: NetworkArrays) -> int:
    flows = len(g.kind)
    for t in range(len(g.kind)):
        if g.kind[t] == ALLREDUCE and g.group[t] >= 0:
            flows += w.ring_ptr[w.group_ptr[g.group[t] + 1]] - w.ring_ptr[w.group_ptr[g.group[t]]]
    return flows


@piece
def _announce(q: Queue, at: float, index: int) -> None:
    """Task `index` is ready, or flow `index` - T may send its next segment."""
    add(q, at, (next_serial(q) << DETAIL_BITS) | index)


@piece
def _done(x: Booking, q: Queue, t: int, at: float) -> bool:
    release(x.tasks, q, x.g.successor_ptr, x.g.successor, t, at, _announce)
    return all_jobs_done(x.tasks, q, t, at, False, _announce)


@piece
def _start(x: Booking, q: Queue, t: int, now: float) -> bool:
    g, w = x.g, x.w
    if g.kind[t] < TRANSFER:
        return _done(x, q, t, compute(x.tasks, t, g.source[t], g.duration[t], now))
    x.tasks.start[t] = now
    if g.kind[t] == TRANSFER:
        if g.source[t] == g.target[t]:
            return _done(x, q, t, now)
        x.under_way[t] = 1
        x.left[t], x.task[t] = g.size[t], t
        x.path[t] = w.pair_ptr[np.int64(g.source[t]) * w.servers + g.target[t]]
        _announce(q, now, len(g.kind) + t)
    elif g.group[t] < 0:
        return _done(x, q, t, now + g.duration[t])
    else:
        _start_rings(x, q, t, now + g.duration[t])
    return False


@piece
def _start_rings(x: Booking, q: Queue, t: int, begin: float) -> None:
    group = x.g.group[t]
    k = x.w.group_size[group]
    back = x.directions[t] < 0
    for place in range(k):
        for ring in range(x.w.group_ptr[group], x.w.group_ptr[group + 1]):
            f = x.next_flow[0]
            x.next_flow[0] += 1
            x.left[f], x.task[f] = member_bytes(float(x.g.size[t]), k, x.w.ring_share[ring]), t
            x.path[f] = x.w.ring_ptr[ring] + ((place - 1) % k if back else place)
            x.under_way[t] += 1
            _announce(q, begin, len(x.g.kind) + f)


@piece
def _link(x: Booking, f: int, hop: int) -> int:
    """The link of a flow at that hop; -1 after the last one."""
    path = x.path[f]
    if f < len(x.g.kind):
        at = x.w.path_ptr[path] + hop
        return int(x.w.path_link[at]) if at < x.w.path_ptr[path + 1] else -1
    low, high = x.w.member_ptr[path], x.w.member_ptr[path + 1]
    if hop >= high - low:
        return -1
    if x.directions[x.task[f]] < 0:
        return int(x.opposite[x.w.member_link[high - 1 - hop]])
    return int(x.w.member_link[low + hop])


@piece
def _send_segment(x: Booking, q: Queue, f: int, now: float) -> bool:
    """Book all links of the path for the next segment."""
    segment = min(x.left[f], float(SEGMENT_BYTES))
    at, first_free, segment_end = now, now, now
    hop, link = 0, _link(x, f, 0)
    while link >= 0:
        at = max(x.free[link], at) + x.w.hop_latency
        span = segment / x.w.link_rate[link]
        x.free[link] = at + span
        x.carried[link] += segment
        x.busy[link] += span
        segment_end = max(segment_end, x.free[link])
        if hop == 0:
            first_free = x.free[link]
        hop += 1
        link = _link(x, f, hop)
    x.left[f] -= segment
    if x.left[f] > 0.0:
        _announce(q, first_free, len(x.g.kind) + f)
        return False
    t = x.task[f]
    x.tasks.end[t] = max(x.tasks.end[t], segment_end)
    x.under_way[t] -= 1
    return x.under_way[t] == 0 and _done(x, q, t, x.tasks.end[t])


@piece
def _handle(x: Booking, q: Queue, now: float, code: int) -> bool:
    index, tasks = code & DETAIL, len(x.g.kind)
    return _start(x, q, index, now) if index < tasks else _send_segment(x, q, index - tasks, now)


@kernel
def _simulate(
    g: GraphArrays, w: NetworkArrays, directions: NDArray[np.int8], opposite: Int32s, job_ptr: Ints
) -> Outcome:
    tasks, links, flows = len(g.kind), len(w.link_rate), _most_flows(g, w)
    k = new_tasks(g.successor, job_ptr, w.servers, 0.0)
    x = Booking(
        g,
        w,
        k,
        directions,
        opposite,
        np.empty(flows, dtype=np.int32),
        np.zeros(flows, dtype=np.float64),
        np.zeros(flows, dtype=np.int64),
        np.array([tasks]),
        np.zeros(tasks, dtype=np.int64),
        np.zeros(links, dtype=np.float64),
        np.zeros(links, dtype=np.float64),
        np.zeros(links, dtype=np.float64),
    )
    q = new_queue(tasks + flows + 3)
    announce_first(k, q, 0, tasks, _announce)
    run(x, q, np.inf, 1, never, nothing_flows, _handle, go_on)
    latest = k.end.max() if tasks > 0 else 0.0
    return Outcome(latest, k.start, k.end, k.cause, k.first_end, x.carried, x.busy, tasks_left(k))


FLEXNET = TimeModel("the segment model of the TopoOpt artifact's search, only for comparison with it", simulate)
