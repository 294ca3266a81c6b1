"""Every topology of a few servers, and the least theta of each, by ways of their own: loops, and scipy's solver."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse.csgraph import shortest_path

from topoopt.core.cluster import LinkDirection
from topoopt.core.network import TopologyProblem


def plain_theta(demand: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
    """Least theta by a program of its own: one flow per pair, conservation by incidence matrix, scipy's solver."""
    n = len(demand)
    arcs = np.argwhere(counts > 0)
    pairs = [(s, t) for s in range(n) for t in range(n) if demand[s, t] > 0]
    incidence = np.zeros((n, len(arcs)))
    incidence[arcs[:, 0], np.arange(len(arcs))] = 1.0
    incidence[arcs[:, 1], np.arange(len(arcs))] = -1.0
    due = np.zeros((len(pairs), n))
    for k, (s, t) in enumerate(pairs):
        due[k, s], due[k, t] = demand[s, t], -demand[s, t]
    equal = np.hstack((np.kron(np.eye(len(pairs)), incidence), np.zeros((len(pairs) * n, 1))))
    below = np.hstack(
        (np.tile(np.eye(len(arcs)), len(pairs)), -counts[arcs[:, 0], arcs[:, 1]][:, None].astype(np.float64))
    )
    cost = np.zeros(equal.shape[1])
    cost[-1] = 1.0
    found = linprog(cost, A_ub=below, b_ub=np.zeros(len(arcs)), A_eq=equal, b_eq=due.ravel())
    return float(found.fun) if found.status == 0 else np.inf


def every_topology(problem: TopologyProblem) -> Iterator[NDArray[np.int64]]:
    """All link counts that a problem allows; of those that differ by links left out, the larger alone."""
    n, d, both = problem.servers, problem.degree, problem.links is LinkDirection.BIDIRECTIONAL
    forbidden = {arc for i, j in problem.forbidden for arc in ((i, j), (j, i))[: 2 if both else 1]}
    pairs = [(i, j) for i, j in itertools.permutations(range(n), 2) if (i < j or not both) and (i, j) not in forbidden]
    most = d if problem.parallel_links else 1
    found: list[NDArray[np.int64]] = []

    def fill(at: int, counts: NDArray[np.int64]) -> None:
        if at == len(pairs):
            found.append(counts.copy())
            return
        i, j = pairs[at]
        for links in range(most + 1):
            counts[i, j] = links
            if both:
                counts[j, i] = links
            if counts[i].sum() <= d and counts[:, j].sum() <= d:
                fill(at + 1, counts)
        counts[i, j] = 0
        if both:
            counts[j, i] = 0

    fill(0, np.zeros((n, n), dtype=np.int64))
    for counts in found:
        sent, received = counts.sum(axis=1), counts.sum(axis=0)
        if any(sent[i] < d and received[j] < d and counts[i, j] < most for i, j in pairs):
            continue
        if problem.max_changed is not None:
            lost = sum(max(0, problem.kept.count(arc) - int(counts[arc])) for arc in set(problem.kept))
            if (lost // 2 if both else lost) > problem.max_changed:
                continue
        far = shortest_path((counts > 0).astype(np.float64), unweighted=True).max()
        if problem.max_hops is None or far <= problem.max_hops:
            yield counts


def least_theta(problem: TopologyProblem) -> float:
    """Of all topologies; infinite if there is none."""
    return min((plain_theta(problem.demand, counts) for counts in every_topology(problem)), default=np.inf)
