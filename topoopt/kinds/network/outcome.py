"""What every method for network problems gives."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.network import (
    EnumerationProof,
    LengthCertificate,
    RoutingProblem,
    SourceFlow,
    TopologyProblem,
    TwoLayerMultipliers,
)
from topoopt.core.network_solution import Robustness
from topoopt.core.solution import Bound
from topoopt.core.topology import Topology
from topoopt.core.verdict import StopReason

NetworkProblem = RoutingProblem | TopologyProblem


@dataclass(frozen=True, eq=False)
class Outcome:
    """A topology with a routing, as a method hands it over; its theta is recomputed by whoever uses it.

    Attributes:
        topology: given, or found.
        flow: the routing.
        certificate: arc lengths that prove `routing_bound` for this topology.
        routing_bound: lower bound on theta of this topology.
        bound: lower bound on theta of the problem.
        stopped_by: why the method ended.
        method: name of the method that ran (never `auto`).
        notes: for people.
        enumeration: what a bound by enumeration rests on.
        robustness: of a robust design.
        multipliers: that `bound` was evaluated with, so that the checker need not search them again.
    """

    topology: Topology
    flow: SourceFlow
    certificate: LengthCertificate
    routing_bound: float
    bound: Bound
    stopped_by: StopReason
    method: str
    notes: tuple[str, ...] = ()
    enumeration: EnumerationProof | None = None
    robustness: Robustness | None = None
    multipliers: TwoLayerMultipliers | None = None
