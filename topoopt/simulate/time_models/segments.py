"""Segments and chunks that links serve: the state of a simulation of them, and how traffic is cut."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Bools, Floats, Int32s, Ints
from topoopt.core.units import KIB, MIB
from topoopt.simulate.engine.flows import first_path, ring_bytes, rounds_ms
from topoopt.simulate.engine.lanes import NO_LANE, Lane, Lanes, add_in
from topoopt.simulate.engine.queue import DETAIL_BITS
from topoopt.simulate.engine.tasks import Tasks, all_jobs_done, release
from topoopt.simulate.jit import piece
from topoopt.simulate.lower import ALLREDUCE, TRANSFER, GraphArrays
from topoopt.simulate.network import HOP_BITS, STEP_BITS, NetworkArrays
from topoopt.simulate.schedule_rounds import schedule_of
from topoopt.simulate.time_models.turns import LinkTurns

READY, SEGMENT, STEP, SCHEDULED = 0, 1, 2, 3
KIND_BITS = 2
HOP_SHIFT = KIND_BITS
STEP_SHIFT = HOP_SHIFT + HOP_BITS
MAX_STEPS = 1 << STEP_BITS
END = (1 << HOP_BITS) - 1
"""In place of a hop: the chunks of a step are served, if no segments have put them off."""
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
        cut: bool[F], whether segments of others go between pieces of its chunks.
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
    cut: Bools


class Arrival(NamedTuple):
    """State of a simulation; per link when it is `free`, bytes `carried` and ms `busy`; `latest`: end of any task; of a
    task its `deadline`: once one is missed, the simulation is over.

    Link loads are only added up if `record`.
    """

    g: GraphArrays
    w: NetworkArrays
    tasks: Tasks
    flows: Flows
    turns: LinkTurns
    free: Floats
    carried: Floats
    busy: Floats
    latest: Floats
    deadline: Floats
    rounds: bool
    record: bool
    restart: bool


@piece
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
        np.zeros(flows, dtype=np.bool_),
    )


@piece
def slots_of_flows(g: GraphArrays, w: NetworkArrays, first: Ints) -> Ints:
    """int64[F+1]; the slots of flow f, one for each link that it asks in a step, are slots[f]..slots[f+1].

    Only flows of chunks need any: none where links serve in order of arrival or there are no transfers, none of
    transfers and small tensors.
    """
    slots = np.zeros(first[-1] + 1, dtype=np.int64)
    if not w.cut or not (g.kind == TRANSFER).any():
        return slots
    for t in range(len(g.kind)):
        if g.kind[t] != ALLREDUCE or first[t] == first[t + 1]:
            continue
        s = schedule_of(w.schedules, g.group[t], g.size[t])
        for f in range(first[t], first[t + 1]):
            if s >= 0:
                loads = w.schedules.hop_ptr[w.schedules.step_ptr[s]], w.schedules.hop_ptr[w.schedules.step_ptr[s + 1]]
                slots[f + 1] = w.schedules.load_ptr[loads[1]] - w.schedules.load_ptr[loads[0]]
            elif g.size[t] >= SMALL_TENSOR_BYTES_PER_MEMBER * w.group_size[g.group[t]]:
                ring = w.group_ptr[g.group[t]] + f - first[t]
                slots[f + 1] = w.member_ptr[w.ring_ptr[ring + 1]] - w.member_ptr[w.ring_ptr[ring]]
    for f in range(len(slots) - 1):
        slots[f + 1] += slots[f]
    return slots


@piece
def segment_bytes(x: Arrival) -> float:
    """Most bytes of a turn."""
    return ROUNDS_SEGMENT if x.rounds else HOP_SEGMENT


BEGIN_LANE = 1
"""First segments, which come by time and flow as their tasks were ready."""


@piece
def lanes_of(w: NetworkArrays) -> int:
    """How many there are: none, `BEGIN_LANE`, one a server, two a link."""
    return 2 + w.servers + 2 * len(w.link_rate)


@piece
def _lane_of_ready(x: Arrival, t: int) -> int:
    """Of tasks that become ready when a server has computed another."""
    return 2 + x.g.source[t] if x.g.kind[t] < TRANSFER else NO_LANE


@piece
def lane_of_sent(x: Arrival, link: int) -> int:
    """Of segments that a link sends on to others."""
    return 2 + x.w.servers + link


@piece
def lane_of_next(x: Arrival, link: int) -> int:
    """Of segments that ask for a link as soon as it is free of the one before."""
    return 2 + x.w.servers + len(x.w.link_rate) + link


@piece
def announce(q: Lane, at: float, t: int) -> None:
    """A task is ready at that time."""
    add_in(q.lanes, q.lane, at, (int(t) << DETAIL_BITS) | READY)


@piece
def task_done(x: Arrival, q: Lanes, t: int, finish: float) -> bool:
    """A task ends at that time, which may be later than now; True: everything is over."""
    x.latest[0] = max(x.latest[0], finish)
    if finish > x.deadline[t]:
        x.latest[0] = np.inf
        return True
    release(x.tasks, Lane(q, _lane_of_ready(x, t)), x.g.successor_ptr, x.g.successor, t, finish, announce)
    return all_jobs_done(x.tasks, Lane(q, NO_LANE), t, finish, x.restart, announce)


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
    x.flows.cut[f] = x.turns.slots[f] < x.turns.slots[f + 1] and x.flows.chunk[f] > segment_bytes(x)


@piece
def cut_schedule(x: Arrival, t: int, f: int, schedule: int) -> None:
    """Into the steps of a schedule, each after a fixed cost as that of a ring round."""
    x.flows.route[f] = schedule
    x.flows.steps[f] = x.w.schedules.step_ptr[schedule + 1] - x.w.schedules.step_ptr[schedule]
    x.flows.left[f] = 1
    x.flows.chunk[f] = x.flows.last_chunk[f] = x.g.size[t]
    x.flows.step_gap[f] = x.w.round_latency
    s = x.w.schedules
    low = s.load_ptr[s.hop_ptr[s.step_ptr[schedule]]]
    most = 0.0
    for slot in range(x.turns.slots[f], x.turns.slots[f + 1]):
        most = max(most, s.share[low + slot - x.turns.slots[f]])
    x.flows.cut[f] = most * x.g.size[t] > segment_bytes(x)
