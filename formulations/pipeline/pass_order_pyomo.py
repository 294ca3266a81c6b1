"""Readable reference of `pass_order` in Pyomo; the array builder is held equal to it by tests."""

from __future__ import annotations

import math
from typing import Any

import pyomo.environ as pyo

from formulations.pipeline.pass_order import PAIRS, B, F, PassOrder, W


def build_pyomo(data: PassOrder) -> Any:
    """The program as a Pyomo ConcreteModel; names as in the module text of `pass_order`."""
    model = pyo.ConcreteModel("pass_order")
    kinds, ranks, batches = (F, B, W), range(data.ranks), range(data.micro_batches)
    time, hold, last = data.time, data.hold, data.micro_batches - 1
    choices = [(q, j, k, i, s) for k, q in PAIRS for s in ranks for i in batches for j in range(i)]
    model.end = pyo.Var(kinds, ranks, batches, bounds=(0.0, data.upper))
    model.span = pyo.Var(bounds=(0.0, data.upper))
    model.early = pyo.Var(choices, domain=pyo.Binary)
    model.objective = pyo.Objective(expr=model.span)

    @model.Constraint(kinds, ranks)  # type: ignore[untyped-decorator]
    def first(m: Any, k: int, s: int) -> Any:
        return m.end[k, s, 0] >= time[k, s]

    @model.Constraint(kinds, ranks, batches)  # type: ignore[untyped-decorator]
    def turn(m: Any, k: int, s: int, i: int) -> Any:
        return pyo.Constraint.Skip if i == 0 else m.end[k, s, i] >= m.end[k, s, i - 1] + hold[k, s] + time[k, s]

    @model.Constraint(ranks, batches)  # type: ignore[untyped-decorator]
    def ahead(m: Any, s: int, i: int) -> Any:
        return pyo.Constraint.Skip if s == 0 else m.end[F, s, i] >= m.end[F, s - 1, i] + data.transfer + time[F, s]

    @model.Constraint(ranks, batches)  # type: ignore[untyped-decorator]
    def back(m: Any, s: int, i: int) -> Any:
        if s + 1 == data.ranks:
            return pyo.Constraint.Skip
        return m.end[B, s, i] >= m.end[B, s + 1, i] + data.transfer + time[B, s]

    @model.Constraint((B, W), ranks, batches)  # type: ignore[untyped-decorator]
    def own(m: Any, q: int, s: int, i: int) -> Any:
        k = F if q == B else B
        return m.end[q, s, i] >= m.end[k, s, i] + hold[k, s] + time[q, s]

    @model.Constraint(choices)  # type: ignore[untyped-decorator]
    def before(m: Any, q: int, j: int, k: int, i: int, s: int) -> Any:
        wait = hold[q, s] + time[k, s]
        return m.end[k, s, i] >= m.end[q, s, j] + wait - (data.upper + wait) * (1 - m.early[q, j, k, i, s])

    @model.Constraint(choices)  # type: ignore[untyped-decorator]
    def after(m: Any, q: int, j: int, k: int, i: int, s: int) -> Any:
        wait = hold[k, s] + time[q, s]
        return m.end[q, s, j] >= m.end[k, s, i] + wait - (data.upper + wait) * m.early[q, j, k, i, s]

    @model.Constraint(ranks, batches)  # type: ignore[untyped-decorator]
    def fit(m: Any, s: int, i: int) -> Any:
        if i == 0 or math.isinf(data.room[s]):
            return pyo.Constraint.Skip
        given = sum(data.adds[q, s] * m.early[q, j, F, i, s] for q in (B, W) for j in range(i))
        return (i + 1) * data.adds[F, s] + given <= data.room[s]

    @model.Constraint(ranks)  # type: ignore[untyped-decorator]
    def all(m: Any, s: int) -> Any:
        if data.longest_rank:
            return m.span >= m.end[W, s, last] - m.end[F, s, 0] + time[F, s]
        return m.span >= m.end[W, s, last]

    return model
