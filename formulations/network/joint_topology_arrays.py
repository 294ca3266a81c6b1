"""Array builder of `formulations.network.joint_topology`: the same rows and columns, by name."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from formulations.network.joint_topology import JointTopology, data_of, obeying
from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Rows, Term
from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.network import TopologyProblem


def build_arrays(data: JointTopology) -> LpArrays:
    """The program as a minimisation of -lambda; columns: lambda, x by ARCS, f by source and arc, options."""
    return joint_rows(data).program({("lambda",): -1.0})


def joint_rows(data: JointTopology) -> Rows:
    """Columns and rows of the program, to which other families may be added."""
    rows = Rows()
    rows.column("lambda", lower=data.lower, upper=data.upper)
    for i, j in data.arcs:
        rows.column("x", i, j, upper=float(data.most_links), integer=True)
    for s in data.sources:
        for i, j in data.arcs:
            if j != s:
                rows.column("f", s, i, j)
    _degrees(rows, data)
    _flows(rows, data)
    if data.kept_links:
        _kept(rows, data)
    if data.hops is not None:
        _hops(rows, data, data.hops)
    if data.distance is not None:
        _distances(rows, data, data.distance)
    _symmetry(rows, data)
    return rows


def from_topology(problem: TopologyProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance; option `symmetry`: 1 with the rules that break symmetry, 0 without."""
    return build_arrays(data_of(problem, symmetry=bool(options["symmetry"])))


def link_counts(data: JointTopology, x: Floats) -> Ints:
    """int64[n, n]: link counts of a solution vector, rounded."""
    counts = np.zeros((data.servers, data.servers), dtype=np.int64)
    tails, heads = np.nonzero(data.allowed)
    counts[tails, heads] = np.rint(x[1 : 1 + len(tails)]).astype(np.int64)
    return counts


def start_values(data: JointTopology, counts: Ints) -> tuple[Int32s, Floats]:
    """Columns of x and their values in a known network, renamed to obey the symmetry rules: a warm start."""
    named = obeying(counts, data.symmetry)[data.allowed]
    return np.arange(1, 1 + len(named), dtype=np.int32), named.astype(np.float64)


def _degrees(rows: Rows, data: JointTopology) -> None:
    every = range(data.servers)
    for i in every:
        rows.row(f"out_degree_{i}", 0, data.degree, [(rows.at("x", i, j), 1) for j in every if data.allowed[i, j]])
    if data.bidirectional:
        for i, j in data.arcs:
            if i < j:
                rows.row(f"pair_{i}_{j}", 0, 0, [(rows.at("x", i, j), 1), (rows.at("x", j, i), -1)])
        return
    for j in every:
        rows.row(f"in_degree_{j}", 0, data.degree, [(rows.at("x", i, j), 1) for i in every if data.allowed[i, j]])


def _flows(rows: Rows, data: JointTopology) -> None:
    load = rows.at("lambda")
    for i, j in data.arcs:
        used = [(rows.at("f", s, i, j), 1.0) for s in data.sources if s != j]
        rows.row(f"capacity_{i}_{j}", -np.inf, 0, [*used, (rows.at("x", i, j), -1.0)])
    for s in data.sources:
        for v in range(data.servers):
            if v == s:
                continue
            enters = [(rows.at("f", s, i, v), 1.0) for i, j in data.arcs if j == v]
            leaves = [(rows.at("f", s, v, j), -1.0) for i, j in data.arcs if i == v and j != s]
            rows.row(f"deliver_{s}_{v}", 0, 0, [*enters, *leaves, (load, -float(data.demand[s, v]))])


def _kept(rows: Rows, data: JointTopology) -> None:
    assert data.kept is not None
    for i, j in data.kept_links:
        rows.column("z", i, j, upper=float(data.kept[i, j]))
        kept = [(rows.at("z", i, j), 1.0)]
        links = [(rows.at("x", i, j), -1.0)] if data.allowed[i, j] else []
        rows.row(f"kept_{i}_{j}", -np.inf, 0, kept + links)
    rows.row("changed", data.kept_needed, np.inf, [(rows.at("z", i, j), 1) for i, j in data.kept_links])


def _hops(rows: Rows, data: JointTopology, hops: int) -> None:
    n = data.servers
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    for i, j in pairs:
        need = 1.0 if hops == 1 else 0.0
        rows.column("w", 1, i, j, lower=need, upper=1.0)
        links = [(rows.at("x", i, j), -1.0)] if data.allowed[i, j] else []
        rows.row(f"link_{i}_{j}", -np.inf, 0, [(rows.at("w", 1, i, j), 1.0), *links])
    for q in range(2, hops + 1):
        for i, j in pairs:
            rows.column("w", q, i, j, lower=1.0 if q == hops else 0.0, upper=1.0)
        for i, j in pairs:
            walks = []
            for u in range(n):
                if u in (i, j):
                    continue
                rows.column("p", q, i, u, j, upper=1.0)
                walk = rows.at("p", q, i, u, j)
                rows.row(f"walk_first_{q}_{i}_{u}_{j}", -np.inf, 0, [(walk, 1), (rows.at("w", q - 1, i, u), -1)])
                rows.row(f"walk_last_{q}_{i}_{u}_{j}", -np.inf, 0, [(walk, 1), (rows.at("w", 1, u, j), -1)])
                walks.append((walk, -1.0))
            ends = [(rows.at("w", q, i, j), 1.0), (rows.at("w", q - 1, i, j), -1.0)]
            rows.row(f"walk_{q}_{i}_{j}", -np.inf, 0, ends + walks)


def _distances(rows: Rows, data: JointTopology, distance: Floats) -> None:
    load = rows.at("lambda")
    every: list[Term] = []
    for s in data.sources:
        flows = [(rows.at("f", s, i, j), 1.0) for i, j in data.arcs if j != s]
        every += flows
        rows.row(f"source_distance_{s}", 0, np.inf, [*flows, (load, -float(distance[s]))])
    rows.row("distance", 0, np.inf, [*every, (load, -data.total_distance)])


def _symmetry(rows: Rows, data: JointTopology) -> None:
    n = data.servers
    x = {(i, j): rows.at("x", i, j) for i, j in data.arcs}
    for r, members in data.symmetry.orders:
        for j, after in pairwise(members):
            if (r, j) in x and (r, after) in x:
                rows.row(f"row_order_{r}_{j}", 0, np.inf, [(x[r, j], 1), (x[r, after], -1)])
    if not data.symmetry.bfs:
        return
    for i, j in data.arcs:
        if (i, j) != (0, 1):
            rows.row(f"root_{i}_{j}", 0, np.inf, [(x[0, 1], 1), (x[i, j], -1)])
    for j in range(1, n - 1):
        rows.row(f"row_order_0_{j}", 0, np.inf, [(x[0, j], 1), (x[0, j + 1], -1)])
    for j in range(1, n):
        rows.row(f"parent_{j}", 1, np.inf, [(x[u, j], 1) for u in range(j)])
    for j in range(1, n - 1):
        for i in range(j - 1):
            found = [(x[u, j], -float(data.most_links)) for u in range(i + 1)]
            rows.row(f"prefix_{i}_{j + 1}", -np.inf, 0, [(x[i, j + 1], 1.0), *found])
