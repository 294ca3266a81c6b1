"""Shapes, random small cases, and a brute force over servers and planes that knows nothing of classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from tests.support.layers import layer_from_table
from topoopt.core.cluster import OpticalLayer, Shard, ShardShape


def rings(servers: int, *steps: int) -> ShardShape:
    """Interface j sends from r to r + steps[j]."""
    ranks = np.arange(servers)
    return ShardShape(np.array([(ranks + step) % servers for step in steps], dtype=np.int32))


def pairs(servers: int, *pairings: Sequence[tuple[int, int]]) -> ShardShape:
    """Interface j joins these pairs both ways; other ranks are dark."""
    arcs = np.full((len(pairings), servers), -1, dtype=np.int32)
    for row, pairing in zip(arcs, pairings, strict=True):
        for a, b in pairing:
            row[a], row[b] = b, a
    return ShardShape(arcs)


def random_layer(rng: np.random.Generator, servers: int, planes: int, switches: int) -> OpticalLayer:
    """Any wiring, ports as needed."""
    table = rng.integers(0, switches, (planes, servers))
    return layer_from_table(table, servers, 0.01)


def random_shape(rng: np.random.Generator, servers: int, interfaces: int) -> ShardShape:
    """Partial permutations without self loops: rings, pairs, and whatever is left of a random permutation."""
    arcs = np.full((interfaces, servers), -1, dtype=np.int32)
    for row in arcs:
        kind = rng.integers(0, 3)
        order = rng.permutation(servers)
        if kind == 0 and servers > 1:
            row[order] = np.roll(order, -1)
        elif kind == 1:
            half = servers // 2
            row[order[:half]], row[order[half : 2 * half]] = order[half : 2 * half], order[:half]
        else:
            row[:] = np.where((order == np.arange(servers)) | (rng.random(servers) < 0.3), -1, order)
    return ShardShape(arcs)


def _all(layer: OpticalLayer, free: NDArray[np.bool_], shape: ShardShape) -> Iterator[Shard]:
    """Every shard, law by law as `Shard` states it."""
    k = shape.servers
    for planes in permutations(range(layer.planes), shape.interfaces):

        def extend(servers: tuple[int, ...], planes: tuple[int, ...] = planes) -> Iterator[Shard]:
            if len(servers) == k:
                yield Shard(servers, planes)
                return
            for server in np.flatnonzero(free).tolist():
                if server in servers:
                    continue
                longer = (*servers, server)
                if all(
                    layer.switch_of[p, longer[a]] == layer.switch_of[p, longer[b]]
                    for p, row in zip(planes, shape.arcs.tolist(), strict=True)
                    for a, b in enumerate(row)
                    if b >= 0 and max(a, b) == len(servers)
                ):
                    yield from extend(longer)

        yield from extend(())


def exists(layer: OpticalLayer, free: NDArray[np.bool_], shape: ShardShape) -> bool:
    """Whether any shard of free servers realises the shape."""
    return next(_all(layer, free, shape), None) is not None


def most_placed(
    layer: OpticalLayer, free: NDArray[np.bool_], shapes: Sequence[ShardShape], worth: Sequence[float]
) -> float:
    """Largest total worth of jobs placed side by side, by trying all sets of servers of every job in turn."""
    if not shapes:
        return 0.0
    best = most_placed(layer, free, shapes[1:], worth[1:])
    for chosen in {frozenset(shard.servers) for shard in _all(layer, free, shapes[0])}:
        left = free.copy()
        left[list(chosen)] = False
        best = max(best, worth[0] + most_placed(layer, left, shapes[1:], worth[1:]))
    return best
