r"""Splittable routing of least largest link load on a fixed topology (maximum concurrent flow).

Decided: what each source sends over each arc. Source-aggregated arc formulation: traffic of one source to all its
targets is one commodity, which is exact as any such flow splits into paths by target (Shahrokhi and Matula, J. ACM
1990; lambda = 1/theta is the largest common factor by which all demand could grow).

Sets        SERVERS s, v; ARCS a = (tail, head).
Parameters  D[s, v] >= 0: demand, in units of a link's capacity;  c[a]: parallel links of the arc;
            hop_price >= 0: time of one hop in the unit of theta (0: throughput alone counts).
Variables   flow[s, a] >= 0;  theta >= 0, largest utilisation.

    minimise    theta + hop_price / |D| * sum_sa flow[s, a],         |D| is all demand
    (1) conserve    sum_{a into v} flow[s, a] - sum_{a out of v} flow[s, a] = D[s, v]     for all s and v != s
    (2) fit         sum_s flow[s, a] - c[a] theta <= 0                                    for every arc a

Completion time: theta is the time the busiest link takes to pass a unit of time's worth of demand, and hop_price times
the mean number of hops is the latency of the mean byte; their sum is the (store-and-forward free) completion time of
the traffic, averaged over bytes for its latency part. hop_price = 0 minimises the largest link load.

Size: n m + 1 columns, n (n - 1) + m rows. Dual: lengths l[a] >= 0 of (2) with sum c l = 1 prove
theta >= sum D dist_l whatever the solver did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from formulations.parts.arrays import LpArrays, with_names
from formulations.parts.rows import Families
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.core.network import RoutingProblem


@dataclass(frozen=True, eq=False)
class ConcurrentFlow:
    """Data of the problem.

    Attributes:
        tail, head: int64[m], distinct arcs, none from a server to itself.
        capacity: float64[m], above 0.
        demand: float64[n, n], zero diagonal, not negative.
        hop_price: see above.
    """

    tail: Ints
    head: Ints
    capacity: Floats
    demand: Floats
    hop_price: float = 0.0


def build_arrays(data: ConcurrentFlow) -> LpArrays:
    """The linear program; column s m + a is flow[s, a], theta is last; rows are (1) by s then v, then (2)."""
    made = Families()
    add_flow(made, data, data.demand.sum(axis=1) > 0, float(data.demand.sum()))
    return made.arrays(as_given=True)


def add_flow(made: Families, data: ConcurrentFlow, sends: Bools, traffic: float) -> Ints:
    """Columns flow, theta and rows (1), (2) for bool[n] sources that send `traffic` in all.

    Returns int64[n, n]: numbers of rows (1), of meaning off the diagonal.
    """
    n, m = len(data.demand), len(data.tail)
    source, apart = np.arange(n)[:, None], ~np.eye(n, dtype=np.bool_)
    # traffic never comes back to its source, and a source without demand sends nothing
    upper = np.where((data.head != source) & sends[:, None], np.inf, 0.0)
    flow = made.columns((n, m), upper=upper, cost=data.hop_price / traffic if data.hop_price else 0.0)
    theta = made.columns(1, cost=1.0)
    conserve = np.zeros((n, n), dtype=np.int64)
    conserve[apart] = made.rows(n * (n - 1), data.demand[apart], data.demand[apart])
    fit = made.rows(m, -np.inf, 0.0)
    made.terms(conserve[:, data.tail], flow, -1.0, where=data.tail != source)
    made.terms(conserve[:, data.head], flow, 1.0, where=data.head != source)
    made.terms(fit, flow, 1.0)
    made.terms(fit, theta, -data.capacity)
    return conserve


def names_of(data: ConcurrentFlow) -> tuple[list[str], list[str]]:
    """Names of the columns (`flow_s_i_j`: source, tail, head; `theta`) and rows (`conserve_s_v`, `fit_i_j`)."""
    every = range(len(data.demand))
    arcs = [f"{i}_{j}" for i, j in zip(data.tail.tolist(), data.head.tolist(), strict=True)]
    columns = [f"flow_{s}_{arc}" for s in every for arc in arcs]
    rows = [f"conserve_{s}_{v}" for s in every for v in every if v != s]
    return [*columns, "theta"], rows + [f"fit_{arc}" for arc in arcs]


def data_of(problem: RoutingProblem, *, hop_price: float = 0.0) -> ConcurrentFlow:
    """Data of an instance; a price of hops of 0 stands for the instance's own."""
    arcs = problem.topology.arcs.astype(np.int64)
    capacity = problem.topology.capacity
    return ConcurrentFlow(
        arcs[:, 0].copy(), arcs[:, 1].copy(), capacity, problem.demand, hop_price or problem.hop_price
    )


def from_routing(problem: RoutingProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance.

    Raises:
        InputError: a hop limit, which these columns cannot state.
    """
    if problem.max_hops is not None:
        text = "this formulation knows no hop limit"
        value = str(problem.max_hops)
        raise InputError([Problem(text, path="max_hops", value=value, allowed="--formulation concurrent_flow_hops")])
    data = data_of(problem, hop_price=options["hop_price"])
    return with_names(build_arrays(data), *names_of(data))


def build_pyomo(data: ConcurrentFlow) -> Any:
    """The same as a Pyomo model, to be read and to be compared with; small instances only."""
    import pyomo.environ as pyo

    n, m = len(data.demand), len(data.tail)
    demand, tail, head = data.demand.tolist(), data.tail.tolist(), data.head.tolist()
    into = {v: [a for a in range(m) if head[a] == v] for v in range(n)}
    out_of = {v: [a for a in range(m) if tail[a] == v] for v in range(n)}
    price = data.hop_price / float(data.demand.sum())

    model = pyo.ConcreteModel("concurrent flow")
    model.servers = pyo.RangeSet(0, n - 1)
    model.arcs = pyo.RangeSet(0, m - 1)

    def sendable(_: Any, s: int, a: int) -> tuple[float, float | None]:
        return (0.0, None) if head[a] != s and sum(demand[s]) > 0 else (0.0, 0.0)

    def balance(block: Any, s: int, v: int) -> Any:
        if s == v:
            return pyo.Constraint.Skip
        arriving = sum(block.flow[s, a] for a in into[v])
        leaving = sum(block.flow[s, a] for a in out_of[v])
        # a server without any arc has no term at all, so the rule would be a plain comparison of numbers
        return pyo.inequality(demand[s][v], arriving - leaving + 0.0 * block.theta, demand[s][v])

    def fits(block: Any, a: int) -> Any:
        return sum(block.flow[s, a] for s in range(n)) - float(data.capacity[a]) * block.theta <= 0.0

    model.flow = pyo.Var(model.servers, model.arcs, bounds=sendable)
    model.theta = pyo.Var(bounds=(0.0, None))
    model.conserve = pyo.Constraint(model.servers, model.servers, rule=balance)
    model.fit = pyo.Constraint(model.arcs, rule=fits)
    hops = sum(model.flow[s, a] for s in range(n) for a in range(m))
    model.least_load = pyo.Objective(expr=model.theta + price * hops, sense=pyo.minimize)
    return model


def flow_of(data: ConcurrentFlow, x: Floats) -> Floats:
    """float64[n, m]: the flows of a solution vector, clipped at 0 (they need a repair before they count)."""
    return np.maximum(x[:-1], 0.0).reshape(len(data.demand), len(data.tail))


def lengths_of(data: ConcurrentFlow, row_dual: Floats) -> Floats:
    """float64[m]: lengths from the dual values of a minimisation (rows (2) have duals <= 0), clipped at 0."""
    return np.maximum(-row_dual[-len(data.tail) :], 0.0)
