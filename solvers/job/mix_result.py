"""What a mix of ring orders is asked for, and what it is."""

from __future__ import annotations

from dataclasses import dataclass

from formulations.job.allreduce_mix import Order
from topoopt.core.network import LengthCertificate, SourceFlow
from topoopt.core.proofs import Status, StopReason
from topoopt.core.topology import Topology

OPTIMALITY = 1e-6
Shares = tuple[tuple[Order, float], ...]


@dataclass(frozen=True)
class MixLimits:
    """How far to go.

    Attributes:
        rounds: linear programs solved at most.
        accuracy: relative gap at which to stop.
        hop_price: charge on hops in the last program, so that of equally loaded routings a short one is taken.
    """

    rounds: int = 200
    accuracy: float = OPTIMALITY
    hop_price: float = 0.0


@dataclass(frozen=True, eq=False)
class RingMix:
    """Rings and routing of all traffic.

    Attributes:
        topology: given.
        rings: (order, share) of every group of the demand, shares above 0 that sum to 1.
        flow: bytes by source and arc, model-parallel traffic and ring steps together.
        theta: ms the busiest link carries traffic, recomputed from `flow`.
        bound: lower bound on theta over all ring orders and routings on this topology, from `certificate`.
        certificate: arc lengths.
        status: OPTIMAL when theta meets the bound to `OPTIMALITY`.
        stopped_by: GAP when the accuracy asked for is proven, BUDGET, TIME or INTERRUPTED before; CONVERGED when no
            cheaper order was found and the rest of the gap is that of the assignment bound.
        rounds: linear programs solved.
    """

    topology: Topology
    rings: tuple[Shares, ...]
    flow: SourceFlow
    theta: float
    bound: float
    certificate: LengthCertificate
    status: Status
    stopped_by: StopReason
    rounds: int

    @property
    def gap(self) -> float:
        """(theta - bound) / theta."""
        return max(0.0, (self.theta - self.bound) / self.theta) if self.theta > 0 else 0.0
