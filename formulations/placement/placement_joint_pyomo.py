"""Readable reference of `placement_joint` in Pyomo; the array builder is held equal to it by tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from formulations.placement.placement_joint import JointPlacement


class _Model:
    """The program in the making: what constraints of several families say of a placement."""

    def __init__(self, data: JointPlacement) -> None:
        self.data = data
        self.model: Any = pyo.ConcreteModel("placement_joint")
        self.maker = [tensor.producer for tensor in data.tensors]
        self.edges = [(t, j) for t, tensor in enumerate(data.tensors) for j in tensor.consumers]
        self.remote = [(t, j) for t, j in self.edges if data.group[j] != data.group[self.maker[t]]]
        self.sendings = [(t, s, e) for t, e in data.ways() for s in data.servers if s != data.server[e]]

    def at(self, i: int, d: int) -> Any:
        """Whether an operator is on a device."""
        return self.model.at[self.data.group[i], d]

    def on(self, i: int, s: int) -> Any:
        """z[g(i),s]."""
        return sum(self.at(i, d) for d in self.data.on(s))

    def run(self, i: int) -> Any:
        """How long an operator takes."""
        return sum(self.data.duration(i, d) * self.at(i, d) for d in self.data.devices)

    def made(self, t: int) -> Any:
        """When a tensor is."""
        return self.model.start[self.maker[t]] + self.run(self.maker[t])

    def volume(self, t: int) -> float:
        """Of a tensor."""
        return self.data.tensors[t].volume

    def taken(self, t: int, s: int, e: int) -> Any:
        """End of a way from a server."""
        return self.model.leave[t, e] + self.data.alpha_ms + self.volume(t) * self.model.slow[s, self.data.server[e]]

    def rows(self, name: str, index: Any, rule: Any) -> None:
        """A family of constraints; `rule` takes the place alone."""
        self.model.add_component(f"{name}_rows", pyo.Constraint(list(index), rule=lambda _, *place: rule(*place)))

    def add_variables(self) -> None:
        """All variables, and the objective."""
        data, model = self.data, self.model
        groups, operators = range(len(data.memory)), range(len(data.group))
        turns = [(*one, *other) for one, other in data.queues()]

        def slow_range(_: Any, s: int, u: int) -> tuple[float, float]:
            least = 1.0 / float(min(data.capacity[s], data.capacity[u]))
            return least, max(least, data.most)

        model.at = pyo.Var(
            groups, data.devices, domain=pyo.Integers, bounds=lambda _, g, d: (0.0, float(data.able(g, d)))
        )
        model.start = pyo.Var(operators, bounds=lambda _, i: data.window(i))
        model.leave = pyo.Var(data.ways(), bounds=(0.0, data.upper_ms))
        model.sent = pyo.Var(self.sendings, bounds=(0.0, 1.0))
        model.used = pyo.Var(data.pairs, bounds=(0.0, 1.0))
        model.slow = pyo.Var(data.pairs, bounds=slow_range)
        model.rate = pyo.Var(data.pairs, bounds=(0.0, None))
        model.before = pyo.Var(data.unordered(), domain=pyo.Binary)
        model.ahead = pyo.Var(turns, domain=pyo.Binary)
        model.span = pyo.Var(bounds=(0.0, data.upper_ms))
        model.objective = pyo.Objective(expr=model.span)

    def add_placing(self) -> None:
        """Every group once, memory, and operators after what they read on their own server or by a signal."""
        data, m = self.data, self.model
        groups, devices, alpha, upper = range(len(data.memory)), data.devices, data.alpha_ms, data.upper_ms
        limited = [d for d in devices if np.isfinite(data.room[d])]
        self.rows("place", groups, lambda g: sum(m.at[g, d] for d in devices) == 1.0)
        self.rows("fit", limited, lambda d: sum(data.memory[g] * m.at[g, d] for g in groups) <= data.room[d])
        self.rows("end", range(len(data.group)), lambda i: m.span >= m.start[i] + self.run(i))
        self.rows("follow", self.edges, lambda t, j: m.start[j] >= self.made(t))

        def inside(t: int, j: int, d: int, e: int) -> Any:
            time = data.tensors[t].inside_ms[data.server[e]]
            far = (upper + time) * (2.0 - self.at(self.maker[t], d) - self.at(j, e))
            return m.start[j] >= self.made(t) + time - far

        near = [
            (t, j, d, e)
            for t, j in self.remote
            for e in devices
            for d in data.on(data.server[e])
            if d != e and data.tensors[t].inside_ms[data.server[e]] > 0
        ]
        self.rows("inside", near, inside)

        def signal(t: int, j: int, s: int, e: int) -> Any:
            far = (upper + alpha) * (2.0 - self.on(self.maker[t], s) - self.at(j, e))
            return m.start[j] >= self.made(t) + alpha - far

        signals = [
            (t, j, s, e)
            for t, j in self.remote
            for e in devices
            for s in data.servers
            if s != data.server[e] and self.volume(t) <= 0 < alpha
        ]
        self.rows("signal", signals, signal)

    def add_sending(self) -> None:
        """Tensors on their way between servers, and the rates the ports allow."""
        data, m = self.data, self.model

        def arrive(t: int, j: int, s: int, e: int) -> Any:
            far = data.big(t) * (2.0 - self.on(self.maker[t], s) - self.at(j, e))
            return m.start[j] >= self.taken(t, s, e) - far

        def tangent(s: int, u: int, n: int) -> Any:
            r = data.points[s, u][n]
            return m.rate[s, u] >= 2.0 / r * m.used[s, u] - m.slow[s, u] / r**2

        self.rows("ready", data.ways(), lambda t, e: m.leave[t, e] >= self.made(t))
        reads = [(t, j, s, e) for t, s, e in self.sendings for j in data.users(t)]
        self.rows("arrive", reads, arrive)
        self.rows("carry", reads, lambda t, j, s, e: m.sent[t, s, e] >= self.on(self.maker[t], s) + self.at(j, e) - 1.0)
        self.rows("use", self.sendings, lambda t, s, e: m.used[s, data.server[e]] >= m.sent[t, s, e])
        points = [(s, u, n) for s, u in data.pairs for n in range(len(data.points.get((s, u), ())))]
        self.rows("tangent", points, tangent)
        ports = data.servers if len(data.servers) > 1 else []
        rate, capacity = m.rate, data.capacity
        self.rows("out", ports, lambda s: sum(rate[a, u] for a, u in data.pairs if a == s) <= float(capacity[s]))
        self.rows("into", ports, lambda u: sum(rate[s, b] for s, b in data.pairs if b == u) <= float(capacity[u]))

    def add_order(self) -> None:
        """One at a time: operators of a device, tensors that leave a server."""
        data, m = self.data, self.model

        def first(i: int, j: int, d: int) -> Any:
            far = data.upper_ms * (3.0 - m.before[i, j] - self.at(i, d) - self.at(j, d))
            return m.start[j] >= m.start[i] + self.run(i) - far

        def second(i: int, j: int, d: int) -> Any:
            far = data.upper_ms * (2.0 + m.before[i, j] - self.at(i, d) - self.at(j, d))
            return m.start[i] >= m.start[j] + self.run(j) - far

        def queue(t: int, e: int, v: int, f: int, s: int) -> Any:
            far = 3.0 - m.ahead[t, e, v, f] - m.sent[t, s, e] - m.sent[v, s, f]
            return m.leave[v, f] >= self.taken(t, s, e) - data.big(t) * far

        def behind(t: int, e: int, v: int, f: int, s: int) -> Any:
            far = 2.0 + m.ahead[t, e, v, f] - m.sent[t, s, e] - m.sent[v, s, f]
            return m.leave[t, e] >= self.taken(v, s, f) - data.big(v) * far

        meet = [(i, j, d) for i, j in data.unordered() for d in data.devices]
        self.rows("first", meet, first)
        self.rows("second", meet, second)
        lanes = [(*one, *other, s) for one, other in data.queues() for s in data.servers if s != data.server[one[1]]]
        self.rows("queue", lanes, queue)
        self.rows("behind", lanes, behind)

    def add_loads(self) -> None:
        """No device and no port works longer than the span."""
        data, m, operators = self.data, self.model, range(len(self.data.group))
        self.rows("work", data.devices, lambda d: m.span >= sum(data.duration(i, d) * self.at(i, d) for i in operators))
        out_of = {s: [way for way in self.sendings if way[1] == s] for s in data.servers}
        into = {u: [way for way in self.sendings if data.server[way[2]] == u] for u in data.servers}

        def passes(ways: dict[int, list[tuple[int, int, int]]]) -> Any:
            return lambda s: float(data.capacity[s]) * m.span >= sum(self.volume(w[0]) * m.sent[w] for w in ways[s])

        self.rows("egress", [s for s in data.servers if out_of[s]], passes(out_of))
        self.rows("ingress", [u for u in data.servers if into[u]], passes(into))


def build_pyomo(data: JointPlacement) -> Any:
    """The program as a Pyomo ConcreteModel; names are those of the module text."""
    made = _Model(data)
    made.add_variables()
    made.add_placing()
    made.add_sending()
    made.add_order()
    made.add_loads()
    return made.model
