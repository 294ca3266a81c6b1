"""Readable reference of `formulations.job.joint_plan` in Pyomo; the array builder is held equal to it by tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyomo.environ as pyo

from formulations.job.joint_plan import JointPlan


def build_pyomo(data: JointPlan) -> Any:
    """The program as a Pyomo ConcreteModel; names are those of the module text."""
    model = pyo.ConcreteModel("joint_plan")
    servers, arcs, bundles = range(data.servers), data.arcs, data.bundles
    numbers = range(data.degree + 1)
    options = [range(len(of)) for of in data.options]
    model.y = pyo.Var([(o, a) for o, of in enumerate(options) for a in of], domain=pyo.Binary)
    both = [(e, a, c) for e, (u, v) in enumerate(data.pairs) for a in options[u] for c in options[v]]
    model.p = pyo.Var(both, bounds=(0, 1))
    model.links = pyo.Var(bundles, numbers, domain=pyo.Binary)
    model.part = pyo.Var(bundles, numbers, domain=pyo.NonNegativeReals)
    rings = [(g, r) for g, orders in enumerate(data.rings) for r in range(len(orders))]
    model.ring = pyo.Var(rings, domain=pyo.NonNegativeReals)
    model.flow = pyo.Var([(s, i, j) for s in servers for i, j in arcs if j != s], domain=pyo.NonNegativeReals)
    model.first = pyo.Var(range(len(options)), domain=pyo.NonNegativeReals)
    model.turned = pyo.Var(range(len(options)), domain=pyo.NonNegativeReals)
    model.compute = pyo.Var(domain=pyo.NonNegativeReals)
    model.theta = pyo.Var(bounds=(0, data.theta_most))
    model.end = pyo.Objective(expr=model.compute + model.theta, sense=pyo.minimize)
    _add_strategy(model, data, options)
    _add_compute(model, data, options)
    _add_links(model, data)
    _add_traffic(model, data, options)
    _add_connected(model, data, "reach", 1)
    if not data.bidirectional:
        _add_connected(model, data, "back", -1)
    return model


_RULE: Callable[..., Any] = pyo.Constraint


def _add_strategy(model: Any, data: JointPlan, options: list[range]) -> None:
    pairs = data.pairs
    model.choose = _RULE(range(len(options)), rule=lambda m, o: sum(m.y[o, a] for a in options[o]) == 1)
    model.producer = _RULE(
        [(e, a) for e, (u, _) in enumerate(pairs) for a in options[u]],
        rule=lambda m, e, a: sum(m.p[e, a, c] for c in options[pairs[e][1]]) == m.y[pairs[e][0], a],
    )
    model.consumer = _RULE(
        [(e, c) for e, (_, v) in enumerate(pairs) for c in options[v]],
        rule=lambda m, e, c: sum(m.p[e, a, c] for a in options[pairs[e][0]]) == m.y[pairs[e][1], c],
    )


def _add_compute(model: Any, data: JointPlan, options: list[range]) -> None:
    every = [(o, a) for o, of in enumerate(options) for a in of]

    def forward(o: int) -> Any:
        return sum(data.options[o][a].forward_ms * model.y[o, a] for a in options[o])

    def backward(o: int) -> Any:
        return sum(data.options[o][a].backward_ms * model.y[o, a] for a in options[o])

    if data.memory_limited:
        model.memory = _RULE(
            range(data.servers),
            rule=lambda m, i: sum(float(data.options[o][a].memory[i]) * m.y[o, a] for o, a in every) <= 1,
        )
    model.busy = _RULE(  # (5); `load` is a word of Pyomo
        range(data.servers),
        rule=lambda m, i: sum(float(data.options[o][a].load[i]) * m.y[o, a] for o, a in every) <= m.compute,
    )
    count = range(len(options))
    model.forward = _RULE(data.pairs, rule=lambda m, u, v: m.first[v] >= m.first[u] + forward(u))
    model.turn = _RULE(count, rule=lambda m, o: m.turned[o] >= m.first[o] + forward(o))
    model.backward = _RULE(data.pairs, rule=lambda m, u, v: m.turned[u] >= m.turned[v] + backward(v))
    model.chain = _RULE(count, rule=lambda m, o: m.compute >= m.turned[o] + backward(o))


def _count(variable: Any, data: JointPlan, i: int, j: int) -> Any:
    return sum(m * variable[(*data.bundle(i, j), m)] for m in range(data.degree + 1))


def _add_links(model: Any, data: JointPlan) -> None:
    servers, numbers, most = range(data.servers), range(data.degree + 1), data.theta_most
    model.bundle = _RULE(data.bundles, rule=lambda m, i, j: sum(m.links[i, j, k] for k in numbers) == 1)
    model.out_degree = _RULE(
        servers, rule=lambda m, i: sum(_count(m.links, data, i, j) for j in servers if j != i) <= data.degree
    )
    if not data.bidirectional:
        model.in_degree = _RULE(
            servers, rule=lambda m, j: sum(_count(m.links, data, i, j) for i in servers if i != j) <= data.degree
        )
    model.cut_out = _RULE(
        servers, rule=lambda m, i: sum(_count(m.part, data, i, j) for j in servers if j != i) <= data.degree * m.theta
    )
    if not data.bidirectional:
        model.cut_in = _RULE(
            servers,
            rule=lambda m, j: sum(_count(m.part, data, i, j) for i in servers if i != j) <= data.degree * m.theta,
        )
    model.split = _RULE(data.bundles, rule=lambda m, i, j: sum(m.part[i, j, k] for k in numbers) == m.theta)
    model.only = _RULE(data.bundles, numbers, rule=lambda m, i, j, k: m.part[i, j, k] <= most * m.links[i, j, k])


def _add_traffic(model: Any, data: JointPlan, options: list[range]) -> None:
    servers = range(data.servers)

    def reduce(m: Any, g: int) -> Any:
        wanted = sum(
            data.options[o][a].reduced[g] * m.y[o, a]
            for o, of in enumerate(options)
            for a in of
            if g in data.options[o][a].reduced
        )
        return sum(m.ring[g, r] for r in range(len(data.rings[g]))) == wanted

    def deliver(m: Any, s: int, v: int) -> Any:
        inflow = sum(m.flow[s, i, v] for i in servers if i != v)
        outflow = sum(m.flow[s, v, j] for j in servers if j not in (v, s))
        moved = sum(float(data.demand[e][a, c, s, v]) * m.p[e, a, c] for e, a, c in m.p)
        return inflow - outflow == moved + sum(m.ring[g, r] for g, r in data.hops(s, v))

    def fit(m: Any, i: int, j: int) -> Any:
        return sum(m.flow[s, i, j] for s in servers if s != j) <= _count(m.part, data, i, j)

    model.reduce = _RULE([g for g, orders in enumerate(data.rings) if orders], rule=reduce)
    model.deliver = _RULE(data.arcs, rule=deliver)
    model.fit = _RULE(data.arcs, rule=fit)


def _add_connected(model: Any, data: JointPlan, family: str, sign: int) -> None:
    servers = range(data.servers)
    unit = pyo.Var(data.arcs, domain=pyo.NonNegativeReals)
    model.add_component(family, unit)
    most = data.servers - 1
    fit = _RULE(data.arcs, rule=lambda m, i, j: unit[i, j] <= most * _count(m.links, data, i, j))
    model.add_component(f"{family}_fit", fit)
    arrive = _RULE(
        range(1, data.servers), rule=lambda m, v: sign * sum(unit[i, v] - unit[v, i] for i in servers if i != v) == 1
    )
    model.add_component(f"{family}_one", arrive)
