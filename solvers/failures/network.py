"""Failures of a network with a demand: theta of what survives, by routing all demand anew, with a proven bound.

Demand from and to failed servers goes with them. On a circulant with shift-invariant demand a failure and its
rotations are alike, and one of them is solved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from solvers.failures.evaluator import RepairMemory
from solvers.failures.surviving import after, reach
from solvers.network.routing import RoutingResult, route, shift_invariant
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError
from topoopt.core.failures import Failure, FailureOutcome, RepairTrial
from topoopt.core.topology import Topology

FINE_COLUMNS = 70_000
FINE, COARSE = 1e-6, 1e-2
"""Relative gap to prove of each failure, up to and above so many columns (sources x arcs) of the linear program."""

ROUTED = "routed anew"
IMPOSSIBLE = "impossible"


@dataclass(frozen=True, eq=False)
class RoutedFailure:
    """A failure, what became of it, and the routing on what survives; None where some demand has no path."""

    outcome: FailureOutcome
    topology: Topology
    demand: Floats
    routing: RoutingResult | None


class NetworkEvaluator(RepairMemory[RoutedFailure]):
    """Evaluates failures of one topology for one demand.

    Args:
        topology, demand: as of `solvers.network.routing.route`.
        nominal: theta without failure; None: routed here.
        stop: looked at by the routing.
        alike: let one of several failures that are rotations of each other stand for all.
    """

    def __init__(
        self,
        topology: Topology,
        demand: Floats,
        nominal: float | None = None,
        stop: Stop | None = None,
        *,
        alike: bool = True,
    ) -> None:
        super().__init__()
        self._topology, self.demand, self.stop = topology, demand, stop
        self.accuracy = FINE if topology.servers * len(topology.arcs) <= FINE_COLUMNS else COARSE
        self._nominal = route(topology, demand, accuracy=self.accuracy, stop=stop).theta if nominal is None else nominal
        self._alike = alike and bool(topology.offsets) and shift_invariant(demand)

    @property
    def topology(self) -> Topology:
        """Whose parts fail."""
        return self._topology

    @property
    def nominal(self) -> float:
        """theta without failure."""
        return self._nominal

    def _representative(self, failure: Failure) -> Failure:
        """One of the rotations of a failure."""
        if not self._alike or failure.planes:
            return failure
        n = self.topology.servers
        paired = self.topology.links is LinkDirection.BIDIRECTIONAL

        def turned(by: int) -> Failure:
            links = [((a + by) % n, (b + by) % n) for a, b in failure.links]
            ends = [(min(link), max(link)) if paired else link for link in links]
            return Failure(tuple(sorted(ends)), tuple(sorted((s + by) % n for s in failure.servers)))

        return min(turned(by) for by in range(n))

    def _repaired(self, failure: Failure) -> RoutedFailure:
        surviving = after(self.topology, failure)
        far = reach(surviving, failure.servers)
        left = surviving.left > 0
        topology = replace(
            self.topology,
            arcs=self.topology.arcs[left],
            multiplicity=surviving.left[left],
            offsets=self.topology.offsets
            if left.all() and (surviving.left == self.topology.multiplicity).all()
            else (),
            switches=np.full_like(self.topology.switches, -1),
        )
        demand = self.demand.copy()
        demand[list(failure.servers), :] = 0.0
        demand[:, list(failure.servers)] = 0.0
        outcome = FailureOutcome(
            failure=failure,
            disconnected_pairs=far.disconnected_pairs,
            diameter=far.diameter,
            mean_hops=far.mean_hops,
            broken_rings=0,
            rings=0,
            rerouted_pairs=0,
            value=0.0,
            repair=ROUTED,
        )
        if not demand.any():
            return RoutedFailure(outcome, topology, demand, None)
        try:
            found = route(topology, demand, accuracy=self.accuracy, stop=self.stop)
        except InfeasibleError:
            nothing = replace(outcome, value=None, repair=IMPOSSIBLE, trials=(RepairTrial(ROUTED, None),))
            return RoutedFailure(nothing, topology, demand, None)
        solved = replace(outcome, value=found.theta, bound=found.bound, trials=(RepairTrial(ROUTED, found.theta),))
        return RoutedFailure(solved, topology, demand, found)
