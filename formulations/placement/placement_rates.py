"""Best static rates between servers for a placed graph whose orders are fixed.

Activities u: operators on devices and transfers between servers. A transfer of v bytes at rate b takes v / b: with the
inverse rate r = 1 / b as variable its time is linear, and the capacity rows sum_q 1 / r[q] <= K are convex, so that
they are described exactly by their tangents. The optimum of the program with all tangents is the global optimum of the
split.

Sets: ACTIVITIES u; PAIRS q = (s, t) of servers that send; SERVERS s.
Parameters: fixed_ms[u] (run time, or latency); volume[u] (ms at the unit rate); pair[u]; ARCS (u, v, lag_ms);
    capacity[s] (of the unit rate, the same out and in).
Variables: start[u] >= 0, ms; slow[q] >= 1 / min(capacity[s], capacity[t]), inverse rate; span.
minimise span
1. follow[u,v]:  start[v] >= start[u] + fixed_ms[u] + volume[u] slow[pair[u]] + lag_ms
2. span[u]:      span >= start[u] + fixed_ms[u] + volume[u] slow[pair[u]]
3. out[s], into[s], for each point r given: sum_q (2 / r[q] - slow[q] / r[q]^2) <= capacity[s]

Size: |U| + |Q| + 1 columns, |ARCS| + |U| + tangents rows. Reference: outer approximation (Kelley, 1960).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Rows
from topoopt.core.arrays import Floats

Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class RateProblem:
    """See the module.

    Attributes
    ----------
    fixed_ms, volume : float64[U]; pair: for each activity, None for operators.
    arcs : (u, v, lag_ms), without cycle.
    capacity : float64[servers].
    """

    fixed_ms: Floats
    volume: Floats
    pair: tuple[Pair | None, ...]
    arcs: tuple[tuple[int, int, float], ...]
    capacity: Floats

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Pairs of servers that send, ascending."""
        return tuple(sorted({pair for pair in self.pair if pair is not None}))

    def ports(self) -> dict[tuple[str, int], tuple[Pair, ...]]:
        """Pairs that share a server's links out, and in."""
        table: dict[tuple[str, int], list[Pair]] = {}
        for s, t in self.pairs:
            table.setdefault(("out", s), []).append((s, t))
            table.setdefault(("into", t), []).append((s, t))
        return {port: tuple(pairs) for port, pairs in table.items()}


def tangent(problem: RateProblem, port: tuple[str, int], slow: Mapping[Pair, float]) -> tuple[dict[Pair, float], float]:
    """Row (3) at a point, as coefficients of `slow` and lower side: sum coefficient slow >= side."""
    pairs = problem.ports()[port]
    side = sum(2 / slow[pair] for pair in pairs) - float(problem.capacity[port[1]])
    return {pair: 1 / slow[pair] ** 2 for pair in pairs}, side


def build_arrays(problem: RateProblem, points: Sequence[Mapping[Pair, float]]) -> LpArrays:
    """The program with tangents at some points; columns: start, then slow in the order of `pairs`, then span."""
    rows = Rows()
    for u in range(len(problem.fixed_ms)):
        rows.column("start", u)
    for s, t in problem.pairs:
        rows.column("slow", s, t, lower=1 / min(problem.capacity[s], problem.capacity[t]))
    rows.column("span")

    def ends(u: int) -> list[tuple[int, float]]:
        pair = problem.pair[u]
        terms = [(rows.at("start", u), -1.0)]
        return terms if pair is None else [*terms, (rows.at("slow", *pair), -float(problem.volume[u]))]

    for u, v, lag in problem.arcs:
        side = float(problem.fixed_ms[u]) + lag
        rows.row(f"follow_{u}_{v}", side, np.inf, [(rows.at("start", v), 1.0), *ends(u)])
    for u in range(len(problem.fixed_ms)):
        rows.row(f"span_{u}", float(problem.fixed_ms[u]), np.inf, [(rows.at("span"), 1.0), *ends(u)])
    for number, point in enumerate(points):
        for port in problem.ports():
            coefficients, side = tangent(problem, port, point)
            terms = [(rows.at("slow", *pair), value) for pair, value in coefficients.items()]
            rows.row(f"{port[0]}_{port[1]}_{number}", side, np.inf, terms)
    return rows.program({("span",): 1.0})


def build_pyomo(problem: RateProblem, points: Sequence[Mapping[Pair, float]]) -> Any:
    """The same as a Pyomo ConcreteModel, to be read."""
    import pyomo.environ as pyo

    model = pyo.ConcreteModel("placement_rates")
    activities, pairs, ports = range(len(problem.fixed_ms)), list(problem.pairs), problem.ports()
    model.start = pyo.Var(activities, bounds=(0.0, None))
    model.slow = pyo.Var(
        pairs, bounds=lambda _, s, t: (1.0 / float(min(problem.capacity[s], problem.capacity[t])), None)
    )
    model.makespan = pyo.Var(bounds=(0.0, None))  # span is the name of rows (2)
    model.objective = pyo.Objective(expr=model.makespan)

    def end(u: int) -> Any:
        pair = problem.pair[u]
        sends = 0.0 if pair is None else float(problem.volume[u]) * model.slow[pair]
        return model.start[u] + float(problem.fixed_ms[u]) + sends

    lag = {(u, v): lag for u, v, lag in problem.arcs}

    @model.Constraint(list(lag))  # type: ignore[untyped-decorator]
    def follow(m: Any, u: int, v: int) -> Any:
        return m.start[v] >= end(u) + lag[u, v]

    @model.Constraint(activities)  # type: ignore[untyped-decorator]
    def span(m: Any, u: int) -> Any:
        return m.makespan >= end(u)

    for name in ("out", "into"):
        rows = pyo.Constraint(pyo.Any)
        model.add_component(name, rows)
        for number, point in enumerate(points):
            for (direction, s), members in ports.items():
                if direction == name:
                    rates = sum(2.0 / point[pair] - model.slow[pair] / point[pair] ** 2 for pair in members)
                    rows[s, number] = rates <= float(problem.capacity[s])
    return model
