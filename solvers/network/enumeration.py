"""Exhaustive search routes every network of a few servers, or every circulant, that could be best.

Every topology of a few servers, to be looked at one by one.

Only networks to which no allowed link can be added are listed: one more link neither lowers what fits, nor lengthens a
path, nor gives a kept link up.

Exhaustive search for uniform demand over directed links: every network that could be better is routed.

Which networks: one per isomorphism class of the directed multigraphs in which all servers have d links out and in. That
is all of them that matter: if a server has a free sender, and a server a free receiver, a link between the two does no
harm; if both are the same server i, some link a -> b with a, b != i exists (n >= 3), and a -> i, i -> b in its place
carries all it carried. Either step uses up an interface, so a best network with all interfaces used exists.

How: theta >= (sum of hops) / (n d) for demand 1, so networks are visited by their sum of hops beyond the Moore bound:
0, 1, 2 to 3, 4 to 7, ... until that bound reaches the best theta found. Each visited is routed; its bound is proven by
lengths.
Orderly generation: R. C. Read, Every one a winner, Annals of Discrete Mathematics 2, 1978.

Best circulant: every server i has links to i + c for the same distances c. A restriction, exact within it.

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

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from math import comb, gcd

import numpy as np
from scipy.sparse.csgraph import shortest_path

from solvers.network.space import (
    Counts,
    ExactLimits,
    Routed,
    Space,
    TopologyResult,
    checked_theta,
    finish,
    hop_distances,
    layer_sizes,
    length_bound,
    open_space,
    relaxed_theta,
    repaired,
    route,
    unit_of,
)
from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.core.network import EnumerationProof, TopologyProblem
from topoopt.core.proofs import Argument, Bound, StopReason
from topoopt.native import exact, graph, routing

MOST_SERVERS = 5
MOST_NETWORKS = 400_000


def maximal_networks(space: Space) -> Counts:
    """int64[k, n, n]: all link counts within the degrees to which no allowed link can be added.

    Raises:
        InputError: there are more than `MOST_NETWORKS`.
    """
    n = space.problem.servers
    tails, heads = np.argwhere(np.triu(space.allowed) if space.bidirectional else space.allowed).T.copy()
    degree = space.problem.degree
    networks = exact.maximal_networks(n, degree, space.most_links, space.bidirectional, tails, heads, MOST_NETWORKS)
    if len(networks) > MOST_NETWORKS:
        raise InputError([Problem("too many topologies to be listed", allowed=f"<= {MOST_NETWORKS}")])
    return networks.reshape(-1, n, n)


_STEPS = 2_000_000
_BATCH = 512


MOST_KEPT = 1000
"""Networks beyond which a bound is not proven to others."""


def networks_of_excess(servers: int, degree: int, least_excess: int, most_excess: int) -> Iterator[Counts]:
    """All d-regular strongly connected multigraphs without loops whose sum of hops exceeds n * Moore by so much.

    Yields int64[k, n, n] link counts, k possibly 0, one per isomorphism class, at least every few seconds.
    """
    n = servers
    search = exact.RegularNetworks(n, degree, moore_sum(n, degree), least_excess, most_excess)
    while not search.over():
        heads = search.next(_STEPS, _BATCH).reshape(-1, n, degree)
        yield (heads[:, :, :, None] == np.arange(n)).sum(axis=2)


def moore_sum(servers: int, degree: int) -> int:
    """Least sum of hops from one server to all others."""
    within = layer_sizes(servers, degree, LinkDirection.UNIDIRECTIONAL)
    return servers - 1 + sum(servers - 1 - reach for reach in within[:-1])


def solve_enumerate(problem: TopologyProblem, limits: ExactLimits) -> TopologyResult:
    """Exhaustive search; uniform demand, directed links that may be parallel, no further constraints.

    Raises:
        InputError: the problem is outside of that, has fewer than 3 or more than 62 servers.
        LimitError: the time limit came before any network was found.
    """
    space = open_space(problem)
    refuse(space)
    stop = limits.stop
    n, degree = problem.servers, problem.degree
    unit = float(space.demand[0, 1])
    plain = np.ones((n, n)) - np.eye(n)
    least, links = n * moore_sum(n, degree), n * degree
    best: tuple[float, Counts] | None = None
    if limits.incumbent is not None and space.fits(limits.incumbent.adjacency()):
        relaxed = relaxed_theta(plain, limits.incumbent.adjacency())
        best = None if relaxed is None else (relaxed[0], limits.incumbent.adjacency())
    proven = np.inf if best is None else best[0]
    visited: list[tuple[int, Counts, Floats]] = []  # hops, links, lengths
    work = 0
    excess = 0
    stopped = StopReason.CONVERGED
    while best is None or (least + excess) / links < best[0] * (1 - 1e-9):
        floor = (least + excess) / links
        # Twice as many values of the sum each time: a search goes through the tables of the one before again.
        last = max(0, 2 * excess - 1) if best is None else _last_excess(excess, best[0] * links * (1 - 1e-9) - least)
        for counts in (member for batch in networks_of_excess(n, degree, excess, last) for member in (*batch, None)):
            if (reason := stop.reason()) is not None:
                stopped = reason
                break
            if counts is None:  # the end of a batch: only the clock had to be looked at
                continue
            relaxed = relaxed_theta(plain, counts)
            work += 1
            if relaxed is None:
                continue
            proven = min(proven, length_bound(plain, counts, relaxed[2]))
            if len(visited) <= MOST_KEPT:
                visited.append((int(shortest_path(counts > 0, unweighted=True).sum()), counts, relaxed[2]))
            if best is None or relaxed[0] < best[0]:
                best = (relaxed[0], counts)
            if best[0] <= floor * (1 + 1e-9):
                break
        if stopped is not StopReason.CONVERGED or (best is not None and best[0] <= floor * (1 + 1e-9)):
            break
        excess = last + 1
    if best is None:
        raise LimitError("the time limit came before any network was found")
    routed = route(space.demand, best[1])
    assert routed is not None
    # Networks not visited have a sum of hops of at least `least + excess`; visited ones are bounded by their lengths.
    bound = min(proven, (least + excess) / links)
    result = finish(
        space, best[1], routed, Bound(unit * bound, Argument.TOPOLOGY_ENUMERATION), stopped, "enumerate", work
    )
    if len(visited) > MOST_KEPT or result.bound.verified:
        return result
    proof = _proof(n, degree, [network for network in visited if network[0] < bound * links])
    return replace(result, certificates=(*result.certificates, proof.certificate(result.bound.value)))


def _last_excess(first: int, below: float) -> int:
    return max(first, min(2 * first - 1, math.ceil(below) - 1))


def _proof(n: int, degree: int, visited: list[tuple[int, Counts, Floats]]) -> EnumerationProof:
    heads = np.zeros((len(visited), n, degree), dtype=np.int64)
    lengths = np.zeros((len(visited), n, degree))
    for index, (_, counts, length) in enumerate(visited):
        for server in range(n):
            row = np.repeat(np.arange(n), counts[server])
            heads[index, server], lengths[index, server] = row, length[server, row]
    return EnumerationProof(heads, lengths)


def covers(space: Space) -> bool:
    return not _reasons(space)


def refuse(space: Space) -> None:
    """Raise InputError unless the method takes the problem."""
    problems = _reasons(space)
    if problems:
        raise InputError(problems)


def _reasons(space: Space) -> list[Problem]:
    problem = space.problem
    off = space.demand[~np.eye(problem.servers, dtype=np.bool_)]
    conditions = (
        (bool((off == off[0]).all()), "demand", "uniform"),
        (not space.bidirectional, "links", "unidirectional"),
        (3 <= problem.servers <= 62, "servers", "3 to 62"),
        (problem.parallel_links, "parallel_links", "true"),
        (problem.max_hops is None, "max_hops", "none"),
        (space.kept is None, "max_changed", "none"),
        (not problem.forbidden, "forbidden", "none"),
    )
    return [
        Problem("not covered by method `enumerate`", path=where, allowed=allowed)
        for fine, where, allowed in conditions
        if not fine
    ]


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
    invariant = _invariant(demand / unit, weights / unit, coins, cutoff / unit)
    if invariant is None:
        return None
    return replace(invariant, flow=invariant.flow * unit, theta=invariant.theta * unit, bound=invariant.bound * unit)


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
