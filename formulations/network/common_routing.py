r"""One splittable routing for a set of demand matrices, least largest link load over all of them, on a fixed topology.

Decided: the part of each ordered pair's traffic that goes over each arc, the same for every matrix, so that routes need
not change when traffic does (oblivious over the set; Applegate and Cohen, SIGCOMM 2003, for a polytope of matrices).
Parts depend on source and target, as the mix of targets changes from matrix to matrix: aggregation by source would let
the routing know which matrix is there. A routing that is good for a set is as good for its convex hull, since the
load of an arc is linear in demand.

Sets        SERVERS v; PAIRS p = (s, t) with demand in some matrix; ARCS a = (tail, head); MATRICES k.
Parameters  D[k, p] >= 0: demand, in units of a link's capacity;  c[a]: parallel links of the arc.
Variables   split[p, a] >= 0: part of p's traffic over arc a, none into s or out of t;  theta >= 0, largest utilisation.

    minimise    theta
    (1) conserve    sum_{a into v} split[p, a] - sum_{a out of v} split[p, a] = [v = t]     for all p and v != s
    (2) fit         sum_p D[k, p] split[p, a] - c[a] theta <= 0                             for every k and a

With a cap (a worst case that is allowed) every matrix has its own theta[k] <= cap in (2), and their mean is minimised:
of the routings with the best worst case, one that is good for the other matrices too.

Size: |P| m + 1 columns (with a cap |P| m + |K|), |P| (n - 1) + |K| m rows. With one matrix its optimum is that of
`concurrent_flow`. Dual, without a cap: prices w[k, a] >= 0 of (2) with sum c[a] w[k, a] = 1 prove
theta >= sum_p least[p], the length of a shortest path of p by lengths sum_k D[k, p] w[k, a], whatever the solver did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from formulations.parts.arrays import LpArrays, with_names
from formulations.parts.rows import Families
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.core.network import RoutingProblem


@dataclass(frozen=True, eq=False)
class CommonRoutingProgram:
    """Data of the problem.

    Attributes:
        tail, head: int64[m], distinct arcs, none from a server to itself.
        capacity: float64[m], above 0.
        demands: float64[k, n, n], zero diagonals, not negative.
        cap: see above; None: the worst theta is minimised.
    """

    tail: Ints
    head: Ints
    capacity: Floats
    demands: Floats
    cap: float | None = None

    @property
    def pairs(self) -> Ints:
        """int64[P, 2]: source and target of pairs with demand in some matrix, sorted."""
        return np.argwhere(self.demands.max(axis=0) > 0)


def build_arrays(data: CommonRoutingProgram) -> LpArrays:
    """The linear program; column p m + a is split[p, a], theta is last; rows are (1) by p then v, then (2) by k, a."""
    count, m, n = len(data.pairs), len(data.tail), data.demands.shape[1]
    source, target = data.pairs[:, :1], data.pairs[:, 1:]
    steps, servers = len(data.demands), np.arange(n)
    thetas, most = (1, np.inf) if data.cap is None else (steps, data.cap)
    made = Families()
    closed = (data.head == source) | (data.tail == target)
    split = made.columns((count, m), upper=np.where(closed, 0.0, np.inf))
    theta = made.columns((thetas, 1), upper=most, cost=1.0 / thetas)
    arrive = (servers == target)[servers != source]
    conserve = np.zeros((count, n), dtype=np.int64)
    conserve[servers != source] = made.rows(len(arrive), arrive, arrive)
    fit = made.rows((steps, m), -np.inf, 0.0)
    made.terms(conserve[:, data.tail], split, -1.0, where=data.tail != source)
    made.terms(conserve[:, data.head], split, 1.0, where=data.head != source)
    for k, demand in enumerate(data.demands):
        made.terms(fit[k], split, demand[source, target])
    made.terms(fit, theta, -data.capacity)
    return made.arrays()


def names_of(data: CommonRoutingProgram) -> tuple[list[str], list[str]]:
    """Names: columns `split_s_t_i_j`, `theta` (with a cap `theta_k`); rows `conserve_s_t_v`, `fit_k_i_j`."""
    arcs = [f"{i}_{j}" for i, j in zip(data.tail.tolist(), data.head.tolist(), strict=True)]
    pairs = data.pairs.tolist()
    columns = [f"split_{s}_{t}_{arc}" for s, t in pairs for arc in arcs]
    rows = [f"conserve_{s}_{t}_{v}" for s, t in pairs for v in range(data.demands.shape[1]) if v != s]
    columns += ["theta"] if data.cap is None else [f"theta_{k}" for k in range(len(data.demands))]
    return columns, rows + [f"fit_{k}_{arc}" for k in range(len(data.demands)) for arc in arcs]


def from_routing(problem: RoutingProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance, whose one matrix is the whole set.

    Raises:
        InputError: a limit or price of hops, which these columns cannot state.
    """
    if problem.max_hops is not None or problem.hop_price:
        text, path = "this formulation knows no limit and no price of hops", "max_hops"
        raise InputError(
            [Problem(text, path=path if problem.max_hops else "hop_price", allowed="concurrent_flow_hops")]
        )
    arcs = problem.topology.arcs.astype(np.int64)
    capacity = problem.topology.capacity
    data = CommonRoutingProgram(arcs[:, 0].copy(), arcs[:, 1].copy(), capacity, problem.demands)
    return with_names(build_arrays(data), *names_of(data))


def build_pyomo(data: CommonRoutingProgram) -> Any:
    """The same as a Pyomo model, to be read and to be compared with; small instances only."""
    import pyomo.environ as pyo

    n, m = data.demands.shape[1], len(data.tail)
    tail, head, demands = data.tail.tolist(), data.head.tolist(), data.demands.tolist()
    arcs = list(zip(tail, head, strict=True))
    pairs = [(s, t) for s, t in data.pairs.tolist()]

    def theta(block: Any, k: int) -> Any:
        return block.theta if data.cap is None else block.theta[k]

    def open_way(_: Any, s: int, t: int, i: int, j: int) -> tuple[float, float | None]:
        return (0.0, 0.0) if j == s or i == t else (0.0, None)

    def balance(block: Any, s: int, t: int, v: int) -> Any:
        if v == s:
            return pyo.Constraint.Skip
        arriving = sum(block.split[s, t, i, j] for i, j in arcs if j == v)
        leaving = sum(block.split[s, t, i, j] for i, j in arcs if i == v)
        wanted = 1.0 if v == t else 0.0
        # a server without any arc has no term at all, so the rule would be a plain comparison of numbers
        return pyo.inequality(wanted, arriving - leaving + 0.0 * theta(block, 0), wanted)

    def fits(block: Any, k: int, i: int, j: int) -> Any:
        load = sum(demands[k][s][t] * block.split[s, t, i, j] for s, t in pairs if demands[k][s][t] > 0)
        return load - float(data.capacity[arcs.index((i, j))]) * theta(block, k) <= 0.0

    model = pyo.ConcreteModel("common routing")
    model.split = pyo.Var([(s, t, i, j) for s, t in pairs for i, j in arcs], bounds=open_way)
    thetas = range(1 if data.cap is None else len(demands))
    model.theta = pyo.Var(bounds=(0.0, None)) if data.cap is None else pyo.Var(thetas, bounds=(0.0, data.cap))
    model.conserve = pyo.Constraint(pairs, range(n), rule=balance)
    model.fit = pyo.Constraint(range(len(demands)), [arcs[a] for a in range(m)], rule=fits)
    model.least_load = pyo.Objective(expr=sum(theta(model, k) for k in thetas) / len(thetas), sense=pyo.minimize)
    return model


def split_of(data: CommonRoutingProgram, x: Floats) -> Floats:
    """float64[P, m]: the parts of a solution vector, clipped to [0, 1] (they need a repair before they count)."""
    count = len(data.pairs) * len(data.tail)
    return np.clip(x[:count], 0.0, 1.0).reshape(-1, len(data.tail))


def prices_of(data: CommonRoutingProgram, row_dual: Floats) -> Floats:
    """float64[k, m]: prices w from the dual values of a minimisation (rows (2) have duals <= 0), clipped at 0."""
    steps, m = len(data.demands), len(data.tail)
    return np.maximum(-row_dual[-steps * m :], 0.0).reshape(steps, m)
