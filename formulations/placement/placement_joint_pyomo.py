"""Readable reference of `placement_joint` in Pyomo; the array builder is held equal to it by tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from formulations.placement.placement_joint import JointPlacement


def build_pyomo(data: JointPlacement) -> Any:
    """The program as a Pyomo ConcreteModel; names are those of the module text."""
    model = pyo.ConcreteModel("placement_joint")
    groups, operators, devices = range(len(data.memory)), range(len(data.group)), data.devices
    ways, pairs, servers = data.ways(), data.pairs, data.servers
    sendings = [(t, s, e) for t, e in ways for s in servers if s != data.server[e]]
    turns = [(*one, *other) for one, other in data.queues()]
    upper, alpha = data.upper_ms, data.alpha_ms
    model.at = pyo.Var(groups, devices, domain=pyo.Integers, bounds=lambda _, g, d: (0.0, float(data.able(g, d))))
    model.start = pyo.Var(operators, bounds=lambda _, i: data.window(i))
    model.leave = pyo.Var(ways, bounds=(0.0, upper))
    model.sent = pyo.Var(sendings, bounds=(0.0, 1.0))
    model.used = pyo.Var(pairs, bounds=(0.0, 1.0))

    def slow_range(_: Any, s: int, u: int) -> tuple[float, float]:
        least = 1.0 / float(min(data.capacity[s], data.capacity[u]))
        return least, max(least, data.most)

    model.slow = pyo.Var(pairs, bounds=slow_range)
    model.rate = pyo.Var(pairs, bounds=(0.0, None))
    model.before = pyo.Var(data.unordered(), domain=pyo.Binary)
    model.ahead = pyo.Var(turns, domain=pyo.Binary)
    model.span = pyo.Var(bounds=(0.0, upper))
    model.objective = pyo.Objective(expr=model.span)

    def at(i: int, d: int) -> Any:
        return model.at[data.group[i], d]

    def on(i: int, s: int) -> Any:
        """z[g(i),s]."""
        return sum(at(i, d) for d in data.on(s))

    def run(i: int) -> Any:
        return sum(data.duration(i, d) * at(i, d) for d in devices)

    def volume(t: int) -> float:
        return data.tensors[t].volume

    def rows(name: str, index: Any, rule: Any) -> None:
        model.add_component(f"{name}_rows", pyo.Constraint(list(index), rule=rule))

    edges = [(t, j) for t, tensor in enumerate(data.tensors) for j in tensor.consumers]
    remote = [(t, j) for t, j in edges if data.group[j] != data.group[data.tensors[t].producer]]
    maker = [tensor.producer for tensor in data.tensors]
    limited = [d for d in devices if np.isfinite(data.room[d])]
    rows("place", groups, lambda m, g: sum(m.at[g, d] for d in devices) == 1.0)
    rows("fit", limited, lambda m, d: sum(data.memory[g] * m.at[g, d] for g in groups) <= data.room[d])
    rows("end", operators, lambda m, i: m.span >= m.start[i] + run(i))
    rows("follow", edges, lambda m, t, j: m.start[j] >= m.start[maker[t]] + run(maker[t]))

    def inside(m: Any, t: int, j: int, d: int, e: int) -> Any:
        time = data.tensors[t].inside_ms[data.server[e]]
        far = (upper + time) * (2.0 - at(maker[t], d) - at(j, e))
        return m.start[j] >= m.start[maker[t]] + run(maker[t]) + time - far

    near = [
        (t, j, d, e)
        for t, j in remote
        for e in devices
        for d in data.on(data.server[e])
        if d != e and data.tensors[t].inside_ms[data.server[e]] > 0
    ]
    rows("inside", near, inside)

    def signal(m: Any, t: int, j: int, s: int, e: int) -> Any:
        far = (upper + alpha) * (2.0 - on(maker[t], s) - at(j, e))
        return m.start[j] >= m.start[maker[t]] + run(maker[t]) + alpha - far

    signals = [
        (t, j, s, e)
        for t, j in remote
        for e in devices
        for s in servers
        if s != data.server[e] and volume(t) <= 0 < alpha
    ]
    rows("signal", signals, signal)
    rows("ready", ways, lambda m, t, e: m.leave[t, e] >= m.start[maker[t]] + run(maker[t]))

    def taken(m: Any, t: int, s: int, e: int) -> Any:
        """End of a way from a server."""
        return m.leave[t, e] + alpha + volume(t) * m.slow[s, data.server[e]]

    def arrive(m: Any, t: int, j: int, s: int, e: int) -> Any:
        return m.start[j] >= taken(m, t, s, e) - data.big(t) * (2.0 - on(maker[t], s) - at(j, e))

    reads = [(t, j, s, e) for t, s, e in sendings for j in data.users(t)]
    rows("arrive", reads, arrive)
    rows("carry", reads, lambda m, t, j, s, e: m.sent[t, s, e] >= on(maker[t], s) + at(j, e) - 1.0)
    rows("use", sendings, lambda m, t, s, e: m.used[s, data.server[e]] >= m.sent[t, s, e])

    def tangent(m: Any, s: int, u: int, n: int) -> Any:
        r = data.points[s, u][n]
        return m.rate[s, u] >= 2.0 / r * m.used[s, u] - m.slow[s, u] / r**2

    rows("tangent", [(s, u, n) for s, u in pairs for n in range(len(data.points.get((s, u), ())))], tangent)
    ports = servers if len(servers) > 1 else []
    rows("out", ports, lambda m, s: sum(m.rate[a, u] for a, u in pairs if a == s) <= float(data.capacity[s]))
    rows("into", ports, lambda m, u: sum(m.rate[s, b] for s, b in pairs if b == u) <= float(data.capacity[u]))

    def first(m: Any, i: int, j: int, d: int) -> Any:
        return m.start[j] >= m.start[i] + run(i) - upper * (3.0 - m.before[i, j] - at(i, d) - at(j, d))

    def second(m: Any, i: int, j: int, d: int) -> Any:
        return m.start[i] >= m.start[j] + run(j) - upper * (2.0 + m.before[i, j] - at(i, d) - at(j, d))

    meet = [(i, j, d) for i, j in data.unordered() for d in devices]
    rows("first", meet, first)
    rows("second", meet, second)

    def queue(m: Any, t: int, e: int, v: int, f: int, s: int) -> Any:
        far = 3.0 - m.ahead[t, e, v, f] - m.sent[t, s, e] - m.sent[v, s, f]
        return m.leave[v, f] >= taken(m, t, s, e) - data.big(t) * far

    def behind(m: Any, t: int, e: int, v: int, f: int, s: int) -> Any:
        far = 2.0 + m.ahead[t, e, v, f] - m.sent[t, s, e] - m.sent[v, s, f]
        return m.leave[t, e] >= taken(m, v, s, f) - data.big(v) * far

    lanes = [(*turn, s) for turn in turns for s in servers if s != data.server[turn[1]]]
    rows("queue", lanes, queue)
    rows("behind", lanes, behind)
    rows("work", devices, lambda m, d: m.span >= sum(data.duration(i, d) * at(i, d) for i in operators))
    out_of = {s: [way for way in sendings if way[1] == s] for s in servers}
    into = {u: [way for way in sendings if data.server[way[2]] == u] for u in servers}

    def passes(ways_at: dict[int, list[tuple[int, int, int]]]) -> Any:
        return lambda m, s: float(data.capacity[s]) * m.span >= sum(volume(way[0]) * m.sent[way] for way in ways_at[s])

    rows("egress", [s for s in servers if out_of[s]], passes(out_of))
    rows("ingress", [u for u in servers if into[u]], passes(into))
    return model
