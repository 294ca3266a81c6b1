r"""Joint choice of links and splittable routing: the network that carries most (mixed-integer linear program).

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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import LinkDirection
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
        """ARCS in order."""
        return [(int(i), int(j)) for i, j in np.argwhere(self.allowed)]

    @property
    def sources(self) -> list[int]:
        """SOURCES in order."""
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


def data_of(problem: TopologyProblem, *, symmetry: bool = True) -> JointTopology:
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
        found = [root]
        for server in found:  # grows as servers are found
            heads = counts[server]
            fresh = [v for v in np.flatnonzero(heads).tolist() if v not in found]
            found += [fresh[k] for k in np.argsort(-heads[fresh], kind="stable")]
        order = np.array(found)
    for r, members in symmetry.orders:
        order[list(members)] = np.array(members)[np.argsort(-counts[r, list(members)], kind="stable")]
    return counts[np.ix_(order, order)]
