"""Circulants are routed by mixtures of shortest paths: column generation over loads of classes of arcs.

A class has all arcs that translations take to each other. What one server sends loads a class as much as all servers
load each of its arcs, so that one server, and one length a class, stand for all. The paths of a mixture are words of
offsets, which routes of pairs are made of; `solvers.network.orbits` has flows of other networks as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from formulations.mixtures import circulant_flow_arrays
from solvers.backends.highs import highs_model
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.topology import Topology
from topoopt.native import routing

_ROUTINGS = 400
_TRUST = 0.5  # how much of the best lengths is mixed into the next ones (Wentges smoothing)

Walk = Callable[[Floats], tuple[float, Floats]]
"""Lengths of the classes -> length of all traffic of one server on shortest paths, float64[d] loads of the classes."""


@dataclass(frozen=True, eq=False)
class ClassMixture:
    """A mixture of routings that look the same from every server.

    Attributes:
        theta: largest load of a class over its capacity, summed from the routings' own loads.
        bound: lower bound on theta, from `lengths`.
        lengths: float64[d] of the classes of arcs, sum capacity * length = 1.
        share: float64[k], of each routing in the mixture, above 0.
        routing_lengths: float64[k, d]; routing i takes shortest paths for these.
        load: float64[d] of the classes.
        routings: how many were generated.
        on_time: False when the time limit came first.
    """

    theta: float
    bound: float
    lengths: Floats
    share: Floats
    routing_lengths: Floats
    load: Floats
    routings: int
    on_time: bool


def mixed_walks(walk: Walk, servers: int, width: Floats, accuracy: float, time_limit_s: float | None) -> ClassMixture:
    """Least theta of a mixture of walks, and its proof.

    Args:
        width: float64[d], capacity of an arc of each class.
        accuracy: relative gap to stop at.
    """
    deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
    lengths = np.ones(len(width)) / width.sum()
    best_lengths, bound, theta = lengths, 0.0, np.inf
    evaluated: list[Floats] = []
    loads: list[Floats] = []
    share = np.ones(1)
    rounding = 1 - 2.0 * servers * 2.0**-52  # sums of n terms, distances of n - 1 hops at most
    trust = _TRUST
    while True:
        cost, load = walk(lengths)
        proven = cost / float(width @ lengths) * rounding
        evaluated.append(lengths)
        loads.append(load)
        if proven > bound:
            bound, best_lengths = proven, lengths
        share, duals = _mixture(np.array(loads).T, width)
        theta = float((np.array(loads).T @ share / width).max())
        late = deadline is not None and time.monotonic() >= deadline
        if theta - bound <= accuracy * theta or late or len(loads) >= _ROUTINGS:
            break
        duals = np.maximum(duals, 0.0)
        duals = duals / float(duals @ width)
        following = trust * best_lengths + (1 - trust) * duals
        if theta - bound < 1e-4 * theta or any(np.array_equal(following, previous) for previous in evaluated):
            following = duals
        lengths = following
    used = share > 0
    return ClassMixture(
        theta=theta,
        bound=min(bound, theta),
        lengths=best_lengths,
        share=share[used],
        routing_lengths=np.array(evaluated)[used],
        load=np.array(loads).T @ share,
        routings=len(loads),
        on_time=not late,
    )


def equal_classes(servers: int, label: Ints, capacity: Floats) -> tuple[Ints, Floats] | None:
    """Labels int64[d] and capacities float64[d] of classes of as many equal arcs as there are servers; else None.

    Args:
        label, capacity: int64[m] and float64[m] of distinct arcs; the label 0 is none of a class.
    """
    labels, index, counts = np.unique(label, return_inverse=True, return_counts=True)
    if not len(labels) or (counts != servers).any() or labels[0] == 0:
        return None
    width = np.zeros(len(labels))
    width[index] = capacity
    return (labels, width) if (width[index] == capacity).all() else None


def _mixture(load: Floats, width: Floats) -> tuple[Floats, Floats]:
    """Best shares of the routings known, and the lengths (duals) that say which to look for next."""
    import highspy

    unit = float(load.max())
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("primal_feasibility_tolerance", 1e-10)
    solver.setOptionValue("dual_feasibility_tolerance", 1e-10)
    solver.passModel(highs_model(circulant_flow_arrays(load / unit, width)))
    solver.run()
    solution = solver.getSolution()
    share = np.maximum(np.array(solution.col_value)[:-1], 0.0)
    return share / share.sum(), -np.array(solution.row_dual)[1:]


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


def circulant_classes(topology: Topology) -> tuple[Ints, Floats] | None:
    """Offsets int64[c] and capacities float64[c] when every server has the same arcs, seen from itself; else None."""
    tail, head = topology.arcs.astype(np.int64).T
    return classes_of(topology.servers, tail, head, topology.capacity)


def classes_of(n: int, tail: Ints, head: Ints, capacity: Floats) -> tuple[Ints, Floats] | None:
    """The same from arrays of distinct arcs."""
    return equal_classes(n, (head - tail) % n, capacity)


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
