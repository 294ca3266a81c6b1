"""Valid arguments of the unit `flows`, for calls that damage them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support import plain_cases as cases
from topoopt.native import flows
from topoopt.simulate.network import graph_arrays, network_arrays
from topoopt.simulate.time_models.evaluate import opposite_links


def shared_links(rng: np.random.Generator) -> tuple[Any, ...]:
    """Routes over links: (first, link, link_rate, weight)."""
    routes, links = int(rng.integers(0, 8)), int(rng.integers(1, 6))
    first = np.concatenate(([0], np.cumsum(rng.integers(0, 4, routes)))).astype(np.int64)
    link = rng.integers(0, links, first[-1]).astype(np.int32)
    return first, link, rng.uniform(0.5, 9.0, links), rng.integers(1, 4, routes)


def fluid(rng: np.random.Generator) -> tuple[Any, ...]:
    """A random graph in two jobs: (graph, network, job_ptr, restart)."""
    graph, network = cases.random_case(int(rng.integers(1 << 30)), bool(rng.random() < 0.5))
    job_ptr = np.array([0, int(rng.integers(0, graph.tasks + 1)), graph.tasks], dtype=np.int64)
    return graph_arrays(graph, network), network_arrays(network), job_ptr, False


def flexnet(rng: np.random.Generator) -> tuple[Any, ...]:
    """A random graph: (graph, network, directions, opposite, job_ptr)."""
    graph, network = cases.random_case(int(rng.integers(1 << 30)), bool(rng.random() < 0.5))
    directions = rng.choice(np.array([-1, 1], dtype=np.int8), graph.tasks)
    job_ptr = np.array([0, graph.tasks], dtype=np.int64)
    return graph_arrays(graph, network), network_arrays(network), directions, opposite_links(network), job_ptr


def steps(rng: np.random.Generator) -> tuple[Any, ...]:
    """Steps in any order: (first, successor, waits, duration, volume, channel, pairs)."""
    n, pairs = int(rng.integers(1, 12)), int(rng.integers(1, 4))
    edges = np.array([(i, j) for j in range(n) for i in range(j) if rng.random() < 0.3], dtype=np.int64).reshape(-1, 2)
    edges = rng.permutation(n)[edges]
    edges = edges[np.argsort(edges[:, 0], kind="stable")]
    first = np.concatenate(([0], np.cumsum(np.bincount(edges[:, 0], minlength=n)))).astype(np.int64)
    waits = np.bincount(edges[:, 1], minlength=n).astype(np.int64)
    transfers = int(rng.integers(0, n + 1))
    duration = np.where(np.arange(n) < transfers, 0.0, rng.integers(0, 4, n).astype(np.float64))
    volume, channel = rng.integers(1, 5, transfers).astype(np.float64), rng.integers(0, 2 * pairs, transfers)
    return first, edges[:, 1].copy(), waits, duration, volume, channel, pairs


def circuits(rng: np.random.Generator) -> tuple[Any, ...]:
    """(steps, circuits, rate)."""
    case = steps(rng)
    return flows.SharedCircuits(*case), rng.integers(1, 4, case[-1]), float(rng.integers(1, 3))


def demand(rng: np.random.Generator) -> tuple[Any, ...]:
    """(degree, demand)."""
    n = int(rng.integers(2, 12))
    matrix = rng.random((n, n)).astype(np.float32)
    np.fill_diagonal(matrix, 0.0)
    return int(rng.integers(1, 4)), matrix


def search(rng: np.random.Generator) -> flows.TwoLayerSearch:
    """Some iterations on."""
    begun = flows.TwoLayerSearch(*demand(rng))
    begun.run(int(rng.integers(0, 3)))
    return begun


CALLS: dict[str, Callable[[np.random.Generator], tuple[Any, ...]]] = {
    "max_min_rates": shared_links,
    "simulate_fluid": fluid,
    "simulate_flexnet": flexnet,
    "SharedCircuits": steps,
    "SharedCircuits.follow": circuits,
    "SharedCircuits.makespan": circuits,
    "TwoLayerSearch": demand,
    "TwoLayerSearch.run": lambda rng: (search(rng), int(rng.integers(0, 5))),
    "TwoLayerSearch.multipliers": lambda rng: (search(rng),),
}
