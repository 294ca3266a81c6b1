"""Readable references in Pyomo of formulations; tests hold the array builders equal to them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyomo.environ as pyo

from formulations.allreduce_rings import AllReduceMix, AllReduceTopology
from formulations.hierarchical_program import BandwidthProgram, Path
from formulations.job_plans import JointPlan
from formulations.joint_topology import HopLp, JointTopology
from formulations.shard_assignment import ShardAssignment
from topoopt.core.arrays import Floats


def joint_topology_pyomo(data: JointTopology) -> Any:
    """The program as a Pyomo ConcreteModel; names are those of the module text."""
    n, arcs, sources = data.servers, data.arcs, data.sources
    servers = range(n)
    model = pyo.ConcreteModel("joint_topology")
    model.ARCS = pyo.Set(initialize=arcs, dimen=2)
    model.FLOWS = pyo.Set(initialize=[(s, i, j) for s in sources for i, j in arcs if j != s], dimen=3)
    model.throughput = pyo.Var(bounds=(data.lower, None if data.upper == float("inf") else data.upper))
    model.x = pyo.Var(model.ARCS, domain=pyo.NonNegativeIntegers, bounds=(0, data.most_links))
    model.f = pyo.Var(model.FLOWS, domain=pyo.NonNegativeReals)
    model.objective = pyo.Objective(expr=model.throughput, sense=pyo.maximize)

    @model.Constraint(servers)  # type: ignore[untyped-decorator]
    def out_degree(m: Any, i: int) -> Any:
        heads = [m.x[i, j] for j in servers if data.allowed[i, j]]
        return sum(heads) <= data.degree if heads else pyo.Constraint.Skip

    if data.bidirectional:

        @model.Constraint([(i, j) for i, j in arcs if i < j])  # type: ignore[untyped-decorator]
        def pair(m: Any, i: int, j: int) -> Any:
            return m.x[i, j] == m.x[j, i]

    else:

        @model.Constraint(servers)  # type: ignore[untyped-decorator]
        def in_degree(m: Any, j: int) -> Any:
            tails = [m.x[i, j] for i in servers if data.allowed[i, j]]
            return sum(tails) <= data.degree if tails else pyo.Constraint.Skip

    @model.Constraint(model.ARCS)  # type: ignore[untyped-decorator]
    def capacity(m: Any, i: int, j: int) -> Any:
        return sum(m.f[s, i, j] for s in sources if s != j) <= m.x[i, j]

    @model.Constraint([(s, v) for s in sources for v in servers if v != s])  # type: ignore[untyped-decorator]
    def deliver(m: Any, s: int, v: int) -> Any:
        enters = sum(m.f[s, i, v] for i in servers if data.allowed[i, v])
        leaves = sum(m.f[s, v, j] for j in servers if data.allowed[v, j] and j != s)
        return enters - leaves == float(data.demand[s, v]) * m.throughput

    if data.kept_links:
        _add_kept(model, data)
    if data.hops is not None:
        _add_hops(model, data, data.hops)
    if data.distance is not None:
        _add_distances(model, data)
    _add_symmetry(model, data)
    return model


def _add_kept(model: Any, data: JointTopology) -> None:
    links, kept = data.kept_links, data.kept
    assert kept is not None
    model.z = pyo.Var(links, bounds=lambda m, i, j: (0, int(kept[i, j])))

    @model.Constraint(links)  # type: ignore[untyped-decorator]
    def kept_link(m: Any, i: int, j: int) -> Any:
        return m.z[i, j] <= (m.x[i, j] if data.allowed[i, j] else 0)

    model.changed = pyo.Constraint(expr=sum(model.z[i, j] for i, j in links) >= data.kept_needed)


def _add_hops(model: Any, data: JointTopology, hops: int) -> None:
    servers = range(data.servers)
    pairs = [(i, j) for i in servers for j in servers if i != j]
    walks = [(q, i, u, j) for q in range(2, hops + 1) for i, j in pairs for u in servers if u not in (i, j)]
    reached = [(q, i, j) for q in range(1, hops + 1) for i, j in pairs]
    model.w = pyo.Var(reached, bounds=lambda m, q, i, j: (1 if q == hops else 0, 1))
    model.p = pyo.Var(walks, bounds=(0, 1))

    @model.Constraint(pairs)  # type: ignore[untyped-decorator]
    def link(m: Any, i: int, j: int) -> Any:
        return m.w[1, i, j] <= (m.x[i, j] if data.allowed[i, j] else 0)

    @model.Constraint([(q, i, j) for q, i, j in reached if q > 1])  # type: ignore[untyped-decorator]
    def walk(m: Any, q: int, i: int, j: int) -> Any:
        return m.w[q, i, j] <= m.w[q - 1, i, j] + sum(m.p[q, i, u, j] for u in servers if u not in (i, j))

    @model.Constraint(walks)  # type: ignore[untyped-decorator]
    def walk_first(m: Any, q: int, i: int, u: int, j: int) -> Any:
        return m.p[q, i, u, j] <= m.w[q - 1, i, u]

    @model.Constraint(walks)  # type: ignore[untyped-decorator]
    def walk_last(m: Any, q: int, i: int, u: int, j: int) -> Any:
        return m.p[q, i, u, j] <= m.w[1, u, j]


def _add_distances(model: Any, data: JointTopology) -> None:
    distance = data.distance
    assert distance is not None

    @model.Constraint(data.sources)  # type: ignore[untyped-decorator]
    def source_distance(m: Any, s: int) -> Any:
        return sum(m.f[s, i, j] for i, j in data.arcs if j != s) >= float(distance[s]) * m.throughput

    model.distance = pyo.Constraint(expr=sum(model.f.values()) >= data.total_distance * model.throughput)


def _add_symmetry(model: Any, data: JointTopology) -> None:
    n = data.servers
    ordered = [(r, a, b) for r, members in data.symmetry.orders for a, b in pairwise(members)]
    if data.symmetry.bfs:
        ordered += [(0, j, j + 1) for j in range(1, n - 1)]

    @model.Constraint([(r, a, b) for r, a, b in ordered if data.allowed[r, a] and data.allowed[r, b]])  # type: ignore[untyped-decorator]
    def row_order(m: Any, r: int, a: int, b: int) -> Any:
        return m.x[r, a] >= m.x[r, b]

    if not data.symmetry.bfs:
        return

    @model.Constraint([arc for arc in data.arcs if arc != (0, 1)])  # type: ignore[untyped-decorator]
    def root(m: Any, i: int, j: int) -> Any:
        return m.x[0, 1] >= m.x[i, j]

    @model.Constraint(range(1, n))  # type: ignore[untyped-decorator]
    def parent(m: Any, j: int) -> Any:
        return sum(m.x[u, j] for u in range(j)) >= 1

    @model.Constraint([(i, j) for j in range(1, n - 1) for i in range(j - 1)])  # type: ignore[untyped-decorator]
    def prefix(m: Any, i: int, j: int) -> Any:
        return m.x[i, j + 1] <= data.most_links * sum(m.x[u, j] for u in range(i + 1))


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
    _add_links(model, n, d, pairs, walks)

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


def _add_links(model: Any, n: int, d: int, pairs: list[tuple[int, int]], walks: list[tuple[int, int, int]]) -> None:
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
    import pyomo.environ as pyo

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
    import pyomo.environ as pyo

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
