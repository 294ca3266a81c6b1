"""Readable reference of `joint_topology` in Pyomo; the array builder is held equal to it by tests."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyomo.environ as pyo

from formulations.network.joint_topology import JointTopology


def build_pyomo(data: JointTopology) -> Any:
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
