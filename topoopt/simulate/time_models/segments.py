"""Segments that links serve in order of arrival: state, cutting of traffic, and the way of a segment over a link."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.units import KIB, MIB
from topoopt.simulate.engine.flows import first_path, ring_bytes, rounds_ms
from topoopt.simulate.engine.queue import DETAIL_BITS, Queue, add
from topoopt.simulate.engine.tasks import Tasks, all_jobs_done, release
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.lower import GraphArrays
from topoopt.simulate.network import HOP_BITS, STEP_BITS, NetworkArrays

READY, SEGMENT, STEP, SCHEDULED = 0, 1, 2, 3
KIND_BITS = 2
HOP_SHIFT = KIND_BITS
STEP_SHIFT = HOP_SHIFT + HOP_BITS
MAX_STEPS = 1 << STEP_BITS
assert STEP_SHIFT + STEP_BITS <= DETAIL_BITS
ROUNDS_SEGMENT, HOP_SEGMENT = 256.0 * KIB, 1.0 * MIB
SMALL_TENSOR_BYTES_PER_MEMBER = 9000


class Flows(NamedTuple):
    """F flows; their routes are paths of transfers, rings or schedules of AllReduces.

    Attributes:
        first: int64[T+1], flows of each task; under_way: int32[T], those not done.
        task: int32[F]; route: int64[F].
        steps: int64[F], segments of a transfer, rounds (or segments in step) of a ring, steps of a schedule; left:
            those not done.
        chunk, last_chunk: float64[F], bytes of a step, of the last one; of a schedule the payload.
        step_gap, tail: float64[F], fixed cost of each step and after the last one.
        slowest: float64[F], end of the latest step so far.
    """

    first: Ints
    under_way: Int32s
    task: Int32s
    route: Ints
    steps: Ints
    left: Ints
    chunk: Floats
    last_chunk: Floats
    step_gap: Floats
    tail: Floats
    slowest: Floats


class Arrival(NamedTuple):
    """State of a simulation; per link when it is `free`, bytes `carried` and ms `busy`; `latest`: end of any task.

    Link loads are only added up if `record`.
    """

    g: GraphArrays
    w: NetworkArrays
    tasks: Tasks
    flows: Flows
    free: Floats
    carried: Floats
    busy: Floats
    latest: Floats
    threshold: float
    rounds: bool
    record: bool
    restart: bool


@kernel
def new_flows(first: Ints) -> Flows:
    """Room for so many flows."""
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


@piece
def announce(q: Queue, at: float, t: int) -> None:
    """A task is ready at that time."""
    add(q, at, (int(t) << DETAIL_BITS) | READY)


@piece
def task_done(x: Arrival, q: Queue, t: int, finish: float) -> bool:
    """A task ends at that time, which may be later than now; True: everything is over."""
    x.latest[0] = max(x.latest[0], finish)
    if finish > x.threshold:
        x.latest[0] = np.inf
        return True
    release(x.tasks, q, x.g.successor_ptr, x.g.successor, t, finish, announce)
    return all_jobs_done(x.tasks, q, t, finish, x.restart, announce)


@piece
def cut_transfer(x: Arrival, t: int, f: int) -> None:
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
def cut_ring(x: Arrival, t: int, f: int) -> None:
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
def cut_schedule(x: Arrival, t: int, f: int, schedule: int) -> None:
    """Into the steps of a schedule, each after a fixed cost as that of a ring round."""
    x.flows.route[f] = schedule
    x.flows.steps[f] = x.w.schedules.step_ptr[schedule + 1] - x.w.schedules.step_ptr[schedule]
    x.flows.left[f] = 1
    x.flows.chunk[f] = x.flows.last_chunk[f] = x.g.size[t]
    x.flows.step_gap[f] = x.w.round_latency


@piece
def _flow_done(x: Arrival, q: Queue, f: int, at: float) -> bool:
    t = x.flows.task[f]
    x.tasks.end[t] = max(x.tasks.end[t], at)
    x.flows.under_way[t] -= 1
    return x.flows.under_way[t] == 0 and task_done(x, q, t, x.tasks.end[t])


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
def serve_segment(x: Arrival, q: Queue, now: float, event: int, f: int, step: int, hop: int) -> bool:
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
def serve_step(x: Arrival, q: Queue, now: float, event: int, f: int, step: int, hop: int) -> bool:
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
def serve_scheduled(x: Arrival, q: Queue, now: float, event: int, f: int, step: int, hop: int) -> bool:
    """All messages of a step of a schedule ask for the links at this hop of their routes."""
    s = x.w.schedules
    at = s.step_ptr[x.flows.route[f]] + step
    latest_start, latest_end = now, now
    hops = s.hop_ptr[at + 1] - s.hop_ptr[at]
    if hop < hops:
        for load in range(s.load_ptr[s.hop_ptr[at] + hop], s.load_ptr[s.hop_ptr[at] + hop + 1]):
            began = _carry(x, s.link[load], x.flows.chunk[f] * s.share[load], now)
            latest_start = max(latest_start, began)
            latest_end = max(latest_end, x.free[s.link[load]])
    slowest = x.flows.slowest[f] = max(x.flows.slowest[f], latest_end)
    if hop + 1 < hops:
        add(q, latest_start + x.w.hop_latency, event + (1 << HOP_SHIFT))
        return False
    if step + 1 < x.flows.steps[f]:
        add(q, slowest + x.flows.step_gap[f], (f << DETAIL_BITS) | ((step + 1) << STEP_SHIFT) | SCHEDULED)
        return False
    return _flow_done(x, q, f, slowest + x.flows.step_gap[f])
