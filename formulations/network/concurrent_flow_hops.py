r"""Splittable routing of least link load, or least completion time, over paths of at most H hops.

The arc formulation of `concurrent_flow` on the layered graph: layer k holds what has made k hops, and a unit may leave
at its target in any layer. Decided: what each source sends over each arc as its k-th hop.

Sets        SERVERS s, v; ARCS a = (tail, head); hops k = 1..H.
Variables   flow[s, k, a] >= 0, only where tail(a) is within k - 1 hops of s, and exactly k - 1 hops can end there;
            theta >= 0.
Parameters  D, c, hop_price as in `concurrent_flow`.

    minimise    theta + hop_price / |D| * sum_ska flow[s, k, a]
    (1) arrive    sum_k sum_{a into v} flow[s,k,a] - sum_{k>1} sum_{a out of v} flow[s,k,a] = D[s, v]  for all s, v != s
    (2) onward    sum_{a out of v} flow[s,k+1,a] - sum_{a into v} flow[s,k,a] <= 0     for all s, v != s, 1 <= k < H
    (3) fit       sum_s sum_k flow[s,k,a] - c[a] theta <= 0                            for every arc a

What (2) leaves over in layer k is what ends at v there; (1) makes the layers' sum equal to the demand. Columns: at most
n m H; infeasible exactly when some demand is more than H hops away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from formulations.network.concurrent_flow import ConcurrentFlow, data_of
from formulations.parts.arrays import LpArrays, with_names
from formulations.parts.rows import Families
from topoopt.core.arrays import Floats, Ints
from topoopt.core.network import RoutingProblem


@dataclass(frozen=True, eq=False)
class HopColumns:
    """Which flow variable each column is: source, hop (1..H) and arc, int64[columns - 1]; theta comes last."""

    source: Ints
    hop: Ints
    arc: Ints


def hop_columns(data: ConcurrentFlow, max_hops: int) -> HopColumns:
    """The flow variables that can be used, by source, hop and arc; traffic never comes back to its source."""
    n = len(data.demand)
    at = np.eye(n, dtype=bool)
    sources, hops, arcs = [], [], []
    for k in range(1, max_hops + 1):
        s, a = np.nonzero(at[:, data.tail] & (data.head != np.arange(n)[:, None]))
        sources.append(s)
        arcs.append(a)
        hops.append(np.full(len(s), k))
        at = np.zeros((n, n), dtype=bool)
        at[s, data.head[a]] = True
    source, hop, arc = (np.concatenate(part).astype(np.int64) for part in (sources, hops, arcs))
    order = np.lexsort((arc, hop, source))
    return HopColumns(source[order], hop[order], arc[order])


def build_arrays(data: ConcurrentFlow, max_hops: int) -> LpArrays:
    """The linear program; columns as `hop_columns`, then theta; rows are (1) by s, v; (2) by k, s, v; (3)."""
    n, m = len(data.demand), len(data.tail)
    columns = hop_columns(data, max_hops)
    source, hop = columns.source, columns.hop
    apart = ~np.eye(n, dtype=np.bool_)
    pair = np.cumsum(apart).reshape(n, n) - 1
    head, tail = pair[source, data.head[columns.arc]], pair[source, data.tail[columns.arc]]
    later, going_on = hop > 1, hop < max_hops
    made = Families()
    flow = made.columns(len(source), cost=data.hop_price / data.demand.sum() if data.hop_price else 0.0)
    theta = made.columns(1, cost=1.0)
    arrive = made.rows(n * (n - 1), data.demand[apart], data.demand[apart])
    onward = made.rows((max_hops - 1, n * (n - 1)), -np.inf, 0.0)
    fit = made.rows(m, -np.inf, 0.0)
    made.terms(arrive[head], flow, 1.0)
    made.terms(arrive[tail[later]], flow[later], -1.0)
    made.terms(onward[hop[later] - 2, tail[later]], flow[later], 1.0)
    made.terms(onward[hop[going_on] - 1, head[going_on]], flow[going_on], -1.0)
    made.terms(fit[columns.arc], flow, 1.0)
    made.terms(fit, theta, -data.capacity)
    return made.arrays()


def names_of(data: ConcurrentFlow, max_hops: int) -> tuple[list[str], list[str]]:
    """Names: columns `flow_s_k_i_j`, `theta`; rows `arrive_s_v`, `onward_k_s_v`, `fit_i_j`."""
    n = len(data.demand)
    arcs = [f"{i}_{j}" for i, j in zip(data.tail.tolist(), data.head.tolist(), strict=True)]
    flows = hop_columns(data, max_hops)
    keys = zip(flows.source.tolist(), flows.hop.tolist(), flows.arc.tolist(), strict=True)
    pairs = [f"{s}_{v}" for s in range(n) for v in range(n) if v != s]
    onward = [f"onward_{k}_{pair}" for k in range(1, max_hops) for pair in pairs]
    rows = [f"arrive_{pair}" for pair in pairs] + onward + [f"fit_{arc}" for arc in arcs]
    return [*(f"flow_{s}_{k}_{arcs[a]}" for s, k, a in keys), "theta"], rows


def from_routing(problem: RoutingProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance; option `max_hops`: 0 takes the instance's, or n - 1 (no limit)."""
    most = problem.topology.servers - 1
    limit = min(int(options["max_hops"]) or problem.max_hops or most, most)
    data = data_of(problem)
    return with_names(build_arrays(data, limit), *names_of(data, limit))


def build_pyomo(data: ConcurrentFlow, max_hops: int) -> Any:
    """The same as a Pyomo model, to be read and to be compared with; small instances only."""
    import pyomo.environ as pyo

    n, m = len(data.demand), len(data.tail)
    tail, head, demand = data.tail.tolist(), data.head.tolist(), data.demand.tolist()
    pairs = [(s, v) for s in range(n) for v in range(n) if v != s]
    at = {(s, 1): {s} for s in range(n)}  # where the k-th hop of source s can begin
    keys = []
    for s in range(n):
        for k in range(1, max_hops + 1):
            used = [a for a in range(m) if tail[a] in at[s, k] and head[a] != s]
            at[s, k + 1] = {head[a] for a in used}
            keys += [(s, k, tail[a], head[a]) for a in used]

    model = pyo.ConcreteModel("concurrent_flow_hops")
    model.flow = pyo.Var(keys, domain=pyo.NonNegativeReals)
    model.theta = pyo.Var(domain=pyo.NonNegativeReals)
    price = data.hop_price / float(data.demand.sum())
    model.least_load = pyo.Objective(expr=model.theta + price * sum(model.flow[key] for key in keys))
    zero = 0.0 * model.theta  # keeps rows without any flow from being plain comparisons of numbers

    def into(s: int, k: int, v: int) -> Any:
        return sum(model.flow[key] for key in keys if key[:2] == (s, k) and key[3] == v)

    def out_of(s: int, k: int, v: int) -> Any:
        return sum(model.flow[key] for key in keys if key[:2] == (s, k) and key[2] == v)

    @model.Constraint(pairs)  # type: ignore[untyped-decorator]
    def arrive(_: Any, s: int, v: int) -> Any:
        hops = range(1, max_hops + 1)
        return sum(into(s, k, v) for k in hops) - sum(out_of(s, k, v) for k in hops if k > 1) + zero == demand[s][v]

    @model.Constraint([(k, s, v) for k in range(1, max_hops) for s, v in pairs])  # type: ignore[untyped-decorator]
    def onward(_: Any, k: int, s: int, v: int) -> Any:
        return out_of(s, k + 1, v) - into(s, k, v) + zero <= 0.0

    @model.Constraint(list(zip(tail, head, strict=True)))  # type: ignore[untyped-decorator]
    def fit(m: Any, i: int, j: int) -> Any:
        capacity = float(data.capacity[next(a for a in range(len(tail)) if (tail[a], head[a]) == (i, j))])
        return sum(m.flow[key] for key in keys if key[2:] == (i, j)) - capacity * m.theta <= 0.0

    return model


def flow_of(data: ConcurrentFlow, max_hops: int, x: Floats) -> Floats:
    """float64[H, n, m]: the flows of a solution vector by hop, clipped at 0 (they need a repair before they count)."""
    columns = hop_columns(data, max_hops)
    flow = np.zeros((max_hops, len(data.demand), len(data.tail)))
    flow[columns.hop - 1, columns.source, columns.arc] = np.maximum(x[:-1], 0.0)
    return flow
