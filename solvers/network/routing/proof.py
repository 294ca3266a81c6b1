"""Value of a flow and the bound of lengths, both recomputed by us, and the result made of the best of each.

The value is theta, plus the price of hops times the mean hops of the demand where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from solvers.network.routing.network import RoutingNetwork
from solvers.network.routing.result import RoutingResult
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.graphs import RingBox, Turns, turns_of
from topoopt.core.network import LengthCertificate, SourceFlow
from topoopt.core.proofs import Status, StopReason
from topoopt.native import routing

_PROVEN = 1e-6


def largest_utilisation(network: RoutingNetwork, flow: Floats) -> float:
    """theta of a flow."""
    return float((flow.sum(axis=0) / network.capacity).max())


class BestFlow(NamedTuple):
    """A flow, its objective, and its parts by hops under a hop limit.

    `delivers`: each entry of the demand, however small, to rounding of that entry.
    """

    value: float
    flow: Floats | None
    by_hop: Floats | None
    delivers: bool = True


@dataclass(eq=False)
class RoutingProof:
    """Best flow and best lengths seen so far; each kept only with the value recomputed here.

    Attributes:
        network: the problem.
        accuracy: relative gap at which to stop.
        stop: when to stop in any case.
        max_hops: longest path allowed; None for any. Flows offered then come by hop, float64[h, n, m].
        hop_price: time of one hop in the unit of theta.
        alike: of the box of servers whose translations keep the network, the demand, and all that is offered, so that
            one source stands for all; None where there is none.
        router: finds paths and flows, from all servers, or from server 0 where all are alike.
        value: least objective of a flow; bound: largest bound of lengths.
        flow: float64[n, m], float64[1, m] where all are alike; by_hop: float64[h, n, m] under a hop limit, of that
            flow.
        offered: called when there is a better flow; what belongs together is set at once, so that `result` may be asked
            for from another thread from then on.
    """

    network: RoutingNetwork
    accuracy: float
    stop: Stop = field(default_factory=Stop)
    max_hops: int | None = None
    hop_price: float = 0.0
    alike: RingBox | None = None
    router: routing.Router = field(init=False)
    offered: Callable[[], None] | None = None
    _best: BestFlow = field(init=False, default=BestFlow(np.inf, None, None))
    _bound: tuple[float, Floats] = field(init=False)
    _turns: Turns | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        net = self.network
        if self.alike is not None:
            self._turns = turns_of(np.column_stack((net.tail, net.head)), net.servers, self.alike.dims)
        self.router = routing.Router(net.first, net.head, net.demand, self._sources)
        self._bound = (0.0, np.ones(len(self.network.head)))
        self.offer_lengths(self.lengths)

    @property
    def _sources(self) -> int:
        return self.network.servers if self.alike is None else 1

    @property
    def value(self) -> float:
        """Least objective of a flow offered; infinite before there is one."""
        return self._best.value

    @property
    def flow(self) -> Floats | None:
        """float64[n, m], the flow of `value`."""
        return self._best.flow

    @property
    def bound(self) -> float:
        """Largest bound of lengths offered."""
        return self._bound[0]

    @property
    def lengths(self) -> Floats:
        """float64[m], those of `bound`."""
        return self._bound[1]

    def offer_lengths(self, lengths: Floats) -> float:
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
        bound = self._distance(self._priced(clean)) / cost * (1 - rounding)
        if bound > self.bound:
            self._bound = (bound, clean)
        return bound

    def _priced(self, lengths: Floats) -> Floats:
        """Lengths with the price of a hop on every arc."""
        if self.hop_price == 0.0:
            return lengths
        added: Floats = lengths + self.hop_price / self.network.demand.sum() * (lengths @ self.network.capacity)
        return added

    def _distance(self, lengths: Floats) -> float:
        if self.max_hops is not None:
            return self.router.limited_total(lengths, self.max_hops)
        of_these = self.router.total_distance(lengths)
        return of_these if self.alike is None else of_these * self.network.servers

    def offer_flow(self, flow: Floats) -> float:
        """Objective of a flow (float64[n, m], or by hop) that conserves but for rounding; kept if it is the best."""
        return self._keep(self._measured(flow, delivers=False))

    def _keep(self, found: BestFlow) -> float:
        if found.value < self.value:
            self._best = found
            if self.offered is not None:
                self.offered()
        return found.value

    def _measured(self, flow: Floats, *, delivers: bool) -> BestFlow:
        net = self.network
        total = flow if self.max_hops is None else flow.sum(axis=0)
        value = self._theta(total)
        if self.hop_price:
            value += self.hop_price * float(total.sum()) / float(net.demand.sum())
        return BestFlow(value, total, None if self.max_hops is None else flow, delivers)

    def _theta(self, flow: Floats) -> float:
        if self._turns is None:
            return largest_utilisation(self.network, flow)
        return float((self._turns.load(flow[0]) / self.network.capacity).max())

    def offer_rough_flow(self, flow: Floats, lengths: Floats) -> float:
        """Objective of the exact flow near a flow that conserves only nearly; missing traffic follows short paths.

        Args:
            flow: float64[n, m], under a hop limit float64[h, n, m]; float64[1, m] where all are alike.
        """
        return self._keep(self._delivering(flow, lengths, self.router))

    def _delivering(self, flow: Floats, lengths: Floats, router: routing.Router) -> BestFlow:
        """The flow near another one that delivers each entry of the demand."""
        return self._measured(self._repaired(flow, lengths, router), delivers=True)

    def near(self, flow: Floats, lengths: Floats) -> Floats:
        """The exact flow that `offer_rough_flow` makes of its arguments."""
        return self._repaired(flow, lengths, self.router)

    def _repaired(self, flow: Floats, lengths: Floats, router: routing.Router) -> Floats:
        positive = self._priced(np.maximum(lengths, 0.0))
        positive = positive / max(float(positive.max()), 1e-300) + 1e-7
        rough = np.ascontiguousarray(np.maximum(flow, 0.0))
        if self.max_hops is None:
            return router.repaired_flow(positive, rough)
        layers = rough.reshape(-1, rough.shape[-1])
        return router.limited_flow(positive, layers, self.max_hops).reshape(rough.shape)

    def offer_shortest(self) -> None:
        """All demand over paths of fewest hops: a first flow, for methods that may be stopped before they have one."""
        net = self.network
        layers = () if self.max_hops is None else (self.max_hops,)
        nothing = np.zeros((*layers, net.servers, len(net.head)))
        self.offer_rough_flow(nothing, np.ones(len(net.head)))

    @property
    def _dims(self) -> tuple[int, ...]:
        """Of the box, where it is more than the ring of all servers."""
        dims = () if self.alike is None else self.alike.dims
        return dims if len(dims) > 1 else ()

    @property
    def proven(self) -> bool:
        """Whether there is a flow, and the gap is small enough."""
        return self.flow is not None and self.value - self.bound <= self.accuracy * self.value

    @property
    def late(self) -> bool:
        """Whether the time is up, or somebody interrupted."""
        return self.stop.reason() is not None

    @property
    def time_left_s(self) -> float | None:
        """Seconds to the deadline, 0 at least; None when there is none."""
        return self.stop.remaining_s()

    def result(self, method: str, work: int) -> RoutingResult:
        """What is known now; a routing exists, as the first thing every method does is to offer one."""
        best, (bound, lengths) = self._best, self._bound
        assert best.flow is not None
        if not best.delivers:  # with a router of its own, as this may be another thread
            rough = best.flow if best.by_hop is None else best.by_hop
            best = self._delivering(rough, lengths, self.router.copy(self._sources))
        assert best.flow is not None
        gap = best.value - bound
        reason = StopReason.GAP if gap <= self.accuracy * best.value else self.stop.reason() or StopReason.CONVERGED
        return RoutingResult(
            theta=self._theta(best.flow),
            objective=best.value,
            bound=min(bound, best.value),
            flow=SourceFlow(best.flow, best.by_hop, self._dims),
            certificate=LengthCertificate(lengths),
            status=Status.OPTIMAL if gap <= _PROVEN * best.value else Status.FEASIBLE,
            stopped_by=reason,
            method=method,
            work=work,
        )
