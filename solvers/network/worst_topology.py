"""A topology whose worst theta over a set of demand matrices is small: portfolio of searches, then exchange of links.

Single matrices, their mean and their envelope (entry by entry the largest) each get the topology search of kind
`topology`; what comes out is judged by the worst theta with routing adapted to each matrix, and the best is improved by
swapping the ends of two links. Matrices are routed in the order of how bad they were, so that most swaps are given up
after one of them. A routing in common costs much more to find, so the caller asks for it on the few best topologies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.network.routing import route
from solvers.network.search import SEEDS, SearchBudget, search_topology
from solvers.network.search.links import arcs_of, table_of, topology_of
from solvers.stop import Stop, first_part
from topoopt.core.arrays import Floats
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError, LimitError
from topoopt.core.network import TopologyProblem
from topoopt.core.topology import Topology

Demands = Floats

ACCURACY = 1e-4
"""Gap of the routings that judge a topology."""

SINGLE = 3
"""Matrices, the heaviest, that get a search of their own."""


def search_budget(servers: int) -> SearchBudget:
    """Of each search for one matrix: a second or two at 16 servers."""
    return SearchBudget(proposals=8_000 * servers, evaluations=60 * servers, accuracy=1e-3)


@dataclass(frozen=True)
class Judged:
    """A topology, the order in which to look at the matrices, and its worst theta (routing adapted)."""

    topology: Topology
    order: tuple[int, ...]
    worst: float


def exchanges_for(servers: int) -> int:
    """Swaps tried: some ten seconds."""
    return 100 if servers <= 16 else 40 if servers <= 32 else 0


def worst_topologies(problem: TopologyProblem, *, seed: int, goal: float, keep: int, stop: Stop) -> tuple[Judged, ...]:
    """The best topologies met, best first, `keep` at most; with `keep` 1 the search ends at `goal`, a proven bound.

    Raises:
        InfeasibleError: no topology of the degree joins all servers.
        LimitError: the time was up before any was found.
    """
    demands = problem.demands
    pool: list[Judged] = []

    def add(topology: Topology) -> None:
        if any(_same(topology, each.topology) for each in pool):
            return
        found = _judged(
            topology, demands, pool[0].order if pool else None, pool[-1].worst if len(pool) >= keep else None
        )
        if found is not None:
            pool.append(found)
            pool.sort(key=lambda each: each.worst)
            del pool[keep:]

    def enough() -> bool:
        reached = keep == 1 and bool(pool) and pool[0].worst <= goal * (1 + ACCURACY)
        return reached or (bool(pool) and stop.reason() is not None)

    for topology in _candidates(problem, seed, stop):
        add(topology)
        if enough():
            break
    if not pool:
        raise LimitError("the time was up before a topology was found")
    dice = np.random.default_rng([seed, 1])
    for _ in range(exchanges_for(problem.servers)):
        if enough():
            break
        changed = _exchanged(pool[0].topology, dice)
        if changed is not None:
            add(changed)
    return tuple(pool)


def _same(one: Topology, other: Topology) -> bool:
    return np.array_equal(one.arcs, other.arcs) and np.array_equal(one.multiplicity, other.multiplicity)


def _candidates(problem: TopologyProblem, seed: int, stop: Stop) -> Sequence[Topology]:
    servers, degree, links, demands = problem.servers, problem.degree, problem.links, problem.demands
    heaviest = np.argsort(-demands.sum(axis=(1, 2)), kind="stable")[:SINGLE]
    mixed = [demands.mean(axis=0), demands.max(axis=0)]
    found = []
    for name, seeded in SEEDS.items():
        try:
            found.append(seeded(servers, degree, links, mixed[0], np.random.default_rng([seed, len(name)])))
        except (InfeasibleError, InputError):  # this family has no topology of the degree
            continue
    matrices = mixed if len(demands) > 1 else []
    for matrix in [*matrices, *demands[heaviest]]:
        if stop.reason() is not None:
            break
        try:
            part = stop if stop.deadline is None else first_part(stop, 0.3, np.inf)
            found.append(
                search_topology(
                    replace(problem, demand=matrix), seed=seed, budget=search_budget(servers), stop=part
                ).topology
            )
        except LimitError:
            continue
    if not found:
        raise InfeasibleError(f"no topology of degree {degree} joins {servers} servers, or none was found in time")
    return found


def _judged(topology: Topology, demands: Demands, order: tuple[int, ...] | None, limit: float | None) -> Judged | None:
    """The topology with its worst theta; None if that is proven not to be below `limit`, or a demand has no way."""
    order = tuple(range(len(demands))) if order is None else order
    theta = dict.fromkeys(order, 0.0)
    for k in order:
        try:
            found = route(topology, demands[k], accuracy=ACCURACY)
        except InfeasibleError:
            return None
        theta[k] = found.theta
        if limit is not None and found.bound >= limit * (1 - 1e-9):
            return None
    worst = max(theta.values())
    if limit is not None and worst >= limit * (1 - 1e-9):
        return None
    return Judged(topology, tuple(sorted(order, key=lambda k: (-theta[k], k))), worst)


def _exchanged(topology: Topology, dice: np.random.Generator) -> Topology | None:
    """Two links i -> j and k -> l become i -> l and k -> j (fibre pairs at both ends); None if that makes a loop."""
    table = table_of(topology)
    arcs = arcs_of(table.out)
    both = topology.links is LinkDirection.BIDIRECTIONAL
    rows = arcs[arcs[:, 0] < arcs[:, 1]] if both else arcs
    if len(rows) < 2:
        return None
    one, other = dice.choice(len(rows), size=2, replace=False)
    (i, j), (k, l) = rows[one].tolist(), rows[other].tolist()  # noqa: E741
    if both and dice.random() < 0.5:
        k, l = l, k  # noqa: E741
    if i == l or k == j:
        return None
    kept = np.delete(rows, [one, other], axis=0)
    changed = np.concatenate((kept, [(i, l), (k, j)]))
    if both:
        changed = np.concatenate((changed, changed[:, ::-1]))
    out = np.repeat(np.arange(topology.servers)[:, None], topology.degree, axis=1)
    sent = np.zeros(topology.servers, dtype=np.int64)
    for tail, head in changed.tolist():
        out[tail, sent[tail]] = head
        sent[tail] += 1
    try:
        return topology_of(out, topology.links, "worst-case search")
    except InfeasibleError:  # no longer connected
        return None
