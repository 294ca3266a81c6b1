r"""Routing of least load on a circulant (Cayley graph of Z_n) whose demand depends on the displacement alone.

Decided: which mixture of routings, each the same seen from every server, carries the demand. Averaging an optimal flow
over all rotations leaves it optimal, so that one load per class of arcs is enough (the n m columns of the arc
formulation collapse), and a displacement may use its arcs in any order because Z_n is abelian: only how many arcs of
each class it uses matters.

Sets        CLASSES c of arcs v -> v + p_c; ROUTINGS k, generated as needed.
Parameters  load[c, k] = sum_j w[j] steps_k[c, j]: arcs of class c that routing k uses, weighted by the demand w[j] of
            displacement j: the load of every arc of the class;  capacity[c] > 0: parallel links.
Variables   share[k] >= 0;  theta >= 0.

    minimise    theta
    (1) mix    sum_k share[k] = 1
    (2) fit    sum_k load[c, k] share[k] - capacity[c] theta <= 0        for every class c

Dual: theta = max_l sum_j w[j] dist_l(j) over l >= 0 with sum_c capacity[c] l[c] = 1; a routing of least length for l
is a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import comb
from typing import Any

import numpy as np

from formulations.parts.arrays import LpArrays, with_names
from formulations.parts.rows import Families
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.network import RoutingProblem

MOST_ROUTINGS = 20_000
"""Most columns that `from_routing` generates."""


def build_arrays(load: Floats, capacity: Floats) -> LpArrays:
    """The linear program for the routings known so far: load float64[c, k], capacity float64[c].

    Columns are the shares, then theta; rows are (1), then (2) by class.
    """
    classes, routings = load.shape
    made = Families()
    share, theta = made.columns(routings), made.columns(1, cost=1.0)
    mix, fit = made.rows(1, 1.0, 1.0), made.rows(classes, -np.inf, 0.0)
    made.terms(mix, share, 1.0)
    made.terms(fit[:, None], share, load)
    made.terms(fit, theta, -capacity)
    return made.arrays()


def names_of(classes: list[int], routings: int) -> tuple[list[str], list[str]]:
    """Names: columns `share_k`, `theta`; rows `mix`, `fit_p` by the offset p of the class."""
    return [*(f"share_{k}" for k in range(routings)), "theta"], ["mix", *(f"fit_{p}" for p in classes)]


def from_routing(problem: RoutingProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance over routings of least length for a grid of lengths.

    Option `grid`: lengths are 1 + g[c] with whole g >= 0 of sum `grid`, so that the optimum is an upper bound on theta
    that falls as the grid is refined; a solver generates its columns for the lengths it needs instead.

    Raises:
        InputError: topology or demand that do not look the same from every server, or too fine a grid.
        InfeasibleError: a displacement with demand out of reach.
    """
    n, arcs = problem.topology.servers, problem.topology.arcs
    links = np.zeros((n, n))
    links[arcs[:, 0], arcs[:, 1]] = problem.topology.capacity
    faults = []
    for path, table in (("topology", links), ("demand", problem.demand)):
        if not np.array_equal(table, np.roll(table, (1, 1), axis=(0, 1))):
            faults.append(Problem("does not look the same from every server", path=path, allowed="a circulant"))
    if problem.max_hops is not None:
        faults.append(Problem("this formulation knows no hop limit", path="max_hops", value=str(problem.max_hops)))
    offsets, grid = np.flatnonzero(links[0]), int(options["grid"])
    routings = comb(grid + len(offsets) - 1, grid)
    if routings > MOST_ROUTINGS:
        faults.append(Problem(f"{routings} routings", path="grid", value=str(grid), allowed=f"at most {MOST_ROUTINGS}"))
    if faults:
        raise InputError(faults)
    lengths = _compositions(grid, len(offsets))
    load = np.unique([_load(problem.demand[0], offsets, 1.0 + np.array(g)) for g in lengths], axis=0).T
    return with_names(build_arrays(load, links[0, offsets]), *names_of(offsets.tolist(), load.shape[1]))


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def _load(weight: Floats, offsets: Ints, lengths: Floats) -> Floats:
    """float64[classes]: weighted arcs of each class that shortest paths for these lengths use."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    n = len(weight)
    tail = np.repeat(np.arange(n), len(offsets))
    head = (tail + np.tile(offsets, n)) % n
    graph = csr_array((np.tile(lengths, n), (tail, head)), shape=(n, n))
    distance, before = dijkstra(graph, indices=0, return_predecessors=True)
    if np.isinf(distance[weight > 0]).any():
        raise InfeasibleError("a displacement with demand is out of reach")
    carried = np.where(np.isfinite(distance), weight, 0.0)
    load = np.zeros(len(offsets))
    for v in np.argsort(-distance, kind="stable"):
        if v and np.isfinite(distance[v]):
            load[np.searchsorted(offsets, (v - before[v]) % n)] += carried[v]
            carried[before[v]] += carried[v]
    return load


def build_pyomo(load: Floats, capacity: Floats, classes: list[int]) -> Any:
    """The same as a Pyomo model, to be read and to be compared with; small instances only."""
    import pyomo.environ as pyo

    routings = range(load.shape[1])
    model = pyo.ConcreteModel("circulant_flow")
    model.share = pyo.Var(routings, domain=pyo.NonNegativeReals)
    model.theta = pyo.Var(domain=pyo.NonNegativeReals)
    model.least_load = pyo.Objective(expr=model.theta)
    model.mix = pyo.Constraint(expr=sum(model.share[k] for k in routings) == 1.0)

    @model.Constraint(classes)  # type: ignore[untyped-decorator]
    def fit(m: Any, p: int) -> Any:
        c = classes.index(p)
        return sum(float(load[c, k]) * m.share[k] for k in routings) - float(capacity[c]) * m.theta <= 0.0

    return model
