"""Circulants with shift-invariant demand: column generation over class loads, for millions of servers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.network.routing.class_mixture import ClassMixture, equal_classes, mixed_walks
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.topology import Topology
from topoopt.native import routing


def route_circulant(
    offsets: Sequence[int],
    weight: Floats,
    *,
    capacity: Sequence[float] | None = None,
    accuracy: float = 1e-8,
    time_limit_s: float | None = None,
) -> ClassMixture:
    """Least theta when every server i sends weight[j] to server i + j over arcs v -> v + p, p in `offsets`.

    Args:
        offsets: distinct, in 1..n-1; for bidirectional links both p and n - p.
        weight: float64[n], weight[0] = 0, not negative, not all 0.
        capacity: parallel links of each class; one each by default.
        accuracy: relative gap to stop at.

    Raises:
        InputError: bad offsets, weights or capacities.
        InfeasibleError: a displacement with demand is out of reach.
    """
    n = len(weight)
    ring = np.array(offsets, dtype=np.int64)
    width = np.ones(len(ring)) if capacity is None else np.array(capacity, dtype=np.float64)
    _refuse(ring, weight, width)
    paths = routing.CirculantPaths(ring, n)

    def walk(lengths: Floats) -> tuple[float, Floats]:
        distance = paths.distances(lengths)
        far = np.flatnonzero((weight > 0) & ~np.isfinite(distance))
        if len(far):
            raise InfeasibleError(f"the ring distances never add up to displacement {far[0]}, which has demand")
        return float(weight @ np.where(weight > 0, distance, 0.0)), paths.loads(weight)

    return mixed_walks(walk, n, width, accuracy, time_limit_s)


def base_flow(offsets: Sequence[int], weight: Floats, result: ClassMixture) -> Floats:
    """float64[d, n]: what source 0 sends over v -> v + offsets[c]; source s sends the same over (v + s) -> ..."""
    ring = np.array(offsets, dtype=np.int64)
    flow = np.zeros((len(ring), len(weight)))
    paths = routing.CirculantPaths(ring, len(weight))
    for share, lengths in zip(result.share, result.routing_lengths, strict=True):
        paths.distances(lengths)
        flow += share * paths.flow(weight)
    return flow


def circulant_classes(topology: Topology) -> tuple[Ints, Floats] | None:
    """Offsets int64[c] and capacities float64[c] when every server has the same arcs, seen from itself; else None."""
    tail, head = topology.arcs.astype(np.int64).T
    return classes_of(topology.servers, tail, head, topology.capacity)


def classes_of(n: int, tail: Ints, head: Ints, capacity: Floats) -> tuple[Ints, Floats] | None:
    """The same from arrays of distinct arcs."""
    return equal_classes(n, (head - tail) % n, capacity)


def shift_invariant(demand: Floats) -> bool:
    """Whether demand depends, to the last bit, on the displacement alone."""
    n = len(demand)
    return all(np.array_equal(demand[i, i:], demand[0, : n - i]) and
               np.array_equal(demand[i, :i], demand[0, n - i :]) for i in range(1, n))  # fmt: skip


def _refuse(ring: Ints, weight: Floats, width: Floats) -> None:
    n = len(weight)
    problems = []
    if not len(ring) or len(np.unique(ring)) != len(ring) or (ring < 1).any() or (ring >= n).any():
        text = "ring distances must be distinct"
        problems.append(Problem(text, path="offsets", value=str(ring.tolist()), allowed=f"1..{n - 1}"))
    if width.shape != ring.shape or not (np.isfinite(width) & (width > 0)).all():
        problems.append(Problem("every ring distance needs a capacity above 0", path="capacity"))
    if not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        problems.append(Problem("demand must be finite, not negative, and not all 0", path="weight"))
    elif weight[0] != 0:
        problems.append(Problem("a server has demand to itself", path="weight[0]", value=str(weight[0]), allowed="0"))
    if problems:
        raise InputError(problems)
