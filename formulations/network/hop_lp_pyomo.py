"""Readable reference of `formulations.network.hop_lp` in Pyomo; the array builder is held equal to it by tests."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from formulations.network.hop_lp import HopLp


def build_pyomo(data: HopLp) -> Any:
    """The program as a Pyomo ConcreteModel; names are those of the module text, `throughput` for lambda."""
    n, d, guess = data.servers, data.degree, data.guess
    servers = range(n)
    pairs = [(i, j) for i in servers for j in servers if i != j]
    walks = [(i, k, j) for i, j in pairs for k in servers if k not in (i, j)]
    demand = {(i, j): float(data.demand[i, j]) for i, j in pairs}
    asked = {pair: guess * demand[pair] for pair in pairs}
    once = {pair: min(1.0, asked[pair]) for pair in pairs}
    again = {pair: min(1.0, max(asked[pair] - 1.0, 0.0)) for pair in pairs}

    model = pyo.ConcreteModel("hop_lp")
    model.throughput = pyo.Var(bounds=(0.0, guess))
    model.x = pyo.Var(pairs, bounds=(0.0, d))
    model.y = pyo.Var(pairs, bounds=(0.0, 1.0))
    model.p = pyo.Var(walks, bounds=(0.0, 1.0))
    model.f1 = pyo.Var(pairs, bounds=lambda m, i, j: (0.0, min(asked[i, j], d)))
    model.f2 = pyo.Var(walks, bounds=lambda m, i, k, j: (0.0, asked[i, j]))
    model.f3 = pyo.Var(pairs, bounds=lambda m, i, j: (0.0, asked[i, j]))
    model.g = pyo.Var(pairs, bounds=(0.0, d))
    model.most = pyo.Objective(expr=model.throughput, sense=pyo.maximize)
    _add_links(model, n, d, pairs, walks)

    @model.Constraint(pairs)  # type: ignore[untyped-decorator]
    def direct(m: Any, i: int, j: int) -> Any:
        extra = once[i, j] - again[i, j]
        return m.f1[i, j] - extra * m.y[i, j] - again[i, j] * m.x[i, j] <= 0

    @model.Constraint(walks)  # type: ignore[untyped-decorator]
    def two_hop(m: Any, i: int, k: int, j: int) -> Any:
        return m.f2[i, k, j] - asked[i, j] * m.p[i, k, j] <= 0

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
