"""Flows that share links max-min fairly: state, and the clocks of their routes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Bools, Floats, Int32s, Ints
from topoopt.simulate.engine.flows import first_flows, first_path, ring_bytes, rounds_ms
from topoopt.simulate.engine.graph_events import DONE, event
from topoopt.simulate.engine.max_min import FillingSpace
from topoopt.simulate.engine.queue import Queue
from topoopt.simulate.engine.tasks import Tasks
from topoopt.simulate.jit import kernel, piece
from topoopt.simulate.lower import TRANSFER, GraphArrays
from topoopt.simulate.network import NetworkArrays


class FluidFlows(NamedTuple):
    """F flows, numbered by task.

    Attributes:
        first: int64[T+1], flows of each task; under_way: int64[T], those not done.
        task: int32[F]; route: int64[F]; size, tail: float64[F], bytes, and latency added at the end.
        mark: float64[F], clock of the route at which it ends; following: int64[F], next in its route or -1.
    """

    first: Ints
    under_way: Ints
    task: Int32s
    route: Ints
    size: Floats
    tail: Floats
    mark: Floats
    following: Ints


class Routes(NamedTuple):
    """R routes: all paths, then all rings; the links of route r are link[low[r]:high[r]].

    A route gives each of its `weight` flows the `rate` since `since`, when its clock stood at `clock`; its flows are a
    list from `head` on, in the order of their marks, the first of which is reached at `ends_at`. `moved` are the bytes
    given so far, `filled` the rates computed last; `touched`: flows came or went since the rate was set.
    `active` are the routes with flows, the first active_count[0] of it.
    """

    link: Int32s
    low: Ints
    high: Ints
    weight: Ints
    rate: Floats
    filled: Floats
    clock: Floats
    since: Floats
    ends_at: Floats
    moved: Floats
    touched: Bools
    head: Ints
    active: Ints
    active_count: Ints


class Fluid(NamedTuple):
    """State of a simulation; `now`: float64[1]; `changed`: bool[1], rates are out of date."""

    g: GraphArrays
    link_rate: Floats
    tasks: Tasks
    flows: FluidFlows
    routes: Routes
    space: FillingSpace
    now: Floats
    changed: Bools
    restart: bool


@kernel
def new_routes(w: NetworkArrays) -> Routes:
    """All paths and rings of a network, without flows."""
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


@piece
def new_flows(g: GraphArrays, w: NetworkArrays, routes: Routes) -> FluidFlows:
    """All flows of a task graph, none of them begun."""
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
    return FluidFlows(first, np.zeros(tasks, dtype=np.int64), task, route, size, tail, mark, following)


@piece
def carry(y: Routes, r: int, now: float) -> None:
    """Let a route give its flows their rate until now."""
    span = max(0.0, now - y.since[r])
    y.clock[r] += y.rate[r] * span
    y.moved[r] += y.rate[r] * span * y.weight[r]
    y.since[r] = now


@piece
def next_end(x: Fluid, r: int, now: float) -> float:
    """When the first flow of a route ends."""
    return float(now + (x.flows.mark[x.routes.head[r]] - x.routes.clock[r]) / x.routes.rate[r])


@piece
def end_flows(x: Fluid, q: Queue, r: int, now: float, slack: float) -> None:
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
def begin_flow(x: Fluid, f: int) -> None:
    """Put a flow among those of its route, in the order of their marks."""
    y = x.routes
    r = x.flows.route[f]
    if y.weight[r] == 0:
        y.active[y.active_count[0]] = r
        y.active_count[0] += 1
        y.clock[r] = 0.0
        y.since[r] = x.now[0]
    else:
        carry(y, r, x.now[0])
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
