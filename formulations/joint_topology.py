"""Joint choice of links and splittable routing: the network that carries most (mixed-integer linear program).

Decided: how many links join every ordered pair of servers, and how the demand of every source flows over them.
Concurrent flow, aggregated by source, over links that are variables (TopoOpt, NSDI'23, section 3; the linear form and
what speeds it up).

Sets        servers i, j, v, s = 0..n-1; ARCS: ordered pairs that may have a link; SOURCES: servers with demand.
Parameters  D[s, v] >= 0 in units of the capacity of one link;  d interfaces per server;  m largest number of parallel
            links;  K[i, j] links of the network as it stands, k how many of them may be given up;  h hop limit;
            L, U bounds on lambda;  F[s] <= sum_v D[s, v] dist(s, v) in every allowed network, F their total.
Variables   lambda in [L, U];  x[i, j] in {0..m};  f[s, i, j] >= 0 (none back into s).

L = 1 / sum D holds in every network with a path for each demand: no link carries more than all of it. With it, a
problem that no network solves is infeasible rather than of lambda 0.

    maximise    lambda
    (1) out_degree  sum_j x[i, j] <= d                                              for every i
    (2) in_degree   sum_i x[i, j] <= d                                              for every j (directed links only)
    (3) pair        x[i, j] = x[j, i]                                               i < j (bidirectional links only)
    (4) capacity    sum_s f[s, i, j] <= x[i, j]                                     for every arc
    (5) deliver     sum_i f[s, i, v] - sum_j f[s, v, j] = lambda D[s, v]            for every source s, v != s

Networks that stay (z[i, j] <= min(x[i, j], K[i, j]): links kept; pairs i < j count once for bidirectional links):

    (6) kept        z[i, j] <= x[i, j];   (7) changed   sum z >= sum K - k

Bounded diameter (y[i, j] <= min(1, x[i, j]): a link; w[q, i, j] in [0, 1]: a walk of at most q hops, w[1] = y;
p[q, i, u, j]: such a walk whose last hop is u -> j, not for u = i or u = j):

    (8) link        y[i, j] <= x[i, j]
    (9) walk        w[q, i, j] <= w[q-1, i, j] + sum_u p[q, i, u, j]                q = 2..h
    (10) walk_first p[q, i, u, j] <= w[q-1, i, u];   (11) walk_last   p[q, i, u, j] <= y[u, j]

and w[h, i, j] = 1. Only x need be whole: for given whole x the largest y, w, p allowed are 0 or 1 (each is the least
of, or capped sum of, whole numbers), so a fractional solution implies that whole one.

Distance cuts (valid, since every unit of (s, v) uses dist(s, v) units of capacity at least):

    (12) source_distance  sum_ij f[s, i, j] >= lambda F[s];   (13) distance  sum f >= lambda F

Node cuts are implied by (1), (2), (4) and (5); the relaxation in x alone gives no more than them, so that (12), (13)
and U carry the rest of the root bound.

Symmetry breaking. Let G be the permutations of servers that leave D, the forbidden arcs and K as they are: renaming
the servers of a solution by one of G gives a solution with the same lambda, so any rule that some renaming in G of
every solution obeys cuts off no optimum. `0 -> 1 -> 2 ...` is not such a rule: it says that a Hamiltonian cycle exists.

* `bfs` (all permutations, as for uniform demand; every server is reached from every other, since demand is positive):
  call 0 the tail of a link bundle of the largest multiplicity, then number the servers in the order a breadth-first
  search from 0 finds them, the heads of server 0 by falling multiplicity. Then

    (14) root       x[0, 1] >= x[i, j];   (15) row_order  x[0, j] >= x[0, j+1]       j >= 1
    (16) parent     sum_{u < j} x[u, j] >= 1                                        j >= 1
    (17) prefix     x[i, j+1] <= m sum_{u <= i} x[u, j]                             1 <= j <= n-2, i < j-1

By (17), if i finds j+1 or it was found before, j was found by i at the latest.

* `classes`: servers that may be swapped pairwise form classes; the members of one class, sorted by their links from one
  server r that no other rule moves, give (15) with r for 0 along the class. Classes of one server need none; r lies
  in such a class, or, if there is no such class, one class is ordered by a server outside it.

Size: 1 + |ARCS| + |SOURCES| (|ARCS| - n + 1) columns, n|SOURCES| + |ARCS| rows and those of the options.

hop_lp
------
Hop-LP: how much concurrent flow any topology of degree d can carry, with one and two hops spelled out.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from formulations.programs import Families, LpArrays, Rows, Term, with_names
from topoopt.core.arrays import Bools, Floats, Int32s, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.network import TopologyProblem


@dataclass(frozen=True)
class Symmetry:
    """Rules of the symmetry breaking; empty: none.

    Attributes:
        bfs: rules (14) to (17).
        orders: (r, members) of every class ordered by the links of server r.
    """

    bfs: bool = False
    orders: tuple[tuple[int, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, eq=False)
class JointTopology:
    """Data of the program.

    Attributes:
        servers, degree: n, d.
        bidirectional: links are fibre pairs.
        demand: float64[n, n], zero diagonal.
        allowed: bool[n, n], pairs that may have a link; False on the diagonal.
        most_links: m.
        kept: int64[n, n], K (symmetric for bidirectional links); None: a new network.
        max_changed: k; None: no limit.
        max_hops: h; None: no limit.
        lower, upper: L, U.
        distance: float64[n], F by source; None: no cuts (12), (13).
        total_distance: F.
        symmetry: rules to add.
        senders: servers that are sources whether they have demand or not (for `allreduce_topology`).
    """

    servers: int
    degree: int
    bidirectional: bool
    demand: Floats
    allowed: Bools
    most_links: int
    kept: Ints | None = None
    max_changed: int | None = None
    max_hops: int | None = None
    lower: float = 0.0
    upper: float = np.inf
    distance: Floats | None = None
    total_distance: float = 0.0
    symmetry: Symmetry = field(default_factory=Symmetry)
    senders: tuple[int, ...] = ()

    @property
    def arcs(self) -> list[tuple[int, int]]:
        return [(int(i), int(j)) for i, j in np.argwhere(self.allowed)]

    @property
    def sources(self) -> list[int]:
        return sorted({*np.flatnonzero(self.demand.sum(axis=1) > 0).tolist(), *self.senders})

    @property
    def kept_links(self) -> list[tuple[int, int]]:
        """Pairs with links of the network as it stands, each link counted once; empty when any may change."""
        if self.kept is None or self.max_changed is None:
            return []
        return [(int(i), int(j)) for i, j in np.argwhere(self.kept > 0) if i < j or not self.bidirectional]

    @property
    def kept_needed(self) -> int:
        """sum K - k: links that must stay."""
        if self.kept is None or self.max_changed is None:
            return 0
        return sum(int(self.kept[i, j]) for i, j in self.kept_links) - self.max_changed

    @property
    def hops(self) -> int | None:
        """h, at most n - 1 (no shortest path is longer)."""
        return None if self.max_hops is None else min(self.max_hops, self.servers - 1)


def allowed_arcs(problem: TopologyProblem) -> Bools:
    """bool[n, n]: pairs that may have a link; forbidding one direction of a fibre pair forbids both."""
    allowed = ~np.eye(problem.servers, dtype=np.bool_)
    for i, j in problem.forbidden:
        allowed[i, j] = False
        if problem.links is LinkDirection.BIDIRECTIONAL:
            allowed[j, i] = False
    return allowed


def kept_counts(problem: TopologyProblem) -> Ints | None:
    """int64[n, n]: links of the network as it stands; None for a new one.

    For bidirectional links a pair may be listed in one or in both directions: the larger count holds.
    """
    if not problem.kept:
        return None
    counts = np.zeros((problem.servers, problem.servers), dtype=np.int64)
    for i, j in problem.kept:
        counts[i, j] += 1
    return np.maximum(counts, counts.T) if problem.links is LinkDirection.BIDIRECTIONAL else counts


def joint_topology_data(problem: TopologyProblem, *, symmetry: bool = True) -> JointTopology:
    """Data of an instance, with the node cut for U; the distance cuts, which need bounds of their own, left out.

    For L see the module text; U: the busiest server sends or receives over its d links alone.
    """
    demand = problem.demand
    allowed = allowed_arcs(problem)
    kept = kept_counts(problem) if problem.max_changed is not None else None
    busiest = max(float(demand.sum(axis=1).max()), float(demand.sum(axis=0).max()))
    return JointTopology(
        servers=problem.servers,
        degree=problem.degree,
        bidirectional=problem.links is LinkDirection.BIDIRECTIONAL,
        demand=demand,
        allowed=allowed,
        most_links=problem.degree if problem.parallel_links else 1,
        kept=kept,
        max_changed=problem.max_changed,
        max_hops=problem.max_hops,
        lower=(1 - 1e-6) / float(demand.sum()),
        upper=problem.degree / busiest,
        symmetry=find_symmetry(demand, allowed, kept) if symmetry else Symmetry(),
    )


def find_symmetry(demand: Floats, allowed: Bools, kept: Ints | None, more: Sequence[Floats] = ()) -> Symmetry:
    """Rules that hold for this demand, these forbidden arcs and this network as it stands (proof: module text).

    `more` tables must stay as they are under the renamings, too; a positive entry joins two servers as demand does.
    """
    n = len(demand)
    tables = [demand, allowed.astype(np.float64), *more] + ([] if kept is None else [kept.astype(np.float64)])
    classes: list[list[int]] = []
    for v in range(n):
        home = next((c for c in classes if _swappable(tables, c[0], v)), None)
        if home is None:
            classes.append([v])
        else:
            home.append(v)
    if len(classes) == 1:
        return Symmetry(bfs=n > 2 and any(bool(table.sum() > 0) for table in (demand, *more)))
    fixed = [c[0] for c in classes if len(c) == 1]
    larger = [tuple(c) for c in classes if len(c) > 1]
    if fixed:
        return Symmetry(orders=tuple((fixed[0], c) for c in larger))
    return Symmetry(orders=((next(c for c in larger if c is not larger[0])[0], larger[0]),))


def _swappable(tables: list[Floats], a: int, b: int) -> bool:
    """Whether exchanging servers a and b leaves every table as it is (an equivalence: swaps generate each other)."""
    order = np.arange(len(tables[0]))
    order[[a, b]] = b, a
    return all(np.array_equal(table, table[np.ix_(order, order)]) for table in tables)


def obeying(counts: Ints, symmetry: Symmetry) -> Ints:
    """int64[n, n]: the network with its servers renamed so that it obeys the rules.

    `counts` must be strongly connected where rule `bfs` is set.
    """
    n = len(counts)
    order = np.arange(n)  # order[new name] = old name
    if symmetry.bfs:
        root = int(np.argmax(counts.max(axis=1)))
        rows = [root]
        for server in rows:  # grows as servers are found
            heads = counts[server]
            fresh = [v for v in np.flatnonzero(heads).tolist() if v not in rows]
            rows += [fresh[k] for k in np.argsort(-heads[fresh], kind="stable")]
        order = np.array(rows)
    for r, members in symmetry.orders:
        order[list(members)] = np.array(members)[np.argsort(-counts[r, list(members)], kind="stable")]
    return counts[np.ix_(order, order)]


def joint_topology_arrays(data: JointTopology) -> LpArrays:
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


def joint_topology_from_topology(problem: TopologyProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance; option `symmetry`: 1 with the rules that break symmetry, 0 without."""
    return joint_topology_arrays(joint_topology_data(problem, symmetry=bool(options["symmetry"])))


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
            rows_of_pair = [(x[u, j], -float(data.most_links)) for u in range(i + 1)]
            rows.row(f"prefix_{i}_{j + 1}", -np.inf, 0, [(x[i, j + 1], 1.0), *rows_of_pair])


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


def hop_lp_arrays(data: HopLp) -> LpArrays:
    """The linear program (minimising -lambda); columns lambda, x, y, p, f1, f2, f3, g; rows as ROW_FAMILIES."""
    n, d = data.servers, data.degree
    tail, head, number, i, k, j = _pairs_and_walks(n)
    pairs, walks = len(tail), len(i)
    requested = data.guess * data.demand[tail, head]
    once, again = np.minimum(1.0, requested), np.minimum(1.0, np.maximum(requested - 1.0, 0.0))
    demand_of_walk = data.guess * data.demand[i, j]
    ik, kj, ij = number[i, k], number[k, j], number[i, j]
    every, walk = np.arange(pairs), np.arange(walks)
    made = Families()
    load = made.columns(1, upper=data.guess, cost=-1.0)
    x, y = made.columns(pairs, upper=d), made.columns(pairs, upper=1.0)
    p, f1 = made.columns(walks, upper=1.0), made.columns(pairs, upper=np.minimum(requested, d))
    f2, f3 = made.columns(walks, upper=demand_of_walk), made.columns(pairs, upper=requested)
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
    family(walks, 0.0, (walk, f2, 1.0), (walk, p, -demand_of_walk))
    wanted = data.demand[tail, head]
    family(pairs, 0.0, (every, load, wanted), (every, f1, -1.0), (ij, f2, -1.0), (every, f3, -1.0))
    family(pairs, 0.0, (every, f1, 1.0), (ik, f2, 1.0), (kj, f2, 1.0), (every, g, 1.0), (every, x, -1.0))
    family(1, 0.0, (0, f3, 3.0), (0, g, -1.0))
    family(n, 0.0, (tail, f3, 1.0), (tail, g, -1.0))
    family(n, 0.0, (head, f3, 1.0), (head, g, -1.0))
    return made.arrays()


def hop_lp_names(data: HopLp) -> tuple[list[str], list[str]]:
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


def hop_lp_from_topology(problem: TopologyProblem, options: Mapping[str, float]) -> LpArrays:
    """The named program of an instance; option `guess`: L, 0 takes the node cut, d over the busiest server's demand.

    Raises:
        InputError: fewer than three servers, between which there are no walks of two hops.
    """
    if problem.servers < 3:
        value = str(problem.servers)
        raise InputError([Problem("too few servers for this formulation", path="servers", value=value, allowed=">= 3")])
    busiest = max(float(problem.demand.sum(axis=1).max()), float(problem.demand.sum(axis=0).max()))
    data = HopLp(problem.servers, problem.degree, problem.demand, options["guess"] or problem.degree / busiest)
    return with_names(hop_lp_arrays(data), *hop_lp_names(data))


def joint_topology_pyomo(data: JointTopology) -> Any:
    """The program as a Pyomo ConcreteModel; names are those of the module text."""
    import pyomo.environ as pyo  # takes a second

    n, arcs, sources = data.servers, data.arcs, data.sources
    servers = range(n)
    model = pyo.ConcreteModel("joint_topology")
    model.ARCS = pyo.Set(initialize=arcs, dimen=2)
    model.FLOWS = pyo.Set(initialize=[(s, i, j) for s in sources for i, j in arcs if j != s], dimen=3)
    model.throughput = pyo.Var(bounds=(data.lower, None if data.upper == float("inf") else data.upper))
    model.x = pyo.Var(model.ARCS, domain=pyo.NonNegativeIntegers, bounds=(0, data.most_links))
    model.f = pyo.Var(model.FLOWS, domain=pyo.NonNegativeReals)
    model.objective = pyo.Objective(expr=model.throughput, sense=pyo.maximize)

    @model.Constraint(servers)  # type: ignore[untyped-decorator]
    def out_degree(m: Any, i: int) -> Any:
        heads = [m.x[i, j] for j in servers if data.allowed[i, j]]
        return sum(heads) <= data.degree if heads else pyo.Constraint.Skip

    if data.bidirectional:

        @model.Constraint([(i, j) for i, j in arcs if i < j])  # type: ignore[untyped-decorator]
        def pair(m: Any, i: int, j: int) -> Any:
            return m.x[i, j] == m.x[j, i]

    else:

        @model.Constraint(servers)  # type: ignore[untyped-decorator]
        def in_degree(m: Any, j: int) -> Any:
            tails = [m.x[i, j] for i in servers if data.allowed[i, j]]
            return sum(tails) <= data.degree if tails else pyo.Constraint.Skip

    @model.Constraint(model.ARCS)  # type: ignore[untyped-decorator]
    def capacity(m: Any, i: int, j: int) -> Any:
        return sum(m.f[s, i, j] for s in sources if s != j) <= m.x[i, j]

    @model.Constraint([(s, v) for s in sources for v in servers if v != s])  # type: ignore[untyped-decorator]
    def deliver(m: Any, s: int, v: int) -> Any:
        enters = sum(m.f[s, i, v] for i in servers if data.allowed[i, v])
        leaves = sum(m.f[s, v, j] for j in servers if data.allowed[v, j] and j != s)
        return enters - leaves == float(data.demand[s, v]) * m.throughput

    if data.kept_links:
        _add_kept(model, data)
    if data.hops is not None:
        _add_hops(model, data, data.hops)
    if data.distance is not None:
        _add_distances(model, data)
    _add_symmetry(model, data)
    return model


def _add_kept(model: Any, data: JointTopology) -> None:
    import pyomo.environ as pyo

    links, kept = data.kept_links, data.kept
    assert kept is not None
    model.z = pyo.Var(links, bounds=lambda m, i, j: (0, int(kept[i, j])))

    @model.Constraint(links)  # type: ignore[untyped-decorator]
    def kept_link(m: Any, i: int, j: int) -> Any:
        return m.z[i, j] <= (m.x[i, j] if data.allowed[i, j] else 0)

    model.changed = pyo.Constraint(expr=sum(model.z[i, j] for i, j in links) >= data.kept_needed)


def _add_hops(model: Any, data: JointTopology, hops: int) -> None:
    import pyomo.environ as pyo

    servers = range(data.servers)
    pairs = [(i, j) for i in servers for j in servers if i != j]
    walks = [(q, i, u, j) for q in range(2, hops + 1) for i, j in pairs for u in servers if u not in (i, j)]
    reached = [(q, i, j) for q in range(1, hops + 1) for i, j in pairs]
    model.w = pyo.Var(reached, bounds=lambda m, q, i, j: (1 if q == hops else 0, 1))
    model.p = pyo.Var(walks, bounds=(0, 1))

    @model.Constraint(pairs)  # type: ignore[untyped-decorator]
    def link(m: Any, i: int, j: int) -> Any:
        return m.w[1, i, j] <= (m.x[i, j] if data.allowed[i, j] else 0)

    @model.Constraint([(q, i, j) for q, i, j in reached if q > 1])  # type: ignore[untyped-decorator]
    def walk(m: Any, q: int, i: int, j: int) -> Any:
        return m.w[q, i, j] <= m.w[q - 1, i, j] + sum(m.p[q, i, u, j] for u in servers if u not in (i, j))

    @model.Constraint(walks)  # type: ignore[untyped-decorator]
    def walk_first(m: Any, q: int, i: int, u: int, j: int) -> Any:
        return m.p[q, i, u, j] <= m.w[q - 1, i, u]

    @model.Constraint(walks)  # type: ignore[untyped-decorator]
    def walk_last(m: Any, q: int, i: int, u: int, j: int) -> Any:
        return m.p[q, i, u, j] <= m.w[1, u, j]


def _add_distances(model: Any, data: JointTopology) -> None:
    import pyomo.environ as pyo

    distance = data.distance
    assert distance is not None

    @model.Constraint(data.sources)  # type: ignore[untyped-decorator]
    def source_distance(m: Any, s: int) -> Any:
        return sum(m.f[s, i, j] for i, j in data.arcs if j != s) >= float(distance[s]) * m.throughput

    model.distance = pyo.Constraint(expr=sum(model.f.values()) >= data.total_distance * model.throughput)


def _add_symmetry(model: Any, data: JointTopology) -> None:
    n = data.servers
    ordered = [(r, a, b) for r, members in data.symmetry.orders for a, b in pairwise(members)]
    if data.symmetry.bfs:
        ordered += [(0, j, j + 1) for j in range(1, n - 1)]

    @model.Constraint([(r, a, b) for r, a, b in ordered if data.allowed[r, a] and data.allowed[r, b]])  # type: ignore[untyped-decorator]
    def row_order(m: Any, r: int, a: int, b: int) -> Any:
        return m.x[r, a] >= m.x[r, b]

    if not data.symmetry.bfs:
        return

    @model.Constraint([arc for arc in data.arcs if arc != (0, 1)])  # type: ignore[untyped-decorator]
    def root(m: Any, i: int, j: int) -> Any:
        return m.x[0, 1] >= m.x[i, j]

    @model.Constraint(range(1, n))  # type: ignore[untyped-decorator]
    def parent(m: Any, j: int) -> Any:
        return sum(m.x[u, j] for u in range(j)) >= 1

    @model.Constraint([(i, j) for j in range(1, n - 1) for i in range(j - 1)])  # type: ignore[untyped-decorator]
    def prefix(m: Any, i: int, j: int) -> Any:
        return m.x[i, j + 1] <= data.most_links * sum(m.x[u, j] for u in range(i + 1))
