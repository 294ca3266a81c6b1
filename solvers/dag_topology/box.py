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
from topoopt.native import placement
from topoopt.simulate.dag.shared_circuits import StepGraph

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
