r"""Hop-LP: how much concurrent flow any topology of degree d can carry, with one and two hops spelled out.

For a guess L on lambda = 1/theta.

Sets        PAIRS (i, j), i != j; WALKS (i, k, j), all distinct.
Parameters  d; D[i,j]; L; c1 = min(1, L D), c2 = min(1, (L D - 1)^+).
Variables   lambda in [0, L]; x[i,j] in [0, d] links; y[i,j] in [0, 1]: is there a link;
            p[i,k,j] in [0, 1]: are both links of a walk there; flows f1[i,j] (one
            hop), f2[i,k,j] (two), f3[i,j] (three or more), g[a,b]: what the last put on a link.

    maximise    lambda
    (out) (into)        sum_j x[i,j] <= d,  sum_i x[i,j] <= d
    (link)              y[i,j] - x[i,j] <= 0
    (spread_first)      sum_j p[i,k,j] - d y[i,k] <= 0          (spread_second)  sum_i p[i,k,j] - d y[k,j] <= 0
    (first) (second)    p[i,k,j] - y[i,k] <= 0,  p[i,k,j] - y[k,j] <= 0
    (direct)            f1[i,j] - (c1 - c2) y[i,j] - c2 x[i,j] <= 0
    (two_hop)           f2[i,k,j] - L D[i,j] p[i,k,j] <= 0
    (deliver)           lambda D[i,j] - f1[i,j] - sum_k f2[i,k,j] - f3[i,j] <= 0
    (capacity)          f1[a,b] + sum_j f2[a,b,j] + sum_i f2[i,a,b] + g[a,b] - x[a,b] <= 0
    (long)              3 sum_ij f3[i,j] - sum_ij g[i,j] <= 0
    (leave) (enter)     sum_j f3[a,j] - sum_b g[a,b] <= 0,  sum_i f3[i,b] - sum_a g[a,b] <= 0

Size: about 2 n^3 columns, 3 n^3 rows. A value below L proves lambda at most that for every topology; it relaxes the
joint topology and routing problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from formulations.parts.arrays import LpArrays, with_names
from formulations.parts.rows import Families
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.core.network import TopologyProblem

ROW_FAMILIES = (
    "out", "into", "link", "spread_first", "spread_second", "first", "second",
    "direct", "two_hop", "deliver", "capacity", "long", "leave", "enter",
)  # fmt: skip
"""Families of rows in their order."""


@dataclass(frozen=True, eq=False)
class HopLp:
    """Data: n >= 3 servers of degree d, demand float64[n, n], and the guess L > 0."""

    servers: int
    degree: int
    demand: Floats
    guess: float


def _pairs_and_walks(n: int) -> tuple[Ints, ...]:
    """Tails and heads of the pairs, number of each pair (int64[n, n]), and the i, k, j of the walks."""
    tail, head = np.nonzero(~np.eye(n, dtype=np.bool_))
    number = np.full((n, n), -1, dtype=np.int64)
    number[tail, head] = np.arange(len(tail))
    i, k, j = (axis.ravel() for axis in np.indices((n, n, n)))
    distinct = (i != k) & (k != j) & (i != j)
    return tail, head, number, i[distinct], k[distinct], j[distinct]


def build_arrays(data: HopLp) -> LpArrays:
    """The linear program (minimising -lambda); columns lambda, x, y, p, f1, f2, f3, g; rows as ROW_FAMILIES."""
    n, d = data.servers, data.degree
    tail, head, number, i, k, j = _pairs_and_walks(n)
    pairs, walks = len(tail), len(i)
    asked = data.guess * data.demand[tail, head]
    once, again = np.minimum(1.0, asked), np.minimum(1.0, np.maximum(asked - 1.0, 0.0))
    walk_asked = data.guess * data.demand[i, j]
    ik, kj, ij = number[i, k], number[k, j], number[i, j]
    every, walk = np.arange(pairs), np.arange(walks)
    made = Families()
    load = made.columns(1, upper=data.guess, cost=-1.0)
    x, y = made.columns(pairs, upper=d), made.columns(pairs, upper=1.0)
    p, f1 = made.columns(walks, upper=1.0), made.columns(pairs, upper=np.minimum(asked, d))
    f2, f3 = made.columns(walks, upper=walk_asked), made.columns(pairs, upper=asked)
    g = made.columns(pairs, upper=d)

    def family(count: int, bound: float, *terms: tuple[Ints | int, Ints, Floats | float]) -> None:
        rows = made.rows(count, -np.inf, bound)
        for row, column, value in terms:
            made.terms(rows[row], column, value)

    family(n, d, (tail, x, 1.0))
    family(n, d, (head, x, 1.0))
    family(pairs, 0.0, (every, y, 1.0), (every, x, -1.0))
    family(pairs, 0.0, (ik, p, 1.0), (every, y, -float(d)))
    family(pairs, 0.0, (kj, p, 1.0), (every, y, -float(d)))
    family(walks, 0.0, (walk, p, 1.0), (walk, y[ik], -1.0))
    family(walks, 0.0, (walk, p, 1.0), (walk, y[kj], -1.0))
    family(pairs, 0.0, (every, f1, 1.0), (every, y, again - once), (every, x, -again))
    family(walks, 0.0, (walk, f2, 1.0), (walk, p, -walk_asked))
    wanted = data.demand[tail, head]
    family(pairs, 0.0, (every, load, wanted), (every, f1, -1.0), (ij, f2, -1.0), (every, f3, -1.0))
    family(pairs, 0.0, (every, f1, 1.0), (ik, f2, 1.0), (kj, f2, 1.0), (every, g, 1.0), (every, x, -1.0))
    family(1, 0.0, (0, f3, 3.0), (0, g, -1.0))
    family(n, 0.0, (tail, f3, 1.0), (tail, g, -1.0))
    family(n, 0.0, (head, f3, 1.0), (head, g, -1.0))
    return made.arrays()


def names_of(data: HopLp) -> tuple[list[str], list[str]]:
    """Names: columns `lambda`, `x_i_j`, `y_i_j`, `p_i_k_j`, `f1_i_j`, `f2_i_k_j`, `f3_i_j`, `g_a_b`; rows by family."""
    tail, head, _, i, k, j = _pairs_and_walks(data.servers)
    pairs = [f"{a}_{b}" for a, b in zip(tail.tolist(), head.tolist(), strict=True)]
    walks = [f"{a}_{u}_{b}" for a, u, b in zip(i.tolist(), k.tolist(), j.tolist(), strict=True)]
    indices = {"x": pairs, "y": pairs, "p": walks, "f1": pairs, "f2": walks, "f3": pairs, "g": pairs}
    columns = ["lambda"] + [f"{name}_{at}" for name, sets in indices.items() for at in sets]
    servers = [str(v) for v in range(data.servers)]
    walked, single = ("first", "second", "two_hop"), ("out", "into", "leave", "enter")
    rows: list[str] = []
    for name in ROW_FAMILIES:
        sets = walks if name in walked else servers if name in single else pairs
        rows += [name] if name == "long" else [f"{name}_{at}" for at in sets]
    return columns, rows


def from_topology(problem: TopologyProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance; option `guess`: L, 0 takes the node cut, d over the busiest server's demand.

    Raises:
        InputError: fewer than three servers, between which there are no walks of two hops.
    """
    if problem.servers < 3:
        value = str(problem.servers)
        raise InputError([Problem("too few servers for this formulation", path="servers", value=value, allowed=">= 3")])
    busiest = max(float(problem.demand.sum(axis=1).max()), float(problem.demand.sum(axis=0).max()))
    data = HopLp(problem.servers, problem.degree, problem.demand, options["guess"] or problem.degree / busiest)
    return with_names(build_arrays(data), *names_of(data))


def multipliers(data: HopLp, row_dual: Floats) -> dict[str, Floats]:
    """Not negative multipliers by row family, as float64[n], [n, n] or [n, n, n] (index i, k, j), zero off the sets.

    Args:
        row_dual: prices of the rows in the minimisation; those of <= rows are at most 0 up to tolerance.
    """
    n = data.servers
    tail, head, _, i, k, j = _pairs_and_walks(n)
    sizes = {"out": n, "into": n, "leave": n, "enter": n, "long": 1}
    found: dict[str, Floats] = {}
    at = 0
    for name in ROW_FAMILIES:
        walk = name in ("first", "second", "two_hop")
        count = sizes.get(name, len(i) if walk else len(tail))
        part = np.maximum(-row_dual[at : at + count], 0.0)
        at += count
        if name in sizes:
            found[name] = part
        elif walk:
            found[name] = np.zeros((n, n, n))
            found[name][i, k, j] = part
        else:
            found[name] = np.zeros((n, n))
            found[name][tail, head] = part
    return found
