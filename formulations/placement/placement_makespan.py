"""Least makespan of a placed graph as a mixed-integer program: a reference for tiny instances, without contention.

CP-SAT with intervals (`solvers.placement.makespan`) beats it by far; the two are held equal by a test.

Sets: OPERATORS i, j; GROUPS g of co-located operators (g(i)); DEVICES d, e; TENSORS with producer i and consumers j.
Parameters: time[i,d] ms; memory[g], room[d] bytes; send[t,d,e] ms, alone at full rate; upper, a makespan that is known
    to be possible, which serves as big M: all starts and ends lie in [0, upper].
Variables: at[g,d] in {0,1}; start[i] ms; span; before[i,j] in {0,1} for i < j that no path orders.
Short: run[i] = sum_d time[i,d] at[g(i),d]: where the operator is, so that start[i] + run[i] <= upper.
minimise span
1. place[g]:         sum_d at[g,d] = 1; at[g,d] = 0 where a member cannot run
2. fit[d]:           sum_g memory[g] at[g,d] <= room[d]
3. end[i]:           span >= start[i] + run[i]
4. follow[t,j]:      start[j] >= start[i] + run[i]
5. send[t,j,d,e]:    start[j] >= start[i] + run[i] + send[t,d,e] - (upper + send[t,d,e]) (2 - at[g(i),d] - at[g(j),e])
6. first[i,j,d]:     start[j] >= start[i] + run[i] - upper (3 - before[i,j] - at[g(i),d] - at[g(j),d])
   second[i,j,d]:    start[i] >= start[j] + run[j] - upper (2 + before[i,j] - at[g(i),d] - at[g(j),d])
7. work[d]:          span >= sum_i time[i,d] at[g(i),d]     (redundant, and essential for the relaxation)

Size: O(n^2 k + c k^2) rows, n operators, k devices, c consumers. Reference: big-M disjunctive scheduling (Manne, 1960).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Rows
from topoopt.core.placement import PlacementProblem

if TYPE_CHECKING:
    import networkx as nx


def build_arrays(problem: PlacementProblem, upper_ms: float, send_ms: Callable[[int, int, int], float]) -> LpArrays:
    """The program.

    Parameters
    ----------
    problem : objective latency.
    upper_ms : makespan of a known schedule.
    send_ms : (tensor, source device, target device) -> time of the transfer, 0 on the same device.
    """
    rows = Rows()
    groups = problem.colocated()
    group_of = {i: g for g, members in enumerate(groups) for i in members}
    n, k = len(problem.operators), len(problem.devices)
    devices = range(k)
    for g, members in enumerate(groups):
        for d in devices:
            able = all(problem.supports(i, d) for i in members)
            rows.column("at", g, d, upper=1.0 if able else 0.0, integer=True)
    for i in range(n):
        rows.column("start", i, upper=upper_ms)
    rows.column("span", upper=upper_ms)

    def time(i: int, d: int) -> float:
        return problem.time_ms(i, d) if problem.supports(i, d) else 0.0

    def runs(i: int) -> list[tuple[int, float]]:
        """Minus the time of an operator, where it is."""
        return [(rows.at("at", group_of[i], d), -time(i, d)) for d in devices]

    for g in range(len(groups)):
        rows.row(f"place_{g}", 1.0, 1.0, [(rows.at("at", g, d), 1.0) for d in devices])
    for d, device in enumerate(problem.devices):
        if device.memory_bytes is not None:
            held = [sum(problem.operators[i].memory_bytes for i in members) for members in groups]
            terms = [(rows.at("at", g, d), float(size)) for g, size in enumerate(held)]
            rows.row(f"fit_{d}", -np.inf, float(device.memory_bytes), terms)
    for i in range(n):
        rows.row(f"end_{i}", 0.0, np.inf, [(rows.at("span"), 1.0), (rows.at("start", i), -1.0), *runs(i)])
    for t, tensor in enumerate(problem.tensors):
        i = tensor.producer
        for j in tensor.consumers:
            apart = [(rows.at("start", j), 1.0), (rows.at("start", i), -1.0)]
            rows.row(f"follow_{t}_{j}", 0.0, np.inf, [*apart, *runs(i)])
            for d in devices:
                for e in devices:
                    if d != e and group_of[i] != group_of[j]:
                        sends = send_ms(t, d, e)
                        big = upper_ms + sends
                        both = [(rows.at("at", group_of[x], y), -big) for x, y in ((i, d), (j, e))]
                        rows.row(f"send_{t}_{j}_{d}_{e}", sends - 2 * big, np.inf, [*apart, *runs(i), *both])
    for i, j in unordered(problem):
        rows.column("before", i, j, upper=1.0, integer=True)
        for d in devices:
            both = [(rows.at("at", group_of[x], d), -upper_ms) for x in (i, j)]
            order = rows.at("before", i, j)
            apart = [(rows.at("start", j), 1.0), (rows.at("start", i), -1.0)]
            first = [*apart, *runs(i), *both, (order, -upper_ms)]
            rows.row(f"first_{i}_{j}_{d}", -3 * upper_ms, np.inf, first)
            back = [(column, -value) for column, value in apart]
            second = [*back, *runs(j), *both, (order, upper_ms)]
            rows.row(f"second_{i}_{j}_{d}", -2 * upper_ms, np.inf, second)
    for d in devices:
        work = [(rows.at("at", group_of[i], d), -time(i, d)) for i in range(n)]
        rows.row(f"work_{d}", 0.0, np.inf, [(rows.at("span"), 1.0), *work])
    return rows.program({("span",): 1.0})


def unordered(problem: PlacementProblem) -> list[tuple[int, int]]:
    """Pairs of operators that take time and that no path orders."""
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(problem.operators)))
    graph.add_edges_from((tensor.producer, user) for tensor in problem.tensors for user in tensor.consumers)
    closure = nx.transitive_closure_dag(graph)
    busy = [i for i, operator in enumerate(problem.operators) if max(operator.times_ms) > 0]
    return [(i, j) for i, j in combinations(busy, 2) if not closure.has_edge(i, j) and not closure.has_edge(j, i)]


# The same program in Pyomo, for a reader; a test holds both builders equal.


def build_pyomo(problem: PlacementProblem, upper_ms: float, send_ms: Callable[[int, int, int], float]) -> Any:
    """The program as a Pyomo ConcreteModel; arguments and names as in the module text."""
    import pyomo.environ as pyo

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
