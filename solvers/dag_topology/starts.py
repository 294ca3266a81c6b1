"""Circuits to begin with: one for each pair, then where the simulated job gains most; then exchanges."""

from __future__ import annotations

import numpy as np

from solvers.dag_topology.box import BoxLaws
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.simulate.dag.shared_circuits import makespan


def dealt(laws: BoxLaws, least: Ints, most: Ints, weight: Floats) -> Ints:
    """Circuits from `least` on, each to the pair of largest weight for each of its circuits, while ports are free."""
    circuits = least.copy()
    free = laws.ports - used_ports(laws, circuits)
    while True:
        room = (free[laws.ends] > 0).all(axis=1) & (circuits < most)
        if not room.any():
            return circuits
        pair = int(np.argmax(np.where(room, weight / circuits, -1.0)))
        circuits[pair] += 1
        free[laws.ends[pair]] -= 1


def filled(laws: BoxLaws, circuits: Ints, most: Ints, stop: Stop) -> tuple[float, Ints]:
    """Add circuits while ports are free: each time the one after which the job is done first.

    Where no single circuit helps, the pair with most volume per circuit gets one: two may help together.

    Args:
        circuits: int64[pairs], within the ports.
        most: int64[pairs].

    Returns:
        The least makespan met on the way, and its circuits.
    """
    circuits = circuits.copy()
    volume = laws.pair_volume
    best, kept = makespan(laws.graph, circuits, laws.rate), circuits.copy()
    while stop.reason() is None:
        free = np.flatnonzero(_room(laws, circuits) & (circuits < most))
        if not len(free):
            break
        values = np.array([makespan(laws.graph, _plus(circuits, (p, 1)), laws.rate) for p in free.tolist()])
        now = makespan(laws.graph, circuits, laws.rate)
        helps = values.min() < now * (1 - 1e-12)
        chosen = int(free[np.argmin(values)] if helps else free[np.argmax(volume[free] / circuits[free])])
        circuits[chosen] += 1
        value = float(values[free == chosen][0])
        if value < best * (1 - 1e-12):
            best, kept = value, circuits.copy()
    return best, kept


def exchanged(laws: BoxLaws, value: float, circuits: Ints, stop: Stop) -> tuple[float, Ints]:
    """Move circuits from pair to pair, the first move that gains each time, until none does.

    A move takes one circuit from a pair, or from two, and gives one to another where the ports allow it.
    """
    circuits = circuits.copy()
    moved = True
    while moved:
        moved = False
        for p in range(len(circuits)):
            if stop.reason() is not None:
                return value, circuits
            found = _better(laws, value, circuits, p)
            if found is not None:
                value, circuits = found
                moved = True
    return value, circuits


def _better(laws: BoxLaws, value: float, circuits: Ints, gaining: int) -> tuple[float, Ints] | None:
    """A circuit more for a pair, taken from the pairs at its ends where they have no port free."""
    if circuits[gaining] >= laws.most[gaining]:
        return None
    used = used_ports(laws, circuits)
    givers: list[list[int]] = []
    for pod in laws.ends[gaining].tolist():
        if used[pod] < laws.ports[pod]:
            givers.append([-1])
        else:
            at = np.flatnonzero((laws.ends == pod).any(axis=1) & (circuits > 1)).tolist()
            givers.append([p for p in at if p != gaining])
    for one in givers[0]:
        for other in givers[1]:
            changes = [(gaining, 1), *((p, -1) for p in (one, other) if p >= 0)]
            trial = _plus(circuits, *changes)
            found = makespan(laws.graph, trial, laws.rate)
            if found < value * (1 - 1e-12):
                return found, trial
    return None


def thinned(laws: BoxLaws, circuits: Ints, limit: float, stop: Stop) -> Ints:
    """The same with as few circuits of each pair as still do it before a limit, one pair after the other, twice.

    At first a pair gives half of what it could, so that slack is not all taken by the first.
    """
    circuits = circuits.copy()
    for part in (0.5, 1.0):
        for pair in np.argsort(-circuits, kind="stable").tolist():
            low, high = 1, int(circuits[pair])
            while low < high:
                if stop.reason() is not None:
                    return circuits
                middle = (low + high) // 2
                trial = _plus(circuits, (pair, middle - int(circuits[pair])))
                if makespan(laws.graph, trial, laws.rate) < limit:
                    high = middle
                else:
                    low = middle + 1
            circuits[pair] -= int(part * (int(circuits[pair]) - high))
    return circuits


def used_ports(laws: BoxLaws, circuits: Ints) -> Ints:
    """int64[pods]: ports at which circuits end."""
    return np.bincount(laws.ends.ravel(), np.repeat(circuits, 2), minlength=len(laws.ports)).astype(np.int64)


def _room(laws: BoxLaws, circuits: Ints) -> Bools:
    free: Bools = used_ports(laws, circuits) < laws.ports
    one, other = laws.ends.T
    both: Bools = free[one] & free[other]
    return both


def _plus(circuits: Ints, *changes: tuple[int, int]) -> Ints:
    changed = circuits.copy()
    for pair, by in changes:
        changed[pair] += by
    return changed
