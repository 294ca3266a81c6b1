"""Time models `rounds` (for figures) and `hop` (for proposals): links serve segments, of several flows in turn.

Both process traffic hop by hop: a segment asks for a link when it gets there, and a link serves what asks in order of
arrival, but segments by turns with what is longer than one (`turns`; `LinkSharing.FIFO`: no turns). This removes the
error of the reference's segment model, which books all hops of a segment when it leaves.

* Compute tasks of a server run one after another, in order of readiness.
* A transfer is cut into segments (65 535 at most). The next segment leaves when the first link is free of the previous
  one; a segment goes on to the next link one hop latency after it starts (cut-through), and never ends there before it
  can have arrived.
* `rounds`: a ring AllReduce of S bytes over k servers, share f of it on a ring, is 2(k-1) rounds of f S / k bytes
  per member; a round starts when the slowest member of the previous one is done, plus the fixed cost of a round.
  Tensors under 9000 k bytes go in one step of the same bytes and the same total fixed cost. Segments of 256 KiB.
* `hop`: the bytes of all rounds in at most 8 segments of at least 1 MiB, the fixed costs added at the end.
* An AllReduce on a schedule goes step by step in both: what its messages carry over a link at the same hop is one load;
  a step begins when the slowest message of the one before has arrived, plus the fixed cost of a round (the synchronous
  steps of arXiv 2202.03356, T_L alpha + T_B M / B where nothing else is under way). Tensors are never put in one step.

All members of a ring, and all messages of a step, are advanced in one event (their links are distinct arcs of the same
step). Events at the same time are taken in the order of their codes: task or flow number, step, hop, kind.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.taskgraph import TaskGraph
from topoopt.simulate.engine.flows import first_flows
from topoopt.simulate.engine.lanes import Lane, Lanes, add, add_in, new_lanes, run_lanes
from topoopt.simulate.engine.outcome import Outcome
from topoopt.simulate.engine.queue import DETAIL_BITS
from topoopt.simulate.engine.tasks import announce_first, compute, new_tasks, tasks_left
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.lower import TRANSFER, GraphArrays, graph_arrays
from topoopt.simulate.network import HOP_BITS, Network, NetworkArrays, network_arrays
from topoopt.simulate.schedule_rounds import schedule_of
from topoopt.simulate.time_models.segments import (
    BEGIN_LANE,
    END,
    HOP_SHIFT,
    KIND_BITS,
    MAX_STEPS,
    READY,
    SCHEDULED,
    SEGMENT,
    STEP,
    STEP_SHIFT,
    Arrival,
    announce,
    cut_ring,
    cut_schedule,
    cut_transfer,
    lanes_of,
    new_flows,
    slots_of_flows,
    task_done,
)
from topoopt.simulate.time_models.serving import (
    chunks_done,
    serve_scheduled,
    serve_segment,
    serve_step,
    step_is_over,
)
from topoopt.simulate.time_models.time_model import (
    Simulation,
    TimeModel,
    require_all_done,
    require_paths,
    simulation_of,
    whole,
)
from topoopt.simulate.time_models.turns import new_turns


@piece
def _most_new_events(g: GraphArrays, first: Ints, restart: bool) -> int:
    """Most events one event may add."""
    tasks = len(g.kind)
    most = 4
    for t in range(tasks):
        most = max(most, first[t + 1] - first[t] + 4, g.successor_ptr[t + 1] - g.successor_ptr[t] + 4)
    return most + tasks if restart else most


@piece
def _start(x: Arrival, q: Lanes, t: int, now: float) -> bool:
    """A task is ready: it computes, or its flows begin."""
    if x.g.kind[t] < TRANSFER:
        return task_done(x, q, t, compute(x.tasks, t, x.g.source[t], x.g.duration[t], now))
    x.tasks.start[t] = now
    first, last = x.flows.first[t], x.flows.first[t + 1]
    begin = now + x.g.duration[t]
    if first == last:
        return task_done(x, q, t, begin)
    x.flows.under_way[t] = last - first
    transfer = x.g.kind[t] == TRANSFER
    schedule = -1 if transfer else schedule_of(x.w.schedules, x.g.group[t], x.g.size[t])
    for f in range(first, last):
        x.flows.task[f] = t
        x.flows.step_gap[f] = x.flows.tail[f] = x.flows.slowest[f] = 0.0
        if transfer:
            cut_transfer(x, t, f)
            add_in(q, BEGIN_LANE, begin, (f << DETAIL_BITS) | SEGMENT)
        elif schedule >= 0:
            cut_schedule(x, t, f, schedule)
            add(q, begin, (f << DETAIL_BITS) | SCHEDULED)
        else:
            cut_ring(x, t, f)
            add(q, begin, (f << DETAIL_BITS) | STEP)
    return False


@piece
def _handle(x: Arrival, q: Lanes, now: float, event: int) -> bool:
    what = event & ((1 << KIND_BITS) - 1)
    index = event >> DETAIL_BITS
    if what == READY:
        return _start(x, q, index, now)
    hop = (event >> HOP_SHIFT) & ((1 << HOP_BITS) - 1)
    step = (event >> STEP_SHIFT) & (MAX_STEPS - 1)
    if what == SEGMENT:
        return serve_segment(x, q, now, event, index, step, hop)
    if hop == END:
        if not step_is_over(x, q, now, event, index, step, what):
            return False
        if step + 1 == x.flows.steps[index]:
            return chunks_done(x, q, index, now, what)
        event += (1 << STEP_SHIFT) - (END << HOP_SHIFT)
        step, hop = step + 1, 0
    if what == SCHEDULED:
        return serve_scheduled(x, q, now, event, index, step, hop)
    return serve_step(x, q, now, event, index, step, hop)


@kernel
def simulate_events(
    g: GraphArrays,
    w: NetworkArrays,
    rounds: bool,
    threshold: float,
    deadline: Floats,
    record: bool,
    job_ptr: Ints,
    restart: bool,
) -> Outcome:
    """Simulate jobs until each has done one iteration; the tasks of job j are job_ptr[j]..job_ptr[j+1].

    With `restart`, a job that is done begins again at once (unless it took no time), until the last one has finished
    its first iteration. Stops early, with infinite time, once it is sure to exceed `threshold` ms, or a task ends after
    its deadline. Link loads are only added up if `record`: a search does not need them.
    """
    links = len(w.link_rate)
    k = new_tasks(g.successor, job_ptr, w.servers, 0.0)
    first = first_flows(g, w)
    free, carried, busy, latest = np.zeros(links), np.zeros(links), np.zeros(links), np.zeros(1)
    turns = new_turns(slots_of_flows(g, w, first), links)
    x = Arrival(g, w, k, new_flows(first), turns, free, carried, busy, latest, deadline, rounds, record, restart)
    most = _most_new_events(g, first, restart)
    tasks, flows = len(g.kind), first[-1]
    q = new_lanes(tasks + 2 * flows + most, max(tasks, flows), lanes_of(w))
    announce_first(k, Lane(q, BEGIN_LANE), 0, tasks, announce)
    upcoming = run_lanes(x, q, threshold, most, _handle)
    if threshold < upcoming < np.inf:
        latest[0] = np.inf
    return Outcome(latest[0], k.start, k.end, k.cause, k.first_end, carried, busy, tasks_left(k))


@kernel
def iteration_time(g: GraphArrays, w: NetworkArrays, rounds: bool, threshold: float) -> float:
    """Time of one iteration, ms; infinity once it is sure to exceed `threshold`."""
    return time_within(g, w, rounds, threshold, np.full(len(g.kind), threshold))


@kernel
def time_within(g: GraphArrays, w: NetworkArrays, rounds: bool, threshold: float, deadline: Floats) -> float:
    """Time of one iteration, ms; infinity once it is sure to exceed `threshold`, or a task ends after its deadline."""
    whole = np.array([0, len(g.kind)], dtype=np.int64)
    return simulate_events(g, w, rounds, threshold, deadline, False, whole, False).time


def _always(graph: TaskGraph) -> Floats:
    """Deadlines that no task misses."""
    return np.full(graph.tasks, np.inf)


def _simulate(graph: TaskGraph, network: Network, *, rounds: bool) -> Simulation:
    """One iteration; see `TimeModel.run`."""
    require_paths(graph, network)
    arrays, links = graph_arrays(graph, network), network_arrays(network)
    return simulation_of(
        simulate_events(arrays, links, rounds, np.inf, _always(graph), True, whole(graph), False), graph.tasks
    )


def rounds_within(graph: TaskGraph, network: Network, at_most_ms: float) -> float:
    """Iteration time by `rounds`, ms; infinity as soon as it is sure to exceed `at_most_ms`.

    Raises:
        InputError, ValueError: see `TimeModel.run`; not where the time is exceeded before.
    """
    require_paths(graph, network)
    arrays, links = graph_arrays(graph, network), network_arrays(network)
    outcome: Outcome = simulate_events(
        arrays, links, True, at_most_ms, np.full(graph.tasks, at_most_ms), False, whole(graph), False
    )
    if outcome.time < np.inf:
        require_all_done(outcome.left, graph.tasks)
    return float(outcome.time)


def _first_iterations(graph: TaskGraph, network: Network, job_ptr: Ints, *, rounds: bool) -> Floats:
    """Jobs together; see `TimeModel.first_iterations`."""
    arrays, links = graph_arrays(graph, network), network_arrays(network)
    outcome: Outcome = simulate_events(arrays, links, rounds, np.inf, _always(graph), False, job_ptr, len(job_ptr) > 2)
    return outcome.first_end


def _model(summary: str, *, rounds: bool) -> TimeModel:
    several = partial(_first_iterations, rounds=rounds)
    return TimeModel(summary, partial(_simulate, rounds=rounds), several, by_sharing=True)


ROUNDS = _model("links serve segments of flows in turn, an AllReduce goes round by round; for figures", rounds=True)
HOP = _model("as rounds, but an AllReduce sends the bytes of all rounds at once; fast, for proposals", rounds=False)
