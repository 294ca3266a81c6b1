"""Readable reference of `formulations.allreduce_mix` in Pyomo; the array builder is held equal to it by tests."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from formulations.allreduce_mix import AllReduceMix


def build_pyomo(data: AllReduceMix) -> Any:
    """The program as a Pyomo ConcreteModel; names are those of the module text; small instances only."""
    n, m = len(data.demand), len(data.tail)
    demand, tail, head = data.demand.tolist(), data.tail.tolist(), data.head.tolist()
    into = {v: [a for a in range(m) if head[a] == v] for v in range(n)}
    out_of = {v: [a for a in range(m) if tail[a] == v] for v in range(n)}
    sends = data.sends.tolist()
    steps = [set(group.steps(order)) for group in data.groups for order in group.orders]
    places = [(g, r) for g, group in enumerate(data.groups) for r in range(len(group.orders))]

    model = pyo.ConcreteModel("allreduce_mix")
    model.flow = pyo.Var(range(n), range(m), bounds=lambda block, s, a: (0, None if sends[s] and head[a] != s else 0))
    model.theta = pyo.Var(bounds=(0, None))
    model.share = pyo.Var(places, bounds=(0, None))

    @model.Constraint([(s, v) for s in range(n) for v in range(n) if v != s])  # type: ignore[untyped-decorator]
    def conserve(block: Any, s: int, v: int) -> Any:
        arriving = sum(block.flow[s, a] for a in into[v])
        leaving = sum(block.flow[s, a] for a in out_of[v])
        rings = sum(
            data.groups[g].volume * block.share[g, r]
            for (g, r), step in zip(places, steps, strict=True)
            if (s, v) in step
        )
        # a server without any arc has no term at all, so the rule would be a plain comparison of numbers
        return arriving - leaving - rings + 0.0 * block.theta == demand[s][v]

    @model.Constraint(range(m))  # type: ignore[untyped-decorator]
    def fit(block: Any, a: int) -> Any:
        return sum(block.flow[s, a] for s in range(n)) - float(data.capacity[a]) * block.theta <= 0

    @model.Constraint(range(len(data.groups)))  # type: ignore[untyped-decorator]
    def mix(block: Any, g: int) -> Any:
        return sum(block.share[g, r] for r in range(len(data.groups[g].orders))) == 1

    price = data.hop_price / data.traffic if data.hop_price else 0.0
    hops = sum(model.flow[s, a] for s in range(n) for a in range(m))
    model.least_load = pyo.Objective(expr=model.theta + price * hops, sense=pyo.minimize)
    return model
