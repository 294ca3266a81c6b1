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

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.taskgraph import TaskGraph
from topoopt.simulate.engine.graph_events import DONE, READY, SEND, announce, begin_task, event, task_of, what_of
from topoopt.simulate.engine.loop import run
from topoopt.simulate.engine.max_min import fill_rates, filling_space
from topoopt.simulate.engine.outcome import Outcome
from topoopt.simulate.engine.queue import Queue, new_queue
from topoopt.simulate.engine.tasks import all_jobs_done, announce_first, new_tasks, release, tasks_left
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.lower import GraphArrays, graph_arrays
from topoopt.simulate.network import Network, NetworkArrays, network_arrays
from topoopt.simulate.time_models.fluid_routes import (
    Fluid,
    begin_flow,
    carry,
    end_flows,
    new_flows,
    new_routes,
    next_end,
)
from topoopt.simulate.time_models.time_model import Simulation, TimeModel, require_paths, simulation_of, whole

TOGETHER = 1e-11
"""Part of the time by which events may differ that are taken together: far above rounding, far below what matters."""


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
    slack = TOGETHER * now  # never below the rounding of `now`, or time would stand still
    kept = 0
    for i in range(y.active_count[0]):
        r = y.active[i]
        if y.ends_at[r] <= now + slack:
            carry(y, r, now)
            end_flows(x, q, r, now, slack)
            if y.head[r] < 0:
                y.rate[r] = 0.0
                y.ends_at[r] = np.inf
                y.touched[r] = False
                continue
            y.ends_at[r] = next_end(x, r, now)
        y.active[kept] = r
        kept += 1
    y.active_count[0] = kept
    return float(now + slack)


@piece
def _send(x: Fluid, q: Queue, t: int, at: float) -> None:
    x.tasks.end[t] = at
    for f in range(x.flows.first[t], x.flows.first[t + 1]):
        if x.flows.size[f] > 0.0:
            begin_flow(x, f)
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
    for i in range(len(active)):
        r = active[i]
        if y.filled[r] != y.rate[r] or y.touched[r]:
            carry(y, r, x.now[0])
            y.rate[r] = max(0.0, y.filled[r])
            y.touched[r] = False
            y.ends_at[r] = next_end(x, r, x.now[0]) if y.rate[r] > 0.0 else np.inf
    return False


@kernel
def simulate_fluid(g: GraphArrays, w: NetworkArrays, job_ptr: Ints, restart: bool) -> Outcome:
    """Simulate jobs until each has done one iteration; the tasks of job j are job_ptr[j]..job_ptr[j+1].

    With `restart`, a job that is done begins again at once (unless it took no time), until the last one has finished
    its first iteration.
    """
    tasks, links = len(g.kind), len(w.link_rate)
    k = new_tasks(g.successor, job_ptr, w.servers, 0.0)
    routes = new_routes(w)
    space = filling_space(links, len(routes.low))
    now, changed = np.zeros(1), np.zeros(1, dtype=np.bool_)
    x = Fluid(g, w.link_rate, k, new_flows(g, w, routes), routes, space, now, changed, restart)
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
    network.require_rings("fluid")
    outcome = simulate_fluid(graph_arrays(graph, network), network_arrays(network), whole(graph), False)
    return simulation_of(outcome, graph.tasks)


def first_iterations(graph: TaskGraph, network: Network, job_ptr: Ints) -> Floats:
    """Jobs together; see `TimeModel.first_iterations`."""
    require_paths(graph, network)
    network.require_rings("fluid")
    outcome: Outcome = simulate_fluid(graph_arrays(graph, network), network_arrays(network), job_ptr, True)
    return outcome.first_end


FLUID = TimeModel("flows share links max-min fairly; an independent check", simulate, first_iterations)
