"""Exhaustive search for uniform demand over directed links: every network that could be better is routed.

Which networks: one per isomorphism class of the directed multigraphs in which all servers have d links out and in. That
is all of them that matter: if a server has a free sender, and a server a free receiver, a link between the two does no
harm; if both are the same server i, some link a -> b with a, b != i exists (n >= 3), and a -> i, i -> b in its place
carries all it carried. Either step uses up an interface, so a best network with all interfaces used exists.

How: theta >= (sum of hops) / (n d) for demand 1, so networks are visited by their sum of hops beyond the Moore bound:
0, 1, 2 to 3, 4 to 7, ... until that bound reaches the best theta found. Each visited is routed; its bound is proven by
lengths.
Orderly generation: R. C. Read, Every one a winner, Annals of Discrete Mathematics 2, 1978.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.sparse.csgraph import shortest_path

from solvers.network.exact.bounds import layer_sizes
from solvers.network.exact.result import ExactLimits, TopologyResult
from solvers.network.exact.routed import Counts, length_bound, relaxed_theta, route
from solvers.network.exact.space import Space, finish, open_space
from topoopt.core.arrays import Floats
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.core.network import EnumerationProof, TopologyProblem
from topoopt.core.proofs import Argument, Bound, StopReason
from topoopt.native import exact

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
        for counts in (one for batch in networks_of_excess(n, degree, excess, last) for one in (*batch, None)):
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
                visited.append((_hops(counts), counts, relaxed[2]))
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
    proof = _proof(n, degree, [each for each in visited if each[0] < bound * links])
    return replace(result, certificates=(*result.certificates, proof.certificate(result.bound.value)))


def _last_excess(first: int, below: float) -> int:
    """The last of the next excesses to visit: as many as were visited, all of them less than `below`."""
    return max(first, min(2 * first - 1, math.ceil(below) - 1))


def _hops(counts: Counts) -> int:
    """Sum of hops between all servers of a strongly connected network."""
    return int(shortest_path(counts > 0, unweighted=True).sum())


def _proof(n: int, degree: int, visited: list[tuple[int, Counts, Floats]]) -> EnumerationProof:
    """Networks and their lengths, port by port."""
    heads = np.zeros((len(visited), n, degree), dtype=np.int64)
    lengths = np.zeros((len(visited), n, degree))
    for place, (_, counts, length) in enumerate(visited):
        for server in range(n):
            row = np.repeat(np.arange(n), counts[server])
            heads[place, server], lengths[place, server] = row, length[server, row]
    return EnumerationProof(heads, lengths)


def covers(space: Space) -> bool:
    """Whether the method takes the problem."""
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
