"""The solution of a network problem: links, a splittable routing, and the proof of how good it can be.

Every figure is recomputed from topology, demand and flow, none is a solver's claim. Wall-clock times are kept out, so
that the same seed gives the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.columns import Columns, links_of
from topoopt.core.network import EnumerationProof, LengthCertificate, SourceFlow
from topoopt.core.solution import Bound, SolutionHead
from topoopt.core.topology import Topology


@dataclass(frozen=True)
class Robustness:
    """How a topology stands the failure of any single link, and what that costs.

    Attributes:
        worst_theta: after the worst failure, all demand routed anew.
        worst_link: tail and head of that link.
        bound: proven lower bound on `worst_theta` over every topology allowed.
        within_percent: how much larger theta without failure could be than `nominal_theta`; None: any.
        nominal_theta: least theta without failure known over all topologies.
        nominal_worst_theta: what the topology of `nominal_theta` has after its worst failure; None: demand is cut off.
    """

    worst_theta: float
    worst_link: tuple[int, int]
    bound: Bound
    within_percent: float | None
    nominal_theta: float
    nominal_worst_theta: float | None


@dataclass(frozen=True, eq=False, repr=False)
class NetworkSolution(SolutionHead):
    """Result of `topoopt solve` on an instance of kind `routing` or `topology`.

    Attributes, besides those of `SolutionHead`:
        objective: theta, the largest link utilisation of `flow` (demand is in units of the capacity of one link), or
            the completion time, theta + hop price * mean hops of the demand.
        bound: proven lower bound on the objective: of this topology (kind `routing`) or of all allowed
            ones (kind `topology`).
        routing_bound: lower bound on the objective on this topology; what `certificate` proves.
        topology: given, or found.
        flow: the routing.
        certificate: lengths of the arcs that prove `routing_bound`.
        diameter, mean_hops: over all ordered pairs of servers; None if some pair without demand is not connected.
        enumeration: what a bound by enumeration rests on; None for all other bounds.
        link_gbps: rate of one link, Gbit/s; None where the instance gives none.
        robustness: of method `robust`; None for others.
    """

    routing_bound: float
    topology: Topology
    flow: SourceFlow
    certificate: LengthCertificate
    diameter: int | None
    mean_hops: float | None
    enumeration: EnumerationProof | None = None
    link_gbps: float | None = None
    robustness: Robustness | None = None

    def columns(self) -> dict[str, Columns]:
        """As of all solutions; `links` with load, utilisation and dual price, and the `flow` of each source."""
        arcs, load = links_of(self.topology), self.flow.flow.sum(axis=0)
        sources, used = np.nonzero(self.flow.flow)
        flow = {"source": sources, "tail": arcs["tail"][used], "head": arcs["head"][used]}
        more = {"load": load, "utilisation": load / arcs["links"], "length": self.certificate.lengths}
        amounts = {"amount": self.flow.flow[sources, used]}
        return {**super().columns(), "links": {**arcs, **more}, "flow": {**flow, **amounts}}

    @property
    def theta(self) -> float:
        """Largest link utilisation."""
        if self.objective.name == "theta":
            return self.objective.value
        return float((self.flow.flow.sum(axis=0) / self.topology.multiplicity).max())

    @property
    def throughput(self) -> float:
        """lambda = 1 / theta: all demand can be scaled by so much."""
        return 1.0 / self.theta
