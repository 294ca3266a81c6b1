"""Readable references in Pyomo of formulations of placements; tests hold the array builders equal to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyomo.environ as pyo

from formulations.dag_topology import DagTopologyProgram
from formulations.job_plans import StrategyChoice
from formulations.placed_graphs import OVER_PRICE, BlockCut, FavouriteChildren, Pair, RateProblem, shares, unordered
from formulations.placement_joint import JointPlacement
from formulations.stage_order import PHASES, StageOrder, first_slots, load_rows, most_load, most_memory
from topoopt.core.arrays import Floats
from topoopt.core.placement import PlacementProblem


def dag_topology_pyomo(data: DagTopologyProgram) -> Any:
    """The same as a Pyomo ConcreteModel, to be read."""
    model = pyo.ConcreteModel("dag_topology")
    transfers, intervals = range(len(data.volume)), range(1, data.intervals + 1)
    bits = [(*pair, bit) for pair in data.pairs for bit in data.bits(pair)]
    horizon = data.horizon
    model.time = pyo.Var(intervals, bounds=(0.0, None))
    model.moved = pyo.Var(transfers, intervals, bounds=(0.0, None))
    model.carries = pyo.Var(transfers, intervals, domain=pyo.Binary)
    model.ready = pyo.Var(transfers, bounds=lambda _, m: (data.release[m], None))
    model.finish = pyo.Var(transfers, bounds=(0.0, None))
    model.bit = pyo.Var(bits, domain=pyo.Binary)
    model.open = pyo.Var(bits, intervals, bounds=(0.0, None))
    model.makespan = pyo.Var(bounds=(data.compute, None))
    model.objective = pyo.Objective(expr=model.makespan)

    def time(k: int) -> Any:
        return model.time[k] if k > 0 else 0.0

    @model.Constraint(transfers)  # type: ignore[untyped-decorator]
    def whole(m: Any, t: int) -> Any:
        return sum(m.moved[t, k] for k in intervals) == data.volume[t]

    @model.Constraint(transfers, intervals)  # type: ignore[untyped-decorator]
    def only(m: Any, t: int, k: int) -> Any:
        return m.moved[t, k] <= data.volume[t] * m.carries[t, k]

    @model.Constraint(transfers, intervals)  # type: ignore[untyped-decorator]
    def begin(m: Any, t: int, k: int) -> Any:
        return m.ready[t] <= time(k - 1) + horizon * (1 - m.carries[t, k])

    @model.Constraint(transfers, intervals)  # type: ignore[untyped-decorator]
    def done(m: Any, t: int, k: int) -> Any:
        return m.time[k] <= m.finish[t] + horizon * (1 - m.carries[t, k])

    @model.Constraint(list(data.delay))  # type: ignore[untyped-decorator]
    def wait(m: Any, s: int, t: int) -> Any:
        return m.ready[t] >= m.finish[s] + data.delay[s, t]

    @model.Constraint(transfers)  # type: ignore[untyped-decorator]
    def last(m: Any, t: int) -> Any:
        return m.makespan >= m.finish[t] + data.tail[t]

    @model.Constraint(sorted(set(data.channels)), intervals)  # type: ignore[untyped-decorator]
    def carry(m: Any, a: int, b: int, k: int) -> Any:
        pair = (min(a, b), max(a, b))
        own = [t for t in transfers if data.channels[t] == (a, b)]
        lengths = sum(2.0**bit * m.open[(*pair, bit), k] for bit in data.bits(pair))
        return sum(m.moved[t, k] for t in own) <= data.rate * lengths

    @model.Constraint(bits, intervals)  # type: ignore[untyped-decorator]
    def within(m: Any, a: int, b: int, bit: int, k: int) -> Any:
        return m.open[a, b, bit, k] <= m.time[k] - time(k - 1)

    @model.Constraint(bits, intervals)  # type: ignore[untyped-decorator]
    def gate(m: Any, a: int, b: int, bit: int, k: int) -> Any:
        return m.open[a, b, bit, k] <= horizon * m.bit[a, b, bit]

    @model.Constraint([i for i in range(len(data.ports)) if any(i in p for p in data.pairs)])  # type: ignore[untyped-decorator]
    def ports(m: Any, i: int) -> Any:
        return sum(2.0 ** entry[2] * m.bit[entry] for entry in bits if i in entry[:2]) <= data.ports[i]

    @model.Constraint(intervals)  # type: ignore[untyped-decorator]
    def order(m: Any, k: int) -> Any:
        return m.time[k] - time(k - 1) >= 0.0

    return model


def strategy_choice_pyomo(data: StrategyChoice) -> Any:
    """The same as a Pyomo model, to be read and to be compared with."""
    splits, pairs = data.splits, data.pairs
    model = pyo.ConcreteModel("strategy_choice")
    model.z = pyo.Var([(o, s) for o, count in enumerate(splits) for s in range(count)], domain=pyo.Binary)
    both = [(e, s, t) for e, (u, v) in enumerate(pairs) for s in range(splits[u]) for t in range(splits[v])]
    model.p = pyo.Var(both, bounds=(0, 1))
    model.y = pyo.Var(range(len(data.quantities)))
    model.x = pyo.Var(range(data.events))
    model.x[0].fix(0.0)
    model.end = pyo.Objective(expr=model.x[data.events - 1], sense=pyo.minimize)
    rule: Callable[..., Any] = pyo.Constraint

    model.choose = rule(range(len(splits)), rule=lambda m, o: sum(m.z[o, s] for s in range(splits[o])) == 1)
    model.producer = rule(
        [(e, s) for e, (u, _) in enumerate(pairs) for s in range(splits[u])],
        rule=lambda m, e, s: sum(m.p[e, s, t] for t in range(splits[pairs[e][1]])) == m.z[pairs[e][0], s],
    )
    model.consumer = rule(
        [(e, t) for e, (_, v) in enumerate(pairs) for t in range(splits[v])],
        rule=lambda m, e, t: sum(m.p[e, s, t] for s in range(splits[pairs[e][0]])) == m.z[pairs[e][1], t],
    )

    def measure(m: Any, q: int) -> Any:
        index, values = data.quantities[q]
        if values.ndim == 1:
            return m.y[q] == sum(float(values[s]) * m.z[index, s] for s in range(len(values)))
        first, second = values.shape
        return m.y[q] == sum(float(values[s, t]) * m.p[index, s, t] for s in range(first) for t in range(second))

    def law(m: Any, a: int) -> Any:
        this = data.laws[a]
        cost = this.constant + sum(coefficient * m.y[q] for q, coefficient in this.terms)
        return m.x[this.head] - m.x[this.tail] >= cost

    model.measure = rule(range(len(data.quantities)), rule=measure)
    model.law = rule(range(len(data.laws)), rule=law)
    if data.memory_share is not None:
        used = sum(
            float(data.memory_share[o][s]) * model.z[o, s] for o, count in enumerate(splits) for s in range(count)
        )
        model.memory = rule(expr=used <= 1.0)
    if data.allowed is not None:
        for o, mask in enumerate(data.allowed):
            for s in np.flatnonzero(~mask).tolist():
                model.z[o, s].fix(0)
    return model


def block_cut_pyomo(data: BlockCut) -> Any:
    """The same as a Pyomo ConcreteModel, to be read."""
    model = pyo.ConcreteModel("block_cut")
    blocks, tensors = range(len(data.work_ms)), list(data.cost_ms)
    ends = [(e, b) for e, touched in enumerate(tensors) for b in touched]
    model.inside = pyo.Var(blocks, bounds=lambda _, b: (float(b == data.block), 1.0))
    model.high = pyo.Var(range(len(tensors)), bounds=(0.0, 1.0))
    model.low = pyo.Var(range(len(tensors)), bounds=(0.0, 1.0))
    model.over = pyo.Var(bounds=(0.0, None))
    cut = sum(data.cost_ms[touched] * (model.high[e] - model.low[e]) for e, touched in enumerate(tensors))
    model.objective = pyo.Objective(expr=cut + OVER_PRICE * model.over)

    @model.Constraint(ends)  # type: ignore[untyped-decorator]
    def above(m: Any, e: int, b: int) -> Any:
        return m.high[e] >= m.inside[b]

    @model.Constraint(ends)  # type: ignore[untyped-decorator]
    def below(m: Any, e: int, b: int) -> Any:
        return m.inside[b] >= m.low[e]

    work = sum(float(data.work_ms[b]) * model.inside[b] for b in blocks)
    model.within = pyo.Constraint(expr=work + cut - model.over <= data.limit_ms)
    return model


def favourite_children_pyomo(data: FavouriteChildren) -> Any:
    """The same as a Pyomo ConcreteModel, to be read."""
    model = pyo.ConcreteModel("favourite_children")
    operators, edges = range(len(data.time_ms)), list(data.cost_ms)
    children, parents = data.children(), data.parents()
    model.start = pyo.Var(operators, bounds=(0.0, None))
    model.remote = pyo.Var(edges, bounds=(0.0, 1.0))
    model.span = pyo.Var(bounds=(0.0, None))
    model.objective = pyo.Objective(expr=model.span)

    @model.Constraint(edges)  # type: ignore[untyped-decorator]
    def wait(m: Any, i: int, j: int) -> Any:
        return m.start[j] >= m.start[i] + float(data.time_ms[i]) + data.cost_ms[i, j] * m.remote[i, j]

    @model.Constraint(list(children))  # type: ignore[untyped-decorator]
    def child(m: Any, i: int) -> Any:
        return sum(m.remote[i, j] for j in children[i]) >= len(children[i]) - 1.0

    @model.Constraint(list(parents))  # type: ignore[untyped-decorator]
    def parent(m: Any, j: int) -> Any:
        return sum(m.remote[i, j] for i in parents[j]) >= len(parents[j]) - 1.0

    @model.Constraint(operators)  # type: ignore[untyped-decorator]
    def last(m: Any, i: int) -> Any:
        return m.span >= m.start[i] + float(data.time_ms[i])

    return model


def link_packing_pyomo(rate: Floats, capacity: Floats, scale: float | None = None) -> Any:
    """The same as a Pyomo ConcreteModel, to be read."""
    model = pyo.ConcreteModel("link_packing")
    table = shares(rate, capacity)
    pairs = [(int(s), int(t)) for s, t in np.argwhere(rate > 0)]
    model.share = pyo.Var(table, bounds=(0.0, None))
    model.scale = pyo.Var(bounds=(scale or 0.0, 1.0 if scale is None else scale))

    @model.Constraint(pairs)  # type: ignore[untyped-decorator]
    def carry(m: Any, s: int, t: int) -> Any:
        return sum(m.share[share] for share in table if share[:2] == (s, t)) - float(rate[s, t]) * m.scale == 0.0

    for name, end in (("out", 0), ("into", 1)):
        ports = sorted({(share[end], share[2]) for share in table})

        def port(m: Any, s: int, link: int, end: int = end) -> Any:
            return sum(m.share[share] for share in table if (share[end], share[2]) == (s, link)) <= float(
                capacity[s, link]
            )

        model.add_component(name, pyo.Constraint(ports, rule=port))
    if scale is None:
        model.objective = pyo.Objective(expr=-model.scale)
        return model
    model.used = pyo.Var(table, domain=pyo.Binary)

    @model.Constraint(table)  # type: ignore[untyped-decorator]
    def switch(m: Any, s: int, t: int, link: int) -> Any:
        most = float(min(capacity[s, link], capacity[t, link], rate[s, t]))
        return m.share[s, t, link] - most * m.used[s, t, link] <= 0.0

    model.objective = pyo.Objective(expr=sum(model.used[share] for share in table))
    return model


def placement_makespan_pyomo(
    problem: PlacementProblem, upper_ms: float, send_ms: Callable[[int, int, int], float]
) -> Any:
    """The program as a Pyomo ConcreteModel; arguments and names as in the module text."""
    model = pyo.ConcreteModel("placement_makespan")
    members = problem.colocated()
    of = {i: g for g, group in enumerate(members) for i in group}
    groups, operators, devices = range(len(members)), range(len(problem.operators)), range(len(problem.devices))

    def able(_: Any, g: int, d: int) -> tuple[float, float]:
        return 0.0, float(all(problem.supports(i, d) for i in members[g]))

    pairs = unordered(problem)
    model.at = pyo.Var(groups, devices, domain=pyo.Integers, bounds=able)
    model.start = pyo.Var(operators, bounds=(0.0, upper_ms))
    model.span = pyo.Var(bounds=(0.0, upper_ms))
    model.before = pyo.Var(pairs, domain=pyo.Binary)
    model.objective = pyo.Objective(expr=model.span)

    def time(i: int, d: int) -> float:
        return problem.time_ms(i, d) if problem.supports(i, d) else 0.0

    def run(i: int) -> Any:
        return sum(time(i, d) * model.at[of[i], d] for d in devices)

    @model.Constraint(groups)  # type: ignore[untyped-decorator]
    def place(m: Any, g: int) -> Any:
        return sum(m.at[g, d] for d in devices) == 1.0

    @model.Constraint([d for d in devices if problem.devices[d].memory_bytes is not None])  # type: ignore[untyped-decorator]
    def fit(m: Any, d: int) -> Any:
        held = sum(sum(problem.operators[i].memory_bytes for i in members[g]) * m.at[g, d] for g in groups)
        return held <= float(problem.devices[d].memory_bytes or 0)

    @model.Constraint(operators)  # type: ignore[untyped-decorator]
    def end(m: Any, i: int) -> Any:
        return m.span >= m.start[i] + run(i)

    edges = [(t, j) for t, tensor in enumerate(problem.tensors) for j in tensor.consumers]

    @model.Constraint(edges)  # type: ignore[untyped-decorator]
    def follow(m: Any, t: int, j: int) -> Any:
        i = problem.tensors[t].producer
        return m.start[j] >= m.start[i] + run(i)

    apart = [(t, j) for t, j in edges if of[problem.tensors[t].producer] != of[j]]

    @model.Constraint([(t, j, d, e) for t, j in apart for d in devices for e in devices if d != e])  # type: ignore[untyped-decorator]
    def send(m: Any, t: int, j: int, d: int, e: int) -> Any:
        i, sends = problem.tensors[t].producer, send_ms(t, d, e)
        far = (upper_ms + sends) * (2.0 - m.at[of[i], d] - m.at[of[j], e])
        return m.start[j] >= m.start[i] + run(i) + sends - far

    meet = [(i, j, d) for i, j in pairs for d in devices]

    @model.Constraint(meet)  # type: ignore[untyped-decorator]
    def first(m: Any, i: int, j: int, d: int) -> Any:
        far = upper_ms * (3.0 - m.before[i, j] - m.at[of[i], d] - m.at[of[j], d])
        return m.start[j] >= m.start[i] + run(i) - far

    @model.Constraint(meet)  # type: ignore[untyped-decorator]
    def second(m: Any, i: int, j: int, d: int) -> Any:
        far = upper_ms * (2.0 + m.before[i, j] - m.at[of[i], d] - m.at[of[j], d])
        return m.start[i] >= m.start[j] + run(j) - far

    @model.Constraint(devices)  # type: ignore[untyped-decorator]
    def work(m: Any, d: int) -> Any:
        return m.span >= sum(time(i, d) * m.at[of[i], d] for i in operators)

    return model


def placement_rates_pyomo(problem: RateProblem, points: Sequence[Mapping[Pair, float]]) -> Any:
    """The same as a Pyomo ConcreteModel, to be read."""
    model = pyo.ConcreteModel("placement_rates")
    activities, pairs, ports = range(len(problem.fixed_ms)), list(problem.pairs), problem.ports()
    model.start = pyo.Var(activities, bounds=(0.0, None))
    model.slow = pyo.Var(
        pairs, bounds=lambda _, s, t: (1.0 / float(min(problem.capacity[s], problem.capacity[t])), None)
    )
    model.makespan = pyo.Var(bounds=(0.0, None))  # span is the name of rows (2)
    model.objective = pyo.Objective(expr=model.makespan)

    def end(u: int) -> Any:
        pair = problem.pair[u]
        sends = 0.0 if pair is None else float(problem.volume[u]) * model.slow[pair]
        return model.start[u] + float(problem.fixed_ms[u]) + sends

    lag = {(u, v): lag for u, v, lag in problem.arcs}

    @model.Constraint(list(lag))  # type: ignore[untyped-decorator]
    def follow(m: Any, u: int, v: int) -> Any:
        return m.start[v] >= end(u) + lag[u, v]

    @model.Constraint(activities)  # type: ignore[untyped-decorator]
    def span(m: Any, u: int) -> Any:
        return m.makespan >= end(u)

    for name in ("out", "into"):
        rows = pyo.Constraint(pyo.Any)
        model.add_component(name, rows)
        for number, point in enumerate(points):
            for (direction, s), members in ports.items():
                if direction == name:
                    rates = sum(2.0 / point[pair] - model.slow[pair] / point[pair] ** 2 for pair in members)
                    rows[s, number] = rates <= float(problem.capacity[s])
    return model


class _JointPlacementModel:
    def __init__(self, data: JointPlacement) -> None:
        self.pyo = pyo
        self.data = data
        self.model: Any = self.pyo.ConcreteModel("placement_joint")
        self.maker = [tensor.producer for tensor in data.tensors]
        self.edges = [(t, j) for t, tensor in enumerate(data.tensors) for j in tensor.consumers]
        self.remote = [(t, j) for t, j in self.edges if data.group[j] != data.group[self.maker[t]]]
        self.sendings = [(t, s, e) for t, e in data.deliveries() for s in data.servers if s != data.server[e]]

    def at(self, i: int, d: int) -> Any:
        """Whether an operator is on a device."""
        return self.model.at[self.data.group[i], d]

    def on(self, i: int, s: int) -> Any:
        return sum(self.at(i, d) for d in self.data.on(s))

    def run(self, i: int) -> Any:
        """Return how long an operator takes on the device of its group."""
        return sum(self.data.duration(i, d) * self.at(i, d) for d in self.data.devices)

    def made(self, t: int) -> Any:
        return self.model.start[self.maker[t]] + self.run(self.maker[t])

    def volume(self, t: int) -> float:
        return self.data.tensors[t].volume

    def taken(self, t: int, s: int, e: int) -> Any:
        """End of a way from a server."""
        return self.model.leave[t, e] + self.data.alpha_ms + self.volume(t) * self.model.slow[s, self.data.server[e]]

    def rows(self, name: str, index: Any, rule: Any) -> None:
        """A family of constraints; `rule` takes the place alone."""
        self.model.add_component(f"{name}_rows", self.pyo.Constraint(list(index), rule=lambda _, *index: rule(*index)))

    def add_variables(self) -> None:
        data, model = self.data, self.model
        groups, operators = range(len(data.memory)), range(len(data.group))
        turns = [(*first, *other) for first, other in data.queues()]

        def slow_range(_: Any, s: int, u: int) -> tuple[float, float]:
            least = 1.0 / float(min(data.capacity[s], data.capacity[u]))
            return least, max(least, data.most)

        model.at = self.pyo.Var(
            groups, data.devices, domain=self.pyo.Integers, bounds=lambda _, g, d: (0.0, float(data.able(g, d)))
        )
        model.start = self.pyo.Var(operators, bounds=lambda _, i: data.window(i))
        model.leave = self.pyo.Var(data.deliveries(), bounds=(0.0, data.upper_ms))
        model.sent = self.pyo.Var(self.sendings, bounds=(0.0, 1.0))
        model.used = self.pyo.Var(data.pairs, bounds=(0.0, 1.0))
        model.slow = self.pyo.Var(data.pairs, bounds=slow_range)
        model.rate = self.pyo.Var(data.pairs, bounds=(0.0, None))
        model.before = self.pyo.Var(data.unordered(), domain=self.pyo.Binary)
        model.ahead = self.pyo.Var(turns, domain=self.pyo.Binary)
        model.span = self.pyo.Var(bounds=(0.0, data.upper_ms))
        model.objective = self.pyo.Objective(expr=model.span)

    def add_placing(self) -> None:
        """Every group once, memory, and operators after what they read on their own server or by a signal."""
        data, m = self.data, self.model
        groups, devices, alpha, upper = range(len(data.memory)), data.devices, data.alpha_ms, data.upper_ms
        limited = [d for d in devices if np.isfinite(data.limit[d])]
        self.rows("place", groups, lambda g: sum(m.at[g, d] for d in devices) == 1.0)
        self.rows("fit", limited, lambda d: sum(data.memory[g] * m.at[g, d] for g in groups) <= data.limit[d])
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

        self.rows("ready", data.deliveries(), lambda t, e: m.leave[t, e] >= self.made(t))
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
        lanes = [
            (*first, *other, s) for first, other in data.queues() for s in data.servers if s != data.server[first[1]]
        ]
        self.rows("queue", lanes, queue)
        self.rows("behind", lanes, behind)

    def add_loads(self) -> None:
        """No device and no port works longer than the span."""
        data, m, operators = self.data, self.model, range(len(self.data.group))
        self.rows("work", data.devices, lambda d: m.span >= sum(data.duration(i, d) * self.at(i, d) for i in operators))
        out_of = {s: [delivery for delivery in self.sendings if delivery[1] == s] for s in data.servers}
        into = {u: [delivery for delivery in self.sendings if data.server[delivery[2]] == u] for u in data.servers}

        def passes(deliveries: dict[int, list[tuple[int, int, int]]]) -> Any:
            return lambda s: (
                float(data.capacity[s]) * m.span >= sum(self.volume(w[0]) * m.sent[w] for w in deliveries[s])
            )

        self.rows("egress", [s for s in data.servers if out_of[s]], passes(out_of))
        self.rows("ingress", [u for u in data.servers if into[u]], passes(into))


def placement_joint_pyomo(data: JointPlacement) -> Any:
    """The program as a Pyomo ConcreteModel; names are those of the module text."""
    made = _JointPlacementModel(data)
    made.add_variables()
    made.add_placing()
    made.add_sending()
    made.add_order()
    made.add_loads()
    return made.model


def stage_order_pyomo(data: StageOrder) -> Any:
    """The program as a Pyomo ConcreteModel; names are those of the module text."""
    blocks, slots, groups = range(data.blocks), range(data.slots), range(len(data.group_count))
    stages = range(len(data.slot_of_stage or ()))
    chosen = data.group_of_slot is None
    model = pyo.ConcreteModel("stage_order")
    top = None if np.isinf(data.upper) else data.upper
    number = pyo.NonNegativeIntegers if data.whole else pyo.NonNegativeReals
    if data.gpipe:
        for name in PHASES:
            model.add_component(name, pyo.Var(domain=number, bounds=(0.0, top)))
        model.objective = pyo.Objective(expr=model.forward + model.backward)
    else:
        model.busiest = pyo.Var(domain=number, bounds=(data.lower, top))  # Pyomo has taken the name load
        model.objective = pyo.Objective(expr=model.busiest)
    model.h = pyo.Var(range(len(data.nets)), slots, domain=number, bounds=(0.0, 1.0))
    if chosen:
        model.g = pyo.Var(slots, groups, domain=pyo.Binary)
    _add_stage_positions(model, data)

    def inside(b: int, s: int) -> Any:
        if data.slot_of_stage is None:
            return model.x[b, s]
        own = [j for j in stages if data.slot_of_stage is not None and data.slot_of_stage[j] == s]
        return sum(model.y[b, j] - (model.y[b, j - 1] if j else 0.0) for j in own)

    crossings = [(t, v, s) for t, net in enumerate(data.nets) for v in net.targets for s in slots]

    @model.Constraint(crossings)  # type: ignore[untyped-decorator]
    def leave(m: Any, t: int, v: int, s: int) -> Any:
        return inside(data.nets[t].source, s) - inside(v, s) - m.h[t, s] <= 0.0

    @model.Constraint(crossings)  # type: ignore[untyped-decorator]
    def enter(m: Any, t: int, v: int, s: int) -> Any:
        return inside(v, s) - inside(data.nets[t].source, s) - m.h[t, s] <= 0.0

    places = [(s, q) for s in slots for q in groups if data.group_of_slot is None or data.group_of_slot[s] == q]

    def key(*index: int) -> Any:
        """Rows of slots whose group is known are numbered by slot alone."""
        kept = index if chosen else index[:-1]
        return kept if len(kept) > 1 else kept[0]

    for name, phases, compute, communication in load_rows(data):
        kind = "" if not data.overlapped else "_compute" if compute else "_communication"
        rows = pyo.Constraint(pyo.Any)
        model.add_component(f"{name}{kind}_rows", rows)
        for s, q in places:
            pays = communication and not data.group_host[q]
            if not compute and not pays:
                continue
            work = sum(float(data.work[phase, b, q]) * inside(b, s) for b in blocks for phase in phases if compute)
            paid = [t for t, net in enumerate(data.nets) if net.phase in phases and pays]
            sent = sum(float(data.net_ms[t, q]) * model.h[t, s] for t in paid)
            slack = most_load(data, q, phases) * (1.0 - model.g[s, q]) if chosen else 0.0
            rows[key(s, q)] = work + sent - getattr(model, "busiest" if name == "load" else name) - slack <= 0.0
    model.memory = pyo.Constraint(pyo.Any)
    model.support = pyo.Constraint(pyo.Any)
    for s, q in places:
        if (spare := most_memory(data, q)) > 0:
            held = sum(float(data.memory[b]) * inside(b, s) for b in blocks)
            limit = data.group_memory[q] + (spare * (1.0 - model.g[s, q]) if chosen else 0.0)
            model.memory[key(s, q)] = held - limit <= 0.0
        for b in np.flatnonzero(np.isinf(data.time[:, :, q]).any(axis=0)).tolist():
            model.support[key(b, s, q)] = inside(b, s) + (model.g[s, q] if chosen else 0.0) <= (1.0 if chosen else 0.0)
    if chosen:

        @model.Constraint(slots)  # type: ignore[untyped-decorator]
        def one_group(m: Any, s: int) -> Any:
            return sum(m.g[s, q] for q in groups) == 1.0

        @model.Constraint(groups)  # type: ignore[untyped-decorator]
        def devices(m: Any, q: int) -> Any:
            return sum(m.g[s, q] for s in slots) == float(data.group_count[q])

    return model


def _add_stage_positions(model: Any, data: StageOrder) -> None:
    blocks, slots = range(data.blocks), range(data.slots)
    if data.slot_of_stage is None:
        rank = {slot: i for members in first_slots(data) for i, slot in enumerate(members)}
        model.x = pyo.Var(
            blocks, slots, domain=pyo.Integers, bounds=lambda _, b, s: (0.0, 1.0 if rank[s] <= b else 0.0)
        )

        @model.Constraint(blocks)  # type: ignore[untyped-decorator]
        def somewhere(m: Any, b: int) -> Any:
            return sum(m.x[b, s] for s in slots) == 1.0

        return
    last = len(data.slot_of_stage) - 1
    model.y = pyo.Var(
        blocks, range(last + 1), domain=pyo.Integers, bounds=lambda _, b, j: (1.0 if j == last else 0.0, 1.0)
    )

    @model.Constraint(blocks, range(last))  # type: ignore[untyped-decorator]
    def ladder(m: Any, b: int, j: int) -> Any:
        return m.y[b, j] - m.y[b, j + 1] <= 0.0

    @model.Constraint([(u, v, j) for u, v in data.order.tolist() for j in range(last)])  # type: ignore[untyped-decorator]
    def order(m: Any, u: int, v: int, j: int) -> Any:
        return m.y[v, j] - m.y[u, j] <= 0.0
