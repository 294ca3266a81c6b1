"""One network for all matrices against links set anew: at every step, or where it pays (dynamic program)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from solvers.network.robust_topology import search_budget
from solvers.network.routing import route
from solvers.network.search import search_topology
from solvers.stop import Stop
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.network import TopologyProblem
from topoopt.core.robust_network import RobustProblem, Sequenced, StepTopologies
from topoopt.core.topology import Topology

MOST_ROUTINGS = 600
"""Matrices times topologies routed for sequences; beyond, only the matrix's own topology and the one for all are."""

ACCURACY = 1e-4

SAME = 1e-6
"""Relative gain of theta that is worth no new links."""


def step_topologies(
    problem: RobustProblem,
    one: Topology,
    fixed: Sequence[float],
    changing: Sequence[float],
    delays: Sequence[float],
    stop: Stop,
) -> StepTopologies | None:
    """The comparison; None when the time is up before every matrix has its own topology.

    A step takes theta times its length, and a change of links the delay on top; the links for the first step are set
    beforehand. New links at every step win when the delay is below what they save for each change. Who sets links can
    set routes, so routing on them is adapted to the matrix. A matrix whose own search finds nothing better keeps the
    topology for all.

    Args:
        one: the topology for all; fixed: theta of each matrix on it by the routing in question; changing: by routing
            adapted to each matrix.
        delays: in steps.
    """
    steps = len(problem.demands)
    topologies: list[Topology] = [one]
    own = np.array(changing, dtype=np.float64)
    place = np.zeros(steps, dtype=np.int64)
    for k, demand in enumerate(problem.demands):
        if stop.reason() is not None:
            return None
        single = TopologyProblem(problem.name, problem.servers, problem.degree, problem.links, demand)
        try:
            found = search_topology(single, seed=problem.search.seed, budget=search_budget(problem.servers), stop=stop)
        except LimitError:
            continue
        value = route(found.topology, demand, accuracy=ACCURACY).theta
        if value < own[k] * (1 - SAME):
            own[k], place[k] = value, len(topologies)
            topologies.append(found.topology)
    times = _times(problem, topologies, changing, own, place, stop)
    saved, saved_rerouted = (float((np.asarray(theta) - own).sum()) for theta in (fixed, changing))
    changes = int(np.count_nonzero(place[1:] != place[:-1]))
    sequences = tuple(_sequence(times, float(sum(fixed)), own, place, delay) for delay in delays)
    return StepTopologies(
        theta=tuple(float(value) for value in own),
        rerouted=tuple(float(value) for value in changing),
        break_even=saved / changes if changes else None,
        break_even_rerouted=saved_rerouted / changes if changes else None,
        sequences=sequences,
    )


def _times(
    problem: RobustProblem,
    topologies: Sequence[Topology],
    theta: Sequence[float],
    own: NDArray[np.float64],
    place: NDArray[np.int64],
    stop: Stop,
) -> NDArray[np.float64]:
    """float64[k, topologies]: theta of every matrix on every topology; infinite where it was not routed."""
    steps = len(theta)
    times = np.full((steps, len(topologies)), np.inf)
    times[:, 0] = theta
    times[np.arange(steps), place] = own
    if steps * len(topologies) > MOST_ROUTINGS:
        return times
    for k in range(steps):
        for j in range(1, len(topologies)):
            if stop.reason() is not None:
                return times
            if np.isinf(times[k, j]):
                try:
                    times[k, j] = route(topologies[j], problem.demands[k], accuracy=ACCURACY).theta
                except InfeasibleError:
                    continue
    return times


def _sequence(
    times: NDArray[np.float64], one: float, own: NDArray[np.float64], place: NDArray[np.int64], delay: float
) -> Sequenced:
    """What one network takes in all, what new links at every step do, and the best sequence of topologies.

    The best sequence is exact for the topologies at hand: the least
    time to be on topology j after step k is its theta plus the lesser of staying and coming from the best other one.
    """
    changes = int(np.count_nonzero(place[1:] != place[:-1]))
    every = float(own.sum()) + delay * changes
    best = times[0].copy()
    count = np.zeros(len(best), dtype=np.int64)
    for row in times[1:]:
        cheapest = int(np.argmin(best))
        moved = best[cheapest] + delay < best
        count = np.where(moved, count[cheapest] + 1, count)
        best = np.where(moved, best[cheapest] + delay, best) + row
    end = int(np.argmin(best))
    return Sequenced(delay, one, float(times[:, 0].sum()), every, float(best[end]), int(count[end]))
