"""Favourite children of the operators of a graph: small communication times, unlimited devices, relaxed.

With devices in plenty, an operator can have one consumer run right behind it without a transfer, its favourite child,
and be that of one of its producers. The program chooses them for the least makespan; its relaxation is rounded (a
tensor with remote < 1/2 goes to the favourite child, of which rows (2) and (3) leave at most one), and list scheduling
on the devices there are follows. A heuristic: memory, the number of devices and contention are not in it.

Sets: OPERATORS i, j; EDGES (i, j).  Parameters: time[i], cost[i,j] ms.
Variables: start[i] >= 0 ms; 0 <= remote[i,j] <= 1, whether i and j run apart; span.
minimise span
1. wait[i,j]:  start[j] >= start[i] + time[i] + cost[i,j] remote[i,j]
2. child[i]:   sum_j remote[i,j] >= consumers of i - 1
3. parent[j]:  sum_i remote[i,j] >= producers of j - 1
4. last[i]:    span >= start[i] + time[i]

Size: |OPERATORS| + |EDGES| + 1 columns. Reference: Hanen and Munier (1995); Jeon et al., Baechi (SoCC 2020).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Rows
from topoopt.core.arrays import Floats, bytes_per_ms
from topoopt.core.placement import PlacementProblem

Edge = tuple[int, int]


@dataclass(frozen=True, eq=False)
class FavouriteChildren:
    """See the module: float64[n] times, and the cost of each edge, ms; the graph has no cycle."""

    time_ms: Floats
    cost_ms: Mapping[Edge, float]

    def children(self) -> dict[int, list[int]]:
        """Consumers of each operator that has any."""
        children: dict[int, list[int]] = defaultdict(list)
        for i, j in self.cost_ms:
            children[i].append(j)
        return children

    def parents(self) -> dict[int, list[int]]:
        """Producers of each operator that has any."""
        children: dict[int, list[int]] = defaultdict(list)
        for i, j in self.cost_ms:
            children[j].append(i)
        return children


def build_arrays(data: FavouriteChildren) -> LpArrays:
    """The program; columns: start, remote in the order of the edges, span."""
    rows = Rows()
    for i in range(len(data.time_ms)):
        rows.column("start", i)
    for edge in data.cost_ms:
        rows.column("remote", *edge, upper=1.0)
    rows.column("span")
    for (i, j), cost in data.cost_ms.items():
        terms = [(rows.at("start", j), 1.0), (rows.at("start", i), -1.0), (rows.at("remote", i, j), -cost)]
        rows.row(f"wait_{i}_{j}", float(data.time_ms[i]), np.inf, terms)
    for i, users in data.children().items():
        rows.row(f"child_{i}", len(users) - 1.0, np.inf, [(rows.at("remote", i, j), 1.0) for j in users])
    for j, makers in data.parents().items():
        rows.row(f"parent_{j}", len(makers) - 1.0, np.inf, [(rows.at("remote", i, j), 1.0) for i in makers])
    for i, time in enumerate(data.time_ms.tolist()):
        rows.row(f"last_{i}", time, np.inf, [(rows.at("span"), 1.0), (rows.at("start", i), -1.0)])
    return rows.program({("span",): 1.0})


def build_pyomo(data: FavouriteChildren) -> Any:
    """The same as a Pyomo ConcreteModel, to be read."""
    import pyomo.environ as pyo

    model = pyo.ConcreteModel("favourite_children")
    operators, edges = range(len(data.time_ms)), list(data.cost_ms)
    children, parents = data.children(), data.parents()
    model.start = pyo.Var(operators, bounds=(0.0, None))
    model.remote = pyo.Var(edges, bounds=(0.0, 1.0))
    model.span = pyo.Var(bounds=(0.0, None))
    model.objective = pyo.Objective(expr=model.span)

    @model.Constraint(edges)  # type: ignore[untyped-decorator]
    def wait(m: Any, i: int, j: int) -> Any:
        return m.start[j] >= m.start[i] + float(data.time_ms[i]) + data.cost_ms[i, j] * m.remote[i, j]

    @model.Constraint(list(children))  # type: ignore[untyped-decorator]
    def child(m: Any, i: int) -> Any:
        return sum(m.remote[i, j] for j in children[i]) >= len(children[i]) - 1.0

    @model.Constraint(list(parents))  # type: ignore[untyped-decorator]
    def parent(m: Any, j: int) -> Any:
        return sum(m.remote[i, j] for i in parents[j]) >= len(parents[j]) - 1.0

    @model.Constraint(operators)  # type: ignore[untyped-decorator]
    def last(m: Any, i: int) -> Any:
        return m.span >= m.start[i] + float(data.time_ms[i])

    return model


def favourites(data: FavouriteChildren, x: Floats) -> dict[int, int]:
    """Favourite child of each operator that has one, from a solution."""
    remote = x[len(data.time_ms) : len(data.time_ms) + len(data.cost_ms)]
    return {i: j for (i, j), apart in zip(data.cost_ms, remote.tolist(), strict=True) if apart < 0.5 - 1e-6}


def from_placement(problem: PlacementProblem, options: Mapping[str, float]) -> LpArrays:
    """The program of an instance: fastest times, transfers at the rate of its slowest server."""
    used = sorted({device.server for device in problem.devices})
    across = len(used) > 1
    links = [problem.servers[s].network_gbps if across else problem.servers[s].inside_gbps for s in used]
    rate = bytes_per_ms(min(links)) or np.inf
    alpha = problem.transfer_latency_ms if across else problem.intra_latency_ms
    cost: dict[Edge, float] = {}
    for tensor in problem.tensors:
        for user in tensor.consumers:
            edge = (tensor.producer, user)
            cost[edge] = max(cost.get(edge, 0.0), alpha + tensor.size_bytes / rate)
    times = np.array([min(operator.times_ms) for operator in problem.operators])
    return build_arrays(FavouriteChildren(times, cost))
