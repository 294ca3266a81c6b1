"""Time models `rounds` (for figures) and `hop` (for proposals): links serve segments in order of arrival.

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

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoopt.core.taskgraph import TaskGraph
from topoopt.core.units import KIB, MIB
from topoopt.simulate.engine.flows import first_flows, first_path, ring_bytes, rounds_ms
from topoopt.simulate.engine.loop import go_on, never, nothing_flows, run
from topoopt.simulate.engine.outcome import Outcome
from topoopt.simulate.engine.queue import DETAIL_BITS, Queue, add, new_queue
from topoopt.simulate.engine.tasks import Tasks, all_jobs_done, announce_first, compute, new_tasks, release, tasks_left
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.lower import TRANSFER, GraphArrays, graph_arrays
from topoopt.simulate.network import HOP_BITS, Network, NetworkArrays, network_arrays
from topoopt.simulate.time_models.time_model import Simulation, TimeModel, require_paths, simulation_of, whole

READY, SEGMENT, STEP = 0, 1, 2
KIND_BITS = 2
HOP_SHIFT = KIND_BITS
STEP_SHIFT = HOP_SHIFT + HOP_BITS
MAX_STEPS = 1 << (DETAIL_BITS - STEP_SHIFT)
ROUNDS_SEGMENT, HOP_SEGMENT = 256.0 * KIB, 1.0 * MIB
SMALL_TENSOR_BYTES_PER_MEMBER = 9000


class Flows(NamedTuple):
    """F flows; their routes are paths of transfers or rings of AllReduces.

    Attributes:
        first: int64[T+1], flows of each task; under_way: int32[T], those not done.
        task: int32[F]; route: int64[F].
        steps: int64[F], segments of a transfer, rounds (or segments in step) of a ring; left: those not done.
        chunk, last_chunk: float64[F], bytes of a step, of the last one.
        step_gap, tail: float64[F], fixed cost of each step and after the last one.
        slowest: float64[F], end of the latest step so far.
    """

    first: NDArray[np.int64]
    under_way: NDArray[np.int32]
    task: NDArray[np.int32]
    route: NDArray[np.int64]
    steps: NDArray[np.int64]
    left: NDArray[np.int64]
    chunk: NDArray[np.float64]
    last_chunk: NDArray[np.float64]
    step_gap: NDArray[np.float64]
    tail: NDArray[np.float64]
    slowest: NDArray[np.float64]


class Arrival(NamedTuple):
    """State of a simulation; per link when it is `free`, bytes `carried` and ms `busy`; `latest`: end of any task.

    Link loads are only added up if `record`.
    """

    g: GraphArrays
    w: NetworkArrays
    tasks: Tasks
    flows: Flows
    free: NDArray[np.float64]
    carried: NDArray[np.float64]
    busy: NDArray[np.float64]
    latest: NDArray[np.float64]
    threshold: float
    rounds: bool
    record: bool
    restart: bool


@kernel
def _new_flows(first: NDArray[np.int64]) -> Flows:
    flows = first[-1]
    return Flows(
        first,
        np.zeros(len(first) - 1, dtype=np.int32),
        np.empty(flows, dtype=np.int32),
        np.empty(flows, dtype=np.int64),
        np.empty(flows, dtype=np.int64),
        np.empty(flows, dtype=np.int64),
        np.empty(flows, dtype=np.float64),
        np.empty(flows, dtype=np.float64),
        np.empty(flows, dtype=np.float64),
        np.empty(flows, dtype=np.float64),
        np.empty(flows, dtype=np.float64),
    )


@kernel
def _most_new_events(g: GraphArrays, first: NDArray[np.int64], restart: bool) -> int:
    """Most events one event may add."""
    tasks = len(g.kind)
    most = 4
    for t in range(tasks):
        most = max(most, first[t + 1] - first[t] + 4, g.successor_ptr[t + 1] - g.successor_ptr[t] + 4)
    return most + tasks if restart else most


@piece
def _announce(q: Queue, at: float, t: int) -> None:
    add(q, at, (int(t) << DETAIL_BITS) | READY)


@piece
def _done(x: Arrival, q: Queue, t: int, finish: float) -> bool:
    x.latest[0] = max(x.latest[0], finish)
    if finish > x.threshold:
        x.latest[0] = np.inf
        return True
    release(x.tasks, q, x.g.successor_ptr, x.g.successor, t, finish, _announce)
    return all_jobs_done(x.tasks, q, t, finish, x.restart, _announce)


@piece
def _cut_transfer(x: Arrival, t: int, f: int) -> None:
    """Into segments: of the size of the model, larger where they would be too many."""
    path = first_path(x.g, x.w, t) + f - x.flows.first[t]
    amount = x.g.size[t] * x.w.path_share[path]
    size = ROUNDS_SEGMENT if x.rounds else max(HOP_SEGMENT, amount / 8.0)
    steps = max(1, min(MAX_STEPS - 1, int(np.ceil(amount / size))))
    x.flows.route[f] = path
    x.flows.steps[f] = x.flows.left[f] = steps
    x.flows.chunk[f] = size if amount <= size * steps else amount / steps
    x.flows.last_chunk[f] = amount - x.flows.chunk[f] * (steps - 1)


@piece
def _cut_ring(x: Arrival, t: int, f: int) -> None:
    """Into rounds, or segments that go through all rounds."""
    group = x.g.group[t]
    k = x.w.group_size[group]
    ring = x.w.group_ptr[group] + f - x.flows.first[t]
    amount = ring_bytes(x.g, x.w, t, ring)
    steps = 1
    if x.g.size[t] < SMALL_TENSOR_BYTES_PER_MEMBER * k:
        x.flows.tail[f] = rounds_ms(x.g, x.w, t)
    elif x.rounds:
        steps = 2 * (k - 1)
        x.flows.step_gap[f] = x.w.round_latency
    else:
        steps = max(1, min(8, int(np.ceil(amount / HOP_SEGMENT))))
        x.flows.tail[f] = rounds_ms(x.g, x.w, t)
    x.flows.route[f] = ring
    x.flows.steps[f] = steps
    x.flows.left[f] = 1
    x.flows.chunk[f] = x.flows.last_chunk[f] = amount / steps


@piece
def _start(x: Arrival, q: Queue, t: int, now: float) -> bool:
    """A task is ready: it computes, or its flows begin."""
    if x.g.kind[t] < TRANSFER:
        return _done(x, q, t, compute(x.tasks, t, x.g.source[t], x.g.duration[t], now))
    x.tasks.start[t] = now
    first, last = x.flows.first[t], x.flows.first[t + 1]
    begin = now + x.g.duration[t]
    if first == last:
        return _done(x, q, t, begin)
    x.flows.under_way[t] = last - first
    for f in range(first, last):
        x.flows.task[f] = t
        x.flows.step_gap[f] = x.flows.tail[f] = x.flows.slowest[f] = 0.0
        if x.g.kind[t] == TRANSFER:
            _cut_transfer(x, t, f)
            add(q, begin, (f << DETAIL_BITS) | SEGMENT)
        else:
            _cut_ring(x, t, f)
            add(q, begin, (f << DETAIL_BITS) | STEP)
    return False


@piece
def _flow_done(x: Arrival, q: Queue, f: int, at: float) -> bool:
    t = x.flows.task[f]
    x.tasks.end[t] = max(x.tasks.end[t], at)
    x.flows.under_way[t] -= 1
    return x.flows.under_way[t] == 0 and _done(x, q, t, x.tasks.end[t])


@piece
def _carry(x: Arrival, link: int, amount: float, now: float) -> float:
    """Let a link carry so many bytes after those that came before; when it begins."""
    began = max(now, x.free[link])
    span = amount / x.w.link_rate[link]
    x.free[link] = began + span
    if x.record:
        x.carried[link] += amount
        x.busy[link] += span
    return float(began)


@piece
def _segment(x: Arrival, q: Queue, now: float, event: int, f: int, step: int, hop: int) -> bool:
    """A segment of a transfer asks for a link of its path."""
    amount = x.flows.last_chunk[f] if step == x.flows.steps[f] - 1 else x.flows.chunk[f]
    at = x.w.path_ptr[x.flows.route[f]] + hop
    last = x.w.path_ptr[x.flows.route[f] + 1] - 1
    link = x.w.path_link[at]
    began = _carry(x, link, amount, now)
    end = x.free[link]
    if hop == 0 and step + 1 < x.flows.steps[f]:
        add(q, end, (f << DETAIL_BITS) | ((step + 1) << STEP_SHIFT) | SEGMENT)
    if at < last:
        arrival = max(began, end - amount / x.w.link_rate[x.w.path_link[at + 1]]) + x.w.hop_latency
        add(q, arrival, event + (1 << HOP_SHIFT))
        return False
    x.flows.slowest[f] = max(x.flows.slowest[f], end + x.w.hop_latency)
    x.flows.left[f] -= 1
    return x.flows.left[f] == 0 and _flow_done(x, q, f, x.flows.slowest[f])


@piece
def _step(x: Arrival, q: Queue, now: float, event: int, f: int, step: int, hop: int) -> bool:
    """All members of a ring ask for the link at this hop of their paths."""
    amount = x.flows.chunk[f]
    first, last = x.w.ring_ptr[x.flows.route[f]], x.w.ring_ptr[x.flows.route[f] + 1]
    low, high = x.w.member_ptr[first], x.w.member_ptr[last]
    latest_start, latest_end, more = now, 0.0, False
    if high - low == last - first and not x.record:  # one hop per member: their links stand in a row
        for at in range(low, high):
            link = x.w.member_link[at]
            freed = max(now, x.free[link]) + amount / x.w.link_rate[link]
            x.free[link] = freed
            latest_end = max(latest_end, freed)
    else:
        for m in range(first, last):
            at = x.w.member_ptr[m] + hop
            if at < x.w.member_ptr[m + 1]:
                more = more or at + 1 < x.w.member_ptr[m + 1]
                link = x.w.member_link[at]
                latest_start = max(latest_start, _carry(x, link, amount, now))
                latest_end = max(latest_end, x.free[link])
    slowest = x.flows.slowest[f] = max(x.flows.slowest[f], latest_end)
    if more:
        add(q, latest_start + x.w.hop_latency, event + (1 << HOP_SHIFT))
        return False
    if step + 1 < x.flows.steps[f]:
        add(q, slowest + x.flows.step_gap[f], (f << DETAIL_BITS) | ((step + 1) << STEP_SHIFT) | STEP)
        return False
    return _flow_done(x, q, f, slowest + x.flows.step_gap[f] + x.flows.tail[f])


@piece
def _handle(x: Arrival, q: Queue, now: float, event: int) -> bool:
    what = event & ((1 << KIND_BITS) - 1)
    index = event >> DETAIL_BITS
    if what == READY:
        return _start(x, q, index, now)
    hop = (event >> HOP_SHIFT) & ((1 << HOP_BITS) - 1)
    step = (event >> STEP_SHIFT) & (MAX_STEPS - 1)
    if what == SEGMENT:
        return _segment(x, q, now, event, index, step, hop)
    return _step(x, q, now, event, index, step, hop)


@kernel
def simulate_events(
    g: GraphArrays,
    w: NetworkArrays,
    rounds: bool,
    threshold: float,
    record: bool,
    job_ptr: NDArray[np.int64],
    restart: bool,
) -> Outcome:
    """Simulate jobs until each has done one iteration; the tasks of job j are job_ptr[j]..job_ptr[j+1].

    With `restart`, a job that is done begins again at once (unless it took no time), until the last one has finished
    its first iteration. Stops early, with infinite time, once it is sure to exceed `threshold` ms. Link loads are only
    added up if `record`: a search does not need them.
    """
    links = len(w.link_rate)
    k = new_tasks(g.successor, job_ptr, w.servers, 0.0)
    first = first_flows(g, w)
    free, carried, busy, latest = np.zeros(links), np.zeros(links), np.zeros(links), np.zeros(1)
    x = Arrival(g, w, k, _new_flows(first), free, carried, busy, latest, threshold, rounds, record, restart)
    most = _most_new_events(g, first, restart)
    q = new_queue(len(g.kind) + 2 * first[-1] + most)
    announce_first(k, q, 0, len(g.kind), _announce)
    upcoming = run(x, q, threshold, most, never, nothing_flows, _handle, go_on)
    if threshold < upcoming < np.inf:
        latest[0] = np.inf
    return Outcome(latest[0], k.start, k.end, k.cause, k.first_end, carried, busy, tasks_left(k))


@kernel
def iteration_time(g: GraphArrays, w: NetworkArrays, rounds: bool, threshold: float) -> float:
    """Time of one iteration, ms; infinity once it is sure to exceed `threshold`."""
    whole = np.array([0, len(g.kind)], dtype=np.int64)
    return simulate_events(g, w, rounds, threshold, False, whole, False).time


def _simulate(graph: TaskGraph, network: Network, *, rounds: bool) -> Simulation:
    """One iteration; see `TimeModel.run`."""
    require_paths(graph, network)
    arrays, links = graph_arrays(graph, network), network_arrays(network)
    return simulation_of(simulate_events(arrays, links, rounds, np.inf, True, whole(graph), False), graph.tasks)


def _first_iterations(
    graph: TaskGraph, network: Network, job_ptr: NDArray[np.int64], *, rounds: bool
) -> NDArray[np.float64]:
    """Jobs together; see `TimeModel.first_iterations`."""
    arrays, links = graph_arrays(graph, network), network_arrays(network)
    outcome: Outcome = simulate_events(arrays, links, rounds, np.inf, False, job_ptr, len(job_ptr) > 2)
    return outcome.first_end


def _model(summary: str, *, rounds: bool) -> TimeModel:
    return TimeModel(summary, partial(_simulate, rounds=rounds), partial(_first_iterations, rounds=rounds))


ROUNDS = _model("links serve segments in order of arrival, an AllReduce goes round by round; for figures", rounds=True)
HOP = _model("as rounds, but an AllReduce sends the bytes of all rounds at once; fast, for proposals", rounds=False)
