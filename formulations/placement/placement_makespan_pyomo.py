"""Readable reference of `placement_makespan` in Pyomo; the array builder is held equal to it by tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyomo.environ as pyo

from formulations.placement.placement_makespan import unordered
from topoopt.core.placement import PlacementProblem


def build_pyomo(problem: PlacementProblem, upper_ms: float, send_ms: Callable[[int, int, int], float]) -> Any:
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
