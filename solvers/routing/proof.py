"""Theta of a flow and the bound of lengths, both recomputed by us, and the result made of the best of each."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from solvers.routing.network import Network
from solvers.routing.repair import repaired_flow
from solvers.routing.result import RoutingResult
from solvers.routing.shortest import breadth_first_orders, total_distance
from topoopt.core.network_problem import LengthCertificate, SourceFlow
from topoopt.core.status import Status, StopReason

_PROVEN = 1e-6


def largest_utilisation(network: Network, flow: NDArray[np.float64]) -> float:
    """theta of a flow."""
    return float((flow.sum(axis=0) / network.capacity).max())


@dataclass(eq=False)
class Proof:
    """Best flow and best lengths seen so far; each kept only with the value recomputed here.

    Attributes:
        network: the problem.
        accuracy: relative gap at which to stop.
        deadline: time.monotonic() value, None for none.
        orders: int64[n, n], scratch of the shortest-path kernels.
    """

    network: Network
    accuracy: float
    deadline: float | None
    orders: NDArray[np.int64] = field(init=False)
    theta: float = field(init=False, default=np.inf)
    bound: float = field(init=False, default=0.0)
    flow: NDArray[np.float64] | None = field(init=False, default=None)
    lengths: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self.orders = breadth_first_orders(self.network.first, self.network.head, self.network.servers)
        self.lengths = np.ones(len(self.network.head))
        self.offer_lengths(self.lengths)

    def offer_lengths(self, lengths: NDArray[np.float64]) -> float:
        """Bound proven by lengths >= 0 (weak duality); kept if it is the best. 0 when they prove nothing."""
        net = self.network
        clean = np.where(np.isfinite(lengths), np.maximum(lengths, 0.0), 0.0)
        price = float(clean @ net.capacity)
        if price <= 0:
            return 0.0
        clean = clean * (len(clean) / price)
        cost = float(clean @ net.capacity)
        # every sum here has non-negative terms, n^2 + 2 n + m of them in a row at most
        rounding = (net.servers * (net.servers + 2) + len(clean)) * 2.0**-52
        bound = total_distance(net.first, net.head, clean, net.demand, self.orders) / cost * (1 - rounding)
        if bound > self.bound:
            self.bound, self.lengths = bound, clean
        return bound

    def offer_flow(self, flow: NDArray[np.float64]) -> float:
        """Theta of a flow known to conserve; kept if it is the best."""
        theta = largest_utilisation(self.network, flow)
        if theta < self.theta:
            self.theta, self.flow = theta, flow
        return theta

    def offer_rough_flow(self, flow: NDArray[np.float64], lengths: NDArray[np.float64]) -> float:
        """Theta of the exact flow near a flow that conserves only nearly; missing traffic follows short paths."""
        net = self.network
        positive = np.maximum(lengths, 0.0)
        positive = positive / max(float(positive.max()), 1e-300) + 1e-7
        return self.offer_flow(
            repaired_flow(net.first, net.tail, net.head, positive, net.demand, self.orders, np.maximum(flow, 0.0))
        )

    @property
    def proven(self) -> bool:
        """Whether the gap is small enough."""
        return self.theta - self.bound <= self.accuracy * self.theta

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    @property
    def time_left_s(self) -> float | None:
        """Seconds to the deadline, 0 at least; None when there is none."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def result(self, method: str, work: int) -> RoutingResult:
        """What is known now; a routing exists, as the first thing every method does is to offer one."""
        assert self.flow is not None
        closed = self.theta - self.bound <= _PROVEN * self.theta
        reason = StopReason.GAP if self.proven else StopReason.TIME if self.late else StopReason.CONVERGED
        return RoutingResult(
            theta=self.theta,
            bound=min(self.bound, self.theta),
            flow=SourceFlow(self.flow),
            certificate=LengthCertificate(self.lengths),
            status=Status.OPTIMAL if closed else Status.FEASIBLE,
            stopped_by=reason,
            method=method,
            work=work,
        )
