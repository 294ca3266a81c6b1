"""What a routing method gives back."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.network import LengthCertificate, RoutingPlan, SourceFlow
from topoopt.core.proofs import Status, StopReason
from topoopt.core.result import Certificate


@dataclass(frozen=True, eq=False)
class RoutingResult:
    """A routing and what is proven about it; neither number is a solver's claim.

    Attributes:
        theta: largest link utilisation of `flow`, whose conservation holds by construction.
        objective: theta, plus the price of a hop times the mean hops of the demand where hops have a price.
        bound: lower bound on the objective for this topology and demand, from `certificate`.
        flow: float64[n, m] inside; what each source sends over each arc.
        certificate: link lengths that prove the bound.
        status: OPTIMAL when objective and bound agree to 1e-6, else FEASIBLE.
        stopped_by: GAP when the accuracy asked for is proven, TIME at the limit, INTERRUPTED, CONVERGED when the
            method ended by itself.
        method: name in the table of methods.
        work: iterations of the method (sweeps, columns, solver iterations), for people.
    """

    theta: float
    objective: float
    bound: float
    flow: SourceFlow
    certificate: LengthCertificate
    status: Status
    stopped_by: StopReason
    method: str
    work: int = 0

    @property
    def plan(self) -> RoutingPlan:
        """The routing of one demand."""
        return RoutingPlan(flows=(self.flow,))

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """The lengths, as a file holds them."""
        return (self.certificate.certificate(self.flow.dims),)

    @property
    def gap(self) -> float:
        """(objective - bound) / objective."""
        return (self.objective - self.bound) / self.objective if self.objective > 0 else 0.0

    @property
    def throughput(self) -> float:
        """lambda = 1 / theta: the common factor by which all demand could grow."""
        return 1.0 / self.theta
