"""Networks that look the same from every server: mixtures of routings by column generation over loads of classes.

A class has all arcs that translations take to each other. What one server sends loads a class as much as all servers
load each of its arcs, so that one server, and one length a class, stand for all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from formulations.network.circulant_flow import build_arrays
from solvers.backends.highs import highs_model
from topoopt.core.arrays import Floats, Ints

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
    asked: list[Floats] = []
    loads: list[Floats] = []
    share = np.ones(1)
    rounding = 1 - 2.0 * servers * 2.0**-52  # sums of n terms, distances of n - 1 hops at most
    trust = _TRUST
    while True:
        cost, load = walk(lengths)
        proven = cost / float(width @ lengths) * rounding
        asked.append(lengths)
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
        if theta - bound < 1e-4 * theta or any(np.array_equal(following, known) for known in asked):
            following = duals
        lengths = following
    used = share > 0
    return ClassMixture(
        theta=theta,
        bound=min(bound, theta),
        lengths=best_lengths,
        share=share[used],
        routing_lengths=np.array(asked)[used],
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
    solver.passModel(highs_model(build_arrays(load / unit, width)))
    solver.run()
    solution = solver.getSolution()
    share = np.maximum(np.array(solution.col_value)[:-1], 0.0)
    return share / share.sum(), -np.array(solution.row_dual)[1:]
