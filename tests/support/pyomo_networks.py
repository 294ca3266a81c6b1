"""Readable references in Pyomo of formulations of networks; tests hold the array builders equal to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyomo.environ as pyo

from formulations.bandwidth_allocation import BandwidthAllocation, _rate_names
from formulations.circuit_matching import CircuitMatching
from formulations.flow_routing import Arc, CommonRoutingProgram, ConcurrentFlow, sets_of
from formulations.hierarchical_bandwidth import BandwidthProgram, Path
from formulations.job_plans import JointPlan
from formulations.joint_topology import HopLp, joint_topology_pyomo
from formulations.mixtures import AllReduceMix, AllReduceTopology, PathSplit
from formulations.shard_assignment import ShardAssignment
from topoopt.core.arrays import Floats, Ints
from topoopt.core.rated_network import RatedNetwork


def hop_lp_pyomo(data: HopLp) -> Any:
    """The program as a Pyomo ConcreteModel; names are those of the module text, `throughput` for lambda."""
    n, d, guess = data.servers, data.degree, data.guess
    servers = range(n)
    pairs = [(i, j) for i in servers for j in servers if i != j]
    walks = [(i, k, j) for i, j in pairs for k in servers if k not in (i, j)]
    demand = {(i, j): float(data.demand[i, j]) for i, j in pairs}
    demanded = {pair: guess * demand[pair] for pair in pairs}
    once = {pair: min(1.0, demanded[pair]) for pair in pairs}
    again = {pair: min(1.0, max(demanded[pair] - 1.0, 0.0)) for pair in pairs}

    model = pyo.ConcreteModel("hop_lp")
    model.throughput = pyo.Var(bounds=(0.0, guess))
    model.x = pyo.Var(pairs, bounds=(0.0, d))
    model.y = pyo.Var(pairs, bounds=(0.0, 1.0))
    model.p = pyo.Var(walks, bounds=(0.0, 1.0))
    model.f1 = pyo.Var(pairs, bounds=lambda m, i, j: (0.0, min(demanded[i, j], d)))
    model.f2 = pyo.Var(walks, bounds=lambda m, i, k, j: (0.0, demanded[i, j]))
    model.f3 = pyo.Var(pairs, bounds=lambda m, i, j: (0.0, demanded[i, j]))
    model.g = pyo.Var(pairs, bounds=(0.0, d))
    model.most = pyo.Objective(expr=model.throughput, sense=pyo.maximize)
    _add_hop_links(model, n, d, pairs, walks)

    @model.Constraint(pairs)  # type: ignore[untyped-decorator]
    def direct(m: Any, i: int, j: int) -> Any:
        extra = once[i, j] - again[i, j]
        return m.f1[i, j] - extra * m.y[i, j] - again[i, j] * m.x[i, j] <= 0

    @model.Constraint(walks)  # type: ignore[untyped-decorator]
    def two_hop(m: Any, i: int, k: int, j: int) -> Any:
        return m.f2[i, k, j] - demanded[i, j] * m.p[i, k, j] <= 0

    @model.Constraint(pairs)  # type: ignore[untyped-decorator]
    def deliver(m: Any, i: int, j: int) -> Any:
        by_two = sum(m.f2[i, k, j] for k in servers if k not in (i, j))
        return demand[i, j] * m.throughput - m.f1[i, j] - by_two - m.f3[i, j] <= 0

    @model.Constraint(pairs)  # type: ignore[untyped-decorator]
    def capacity(m: Any, a: int, b: int) -> Any:
        first = sum(m.f2[a, b, j] for j in servers if j not in (a, b))
        second = sum(m.f2[i, a, b] for i in servers if i not in (a, b))
        return m.f1[a, b] + first + second + m.g[a, b] - m.x[a, b] <= 0

    model.long = pyo.Constraint(expr=3 * sum(model.f3.values()) - sum(model.g.values()) <= 0)

    @model.Constraint(servers)  # type: ignore[untyped-decorator]
    def leave(m: Any, a: int) -> Any:
        return sum(m.f3[a, j] for j in servers if j != a) - sum(m.g[a, b] for b in servers if b != a) <= 0

    @model.Constraint(servers)  # type: ignore[untyped-decorator]
    def enter(m: Any, b: int) -> Any:
        return sum(m.f3[i, b] for i in servers if i != b) - sum(m.g[a, b] for a in servers if a != b) <= 0

    return model


def _add_hop_links(model: Any, n: int, d: int, pairs: list[tuple[int, int]], walks: list[tuple[int, int, int]]) -> None:
    servers = range(n)

    @model.Constraint(servers)  # type: ignore[untyped-decorator]
    def out(m: Any, i: int) -> Any:
        return sum(m.x[i, j] for j in servers if j != i) <= d

    @model.Constraint(servers)  # type: ignore[untyped-decorator]
    def into(m: Any, j: int) -> Any:
        return sum(m.x[i, j] for i in servers if i != j) <= d

    @model.Constraint(pairs)  # type: ignore[untyped-decorator]
    def link(m: Any, i: int, j: int) -> Any:
        return m.y[i, j] - m.x[i, j] <= 0

    @model.Constraint(pairs)  # type: ignore[untyped-decorator]
    def spread_first(m: Any, i: int, k: int) -> Any:
        return sum(m.p[i, k, j] for j in servers if j not in (i, k)) - d * m.y[i, k] <= 0

    @model.Constraint(pairs)  # type: ignore[untyped-decorator]
    def spread_second(m: Any, k: int, j: int) -> Any:
        return sum(m.p[i, k, j] for i in servers if i not in (k, j)) - d * m.y[k, j] <= 0

    @model.Constraint(walks)  # type: ignore[untyped-decorator]
    def first(m: Any, i: int, k: int, j: int) -> Any:
        return m.p[i, k, j] - m.y[i, k] <= 0

    @model.Constraint(walks)  # type: ignore[untyped-decorator]
    def second(m: Any, i: int, k: int, j: int) -> Any:
        return m.p[i, k, j] - m.y[k, j] <= 0


def allreduce_mix_pyomo(data: AllReduceMix) -> Any:
    """The program as a Pyomo ConcreteModel; names are those of the module text; small instances only."""
    n = len(data.demand)
    demand, sends = data.demand.tolist(), data.sends.tolist()
    arcs = list(zip(data.tail.tolist(), data.head.tolist(), strict=True))
    links = dict(zip(arcs, data.capacity.tolist(), strict=True))
    orders = {(g, *order): (group, order) for g, group in enumerate(data.groups) for order in group.orders}

    model = pyo.ConcreteModel("allreduce_mix")
    model.ARCS = pyo.Set(initialize=arcs, dimen=2)
    model.ORDERS = pyo.Set(initialize=list(orders), dimen=None)
    model.flow = pyo.Var(range(n), model.ARCS, bounds=lambda block, s, i, j: (0, None if sends[s] and j != s else 0))
    model.theta = pyo.Var(bounds=(0, None))
    model.share = pyo.Var(model.ORDERS, bounds=(0, None))

    @model.Constraint([(s, v) for s in range(n) for v in range(n) if v != s])  # type: ignore[untyped-decorator]
    def conserve(block: Any, s: int, v: int) -> Any:
        arriving = sum(block.flow[s, i, j] for i, j in arcs if j == v)
        leaving = sum(block.flow[s, i, j] for i, j in arcs if i == v)
        rings = sum(
            group.volume * block.share[key] for key, (group, order) in orders.items() if (s, v) in group.steps(order)
        )
        # a server without any arc has no term at all, so the rule would be a plain comparison of numbers
        return arriving - leaving - rings + 0.0 * block.theta == demand[s][v]

    @model.Constraint(model.ARCS)  # type: ignore[untyped-decorator]
    def fit(block: Any, i: int, j: int) -> Any:
        return sum(block.flow[s, i, j] for s in range(n)) - links[i, j] * block.theta <= 0

    @model.Constraint(range(len(data.groups)))  # type: ignore[untyped-decorator]
    def mix(block: Any, g: int) -> Any:
        return sum(block.share[key] for key in orders if key[0] == g) == 1

    price = data.hop_price / data.traffic if data.hop_price else 0.0
    hops = sum(model.flow[s, i, j] for s in range(n) for i, j in arcs)
    model.least_load = pyo.Objective(expr=model.theta + price * hops, sense=pyo.minimize)
    return model


def allreduce_topology_pyomo(data: AllReduceTopology) -> Any:
    """The program as a Pyomo ConcreteModel; names are those of the module text."""
    joint, groups = data.joint, data.groups
    servers = range(joint.servers)
    orders = {(g, *order): (group, order) for g, group in enumerate(groups) for order in group.orders}
    relaxed = [g for g, group in enumerate(groups) if not group.orders]
    pairs = [(g, i, j) for g in relaxed for i in groups[g].members for j in groups[g].members if i != j]

    model = joint_topology_pyomo(joint)
    model.ORDERS = pyo.Set(initialize=list(orders), dimen=None)
    model.PAIRS = pyo.Set(initialize=pairs, dimen=3)
    model.y = pyo.Var(model.ORDERS, bounds=(0, None))
    model.z = pyo.Var(model.PAIRS, bounds=(0, None))
    model.del_component(model.deliver)

    @model.Constraint([(s, v) for s in joint.sources for v in servers if v != s])  # type: ignore[untyped-decorator]
    def deliver(m: Any, s: int, v: int) -> Any:
        enters = sum(m.f[s, i, v] for i in servers if joint.allowed[i, v])
        leaves = sum(m.f[s, v, j] for j in servers if joint.allowed[v, j] and j != s)
        rings = sum(group.volume * m.y[key] for key, (group, order) in orders.items() if (s, v) in group.steps(order))
        rings += sum(groups[g].volume * m.z[g, i, j] for g, i, j in pairs if (i, j) == (s, v))
        return enters - leaves - rings == float(joint.demand[s, v]) * m.throughput

    @model.Constraint([g for g, group in enumerate(groups) if group.orders])  # type: ignore[untyped-decorator]
    def mix(m: Any, g: int) -> Any:
        return sum(m.y[key] for key in orders if key[0] == g) == m.throughput

    places = [(g, i) for g in relaxed for i in groups[g].members]

    @model.Constraint(places)  # type: ignore[untyped-decorator]
    def next_member(m: Any, g: int, i: int) -> Any:
        return sum(m.z[g, i, j] for j in groups[g].members if j != i) == m.throughput

    @model.Constraint(places)  # type: ignore[untyped-decorator]
    def previous_member(m: Any, g: int, i: int) -> Any:
        return sum(m.z[g, j, i] for j in groups[g].members if j != i) == m.throughput

    @model.Constraint([(g, i, j) for g, i, j in pairs if i < j and len(groups[g].members) > 2])  # type: ignore[untyped-decorator]
    def no_pair(m: Any, g: int, i: int, j: int) -> Any:
        return m.z[g, i, j] + m.z[g, j, i] <= m.throughput

    return model


def joint_plan_pyomo(data: JointPlan) -> Any:
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
    _add_link_counts(model, data)
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


def _add_link_counts(model: Any, data: JointPlan) -> None:
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


def hierarchical_bandwidth_pyomo(data: BandwidthProgram, tangents: list[Floats], paths: list[list[Path]]) -> Any:
    """Rows (1) to (6) in their own units for the given tangents and paths; the fixed cost is left out."""
    columns, jobs = range(len(data.names)), range(len(data.timelines))
    groups = [(w, g) for w in jobs for g in range(len(data.timelines[w].groups))]
    model = pyo.ConcreteModel("hierarchical bandwidth")
    model.bandwidth = pyo.Var(columns, bounds=lambda _, j: (float(data.lower[j]), _end(float(data.upper[j]))))
    model.reciprocal = pyo.Var(columns, bounds=(0.0, None))
    model.byte_time = pyo.Var(groups, bounds=(0.0, None))
    model.time = pyo.Var(jobs, bounds=(0.0, None))
    model.path, model.slowest, model.tangent, model.limit = (pyo.ConstraintList() for _ in range(4))
    for w in jobs:
        for path in paths[w]:
            moved = sum(float(size) * model.byte_time[w, g] for g, size in enumerate(path.sizes))
            constant = path.compute_ns * (model.reciprocal[0] if data.ratio else 1.0)
            model.path.add(model.time[w] - moved - constant >= 0.0)
        for g, j in np.argwhere(data.timelines[w].volumes > 0).tolist():
            volume = float(data.timelines[w].volumes[g, j])
            model.slowest.add(model.byte_time[w, g] >= volume * model.reciprocal[j + data.shift])
    for j in columns:
        for point in tangents[j].tolist():
            model.tangent.add(model.reciprocal[j] + model.bandwidth[j] / point**2 >= 2.0 / point)
    for row, low, high in zip(data.rows.tolist(), data.row_lower, data.row_upper, strict=True):
        total = sum(value * model.bandwidth[j] for j, value in enumerate(row))
        model.limit.add(pyo.inequality(_end(float(low)), total, _end(float(high))))
    fleet = sum(float(data.weights[w]) * model.time[w] for w in jobs)
    if data.worst_case:
        model.worst = pyo.Var(bounds=(0.0, None))
        model.worst_time = pyo.Constraint(
            jobs, rule=lambda block, w: block.worst >= float(data.weights[w]) * block.time[w]
        )
        fleet = model.worst
    if data.time_limit_ns is None:
        model.least = pyo.Objective(expr=fleet, sense=pyo.minimize)
        return model
    model.in_time = pyo.Constraint(expr=fleet <= data.time_limit_ns)
    cost = sum(float(price) * model.bandwidth[j] for j, price in enumerate(data.price))
    model.least = pyo.Objective(expr=cost, sense=pyo.minimize)
    return model


def _end(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def shard_assignment_pyomo(data: ShardAssignment) -> Any:
    """Rows carry the numbers of the algebra in `formulations.shard_assignment`."""
    jobs, layer = data.jobs, data.layer
    every, classes, planes = range(len(jobs)), range(layer.classes), range(len(layer.widths))
    size = {(k, q): int(n) for k in every for q, n in enumerate(jobs[k].parts.sizes)}
    lines = {(k, g): len(group.interfaces) for k in every for g, group in enumerate(jobs[k].parts.groups)}
    inside = {(k, g, e): atoms.tolist() for k in every for g, e, atoms in data.arcs_of(k)}
    capacity = {(p, s): int(free) for p in planes for s, free in enumerate(data.free_servers(p))}

    model = pyo.ConcreteModel("shard assignment")
    model.place = pyo.Var(every, domain=pyo.Integers, bounds=(0, 1))
    model.ranks = pyo.Var(
        [(k, q, c) for k, q in size for c in classes],
        domain=pyo.Integers,
        bounds=lambda _, k, q, c: (0, min(size[k, q], int(data.free[c]))),
    )
    model.assign = pyo.Var(
        [(k, g, p) for k, g in lines for p in planes],
        domain=pyo.Integers,
        bounds=lambda _, k, g, p: (0, min(lines[k, g], layer.widths[p])),
    )
    model.open = pyo.Var([(k, g, p) for k, g in lines for p in planes], domain=pyo.Binary)
    model.at = pyo.Var(
        [(*component, *switch) for component in inside for switch in capacity],
        domain=pyo.Integers,
        bounds=lambda _, k, g, e, p, s: (0, int(capacity[p, s] >= sum(size[k, q] for q in inside[k, g, e]))),
    )

    @model.Constraint(list(size))  # type: ignore[untyped-decorator]
    def seat(block: Any, k: int, q: int) -> Any:  # (1)
        return sum(block.ranks[k, q, c] for c in classes) - size[k, q] * block.place[k] == 0

    @model.Constraint(classes)  # type: ignore[untyped-decorator]
    def fit(block: Any, c: int) -> Any:  # (2)
        return sum(block.ranks[k, q, c] for k, q in size) <= int(data.free[c])

    @model.Constraint(list(lines))  # type: ignore[untyped-decorator]
    def spread(block: Any, k: int, g: int) -> Any:  # (3)
        return sum(block.assign[k, g, p] for p in planes) - lines[k, g] * block.place[k] == 0

    @model.Constraint([(k, g, p) for k, g in lines for p in planes])  # type: ignore[untyped-decorator]
    def use(block: Any, k: int, g: int, p: int) -> Any:  # (4)
        return block.assign[k, g, p] - min(lines[k, g], layer.widths[p]) * block.open[k, g, p] <= 0

    @model.Constraint([(k, p) for k in every if jobs[k].parts.groups for p in planes])  # type: ignore[untyped-decorator]
    def planes_rows(block: Any, k: int, p: int) -> Any:  # (5)
        used = sum(block.assign[k, g, p] for g in range(len(jobs[k].parts.groups)))
        return used - layer.widths[p] * block.place[k] <= 0

    @model.Constraint([(*component, p) for component in inside for p in planes])  # type: ignore[untyped-decorator]
    def locate(block: Any, k: int, g: int, e: int, p: int) -> Any:  # (6)
        return sum(block.at[k, g, e, p, s] for s in range(layer.switches[p])) - block.open[k, g, p] == 0

    @model.Constraint([(*part, *switch, q) for part, atoms in inside.items() for switch in capacity for q in atoms])  # type: ignore[untyped-decorator]
    def gather(block: Any, k: int, g: int, e: int, p: int, s: int, q: int) -> Any:  # (7)
        under = sum(block.ranks[k, q, c] for c in classes if layer.switch[p, c] == s)
        return under - size[k, q] * block.at[k, g, e, p, s] >= 0

    @model.Constraint([k for k in every if jobs[k].twin is not None])  # type: ignore[untyped-decorator]
    def order(block: Any, k: int) -> Any:  # (8)
        return block.place[jobs[k].twin] - block.place[k] >= 0

    gain = sum(job.gain * model.place[k] for k, job in enumerate(jobs))
    model.most = pyo.Objective(expr=-gain, sense=pyo.minimize)
    return model


def bandwidth_allocation_pyomo(data: BandwidthAllocation) -> Any:
    """The same as a Pyomo model, to be read and to be compared with; small instances only."""
    shares = range(len(data.capacity))
    label = [name.removeprefix("rate_") for name in _rate_names(data)]
    use = {(int(r), label[k]): float(u) for r, k, u in zip(data.shared, data.route, data.use, strict=True)}
    of = {t: [k for k, owner in zip(label, data.owner, strict=True) if owner == t] for t in range(data.transfers)}

    model = pyo.ConcreteModel("bandwidth allocation")
    model.routes = pyo.Set(initialize=label)
    model.shared = pyo.Set(initialize=[r for r in shares if any((r, k) in use for k in label)])
    model.transfers = pyo.Set(initialize=list(of))
    model.limited = pyo.Set(initialize=data.limited().tolist())
    model.rate = pyo.Var(model.routes, bounds=(0.0, None))
    model.level = pyo.Var(bounds=(0.0, None if data.rises() else 0.0))

    def fits(block: Any, r: int) -> Any:
        return sum(use[r, k] * block.rate[k] for k in label if (r, k) in use) <= float(data.capacity[r])

    def kept(block: Any, t: int) -> Any:
        return sum(block.rate[k] for k in of[t]) - float(data.gain[t]) * block.level >= float(data.floor[t])

    def within(block: Any, t: int) -> Any:
        return sum(block.rate[k] for k in of[t]) <= float(data.ceiling[t])

    model.fit = pyo.Constraint(model.shared, rule=fits)
    model.keep = pyo.Constraint(model.transfers, rule=kept)
    model.limit = pyo.Constraint(model.limited, rule=within)
    value = sum(float(data.value[t]) * model.rate[k] for t in of for k in of[t])
    model.most = pyo.Objective(expr=model.level + value, sense=pyo.maximize)
    return model


def circuit_matching_pyomo(data: CircuitMatching) -> Any:
    """Return the same as a Pyomo ConcreteModel, the readable twin."""
    model = pyo.ConcreteModel("circuit_matching")
    choices = [(*pair, k) for pair in data.pairs for k in (0, *data.counts(pair))]
    over = [(*direction, k) for direction in data.demand for k in data.counts((min(direction), max(direction)))]
    model.time = pyo.Var(bounds=(0.0, None))
    model.count = pyo.Var(choices, domain=pyo.Binary)
    model.carried = pyo.Var(over, bounds=(0.0, None))
    model.objective = pyo.Objective(expr=model.time)

    @model.Constraint(data.pairs)  # type: ignore[untyped-decorator]
    def one(m: Any, i: int, j: int) -> Any:
        return sum(m.count[i, j, k] for k in (0, *data.counts((i, j)))) == 1.0

    @model.Constraint([i for i in range(len(data.ports)) if any(i in choice[:2] and choice[2] for choice in choices)])  # type: ignore[untyped-decorator]
    def ports(m: Any, i: int) -> Any:
        return sum(choice[2] * m.count[choice] for choice in choices if i in choice[:2]) <= data.ports[i]

    @model.Constraint(over)  # type: ignore[untyped-decorator]
    def chosen(m: Any, i: int, j: int, k: int) -> Any:
        most = data.demand[i, j] * m.count[min(i, j), max(i, j), k]
        return m.carried[i, j, k] <= most if data.split else m.carried[i, j, k] == most

    @model.Constraint(over)  # type: ignore[untyped-decorator]
    def served(m: Any, i: int, j: int, k: int) -> Any:
        return m.carried[i, j, k] <= data.circuit * k * m.time

    def left(m: Any, side: int, server: int) -> Any:
        directions = [direction for direction in data.demand if direction[side] == server]
        total = sum(data.demand[direction] for direction in directions)
        return total - sum(m.carried[choice] for choice in over if choice[side] == server) <= data.electrical * m.time

    @model.Constraint(sorted({direction[0] for direction in data.demand}))  # type: ignore[untyped-decorator]
    def leaving(m: Any, i: int) -> Any:
        return left(m, 0, i)

    @model.Constraint(sorted({direction[1] for direction in data.demand}))  # type: ignore[untyped-decorator]
    def reaching(m: Any, i: int) -> Any:
        return left(m, 1, i)

    return model


def network_model(network: RatedNetwork) -> tuple[Any, list[Arc], list[int]]:
    """An empty model, the links and the ranks of a network."""
    arcs = [(tail, head) for tail, head in network.arcs.tolist()]
    return pyo.ConcreteModel(network.origin or "network"), arcs, network.ranks.tolist()


def balance(flow: Mapping[Arc, Any], node: int) -> Any:
    into = sum(amount for (_, head), amount in flow.items() if head == node)
    return into - sum(amount for (tail, _), amount in flow.items() if tail == node)


def all_to_all_rate_pyomo(network: RatedNetwork, capacity: Floats, *, relaying: bool = True) -> Any:
    """The same as a Pyomo model, to be read and to be compared with; small instances only."""
    model, arcs, ranks = network_model(network)
    switches = set(np.flatnonzero(network.is_switch).tolist())
    keys = [
        (rank, tail, head)
        for rank in ranks
        for tail, head in arcs
        if head != rank and (relaying or tail == rank or tail in switches)
    ]
    model.flow = pyo.Var(keys, domain=pyo.NonNegativeReals)
    model.throughput = pyo.Var(domain=pyo.NonNegativeReals)
    limit = dict(zip(arcs, capacity.tolist(), strict=True))

    @model.Constraint(arcs)  # type: ignore[untyped-decorator]
    def fit(block: Any, tail: int, head: int) -> Any:
        return sum(block.flow[key] for key in keys if key[1:] == (tail, head)) <= limit[tail, head]

    @model.Constraint([(rank, node) for rank in ranks for node in range(network.nodes) if node != rank])  # type: ignore[untyped-decorator]
    def conserve(block: Any, rank: int, node: int) -> Any:
        own = {key[1:]: block.flow[key] for key in keys if key[0] == rank}
        return balance(own, node) - (block.throughput if node in ranks else 0.0) == 0.0

    model.largest = pyo.Objective(expr=-model.throughput, sense=pyo.minimize)
    return model


def allreduce_roots_pyomo(network: RatedNetwork, capacity: Floats) -> Any:
    """The same as a Pyomo model, to be read and to be compared with; small instances only."""
    model, arcs, ranks = network_model(network)
    switches = np.flatnonzero(network.is_switch).tolist()
    sets = list(sets_of(network))
    limit = dict(zip(arcs, capacity.tolist(), strict=True))
    model.broadcast = pyo.Var(arcs, domain=pyo.NonNegativeReals)
    model.reduce = pyo.Var(arcs, domain=pyo.NonNegativeReals)
    model.root = pyo.Var(ranks, domain=pyo.NonNegativeReals)

    @model.Constraint(arcs)  # type: ignore[untyped-decorator]
    def fit(block: Any, tail: int, head: int) -> Any:
        return block.broadcast[tail, head] + block.reduce[tail, head] <= limit[tail, head]

    @model.Constraint(switches)  # type: ignore[untyped-decorator]
    def broadcast_balance(block: Any, switch: int) -> Any:
        return -balance({arc: block.broadcast[arc] for arc in arcs}, switch) == 0.0

    @model.Constraint(switches)  # type: ignore[untyped-decorator]
    def reduce_balance(block: Any, switch: int) -> Any:
        return -balance({arc: block.reduce[arc] for arc in arcs}, switch) == 0.0

    model.leave = pyo.Constraint(pyo.Any)
    model.reach = pyo.Constraint(pyo.Any)
    for nodes in sets:
        inside = set(nodes)
        rooted = sum(model.root[rank] for rank in ranks if rank in inside)
        leaving = sum(model.broadcast[i, j] for i, j in arcs if i in inside and j not in inside)
        entering = sum(model.reduce[i, j] for i, j in arcs if i not in inside and j in inside)
        model.leave.add("_".join(map(str, nodes)), leaving - rooted >= 0.0)
        model.reach.add("_".join(map(str, nodes)), entering - rooted >= 0.0)
    model.largest = pyo.Objective(expr=-sum(model.root[rank] for rank in ranks), sense=pyo.minimize)
    return model


def step_schedule_pyomo(
    network: RatedNetwork, owners: Ints, rate: Floats, steps: int, *, multicast: bool = False
) -> Any:
    """Build the model; arguments as of the array builder."""
    model, arcs, ranks = network_model(network)
    switches = np.flatnonzero(network.is_switch).tolist()
    chunks, times = range(len(owners)), range(steps)
    speed = dict(zip(arcs, rate.tolist(), strict=True))
    most = {arc: len(ranks) - 1 if arc[1] in switches and not multicast else 1 for arc in arcs}

    def fixed(_: Any, c: int, v: int, t: int) -> tuple[float, float]:
        has = v == owners[c] or (t == steps and v in ranks)
        return float(has), float(has or (t > 0 and v in ranks))

    model.sent = pyo.Var(
        chunks, arcs, times, domain=pyo.Integers, bounds=lambda _, c, i, j, t: (0.0, float(most[i, j]))
    )
    model.has = pyo.Var(chunks, range(network.nodes), range(steps + 1), domain=pyo.Integers, bounds=fixed)
    model.busiest = pyo.Var(times, domain=pyo.NonNegativeReals)

    @model.Constraint(arcs, times)  # type: ignore[untyped-decorator]
    def full(block: Any, i: int, j: int, t: int) -> Any:
        return sum(block.sent[c, i, j, t] for c in chunks) - speed[i, j] * block.busiest[t] <= 0.0

    @model.Constraint(chunks, [arc for arc in arcs if arc[0] in ranks], times)  # type: ignore[untyped-decorator]
    def there(block: Any, c: int, i: int, j: int, t: int) -> Any:
        return block.sent[c, i, j, t] - most[i, j] * block.has[c, i, t] <= 0.0

    @model.Constraint(chunks, range(network.nodes), times)  # type: ignore[untyped-decorator]
    def gain(block: Any, c: int, v: int, t: int) -> Any:
        come = sum(block.sent[c, i, j, t] for i, j in arcs if j == v)
        return block.has[c, v, t + 1] - block.has[c, v, t] - come <= 0.0

    def come(block: Any, c: int, w: int, t: int) -> Any:
        return sum(block.sent[c, i, j, t] for i, j in arcs if j == w)

    def passed(block: Any, c: int, w: int, t: int) -> Any:
        return sum(block.sent[c, i, j, t] for i, j in arcs if i == w) - come(block, c, w, t) == 0.0

    def copied(block: Any, c: int, w: int, j: int, t: int) -> Any:
        return block.sent[c, w, j, t] - come(block, c, w, t) <= 0.0

    if multicast:
        model.copy_rows = pyo.Constraint(chunks, [arc for arc in arcs if arc[0] in switches], times, rule=copied)
    else:
        model.pass_rows = pyo.Constraint(chunks, switches, times, rule=passed)
    model.least = pyo.Objective(expr=sum(model.busiest[t] for t in times), sense=pyo.minimize)
    return model


def concurrent_flow_hops_pyomo(data: ConcurrentFlow, max_hops: int) -> Any:
    """The same as a Pyomo model, to be read and to be compared with; small instances only."""
    n, m = len(data.demand), len(data.tail)
    tail, head, demand = data.tail.tolist(), data.head.tolist(), data.demand.tolist()
    pairs = [(s, v) for s in range(n) for v in range(n) if v != s]
    at = {(s, 1): {s} for s in range(n)}  # where the k-th hop of source s can begin
    keys = []
    for s in range(n):
        for k in range(1, max_hops + 1):
            used = [a for a in range(m) if tail[a] in at[s, k] and head[a] != s]
            at[s, k + 1] = {head[a] for a in used}
            keys += [(s, k, tail[a], head[a]) for a in used]

    model = pyo.ConcreteModel("concurrent_flow_hops")
    model.flow = pyo.Var(keys, domain=pyo.NonNegativeReals)
    model.theta = pyo.Var(domain=pyo.NonNegativeReals)
    price = data.hop_price / float(data.demand.sum())
    model.least_load = pyo.Objective(expr=model.theta + price * sum(model.flow[key] for key in keys))
    zero = 0.0 * model.theta  # keeps rows without any flow from being plain comparisons of numbers

    def into(s: int, k: int, v: int) -> Any:
        return sum(model.flow[key] for key in keys if key[:2] == (s, k) and key[3] == v)

    def out_of(s: int, k: int, v: int) -> Any:
        return sum(model.flow[key] for key in keys if key[:2] == (s, k) and key[2] == v)

    @model.Constraint(pairs)  # type: ignore[untyped-decorator]
    def arrive(_: Any, s: int, v: int) -> Any:
        hops = range(1, max_hops + 1)
        return sum(into(s, k, v) for k in hops) - sum(out_of(s, k, v) for k in hops if k > 1) + zero == demand[s][v]

    @model.Constraint([(k, s, v) for k in range(1, max_hops) for s, v in pairs])  # type: ignore[untyped-decorator]
    def onward(_: Any, k: int, s: int, v: int) -> Any:
        return out_of(s, k + 1, v) - into(s, k, v) + zero <= 0.0

    @model.Constraint(list(zip(tail, head, strict=True)))  # type: ignore[untyped-decorator]
    def fit(m: Any, i: int, j: int) -> Any:
        capacity = float(data.capacity[next(a for a in range(len(tail)) if (tail[a], head[a]) == (i, j))])
        return sum(m.flow[key] for key in keys if key[2:] == (i, j)) - capacity * m.theta <= 0.0

    return model


def common_routing_pyomo(data: CommonRoutingProgram) -> Any:
    """The same as a Pyomo model, to be read and to be compared with; small instances only."""
    n, m = data.demands.shape[1], len(data.tail)
    tail, head, demands = data.tail.tolist(), data.head.tolist(), data.demands.tolist()
    arcs = list(zip(tail, head, strict=True))
    pairs = [(s, t) for s, t in data.pairs.tolist()]

    def theta(block: Any, k: int) -> Any:
        return block.theta if data.cap is None else block.theta[k]

    def arc_bounds(_: Any, s: int, t: int, i: int, j: int) -> tuple[float, float | None]:
        return (0.0, 0.0) if j == s or i == t else (0.0, None)

    def balance(block: Any, s: int, t: int, v: int) -> Any:
        if v == s:
            return pyo.Constraint.Skip
        arriving = sum(block.split[s, t, i, j] for i, j in arcs if j == v)
        leaving = sum(block.split[s, t, i, j] for i, j in arcs if i == v)
        wanted = 1.0 if v == t else 0.0
        # a server without any arc has no term at all, so the rule would be a plain comparison of numbers
        return pyo.inequality(wanted, arriving - leaving + 0.0 * theta(block, 0), wanted)

    def fits(block: Any, k: int, i: int, j: int) -> Any:
        load = sum(demands[k][s][t] * block.split[s, t, i, j] for s, t in pairs if demands[k][s][t] > 0)
        return load - float(data.capacity[arcs.index((i, j))]) * theta(block, k) <= 0.0

    model = pyo.ConcreteModel("common routing")
    model.split = pyo.Var([(s, t, i, j) for s, t in pairs for i, j in arcs], bounds=arc_bounds)
    thetas = range(1 if data.cap is None else len(demands))
    model.theta = pyo.Var(bounds=(0.0, None)) if data.cap is None else pyo.Var(thetas, bounds=(0.0, data.cap))
    model.conserve = pyo.Constraint(pairs, range(n), rule=balance)
    model.fit = pyo.Constraint(range(len(demands)), [arcs[a] for a in range(m)], rule=fits)
    model.least_load = pyo.Objective(expr=sum(theta(model, k) for k in thetas) / len(thetas), sense=pyo.minimize)
    return model


def path_split_pyomo(data: PathSplit) -> Any:
    """The same as a Pyomo model, to be read and to be compared with; small instances only."""
    demand = data.demand.tolist()
    family = [0] * data.resources if data.family is None else data.family.tolist()
    price = [0.0] * len(demand) if data.price is None else data.price.tolist()
    use = list(zip(data.resource.tolist(), data.alternative.tolist(), data.use.tolist(), strict=True))

    model = pyo.ConcreteModel("path_split")
    model.share = pyo.Var([(k, a) for a, k in enumerate(demand)], bounds=(0.0, 1.0))
    model.peak = pyo.Var(range(len(data.family_weight)), domain=pyo.NonNegativeReals)
    model.least_load = pyo.Objective(
        expr=sum(weight * model.peak[f] for f, weight in enumerate(data.family_weight))
        + sum(price[a] * model.share[k, a] for a, k in enumerate(demand))
    )

    @model.Constraint(sorted(set(demand)))  # type: ignore[untyped-decorator]
    def split(m: Any, k: int) -> Any:
        return sum(m.share[k, a] for a, owner in enumerate(demand) if owner == k) == 1.0

    @model.Constraint(range(data.resources))  # type: ignore[untyped-decorator]
    def fit_peak(m: Any, r: int) -> Any:
        load = sum(amount * m.share[demand[a], a] for resource, a, amount in use if resource == r)
        return load - m.peak[family[r]] <= 0.0

    return model


def circulant_flow_pyomo(load: Floats, capacity: Floats, classes: list[int]) -> Any:
    """The same as a Pyomo model, to be read and to be compared with; small instances only."""
    routings = range(load.shape[1])
    model = pyo.ConcreteModel("circulant_flow")
    model.share = pyo.Var(routings, domain=pyo.NonNegativeReals)
    model.theta = pyo.Var(domain=pyo.NonNegativeReals)
    model.least_load = pyo.Objective(expr=model.theta)
    model.mix = pyo.Constraint(expr=sum(model.share[k] for k in routings) == 1.0)

    @model.Constraint(classes)  # type: ignore[untyped-decorator]
    def fit(m: Any, p: int) -> Any:
        c = classes.index(p)
        return sum(float(load[c, k]) * m.share[k] for k in routings) - float(capacity[c]) * m.theta <= 0.0

    return model
