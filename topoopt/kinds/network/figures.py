"""What the report of a network solution shows, computed from the solution alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import SourceFlow
from topoopt.core.network_solution import NetworkSolution
from topoopt.core.topology import Topology
from topoopt.drawing.distances import fewest_hops

FULL = 1e-3
"""An arc whose links carry theta to within this part counts as full."""

ROUNDING = 1e-9
"""Part of the demand of a source below which what stays at a server is rounding."""


@dataclass(frozen=True, eq=False)
class NetworkFigures:
    """Loads, implied demand, distances and dual prices; each computed on first use.

    Attributes:
        solution: of kind `routing` or `topology`.
    """

    solution: NetworkSolution

    @cached_property
    def utilisation(self) -> Floats:
        """float64[m]: load over capacity of each arc, under the worst demand for it; the largest is theta."""
        return np.asarray(self.solution.network.utilisation.max(axis=0))

    @cached_property
    def relative(self) -> Floats:
        """float64[m]: utilisation over the largest one, 0 to 1."""
        largest = float(self.utilisation.max(initial=0.0))
        return self.utilisation / largest if largest > 0 else np.zeros_like(self.utilisation)

    @cached_property
    def sent(self) -> float:
        """Part of the demand that fits at once: all of it, or lambda."""
        return min(1.0, _quotient(1.0, float(self.utilisation.max(initial=0.0)))) or 1.0

    @cached_property
    def busy(self) -> Floats:
        """float64[m], 0 to 1: utilisation when as much of the demand is sent as fits."""
        return self.utilisation * self.sent

    @cached_property
    def full(self) -> Bools:
        """bool[m]: arcs that carry as much as the fullest, within `FULL`."""
        return self.relative >= 1.0 - FULL

    @cached_property
    def prices(self) -> Floats:
        """float64[m]: share of each arc in sum_a capacity_a length_a, the weight it has in the proof."""
        weight = self.solution.network.lengths * self.solution.topology.capacity
        total = float(weight.sum())
        return weight / total if total > 0 else np.zeros_like(weight)

    @cached_property
    def demand(self) -> Floats:
        """float64[n, n], in link capacities: what of a source's flow stays at a server, which is the demand it serves.

        The mean of several demands. Remainders below `ROUNDING` of the source's total are rounding, and 0 here.
        """
        return _without_rounding(np.mean([flow.staying(self.solution.topology) for flow in self.flows], axis=0))

    @cached_property
    def worst_demand(self) -> tuple[int, Floats]:
        """Number of the demand with the largest theta, and its float64[n, n] in link capacities."""
        worst = int(np.argmax(self.solution.thetas))
        return worst, _without_rounding(self.flows[worst].staying(self.solution.topology))

    @cached_property
    def flows(self) -> tuple[SourceFlow, ...]:
        """The routing of each demand."""
        return self.solution.network.flows

    @cached_property
    def hops(self) -> Ints:
        """int64[n, n]: fewest hops, -1 where there is no path."""
        return fewest_hops(self.solution.topology)

    @property
    def travelled_hops(self) -> float:
        """Mean hops the demand takes on its routes."""
        sent = np.mean([each.load(self.solution.topology).sum() for each in self.flows])
        return _quotient(float(sent), float(self.demand.sum()))

    @property
    def least_hops(self) -> float:
        """Mean hops it would take on shortest paths."""
        return _quotient(float((self.demand * np.maximum(self.hops, 0)).sum()), float(self.demand.sum()))

    @property
    def mean_utilisation(self) -> float:
        """Over all links, parallel ones counted one by one."""
        count = self.solution.topology.multiplicity
        return float((self.utilisation * count).sum() / count.sum())


def _without_rounding(stays: Floats) -> Floats:
    return np.where(stays < ROUNDING * np.maximum(stays, 0.0).sum(axis=1, keepdims=True), 0.0, stays)


def _quotient(one: float, other: float) -> float:
    return one / other if other > 0 else 0.0


def moore_counts(topology: Topology, farthest: int) -> list[int]:
    """Most servers that can be 1, 2, ..., `farthest` hops from a server of this degree (the Moore tree).

    d (d - 1)^(h - 1) for links that lead both ways, d^h for single fibres, until no server is left.
    """
    left, layer, counts = topology.servers - 1, topology.degree, []
    grow = topology.degree - (1 if topology.links is LinkDirection.BIDIRECTIONAL else 0)
    for _ in range(farthest):
        counts.append(min(left, layer))
        left -= counts[-1]
        layer = min(left, layer * grow)
    return counts
