"""Routes over given circuits: the way on which a direction makes the busiest arc least busy, and better ones tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.dag_topology_solution import Route
from topoopt.simulate.dag.forwarded_circuits import RoutedJob

MOST_WAYS = 64
"""Ways of a direction that are looked at, the shortest first."""

MOST_REROUTED = 4_000
"""Plans that other ways are tried for."""

BETTER = 1 - 1e-12
"""Part of a time below which another is less, beyond rounding."""


@dataclass(frozen=True, eq=False)
class RoutedPlan:
    """Circuits, routes, and what the job takes over them.

    Attributes:
        circuits: int64[all pairs].
        routes: of each direction.
        value: makespan.
    """

    circuits: Ints
    routes: tuple[Route, ...]
    value: float

    @staticmethod
    def of(job: RoutedJob, circuits: Ints, routes: Sequence[Route]) -> RoutedPlan:
        """With the job followed over it."""
        return RoutedPlan(circuits, tuple(routes), job.makespan(circuits, routes))

    @property
    def total(self) -> int:
        """Circuits of all pairs."""
        return int(self.circuits.sum())


def ways(job: RoutedJob, circuits: Ints, source: int, target: int) -> list[Route]:
    """Ways over circuits, the shortest first, no more than `MOST_WAYS`."""
    joined = circuits[job.number] > 0
    np.fill_diagonal(joined, False)
    peers = [np.flatnonzero(row).tolist() for row in joined]
    found: list[Route] = []
    layer: list[Route] = [(source,)]
    for _ in range(job.problem.max_hops):
        longer: list[Route] = []
        for route in layer:
            if joined[route[-1], target]:
                found.append((*route, target))
            longer += [(*route, pod) for pod in peers[route[-1]] if pod != target and pod not in route]
        if len(found) >= MOST_WAYS:
            break
        layer = longer[: MOST_WAYS * len(peers)]
    return found[:MOST_WAYS]


def routed(
    job: RoutedJob, circuits: Ints, kept: Sequence[Route | None] | None = None
) -> tuple[tuple[Route, ...] | None, int]:
    """(routes, directions that no way serves); the largest volumes choose first, after those that keep theirs.

    Args:
        kept: routes that stay, by direction; None for those to be chosen.
    """
    volume, load = job.volume, np.zeros(2 * len(job.pairs))
    chosen: list[Route | None] = list(kept) if kept is not None else [None] * len(volume)
    for k, route in enumerate(chosen):
        if route is not None:
            load[job.arcs(route)] += volume[k]
    unserved = 0
    for k in np.argsort(-volume, kind="stable").tolist():
        if chosen[k] is not None:
            continue
        options = ways(job, circuits, *job.problem.directions[k])
        if not options:
            unserved += 1
            continue
        best = min(options, key=lambda route: (_busiest(job, circuits, load, route, float(volume[k])), len(route)))
        chosen[k] = best
        load[job.arcs(best)] += volume[k]
    return (None if unserved else tuple(route for route in chosen if route is not None)), unserved


def _busiest(job: RoutedJob, circuits: Ints, load: Floats, route: Route, volume: float) -> float:
    return max(float(load[arc] + volume) / int(circuits[arc // 2]) for arc in job.arcs(route))


def served(job: RoutedJob, circuits: Ints, kept: Sequence[Route | None] | None = None) -> RoutedPlan | None:
    """A plan with these circuits; None: some direction has no way.

    Args:
        kept: as of `routed`; those that lost a circuit are chosen anew.
    """
    if kept is not None:
        kept = [
            route if route is not None and all(circuits[arc // 2] > 0 for arc in job.arcs(route)) else None
            for route in kept
        ]
    routes, _ = routed(job, circuits, kept)
    return None if routes is None else RoutedPlan.of(job, circuits, routes)


def rerouted(job: RoutedJob, plan: RoutedPlan, stop: Stop) -> RoutedPlan:
    """One direction after the other takes another way where the job is done earlier, until none gains."""
    trials, moved = 0, True
    while moved:
        moved = False
        for k in np.argsort(-job.volume, kind="stable").tolist():
            for route in ways(job, plan.circuits, *job.problem.directions[k]):
                if trials >= MOST_REROUTED or stop.reason() is not None:
                    return plan
                if route == plan.routes[k]:
                    continue
                trials += 1
                trial = RoutedPlan.of(job, plan.circuits, (*plan.routes[:k], route, *plan.routes[k + 1 :]))
                if trial.value < plan.value * BETTER:
                    plan, moved = trial, True
    return plan
