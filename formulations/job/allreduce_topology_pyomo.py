"""Readable reference of `allreduce_topology` in Pyomo; the array builder is held equal to it by tests."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from formulations.job.allreduce_topology import AllReduceTopology
from formulations.network.joint_topology_pyomo import build_pyomo as build_joint


def build_pyomo(data: AllReduceTopology) -> Any:
    """The program as a Pyomo ConcreteModel; names are those of the module text."""
    joint, groups = data.joint, data.groups
    servers = range(joint.servers)
    orders = {(g, *order): (group, order) for g, group in enumerate(groups) for order in group.orders}
    relaxed = [g for g, group in enumerate(groups) if not group.orders]
    pairs = [(g, i, j) for g in relaxed for i in groups[g].members for j in groups[g].members if i != j]

    model = build_joint(joint)
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
