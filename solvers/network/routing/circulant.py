"""Circulants with shift-invariant demand: column generation over class loads, for millions of servers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from formulations.network.circulant_flow import build_arrays
from solvers.backends.highs import highs_model
from solvers.network.routing.cyclic import cyclic_distances, cyclic_flow, cyclic_loads
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.topology import Topology

_ROUTINGS = 400
_TRUST = 0.5  # how much of the best lengths is mixed into the next ones (Wentges smoothing)


@dataclass(frozen=True, eq=False)
class CirculantResult:
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


def route_circulant(
    offsets: Sequence[int],
    weight: Floats,
    *,
    capacity: Sequence[float] | None = None,
    accuracy: float = 1e-8,
    time_limit_s: float | None = None,
) -> CirculantResult:
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
    deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
    distance, mass, steps = np.empty(n), np.empty(n), np.empty((len(ring), n), dtype=np.int32)
    lengths = np.ones(len(ring)) / width.sum()
    best_lengths, bound, theta = lengths, 0.0, np.inf
    asked: list[Floats] = []
    loads: list[Floats] = []
    share = np.ones(1)
    rounding = 1 - 2.0 * n * 2.0**-52  # sums of n terms, distances of n - 1 hops at most
    trust = _TRUST
    while True:
        cyclic_distances(ring, lengths, distance, steps)
        if not loads and not np.isfinite(distance[weight > 0]).all():
            far = int(np.flatnonzero((weight > 0) & ~np.isfinite(distance))[0])
            raise InfeasibleError(f"the ring distances never add up to displacement {far}, which has demand")
        reached = np.where(weight > 0, distance, 0.0)
        proven = float(weight @ reached) / float(width @ lengths) * rounding
        asked.append(lengths)
        loads.append(cyclic_loads(ring, weight, steps, mass))
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
        if theta - bound < 1e-4 * theta or any(np.array_equal(following, known) for known in asked):
            following = duals
        lengths = following
    used = share > 0
    return CirculantResult(
        theta=theta,
        bound=min(bound, theta),
        lengths=best_lengths,
        share=share[used],
        routing_lengths=np.array(asked)[used],
        load=np.array(loads).T @ share,
        routings=len(loads),
        on_time=not late,
    )


def base_flow(offsets: Sequence[int], weight: Floats, result: CirculantResult) -> Floats:
    """float64[d, n]: what source 0 sends over v -> v + offsets[c]; source s sends the same over (v + s) -> ..."""
    ring = np.array(offsets, dtype=np.int64)
    flow = np.zeros((len(ring), len(weight)))
    distance, steps = np.empty(len(weight)), np.empty((len(ring), len(weight)), dtype=np.int32)
    for share, lengths in zip(result.share, result.routing_lengths, strict=True):
        cyclic_distances(ring, lengths, distance, steps)
        flow += share * cyclic_flow(ring, weight, steps)
    return flow


def circulant_classes(topology: Topology) -> tuple[Ints, Floats] | None:
    """Offsets int64[c] and capacities float64[c] when every server has the same arcs, seen from itself; else None."""
    tail, head = topology.arcs.astype(np.int64).T
    return classes_of(topology.servers, tail, head, topology.multiplicity.astype(np.float64))


def classes_of(n: int, tail: Ints, head: Ints, capacity: Floats) -> tuple[Ints, Floats] | None:
    """The same from arrays of distinct arcs."""
    offsets, index, counts = np.unique((head - tail) % n, return_inverse=True, return_counts=True)
    if not len(offsets) or (counts != n).any() or offsets[0] == 0:
        return None
    width = np.zeros(len(offsets))
    width[index] = capacity
    return (offsets, width) if (width[index] == capacity).all() else None


def shift_invariant(demand: Floats) -> bool:
    """Whether demand depends, to the last bit, on the displacement alone."""
    n = len(demand)
    return all(np.array_equal(demand[i, i:], demand[0, : n - i]) and
               np.array_equal(demand[i, :i], demand[0, n - i :]) for i in range(1, n))  # fmt: skip


def _mixture(load: Floats, width: Floats) -> tuple[Floats, Floats]:
    """Best shares of the routings known, and the lengths (duals) that say which to look for next."""
    import highspy

    unit = float(load.max())
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("primal_feasibility_tolerance", 1e-10)
    solver.setOptionValue("dual_feasibility_tolerance", 1e-10)
    solver.passModel(highs_model(build_arrays(load / unit, width)))
    solver.run()
    solution = solver.getSolution()
    share = np.maximum(np.array(solution.col_value)[:-1], 0.0)
    return share / share.sum(), -np.array(solution.row_dual)[1:]


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
