"""Small valid arguments of every function of the unit `routing`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.native import graph, routing

Draw = np.random.Generator


def random_arcs(draw: Draw) -> tuple[Ints, Ints]:
    """A ring and random arcs, by tail: int64[n+1] first, int64[m] head."""
    n = int(draw.integers(2, 9))
    joined = draw.random((n, n)) < 0.25
    joined[np.arange(n), (np.arange(n) + 1) % n] = True
    np.fill_diagonal(joined, False)
    tail, head = np.nonzero(joined)
    return np.searchsorted(tail, np.arange(n + 1)).astype(np.int64), head.astype(np.int64)


def random_demand(draw: Draw, n: int) -> Floats:
    """float64[n, n], some of it 0."""
    demand = draw.exponential(1.0, (n, n)) * (draw.random((n, n)) < 0.7)
    np.fill_diagonal(demand, 0.0)
    return demand


def random_lengths(draw: Draw, count: int) -> Floats:
    """Some with ties and zeros."""
    return draw.integers(0, 4, count).astype(np.float64) if draw.random() < 0.5 else draw.random(count)


def _problem(draw: Draw) -> tuple[Ints, Ints, Floats, int]:
    first, head = random_arcs(draw)
    n = len(first) - 1
    return first, head, random_demand(draw, n), n


def random_router(draw: Draw) -> tuple[routing.Router, int, int, Floats]:
    """A router, its servers and arcs, and lengths."""
    first, head, demand, n = _problem(draw)
    return routing.Router(first, head, demand, n), n, len(head), random_lengths(draw, len(head))


def _length(draw: Draw) -> tuple[Any, ...]:
    router, _, _, length = random_router(draw)
    return router, length


def _repaired(draw: Draw) -> tuple[Any, ...]:
    router, n, m, length = random_router(draw)
    return router, length, draw.random((n, m)) * (draw.random((n, m)) < 0.4)


def _limited(draw: Draw) -> tuple[Any, ...]:
    router, n, _, length = random_router(draw)
    return router, length, int(draw.integers(1, n))


def _limited_flow(draw: Draw) -> tuple[Any, ...]:
    router, n, m, length = random_router(draw)
    return router, length, draw.random(((n - 1) * n, m)) * (draw.random(((n - 1) * n, m)) < 0.4), n - 1


def _sweep(draw: Draw) -> tuple[Any, ...]:
    router, n, m, _ = random_router(draw)
    return router, draw.random(m) + 0.5, np.zeros((n, m)), draw.random(n) < 0.5, 20.0, 0.2


def _soft(draw: Draw) -> tuple[Any, ...]:
    router, n, m, length = random_router(draw)
    flow = np.zeros((n, m)) if draw.random() < 0.5 else None
    return router, length, 0.2, 1.0, 3.0, int(draw.integers(0, n)), n, flow


def _near(draw: Draw) -> tuple[Any, ...]:
    router, n, m, length = random_router(draw)
    return router, length, 0.5, 1000, np.zeros((n, m), dtype=np.bool_)


def _choices(draw: Draw) -> tuple[Any, ...]:
    router, length, width, most, near = _near(draw)
    router.mark_near(length, width, most, near)
    return router, near, np.zeros(near.shape)


def random_circulant(draw: Draw) -> tuple[Ints, int]:
    """Offsets with 1, and servers."""
    n = int(draw.integers(2, 24))
    return np.unique(np.append(draw.integers(1, n, 2), 1)), n


def _paths(draw: Draw) -> tuple[routing.CirculantPaths, Ints, int]:
    offsets, n = random_circulant(draw)
    paths = routing.CirculantPaths(offsets, n)
    paths.distances(random_lengths(draw, len(offsets)))
    return paths, offsets, n


def _distances(draw: Draw) -> tuple[Any, ...]:
    paths, offsets, _ = _paths(draw)
    return paths, random_lengths(draw, len(offsets))


def _weight(draw: Draw) -> tuple[Any, ...]:
    paths, _, n = _paths(draw)
    return paths, draw.random(n)


def _tree(draw: Draw) -> tuple[Any, ...]:
    offsets, n = random_circulant(draw)
    return offsets, random_lengths(draw, len(offsets)), draw.random(n)


def _add_tree(draw: Draw) -> tuple[Any, ...]:
    offsets, lengths, weights = _tree(draw)
    tree = routing.circulant_tree(offsets, lengths, weights)[1]
    return offsets, tree, weights, np.zeros((len(weights), len(offsets)))


def _demands(draw: Draw, hops: Ints) -> tuple[Ints, Ints, Floats, Ints, Ints]:
    """Source, target, amount, start of the path, and room for paths of random pairs; hops[i, j] from i to j."""
    count = int(draw.integers(1, 20))
    source, target = draw.integers(0, len(hops), count), draw.integers(0, len(hops), count)
    start = np.concatenate(([0], np.cumsum(hops[source, target]))).astype(np.int64)
    return source, target, draw.random(count) + 0.1, start, np.zeros(start[-1], dtype=np.int64)


def _route(draw: Draw) -> tuple[Any, ...]:
    first, head = random_arcs(draw)
    hops = graph.hop_distances(first, head, len(first) - 1)
    source, target, amount, start, path = _demands(draw, hops)
    order, hops_to = draw.permutation(len(source)), np.ascontiguousarray(hops.T).astype(np.int32)
    load = draw.random(len(head))
    inverse, again = draw.random(len(head)) + 0.5, bool(draw.random() < 0.5)
    return order, source, target, amount, first, head, hops_to, inverse, load, start, path, again


def _tree_loads(draw: Draw) -> tuple[Any, ...]:
    first, head, demand, n = _problem(draw)
    return np.repeat(np.arange(n), np.diff(first)), *graph.breadth_first_trees(first, head, n), demand


def _circulant_arcs(draw: Draw) -> tuple[Ints, Ints, int]:
    offsets, n = random_circulant(draw)
    return np.repeat(np.arange(n), len(offsets)), ((np.arange(n)[:, None] + offsets) % n).ravel(), n


def _displacement_route(draw: Draw) -> tuple[Any, ...]:
    tail, head, n = _circulant_arcs(draw)
    first = np.searchsorted(tail, np.arange(n + 1)).astype(np.int64)
    source, target, amount, start, path = _demands(draw, graph.hop_distances(first, head, n))
    paths, load = routing.DisplacementPaths(tail, head, n), draw.random(len(head))
    return paths, source, target, amount, start[:-1], load, path, bool(draw.random() < 0.5)


def _copy(draw: Draw) -> tuple[Any, ...]:
    router, n, _, _ = random_router(draw)
    return router, int(draw.integers(0, n + 1))


CALLS: dict[str, Callable[[Draw], tuple[Any, ...]]] = {
    "Router": _problem,
    "Router.copy": _copy,
    "Router.total_distance": _length,
    "Router.tree_flows": _length,
    "Router.repaired_flow": _repaired,
    "Router.limited_total": _limited,
    "Router.limited_flow": _limited_flow,
    "Router.sweep": _sweep,
    "Router.soft_loads": _soft,
    "Router.mark_near": _near,
    "Router.choices": _choices,
    "CirculantPaths": random_circulant,
    "CirculantPaths.distances": _distances,
    "CirculantPaths.loads": _weight,
    "CirculantPaths.flow": _weight,
    "CirculantPaths.steps": lambda draw: _paths(draw)[:1],
    "circulant_tree": _tree,
    "add_circulant_tree": _add_tree,
    "route_demands": _route,
    "tree_loads": _tree_loads,
    "DisplacementPaths": _circulant_arcs,
    "DisplacementPaths.route": _displacement_route,
}
