r"""Hop-LP: how much concurrent flow any topology of degree d can carry, with one and two hops spelled out.

For a guess L on lambda = 1/theta.

Sets        PAIRS (i, j), i != j; WALKS (i, k, j), all distinct.
Parameters  d; D_ij; L; c1 = min(1, L D), c2 = min(1, (L D - 1)^+).
Variables   lambda in [0, L]; x_ij in [0, d] links; y_ij in [0, 1] is there a link; p_ikj in [0, 1] are both links of a
            walk there; flows f1_ij (one hop), f2_ikj (two), f3_ij (three or more), g_ab link load of f3.

    maximise    lambda
    (out) (into)        sum_j x_ij <= d,  sum_i x_ij <= d
    (link)              y_ij - x_ij <= 0
    (spread_first)      sum_j p_ikj - d y_ik <= 0          (spread_second)  sum_i p_ikj - d y_kj <= 0
    (first) (second)    p_ikj - y_ik <= 0,  p_ikj - y_kj <= 0
    (direct)            f1_ij - (c1 - c2) y_ij - c2 x_ij <= 0
    (two_hop)           f2_ikj - L D_ij p_ikj <= 0
    (deliver)           lambda D_ij - f1_ij - sum_k f2_ikj - f3_ij <= 0
    (capacity)          f1_ab + sum_j f2_abj + sum_i f2_iab + g_ab - x_ab <= 0
    (long)              3 sum f3 - sum g <= 0
    (leave) (enter)     sum_j f3_aj - sum_b g_ab <= 0,  sum_i f3_ib - sum_a g_ab <= 0

Size: about 2 n^3 columns, 3 n^3 rows. A value below L proves lambda at most that for every topology; it relaxes the
joint topology and routing problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array

from formulations.parts.arrays import LpArrays, with_names
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


class _Families:
    """Rows sum <= bound, one family after the other."""

    def __init__(self) -> None:
        self.rows: list[Ints] = []
        self.cols: list[Ints] = []
        self.vals: list[Floats] = []
        self.right: list[Floats] = []
        self.count = 0

    def add(self, count: int, bound: float, *terms: tuple[Ints, Ints, Floats | float]) -> None:
        """`count` rows; a term is (row in the family, column, coefficient), as arrays."""
        for row, column, value in terms:
            self.rows.append(row + self.count)
            self.cols.append(column)
            self.vals.append(np.broadcast_to(np.asarray(value, dtype=np.float64), row.shape))
        self.right.append(np.full(count, bound))
        self.count += count

    def matrix(self, columns: int) -> csc_array:
        """All rows."""
        place = (np.concatenate(self.rows), np.concatenate(self.cols))
        matrix = csc_array((np.concatenate(self.vals), place), shape=(self.count, columns), dtype=np.float64)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return matrix


def build_arrays(data: HopLp) -> LpArrays:
    """The linear program (minimising -lambda); columns lambda, x, y, p, f1, f2, f3, g; rows as ROW_FAMILIES."""
    n, d = data.servers, data.degree
    tail, head, number, i, k, j = _pairs_and_walks(n)
    pairs, walks = len(tail), len(i)
    x, y, p, f1, f2, f3, g, columns = np.cumsum([1, pairs, pairs, walks, pairs, walks, pairs, pairs]).tolist()
    asked = data.guess * data.demand[tail, head]
    once, again = np.minimum(1.0, asked), np.minimum(1.0, np.maximum(asked - 1.0, 0.0))
    walk_asked = data.guess * data.demand[i, j]
    ik, kj, ij = number[i, k], number[k, j], number[i, j]
    every, walk, zero = np.arange(pairs), np.arange(walks), np.zeros(pairs, dtype=np.int64)
    rows = _Families()
    rows.add(n, d, (tail, x + every, 1.0))
    rows.add(n, d, (head, x + every, 1.0))
    rows.add(pairs, 0.0, (every, y + every, 1.0), (every, x + every, -1.0))
    rows.add(pairs, 0.0, (ik, p + walk, 1.0), (every, y + every, -float(d)))
    rows.add(pairs, 0.0, (kj, p + walk, 1.0), (every, y + every, -float(d)))
    rows.add(walks, 0.0, (walk, p + walk, 1.0), (walk, y + ik, -1.0))
    rows.add(walks, 0.0, (walk, p + walk, 1.0), (walk, y + kj, -1.0))
    rows.add(pairs, 0.0, (every, f1 + every, 1.0), (every, y + every, again - once), (every, x + every, -again))
    rows.add(walks, 0.0, (walk, f2 + walk, 1.0), (walk, p + walk, -walk_asked))
    served = ((every, f1 + every, -1.0), (ij, f2 + walk, -1.0), (every, f3 + every, -1.0))
    rows.add(pairs, 0.0, (every, zero, data.demand[tail, head]), *served)
    used = ((every, f1 + every, 1.0), (ik, f2 + walk, 1.0), (kj, f2 + walk, 1.0), (every, g + every, 1.0))
    rows.add(pairs, 0.0, *used, (every, x + every, -1.0))
    rows.add(1, 0.0, (zero, f3 + every, 3.0), (zero, g + every, -1.0))
    rows.add(n, 0.0, (tail, f3 + every, 1.0), (tail, g + every, -1.0))
    rows.add(n, 0.0, (head, f3 + every, 1.0), (head, g + every, -1.0))
    matrix = rows.matrix(columns)
    most = np.full(pairs, float(d))
    return LpArrays(
        cost=np.concatenate(([-1.0], np.zeros(columns - 1))),
        lower=np.zeros(columns),
        upper=np.concatenate(
            ([data.guess], most, np.ones(pairs + walks), np.minimum(asked, d), walk_asked, asked, most)
        ),
        row_lower=np.full(rows.count, -np.inf),
        row_upper=np.concatenate(rows.right),
        start=matrix.indptr.astype(np.int64),
        index=matrix.indices.astype(np.int64),
        value=np.asarray(matrix.data, dtype=np.float64),
    )


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
