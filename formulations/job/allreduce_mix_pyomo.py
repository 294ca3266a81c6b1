"""Readable reference of `formulations.job.allreduce_mix` in Pyomo; the array builder is held equal to it by tests."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from formulations.job.allreduce_mix import AllReduceMix


def build_pyomo(data: AllReduceMix) -> Any:
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
