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
from topoopt.simulate.engine.flows import first_flows, first_path, ring_bytes, rounds_ms
from topoopt.simulate.engine.graph_events import DONE, READY, SEND, announce, begin_task, event, task_of, what_of
from topoopt.simulate.engine.loop import run
from topoopt.simulate.engine.max_min import FillingSpace, fill_rates, filling_space
from topoopt.simulate.engine.outcome import Outcome
from topoopt.simulate.engine.queue import Queue, new_queue
from topoopt.simulate.engine.tasks import Tasks, all_jobs_done, announce_first, new_tasks, release, tasks_left
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.lower import TRANSFER, GraphArrays, graph_arrays
from topoopt.simulate.network import Network, NetworkArrays, network_arrays
from topoopt.simulate.time_models.time_model import Simulation, TimeModel, require_paths, simulation_of, whole

SIMULTANEOUS_MS = 1e-9
"""Events this close (one picosecond) are taken together."""


class Flows(NamedTuple):
    """F flows, numbered by task.

    Attributes:
        first: int64[T+1], flows of each task; under_way: int64[T], those not done.
        task: int32[F]; route: int64[F]; size, tail: float64[F], bytes, and latency added at the end.
        mark: float64[F], clock of the route at which it ends; following: int64[F], next in its route or -1.
    """

    first: NDArray[np.int64]
    under_way: NDArray[np.int64]
    task: NDArray[np.int32]
    route: NDArray[np.int64]
    size: NDArray[np.float64]
    tail: NDArray[np.float64]
    mark: NDArray[np.float64]
    following: NDArray[np.int64]


class Routes(NamedTuple):
    """R routes: all paths, then all rings; the links of route r are link[low[r]:high[r]].

    A route gives each of its `weight` flows the `rate` since `since`, when its clock stood at `clock`; its flows are a
    list from `head` on, in the order of their marks, the first of which is reached at `ends_at`. `moved` are the bytes
    given so far, `filled` the rates computed last; `touched`: flows came or went since the rate was set.
    `active` are the routes with flows, the first active_count[0] of it.
    """

    link: NDArray[np.int32]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    weight: NDArray[np.int64]
    rate: NDArray[np.float64]
    filled: NDArray[np.float64]
    clock: NDArray[np.float64]
    since: NDArray[np.float64]
    ends_at: NDArray[np.float64]
    moved: NDArray[np.float64]
    touched: NDArray[np.bool_]
    head: NDArray[np.int64]
    active: NDArray[np.int64]
    active_count: NDArray[np.int64]


class Fluid(NamedTuple):
    """State of a simulation; `now`: float64[1]; `changed`: bool[1], rates are out of date."""

    g: GraphArrays
    link_rate: NDArray[np.float64]
    tasks: Tasks
    flows: Flows
    routes: Routes
    space: FillingSpace
    now: NDArray[np.float64]
    changed: NDArray[np.bool_]
    restart: bool


@kernel
def _new_routes(w: NetworkArrays) -> Routes:
    paths, rings = len(w.path_ptr) - 1, len(w.ring_ptr) - 1
    routes = paths + rings
    low, high = np.empty(routes, dtype=np.int64), np.empty(routes, dtype=np.int64)
    for r in range(paths):
        low[r], high[r] = w.path_ptr[r], w.path_ptr[r + 1]
    for r in range(rings):
        low[paths + r] = w.member_ptr[w.ring_ptr[r]] + len(w.path_link)
        high[paths + r] = w.member_ptr[w.ring_ptr[r + 1]] + len(w.path_link)
    return Routes(
        np.concatenate((w.path_link, w.member_link)),
        low,
        high,
        np.zeros(routes, dtype=np.int64),
        np.zeros(routes, dtype=np.float64),
        np.zeros(routes, dtype=np.float64),
        np.zeros(routes, dtype=np.float64),
        np.zeros(routes, dtype=np.float64),
        np.full(routes, np.inf),
        np.zeros(routes, dtype=np.float64),
        np.zeros(routes, dtype=np.bool_),
        np.full(routes, -1, dtype=np.int64),
        np.empty(routes, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )


@kernel
def _new_flows(g: GraphArrays, w: NetworkArrays, routes: Routes) -> Flows:
    first = first_flows(g, w)
    tasks, flows, paths = len(g.kind), first[-1], len(w.path_ptr) - 1
    task, route = np.empty(flows, dtype=np.int32), np.empty(flows, dtype=np.int64)
    size, tail = np.empty(flows, dtype=np.float64), np.empty(flows, dtype=np.float64)
    for t in range(tasks):
        for f in range(first[t], first[t + 1]):
            task[f] = t
            if g.kind[t] == TRANSFER:
                path = first_path(g, w, t) + f - first[t]
                route[f] = path
                size[f] = g.size[t] * w.path_share[path]
                tail[f] = (routes.high[path] - routes.low[path]) * w.hop_latency
            else:
                ring = w.group_ptr[g.group[t]] + f - first[t]
                route[f] = paths + ring
                size[f] = ring_bytes(g, w, t, ring)
                tail[f] = rounds_ms(g, w, t)
    mark, following = np.zeros(flows, dtype=np.float64), np.full(flows, -1, dtype=np.int64)
    return Flows(first, np.zeros(tasks, dtype=np.int64), task, route, size, tail, mark, following)


@piece
def _carry(y: Routes, r: int, now: float) -> None:
    """Let a route give its flows their rate until now."""
    span = max(0.0, now - y.since[r])
    y.clock[r] += y.rate[r] * span
    y.moved[r] += y.rate[r] * span * y.weight[r]
    y.since[r] = now


@piece
def _next_end(x: Fluid, r: int, now: float) -> float:
    return float(now + (x.flows.mark[x.routes.head[r]] - x.routes.clock[r]) / x.routes.rate[r])


@piece
def _end_flows(x: Fluid, q: Queue, r: int, now: float, slack: float) -> None:
    """End the flows of a route whose marks are reached within `slack`."""
    y = x.routes
    while y.head[r] >= 0 and x.flows.mark[y.head[r]] - y.clock[r] <= y.rate[r] * slack:
        f = y.head[r]
        y.head[r] = x.flows.following[f]
        y.moved[r] += x.flows.mark[f] - y.clock[r]
        y.weight[r] -= 1
        x.changed[0] = y.touched[r] = True
        t = x.flows.task[f]
        x.tasks.end[t] = max(x.tasks.end[t], now + x.flows.tail[f])
        x.flows.under_way[t] -= 1
        if x.flows.under_way[t] == 0:
            event(q, x.tasks.end[t], t, DONE)


@piece
def _next_change(x: Fluid) -> float:
    upcoming = np.inf
    for i in range(x.routes.active_count[0]):
        upcoming = min(upcoming, x.routes.ends_at[x.routes.active[i]])
    return upcoming


@piece
def _serve(x: Fluid, q: Queue, at: float) -> float:
    """End the flows that end at that time."""
    y = x.routes
    now = x.now[0] = max(x.now[0], at)
    slack = SIMULTANEOUS_MS + 1e-12 * now  # never below the rounding of `now`, or time would stand still
    kept = 0
    for i in range(y.active_count[0]):
        r = y.active[i]
        if y.ends_at[r] <= now + slack:
            _carry(y, r, now)
            _end_flows(x, q, r, now, slack)
            if y.head[r] < 0:
                y.rate[r] = 0.0
                y.ends_at[r] = np.inf
                y.touched[r] = False
                continue
            y.ends_at[r] = _next_end(x, r, now)
        y.active[kept] = r
        kept += 1
    y.active_count[0] = kept
    return float(now + slack)


@piece
def _begin_flow(x: Fluid, f: int) -> None:
    """Put a flow among those of its route, in the order of their marks."""
    y = x.routes
    r = x.flows.route[f]
    if y.weight[r] == 0:
        y.active[y.active_count[0]] = r
        y.active_count[0] += 1
        y.clock[r] = 0.0
        y.since[r] = x.now[0]
    else:
        _carry(y, r, x.now[0])
    x.flows.mark[f] = y.clock[r] + x.flows.size[f]
    before, after = -1, y.head[r]
    while after >= 0 and x.flows.mark[after] <= x.flows.mark[f]:
        before, after = after, x.flows.following[after]
    x.flows.following[f] = after
    if before < 0:
        y.head[r] = f
    else:
        x.flows.following[before] = f
    y.weight[r] += 1
    x.changed[0] = y.touched[r] = True


@piece
def _send(x: Fluid, q: Queue, t: int, at: float) -> None:
    x.tasks.end[t] = at
    for f in range(x.flows.first[t], x.flows.first[t + 1]):
        if x.flows.size[f] > 0.0:
            _begin_flow(x, f)
            x.flows.under_way[t] += 1
        else:
            x.tasks.end[t] = max(x.tasks.end[t], at + x.flows.tail[f])
    if x.flows.under_way[t] == 0:
        event(q, x.tasks.end[t], t, DONE)


@piece
def _handle(x: Fluid, q: Queue, at: float, code: int) -> bool:
    t, what = task_of(code), what_of(code)
    if what == READY:
        begin_task(x.tasks, q, x.g.kind, x.g.source, x.g.duration, x.flows.first, t, at)
    elif what == SEND:
        _send(x, q, t, at)
    else:
        release(x.tasks, q, x.g.successor_ptr, x.g.successor, t, at, announce)
        return all_jobs_done(x.tasks, q, t, at, x.restart, announce)
    return False


@piece
def _settle(x: Fluid, q: Queue) -> bool:
    """Rates anew, if flows came or went."""
    if not x.changed[0]:
        return False
    x.changed[0] = False
    y = x.routes
    active = y.active[: y.active_count[0]]
    fill_rates(active, y.weight, y.low, y.high, y.link, x.link_rate, y.filled, x.space)
    for r in active:
        if y.filled[r] != y.rate[r] or y.touched[r]:
            _carry(y, r, x.now[0])
            y.rate[r] = max(0.0, y.filled[r])
            y.touched[r] = False
            y.ends_at[r] = _next_end(x, r, x.now[0]) if y.rate[r] > 0.0 else np.inf
    return False


@kernel
def simulate_fluid(g: GraphArrays, w: NetworkArrays, job_ptr: NDArray[np.int64], restart: bool) -> Outcome:
    """Simulate jobs until each has done one iteration; the tasks of job j are job_ptr[j]..job_ptr[j+1].

    With `restart`, a job that is done begins again at once (unless it took no time), until the last one has finished
    its first iteration.
    """
    tasks, links = len(g.kind), len(w.link_rate)
    k = new_tasks(g.successor, job_ptr, w.servers, 0.0)
    routes = _new_routes(w)
    space = filling_space(links, len(routes.low))
    now, changed = np.zeros(1), np.zeros(1, dtype=np.bool_)
    x = Fluid(g, w.link_rate, k, _new_flows(g, w, routes), routes, space, now, changed, restart)
    q = new_queue(tasks + 3)  # each task has at most one event at a time
    announce_first(k, q, 0, tasks, announce)
    run(x, q, np.inf, 1, _next_change, _serve, _handle, _settle)
    carried = np.zeros(links, dtype=np.float64)
    for r in range(len(routes.low)):
        for at in range(routes.low[r], routes.high[r]):
            carried[routes.link[at]] += routes.moved[r]
    latest = k.end.max() if tasks > 0 else 0.0
    return Outcome(latest, k.start, k.end, k.cause, k.first_end, carried, carried / w.link_rate, tasks_left(k))


def simulate(graph: TaskGraph, network: Network) -> Simulation:
    """One iteration; see `TimeModel.run`."""
    require_paths(graph, network)
    outcome = simulate_fluid(graph_arrays(graph, network), network_arrays(network), whole(graph), False)
    return simulation_of(outcome, graph.tasks)


def first_iterations(graph: TaskGraph, network: Network, job_ptr: NDArray[np.int64]) -> NDArray[np.float64]:
    """Jobs together; see `TimeModel.first_iterations`."""
    require_paths(graph, network)
    outcome: Outcome = simulate_fluid(graph_arrays(graph, network), network_arrays(network), job_ptr, True)
    return outcome.first_end


FLUID = TimeModel("flows share links max-min fairly; an independent check", simulate, first_iterations)
