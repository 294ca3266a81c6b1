"""A routing problem stands in arrays; the value of a flow and the bound of lengths are recomputed from them.

Value of a flow and the bound of lengths, both recomputed by us, and the result made of the best of each.

The value is theta, plus the price of hops times the mean hops of the demand where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from solvers.network.assembly import Digraph
from solvers.stop import Stop
from topoopt import native
from topoopt.core.arrays import Floats
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.network import LengthCertificate, RoutingPlan, SourceFlow
from topoopt.core.proofs import Status, StopReason
from topoopt.core.result import Certificate
from topoopt.core.topology import Symmetry, Topology
from topoopt.native import routing


@dataclass(frozen=True, eq=False)
class RoutingNetwork(Digraph):
    """A digraph with a demand, float64[n, n], as given."""

    demand: Floats


def network_of(topology: Topology, demand: Floats) -> RoutingNetwork:
    """Arrays of a routing problem.

    Raises:
        InputError: the demand has the wrong shape, is negative, not finite, of a server to itself, or zero altogether;
            an arc names an unknown server, joins a server to itself, is repeated, or has no link.
        InfeasibleError: demand between servers that no path joins.
    """
    problems = [*_topology_problems(topology), *_demand_problems(topology.servers, demand)]
    if problems:
        raise InputError(problems)
    n = topology.servers
    arcs = topology.arcs.astype(np.int64)
    if len(arcs) and (np.diff(arcs[:, 0] * n + arcs[:, 1]) <= 0).any():
        raise InputError([Problem("arcs must be sorted and distinct", path="topology.arcs")])
    network = RoutingNetwork(
        tail=np.ascontiguousarray(arcs[:, 0]),
        head=np.ascontiguousarray(arcs[:, 1]),
        first=np.searchsorted(arcs[:, 0], np.arange(n + 1)).astype(np.int64),
        capacity=np.ascontiguousarray(topology.capacity, dtype=np.float64),
        demand=np.ascontiguousarray(demand, dtype=np.float64),
    )
    _refuse_unreachable(network)
    return network


def _topology_problems(topology: Topology) -> list[Problem]:
    n, arcs = topology.servers, topology.arcs
    if n < 2:
        return [Problem("a network needs two servers at least", path="topology.servers", value=str(n), allowed=">= 2")]
    problems = []
    for index in np.flatnonzero(((arcs < 0) | (arcs >= n)).any(axis=1)):
        text = f"{arcs[index, 0]} -> {arcs[index, 1]}"
        problems.append(
            Problem("link names an unknown server", path=f"topology.arcs[{index}]", value=text, allowed=f"0..{n - 1}")
        )
    for index in np.flatnonzero(arcs[:, 0] == arcs[:, 1]):
        text = f"{arcs[index, 0]} -> {arcs[index, 1]}"
        problems.append(Problem("link joins a server to itself", path=f"topology.arcs[{index}]", value=text))
    for index in np.flatnonzero(topology.multiplicity < 1):
        where, value = f"topology.multiplicity[{index}]", str(topology.multiplicity[index])
        problems.append(Problem("an arc needs a link at least", path=where, value=value, allowed=">= 1"))
    return problems


def _demand_problems(n: int, demand: Floats) -> list[Problem]:
    if demand.shape != (n, n):
        return [Problem("demand has the wrong shape", path="demand", value=str(demand.shape), allowed=f"({n}, {n})")]
    problems = []
    checks = (
        ("demand is not a finite number", ~np.isfinite(demand)),
        ("demand is negative", np.isfinite(demand) & (demand < 0)),
        ("a server has demand to itself", np.diag(np.nan_to_num(np.diag(demand)) > 0)),
    )
    for message, wrong in checks:
        where = np.argwhere(wrong)
        if len(where):
            i, j = (int(v) for v in where[0])
            more = f" (and {len(where) - 1} more)" if len(where) > 1 else ""
            problems.append(Problem(message + more, path=f"demand[{i}, {j}]", value=str(demand[i, j]), allowed=">= 0"))
    if not problems and not demand.any():
        problems.append(Problem("there is no demand at all", path="demand", allowed="one entry above 0"))
    return problems


def _refuse_unreachable(network: RoutingNetwork) -> None:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    n = network.servers
    graph = csr_array((np.ones(len(network.head)), network.head, network.first), shape=(n, n))
    if connected_components(graph, directed=True, connection="strong")[0] == 1:
        return
    far = native.graph.hop_distances(network.first, network.head, n) < 0
    cut = np.argwhere(far & (network.demand > 0))
    if len(cut):
        pairs = ", ".join(f"{i} -> {j}" for i, j in cut[:5])
        more = f" and {len(cut) - 5} more" if len(cut) > 5 else ""
        raise InfeasibleError(f"no path joins servers that have demand: {pairs}{more}")


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
        return RoutingPlan(flows=(self.flow,))

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """The lengths, as a file holds them."""
        return (self.certificate.certificate(self.flow),)

    @property
    def gap(self) -> float:
        """(objective - bound) / objective."""
        return (self.objective - self.bound) / self.objective if self.objective > 0 else 0.0

    @property
    def throughput(self) -> float:
        """lambda = 1 / theta: the common factor by which all demand could grow."""
        return 1.0 / self.theta


def largest_utilisation(network: RoutingNetwork, flow: Floats) -> float:
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
        symmetry: a group that keeps the network, the demand, and all that is offered, so that the first servers of its
            k orbits, which are the servers 0 to k - 1, stand for all; None where there is none.
        router: finds paths and flows, from all servers, or from those.
        value: least objective of a flow; bound: largest bound of lengths.
        flow: float64[n, m], float64[k, m] of the first servers of orbits; by_hop: float64[h, n, m] under a hop limit,
            of that flow.
        offered: called when there is a better flow; what belongs together is set at once, so that `result` may be asked
            for from another thread from then on.
    """

    network: RoutingNetwork
    accuracy: float
    stop: Stop = field(default_factory=Stop)
    max_hops: int | None = None
    hop_price: float = 0.0
    symmetry: Symmetry | None = None
    router: routing.Router = field(init=False)
    offered: Callable[[], None] | None = None
    _best: BestFlow = field(init=False, default=BestFlow(np.inf, None, None))
    _bound: tuple[float, Floats] = field(init=False)

    def __post_init__(self) -> None:
        net = self.network
        self.router = routing.Router(net.first, net.head, net.demand, self._sources)
        self._bound = (0.0, np.ones(len(self.network.head)))
        self.offer_lengths(self.lengths)

    @property
    def _sources(self) -> int:
        return self.network.servers if self.symmetry is None else len(self.symmetry.sources)

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
        """Largest lower bound that the lengths offered so far prove."""
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
        if self.hop_price == 0.0:
            return lengths
        added: Floats = lengths + self.hop_price / self.network.demand.sum() * (lengths @ self.network.capacity)
        return added

    def _distance(self, lengths: Floats) -> float:
        if self.max_hops is not None:
            return self.router.limited_total(lengths, self.max_hops)
        return self.router.total_distance(lengths) * (self.network.servers // self._sources)

    def offer_flow(self, flow: Floats) -> float:
        """Objective of a flow (float64[n, m], or by hop) that conserves but for rounding; kept if it is the best."""
        return self._keep(self._measured(flow, delivers=False))

    def _keep(self, candidate: BestFlow) -> float:
        if candidate.value < self.value:
            self._best = candidate
            if self.offered is not None:
                self.offered()
        return candidate.value

    def _measured(self, flow: Floats, *, delivers: bool) -> BestFlow:
        net = self.network
        total = flow if self.max_hops is None else flow.sum(axis=0)
        value = self._theta(total)
        if self.hop_price:
            value += self.hop_price * float(total.sum()) / float(net.demand.sum())
        return BestFlow(value, total, None if self.max_hops is None else flow, delivers)

    def _theta(self, flow: Floats) -> float:
        if self.symmetry is None:
            return largest_utilisation(self.network, flow)
        return float((self.symmetry.load(flow) / self.network.capacity).max())

    def offer_rough_flow(self, flow: Floats, lengths: Floats) -> float:
        """Objective of the exact flow near a flow that conserves only nearly; missing traffic follows short paths.

        Args:
            flow: float64[n, m], under a hop limit float64[h, n, m]; float64[k, m] of the first servers of orbits.
        """
        return self._keep(self._delivering(flow, lengths, self.router))

    def _delivering(self, flow: Floats, lengths: Floats, router: routing.Router) -> BestFlow:
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
    def proven(self) -> bool:
        """Whether there is a flow, and the gap is small enough."""
        return self.flow is not None and self.value - self.bound <= self.accuracy * self.value

    @property
    def late(self) -> bool:
        """Whether the time is up, or somebody interrupted."""
        return self.stop.reason() is not None

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
        group = self.symmetry
        dims = () if group is None or len(group.dims) < 2 else group.dims
        generators = None if group is None or group.dims else group.generators
        return RoutingResult(
            theta=self._theta(best.flow),
            objective=best.value,
            bound=min(bound, best.value),
            flow=SourceFlow(best.flow, best.by_hop, dims, generators),
            certificate=LengthCertificate(lengths),
            status=Status.OPTIMAL if gap <= 1e-6 * best.value else Status.FEASIBLE,
            stopped_by=reason,
            method=method,
            work=work,
        )
