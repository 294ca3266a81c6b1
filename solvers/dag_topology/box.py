"""What must hold in a box of circuits, if the job is to be done before a given time.

Heads and tails: with as many circuits as a pair may still have, no transfer begins before its head, and what follows it
takes its tail. Transfers of one direction of a pair share its circuits, and all that leave (enter) a pod share its
ports; the preemptive schedule of largest tails (Jackson) is the earliest that one such machine can be done, tails
included. So each pair needs some least number of circuits; what it needs, others at the same pods cannot have.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.errors import InfeasibleError
from topoopt.simulate.dag.shared_circuits import StepGraph
from topoopt.simulate.engine.queue import pop, push
from topoopt.simulate.jit import kernel

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
        groups: int64[k + 1]: members of group g are member[groups[g]:groups[g + 1]]; first the channels, then what
            leaves and enters each pod.
        member: int64[], transfers.
    """

    graph: StepGraph
    rate: float
    ports: Ints
    ends: Ints
    most: Ints
    groups: Ints
    member: Ints

    @staticmethod
    def of(problem: DagTopologyProblem) -> BoxLaws:
        """Of a problem whose pods have a port for every pair."""
        graph = StepGraph.of(problem)
        channels = 2 * len(problem.pairs)
        out = np.array([m.source for m in problem.transfers], dtype=np.int64)
        into = np.array([m.target for m in problem.transfers], dtype=np.int64)
        group = np.concatenate((graph.channel, channels + 2 * out, channels + 2 * into + 1))
        order = np.argsort(group, kind="stable")
        counts = np.bincount(group, minlength=channels + 2 * problem.pods)
        return BoxLaws(
            graph=graph,
            rate=problem.rate,
            ports=np.array(problem.ports, dtype=np.int64),
            ends=np.array(problem.pairs, dtype=np.int64),
            most=problem.most,
            groups=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
            member=(order % len(problem.transfers)).astype(np.int64),
        )

    @cached_property
    def pair_volume(self) -> Floats:
        """float64[pairs]: in both directions."""
        volume: Floats = np.zeros(len(self.most))
        np.add.at(volume, self.graph.channel // 2, self.graph.volume)
        return volume

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
        graph = self.graph
        least, most = least.copy(), most.copy()
        possible = _narrow(
            graph.first,
            graph.successor,
            graph.order,
            graph.duration,
            graph.volume,
            graph.channel,
            self.groups,
            self.member,
            self.ends,
            self.ports,
            self.rate,
            least,
            most,
            target * (1.0 - MARGIN),
        )
        return (least, most) if possible else None


@kernel
def heads_and_tails(
    first: Ints, successor: Ints, order: Ints, length: Floats
) -> tuple[Floats, Floats]:  # pragma: no cover - compiled
    """Earliest begin of each step, and what follows its end."""
    n = len(order)
    head, tail = np.zeros(n), np.zeros(n)
    for at in range(n):
        step = order[at]
        end = head[step] + length[step]
        for k in range(first[step], first[step + 1]):
            head[successor[k]] = max(head[successor[k]], end)
    for at in range(n - 1, -1, -1):
        step = order[at]
        for k in range(first[step], first[step + 1]):
            later = successor[k]
            tail[step] = max(tail[step], length[later] + tail[later])
    return head, tail


@kernel
def one_machine(
    member: Ints, head: Floats, tail: Floats, volume: Floats, speed: float
) -> float:  # pragma: no cover - compiled
    """When one machine of that speed, shared by the transfers (in order of heads), is done, tails included."""
    count, queued, at, done = len(member), 0, 0.0, 0.0
    left = np.empty(count)
    key, place = np.empty(count), np.empty(count, dtype=np.int64)
    upcoming = 0
    while upcoming < count or queued > 0:
        if queued == 0:
            at = max(at, head[member[upcoming]])
        while upcoming < count and head[member[upcoming]] <= at:
            left[upcoming] = volume[member[upcoming]] / speed
            queued = push(key, place, queued, -tail[member[upcoming]], upcoming)
            upcoming += 1
        k = place[0]
        stop = head[member[upcoming]] if upcoming < count else np.inf
        if at + left[k] <= stop:
            at += left[k]
            done = max(done, at + tail[member[k]])
            queued = pop(key, place, queued)
        else:
            left[k] -= stop - at
            at = stop
    return done


@kernel
def _narrow(
    first: Ints,
    successor: Ints,
    order: Ints,
    duration: Floats,
    volume: Floats,
    channel: Ints,
    groups: Ints,
    member: Ints,
    ends: Ints,
    ports: Ints,
    rate: float,
    least: Ints,
    most: Ints,
    target: float,
) -> bool:  # pragma: no cover - compiled
    pairs, pods, transfers = len(least), len(ports), len(volume)
    length = duration.copy()
    while True:
        needed, possible = np.zeros(pods, dtype=np.int64), np.zeros(pods, dtype=np.int64)
        for p in range(pairs):
            for side in range(2):
                needed[ends[p, side]] += least[p]
        for p in range(pairs):
            for side in range(2):
                pod = ends[p, side]
                most[p] = min(most[p], ports[pod] - needed[pod] + least[p])
            if most[p] < least[p]:
                return False
        for p in range(pairs):
            for side in range(2):
                possible[ends[p, side]] += most[p]
        for m in range(transfers):
            length[m] = volume[m] / (rate * most[channel[m] // 2])
        head, tail = heads_and_tails(first, successor, order, length)
        for step in range(len(order)):
            if head[step] + length[step] + tail[step] >= target:
                return False
        for pod in range(pods):
            speed = rate * min(ports[pod], possible[pod])
            for side in range(2):
                g = 2 * pairs + 2 * pod + side
                own = member[groups[g] : groups[g + 1]]
                if len(own) > 0:
                    own = own[np.argsort(head[own])]
                    if one_machine(own, head, tail, volume, speed) >= target:
                        return False
        raised = False
        for p in range(pairs):
            before = least[p]
            for side in range(2):
                own = member[groups[2 * p + side] : groups[2 * p + side + 1]]
                for k in range(len(own)):
                    m = own[k]
                    while least[p] <= most[p] and head[m] + volume[m] / (rate * least[p]) + tail[m] >= target:
                        least[p] += 1
                if len(own) > 1 and least[p] <= most[p]:
                    own = own[np.argsort(head[own])]
                    while least[p] <= most[p] and one_machine(own, head, tail, volume, rate * least[p]) >= target:
                        least[p] += 1
            if least[p] > most[p]:
                return False
            raised = raised or least[p] > before
        if not raised:
            return True


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
