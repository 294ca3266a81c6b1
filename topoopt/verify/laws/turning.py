"""Networks that look the same from every server, told by the checker in its own way.

Servers are the places of a box of `dims`, the last dimension fastest, where every dimension is a ring; without
dimensions, of the ring of all. A step is told by the server to which it leads from server 0.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Floats, Ints
from topoopt.core.process import end_if_left
from topoopt.core.topology import Topology

Dims = tuple[int, ...]
Number = TypeVar("Number", np.int64, np.float64)


def _moved(row: NDArray[Number], by: int, dims: Dims, sign: int = 1) -> NDArray[Number]:
    """The values of a row (one a server) where a step takes them, or (sign -1) where they come from by it."""
    if not dims:
        return np.roll(row, sign * by)
    far = [sign * int(part) for part in np.unravel_index(by, dims)]
    return np.roll(row.reshape(dims), far, axis=tuple(range(len(dims)))).ravel()


def arcs_by_step(topology: Topology, dims: Dims = ()) -> Ints | None:
    """int64[steps, n]: the arcs of equal steps, by tail.

    None where a server lacks an arc that another one has, seen from itself, or the box has another number of places.
    """
    n, arcs = topology.servers, topology.arcs.astype(np.int64)
    if not len(arcs) or len(arcs) % n or (dims and int(np.prod(dims)) != n):
        return None
    steps = _steps(arcs, n, dims)
    order = np.lexsort((arcs[:, 0], steps)).reshape(-1, n)
    one_each = (arcs[order, 0] == np.arange(n)).all() and (steps[order] == steps[order[:, :1]]).all()
    return order if one_each else None


def _steps(arcs: Ints, n: int, dims: Dims) -> Ints:
    """int64[m]: where the steps of arcs [m, 2] lead from server 0."""
    if not dims:
        return np.asarray((arcs[:, 1] - arcs[:, 0]) % n)
    place = np.indices(dims).reshape(len(dims), n)
    away = place[:, arcs[:, 1]] - place[:, arcs[:, 0]]
    return np.asarray(np.ravel_multi_index(tuple(away % np.array(dims)[:, None]), dims))


def steps_of(topology: Topology, classes: Ints, dims: Dims = ()) -> list[int]:
    """Where the arcs of each class lead from server 0."""
    found: list[int] = _steps(topology.arcs[classes[:, 0]].astype(np.int64), topology.servers, dims).tolist()
    return found


def stepped(row: Floats, step: int, dims: Dims = ()) -> Floats:
    """float64[n]: what comes to each server where every server passes on its value of a row by a step."""
    return _moved(row, step, dims)


def seen_from_itself(table: Floats, server: int, dims: Dims = ()) -> Floats:
    """float64[n]: the row of a server in a table of pairs, itself first, then the others in the order they have for
    server 0."""
    return _moved(table[server], server, dims, -1)


def turned_distances(topology: Topology, lengths: Ints, far: int, dims: Dims = ()) -> Ints | None:
    """int64[n, n]: distances where arcs and their lengths are the same from every server; else None.

    Those from server 0 by Bellman and Ford, one class of arcs after another; the others follow. `far`: no path.
    """
    classes = arcs_by_step(topology, dims)
    if classes is None or (lengths[classes] != lengths[classes[:, :1]]).any():
        return None
    n = topology.servers
    of_class = lengths[classes[:, 0]].tolist()
    distance = np.full(n, far)
    distance[0] = 0
    for _ in range(n):
        before = distance.copy()
        for step, length in zip(steps_of(topology, classes, dims), of_class, strict=True):
            np.minimum(distance, _moved(distance, step, dims) + length, out=distance)
        if np.array_equal(before, distance):
            break
    found = np.empty((n, n), dtype=distance.dtype)
    for server in range(n):
        end_if_left()
        found[server] = _moved(distance, server, dims)
    return found
