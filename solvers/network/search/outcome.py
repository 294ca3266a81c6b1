"""What a topology search gives back."""

from __future__ import annotations

from dataclasses import dataclass

from solvers.network.routing.result import RoutingResult
from topoopt.core.proofs import StopReason
from topoopt.core.topology import Topology


@dataclass(frozen=True)
class SearchStep:
    """One topology that was routed on the way: its name, hop total / number of links, and theta."""

    name: str
    mean_load: float
    theta: float


@dataclass(frozen=True, eq=False)
class TopologySearchResult:
    """Best topology found.

    Attributes:
        topology, routing: with the checked theta.
        steps: what was tried, in order.
        evaluations: topologies priced by the polish.
        stopped_by: GAP when `goal` was reached, BUDGET at the end of the work, TIME or INTERRUPTED before.
    """

    topology: Topology
    routing: RoutingResult
    steps: tuple[SearchStep, ...]
    evaluations: int
    stopped_by: StopReason
