"""What must hold in a box of circuits if the job is to be done before a given time, and circuits to start with.

Heads and tails: with as many circuits as a pair may still have, no transfer begins before its head, and what follows it
takes its tail. Transfers of one direction of a pair share its circuits, and all that leave (enter) a pod share its
ports; the preemptive schedule of largest tails (Jackson) is the earliest that one such machine can be done, tails
included. So each pair needs some least number of circuits; what it needs, others at the same pods cannot have.

A start gives one circuit to each pair, then more where the simulated job gains most; then circuits are exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.errors import InfeasibleError
from topoopt.native import placement
from topoopt.simulate.dag import StepGraph, makespan

MARGIN = 1e-10
"""Part of the target by which a time may stay below it and count as not below: rounding of sums."""


@dataclass(frozen=True, eq=False)
class BoxLaws:
    """A problem as arrays.

    Attributes:
        graph: of its steps.
        rate: volume that a circuit carries in a unit of time.
        ports: int64[pods].
        ends: int64[pairs, 2].
        most: int64[pairs], circuits at most.
    """

    graph: StepGraph
    rate: float
    ports: Ints
    ends: Ints
    most: Ints

    @staticmethod
    def of(problem: DagTopologyProblem) -> BoxLaws:
        """Of a problem whose pods have a port for every pair."""
        return BoxLaws(
            graph=StepGraph.of(problem),
            rate=problem.rate,
            ports=np.array(problem.ports, dtype=np.int64),
            ends=np.array(problem.pairs, dtype=np.int64),
            most=problem.most,
        )

    @cached_property
    def pair_volume(self) -> Floats:
        """float64[pairs]: in both directions."""
        volume: Floats = np.zeros(len(self.most))
        np.add.at(volume, self.graph.channel // 2, self.graph.volume)
        return volume

    @cached_property
    def _bounds(self) -> placement.CircuitBounds:
        graph = self.graph
        return placement.CircuitBounds(
            graph.first,
            graph.successor,
            graph.order,
            graph.duration,
            graph.volume,
            graph.channel,
            self.ends,
            self.ports,
            self.rate,
        )

    def within(self, circuits: Ints) -> bool:
        """Whether the ports suffice."""
        used = np.bincount(self.ends.ravel(), np.repeat(circuits, 2), minlength=len(self.ports))
        return bool((used <= self.ports).all())

    def narrowed(self, least: Ints, most: Ints, target: float) -> tuple[Ints, Ints] | None:
        """The part of a box that can be done before the target; None: no part of it.

        Args:
            least, most: int64[pairs], circuits.
            target: the job must be done before it.
        """
        return self._bounds.propagated(least, most, target * (1.0 - MARGIN))


def crowded(problem: DagTopologyProblem) -> list[int]:
    """Pods with fewer ports than pods that they transfer to or from."""
    degree = np.bincount(np.array(problem.pairs).ravel(), minlength=problem.pods)
    return [pod for pod in range(problem.pods) if degree[pod] > problem.ports[pod]]


def refuse_crowded(problem: DagTopologyProblem) -> None:
    """Every pair that something is transferred between needs a circuit of its own.

    Raises:
        InfeasibleError: a pod has fewer ports than such pairs.
    """
    short = crowded(problem)
    if short:
        degree = np.bincount(np.array(problem.pairs).ravel(), minlength=problem.pods)
        rows = [
            f"pod {pod} transfers to or from {degree[pod]} others and has {problem.ports[pod]}" for pod in short[:5]
        ]
        more = f", and {len(short) - 5} more" if len(short) > 5 else ""
        raise InfeasibleError(f"too few ports for a circuit to every peer: {'; '.join(rows)}{more}")


def dealt(laws: BoxLaws, least: Ints, most: Ints, weight: Floats) -> Ints:
    """Circuits from `least` on, each to the pair of largest weight for each of its circuits, while ports are free."""
    circuits = least.copy()
    free = laws.ports - used_ports(laws, circuits)
    while True:
        extendable = (free[laws.ends] > 0).all(axis=1) & (circuits < most)
        if not extendable.any():
            return circuits
        pair = int(np.argmax(np.where(extendable, weight / circuits, -1.0)))
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
        free = np.flatnonzero(_free(laws, circuits) & (circuits < most))
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
            better = _better(laws, value, circuits, p)
            if better is not None:
                value, circuits = better
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
    for giver in givers[0]:
        for second in givers[1]:
            changes = [(gaining, 1), *((p, -1) for p in (giver, second) if p >= 0)]
            trial = _plus(circuits, *changes)
            faster = makespan(laws.graph, trial, laws.rate)
            if faster < value * (1 - 1e-12):
                return faster, trial
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


def _free(laws: BoxLaws, circuits: Ints) -> Bools:
    free: Bools = used_ports(laws, circuits) < laws.ports
    tails, heads = laws.ends.T
    both: Bools = free[tails] & free[heads]
    return both


def _plus(circuits: Ints, *changes: tuple[int, int]) -> Ints:
    changed = circuits.copy()
    for pair, by in changes:
        changed[pair] += by
    return changed
