"""Best circulant: every server i has links to i + c for the same distances c. A restriction, exact within it.

Directed links: all sets of d distances; bidirectional: all sets of distances up to n/2 that use d interfaces (n/2 uses
one, others two), or d - 1 where d cannot be used up. Candidates go by their sum of hops over all links, a lower
bound on theta; each that may still be best is routed exactly.

Shift-invariant demand (D[i, i+j] = w_j): theta = max over lengths l >= 0 of the distances, sum of l times links per
server = 1, of sum_j w_j dist_l(j), since averaging over the shifts makes any routing and any lengths invariant. The
maximum of a concave function given by its largest minorants (loads of shortest paths) is found by cutting planes with
d + 1 variables; their weights are the shares of the shortest path trees in an optimal routing. Other
demand: the full linear program.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import comb, gcd

import numpy as np

from solvers.network.exact.result import ExactLimits, TopologyResult
from solvers.network.exact.routed import (
    Counts,
    Routed,
    checked_theta,
    hop_distances,
    relaxed_theta,
    repaired,
    route,
    unit_of,
)
from solvers.network.exact.space import Space, finish, open_space
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.core.network import TopologyProblem
from topoopt.core.proofs import Argument, Bound, StopReason
from topoopt.native import graph, routing

MOST_SETS = 3_000_000


def solve_circulant(problem: TopologyProblem, limits: ExactLimits) -> TopologyResult:
    """Best circulant; `restricted_bound` holds among circulants, `bound` among all topologies.

    Raises:
        InputError: bad problem, more than `MOST_SETS` sets of distances, or no circulant satisfies the constraints.
        InfeasibleError: no topology does.
    """
    space = open_space(problem)
    stop = limits.stop
    n = problem.servers
    sets = distance_sets(space)
    weights = shift_invariant(space.demand)
    order, floors = _floors(space, sets, weights)
    best: tuple[float, Counts, Routed] | None = None
    proven = np.inf
    stopped = StopReason.CONVERGED
    work = 0
    for k in order:
        floor = float(floors[k])
        if best is not None and floor >= best[0] * (1 - 1e-9):
            proven = min(proven, floor)
            break
        if best is not None and (reason := stop.reason()) is not None:
            proven, stopped = min(proven, floor), reason
            break
        coins = sets[k]
        counts = circulant_counts(n, coins)
        if not space.fits(counts):
            continue
        work += 1
        if weights is None:
            relaxed = relaxed_theta(space.demand, counts)
            if relaxed is None or (best is not None and relaxed[0] >= best[0]):
                proven = np.inf if relaxed is None else min(proven, relaxed[0])
                continue
            routed = route(space.demand, counts)
        else:
            routed = route_invariant(space.demand, weights, coins, np.inf if best is None else best[0])
        if routed is None:
            continue
        proven = min(proven, routed.bound)
        if best is None or routed.theta < best[0]:
            best = (routed.theta, counts, routed)
    if best is None:
        text = "no circulant satisfies the constraints, which says nothing of other topologies"
        raise InputError([Problem(text, path="search.method", value="circulant", allowed="auto, exact, milp")])
    proof = Bound(proven, Argument.TOPOLOGY_ENUMERATION)
    return finish(space, best[1], best[2], proof, stopped, "circulant", work, restriction="circulants")


def distance_sets(space: Space) -> Ints:
    """int64[k, d]: sets of distances, each as the arcs of server 0 (p and n - p for bidirectional links)."""
    n, degree = space.problem.servers, space.problem.degree
    if not space.bidirectional:
        size = min(degree, n - 1)
        total = comb(n - 1, size)
    else:
        half = (n - 1) // 2
        size = min(degree // 2, half)
        total = comb(half, size)
    if total > MOST_SETS:
        raise InputError([Problem("too many circulants", path="servers", value=str(total), allowed=f"<= {MOST_SETS}")])
    if not space.bidirectional:
        return np.array(list(combinations(range(1, n), size)), dtype=np.int64).reshape(-1, size)
    antipode = [n // 2] if n % 2 == 0 and degree > 2 * size else []
    rows = [[c for p in pick for c in (p, n - p)] + antipode for pick in combinations(range(1, half + 1), size)]
    if n % 2 == 0 and degree % 2 == 0 and not rows[0]:
        rows = [[n // 2]]
    return np.sort(np.array(rows, dtype=np.int64), axis=1)


def circulant_counts(servers: int, coins: Ints) -> Counts:
    """int64[n, n]: link counts of a set of distances."""
    counts = np.zeros((servers, servers), dtype=np.int64)
    start = np.arange(servers)
    for c in coins.tolist():
        counts[start, (start + c) % servers] += 1
    return counts


def shift_invariant(demand: Floats) -> Floats | None:
    """float64[n]: w with D[i, i+j] = w_j, or None."""
    n = len(demand)
    start = np.arange(n)
    for j in range(1, n):
        along = demand[start, (start + j) % n]
        if not (along == along[0]).all():
            return None
    return np.asarray(demand[0], dtype=np.float64)


def _floors(space: Space, sets: Ints, weights: Floats | None) -> tuple[list[int], Floats]:
    """Order to visit the sets in, and a lower bound on theta of each: demand times hops over links."""
    n, size = space.problem.servers, sets.shape[1]
    off = space.demand[~np.eye(n, dtype=np.bool_)]
    floors = np.empty(len(sets))
    if (off == off[0]).all():
        total = graph.circulant_scores(n, sets)[:, 1]
        floors = np.where(total >= n * n, np.inf, total * off[0] / size)
    else:
        for k, coins in enumerate(sets):
            far = hop_distances(circulant_counts(n, coins))
            needed = space.demand > 0
            floors[k] = (space.demand[needed] * far[needed]).sum() / (n * size)
    order = np.argsort(floors, kind="stable")
    if weights is not None and (off == off[0]).all():
        order = _one_per_class(n, sets, order)
    return [int(k) for k in order if np.isfinite(floors[k])], floors


def _one_per_class(n: int, sets: Ints, order: Ints) -> Ints:
    """Drop sets that are a unit of Z_n times an earlier one: renaming i to u i maps uniform demand to itself."""
    units = [u for u in range(1, n) if gcd(u, n) == 1]
    seen: set[tuple[int, ...]] = set()
    kept: list[int] = []
    # Renaming more than the first few thousand sets would cost more than it saves.
    for k in order[:5000].tolist():
        if tuple(sets[k].tolist()) not in seen:
            kept.append(k)
            seen.update(tuple(sorted((u * sets[k] % n).tolist())) for u in units)
    return np.concatenate((np.array(kept, dtype=np.int64), order[5000:]))


def route_invariant(demand: Floats, weights: Floats, coins: Ints, cutoff: float) -> Routed | None:
    """Exact routing of shift-invariant demand over a circulant; None once theta is proven to be at least `cutoff`."""
    unit = unit_of(weights)  # as the tolerances of the solver are absolute
    found = _invariant(demand / unit, weights / unit, coins, cutoff / unit)
    if found is None:
        return None
    return replace(found, flow=found.flow * unit, theta=found.theta * unit, bound=found.bound * unit)


def _invariant(demand: Floats, weights: Floats, coins: Ints, cutoff: float) -> Routed | None:
    from scipy.optimize import linprog

    n, classes = len(demand), len(coins)
    lengths = np.full(classes, 1.0 / classes)
    rows: list[Floats] = []
    trees: list[Ints] = []
    lower, best_lengths = 0.0, lengths
    for _ in range(500):
        reached, tree, loads = routing.circulant_tree(coins, lengths, weights)
        if not reached:
            return None
        value = float(loads @ lengths)
        if value > lower:
            lower, best_lengths = value, lengths
        if lower >= cutoff:
            return None
        rows.append(loads)
        trees.append(tree)
        # Master: largest t with t <= g . l for all loads g, l on the simplex.
        table = np.column_stack((-np.array(rows), np.ones(len(rows))))
        simplex = np.append(np.ones(classes), 0.0)[None]
        bounds = [(0.0, None)] * classes + [(None, None)]
        master = linprog(np.append(np.zeros(classes), -1.0), table, np.zeros(len(rows)), simplex, [1.0], bounds)
        if -master.fun - lower <= 1e-10 * lower:
            break
        lengths = np.maximum(master.x[:classes], 0.0)
        lengths /= lengths.sum()
    share = np.maximum(-master.ineqlin.marginals, 0.0)
    share /= share.sum()
    counts = circulant_counts(n, coins)
    arcs = np.argwhere(counts > 0)
    shift = (arcs[:, 1] - arcs[:, 0]) % n
    leaving = np.zeros((n, classes))
    for part, tree in zip(share, trees, strict=True):
        if part > 0.0:
            routing.add_circulant_tree(coins, tree, weights * part, leaving)
    coin_of = np.full(n, -1)
    coin_of[coins] = np.arange(classes)
    flow = np.array([leaving[(arcs[:, 0] - s) % n, coin_of[shift]] for s in range(n)])
    flow = flow if n > 40 else repaired(demand, arcs, flow)
    return Routed(arcs, flow, checked_theta(demand, counts, flow), best_lengths[coin_of[shift]], lower)
