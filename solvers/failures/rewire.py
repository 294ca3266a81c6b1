"""Repair by re-wiring: at most so many surviving circuits of a job's network are given up for better ones.

Exchange by exchange the one after which the repaired plan runs fastest, tried in the order of the broken rings it makes
whole; on small clusters also the topology search for the whole traffic with the links that stay (`max_changed`), with
routes and rings made anew. Whatever is kept was simulated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from solvers.failures.damage import PlanTraffic
from solvers.failures.exchanges import NOTHING, Exchange, exchanges, standing_links
from solvers.failures.job import JobEvaluator
from solvers.failures.listing import links_of
from solvers.failures.ring_repairs import Repaired
from solvers.failures.surviving import Surviving
from solvers.job.realise import realise
from solvers.network.constructions.assemble import assemble, link_arcs
from solvers.network.exact.milp import solve_milp
from solvers.network.exact.result import ExactLimits
from solvers.network.search import SearchBudget, search_topology
from solvers.stop import Stop, first_part
from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError, LimitError
from topoopt.core.failures import Failure, LinkEnds
from topoopt.core.network import TopologyProblem
from topoopt.core.topology import Topology

TRIED_SMALL, TRIED_LARGE = 240, 24
SMALL_SERVERS = 32
"""Up to here every exchange is simulated, and whole topologies are searched for."""

MILP_SERVERS = 6
"""Up to here these come from the joint program with kept links (`max_changed`), beyond from the portfolio's search."""

MILP_S = 20.0


Plan = TypeVar("Plan")


@dataclass(frozen=True, eq=False)
class Rewired(Generic[Plan]):
    """A re-wired network, the plan on it, its time, and what was tried."""

    exchange: Exchange
    topology: Topology
    plan: Plan
    time_ms: float
    method: str


class ExchangeSearch(ABC, Generic[Plan]):
    """Exchange by exchange the one after which the repaired plan runs fastest.

    Args:
        topology: before the failure.
        failure: links only.
        most: circuits that may be given up.
    """

    def __init__(self, topology: Topology, failure: Failure, most: int, stop: Stop) -> None:
        self.topology, self.failure, self.most, self.stop = topology, failure, most, stop
        self.best: Rewired[Plan] | None = None

    def run(self) -> Rewired[Plan] | None:
        """The best found; None if neither the repair at once nor any re-wiring delivers everything."""
        self._keep(self._repaired(NOTHING, "no re-wiring helps"))
        done = NOTHING
        while len(done.removed) <= self.most and self.stop.reason() is None:
            step = self._best_exchange(done)
            if step is None:
                break
            done = step
        return self.best

    def _best_exchange(self, done: Exchange) -> Exchange | None:
        """The exchange on top of `done` that gains most; None if none gains anything."""
        most = TRIED_SMALL if self.topology.servers <= SMALL_SERVERS else TRIED_LARGE
        within = [step for step in exchanges(self.topology, self.failure, done) if self.allowed(done.then(step))]
        found: Exchange | None = None
        for step in sorted(within, key=self._promise)[:most]:
            if self.stop.reason() is not None:
                break
            total = done.then(step)
            if self._keep(self._repaired(total, "exchanges of link ends")):
                found = total
        return found

    def allowed(self, exchange: Exchange) -> bool:
        """Whether no more is given up than may be."""
        return len(exchange.removed) <= self.most

    @abstractmethod
    def _promise(self, step: Exchange) -> tuple[int, float, Exchange]:
        """Order in which exchanges are tried, the most promising first."""

    @abstractmethod
    def _repaired(self, exchange: Exchange, method: str) -> Rewired[Plan] | None:
        """What the repairs make of the plan on the re-wired network; None: they do not deliver everything."""

    def _keep(self, other: Rewired[Plan] | None) -> bool:
        if other is None or (self.best is not None and other.time_ms >= self.best.time_ms * (1 - 1e-12)):
            return False
        self.best = other
        return True


def unit_arcs(links: tuple[LinkEnds, ...], direction: LinkDirection) -> Ints:
    """int64[m, 2]: arcs of links, both ways for fibre pairs."""
    if direction is LinkDirection.BIDIRECTIONAL:
        return link_arcs(links)
    return np.array(links, dtype=np.int64).reshape(-1, 2)


def rewired_topology(topology: Topology, failure: Failure, exchange: Exchange) -> Topology:
    """What stands after a failure and an exchange.

    Raises:
        InfeasibleError: it is not connected.
    """
    links = standing_links(topology, failure, exchange)
    origin = f"{topology.origin}, re-wired after {failure.label}"
    return assemble(topology.servers, topology.degree, topology.links, [unit_arcs(links, topology.links)], origin)


class JobRewiring(ExchangeSearch[Repaired]):
    """Re-wiring of one plan after one failure of links.

    Args:
        evaluator: of the plan.
        failure, most, stop: as of `ExchangeSearch`.
        seed: of the topology search.
    """

    def __init__(self, evaluator: JobEvaluator, failure: Failure, most: int, seed: int, stop: Stop) -> None:
        super().__init__(evaluator.traffic.topology, failure, most, stop)
        self.evaluator, self.seed, self.traffic = evaluator, seed, evaluator.traffic

    def run(self) -> Rewired[Repaired] | None:
        """Also by topologies searched for all traffic, where servers are few."""
        super().run()
        if self.topology.servers <= SMALL_SERVERS and self.most and self.stop.reason() is None:
            self._searched()
        return self.best

    def _best_exchange(self, done: Exchange) -> Exchange | None:
        """As of all plans; what is found is routed anew as well."""
        found = super()._best_exchange(done)
        if found is not None and self.topology.servers <= SMALL_SERVERS:
            topology = rewired_topology(self.topology, self.failure, found)
            self._offer_anew(topology, "exchanges of link ends, routed anew")
        return found

    def _promise(self, step: Exchange) -> tuple[int, float, Exchange]:
        """Broken rings a link given up belongs to (they can be made whole), then what model-parallel traffic loses."""
        ids = self.traffic.topology.arc_ids()
        hops = self.traffic.ring_hops
        lost = [int(ids[a, b]) for a, b in self.failure.links] + [int(ids[b, a]) for a, b in self.failure.links]
        broken = {tuple(row) for row in hops.place[hops.step[np.isin(hops.arc, lost)], :2].tolist()}
        shared, load = 0, 0.0
        for a, b in step.removed:
            for arc in (int(ids[a, b]), int(ids[b, a])):
                if arc < 0:
                    continue
                rings = {tuple(row) for row in hops.place[hops.step[hops.arc == arc], :2].tolist()}
                shared += len(rings & broken)
                load += float(self.traffic.loads[arc])
        return -shared, load, step

    def _repaired(self, exchange: Exchange, method: str) -> Rewired[Repaired] | None:
        traffic = self.traffic
        union = with_links(traffic.topology, exchange.added)
        other = PlanTraffic(union, traffic.routes, traffic.rings, traffic.demand)
        repair = self.evaluator.on(other).repair(given_up(self.failure, exchange))
        if repair.plan is None or repair.outcome.value is None:
            return None
        try:
            topology = rewired_topology(traffic.topology, self.failure, exchange)
        except InfeasibleError:
            return None
        return Rewired(exchange, topology, repair.plan, repair.outcome.value, method)

    def _offer_anew(self, topology: Topology, method: str) -> None:
        """Keep the topology with routes and rings of its own, if it is the best."""
        exchange = difference(self.traffic.topology, self.failure, topology)
        if not self.allowed(exchange) or set(exchange.added) & set(self.failure.links):
            return
        groups = [group.members for group in self.traffic.rings]
        try:
            made = realise(self.evaluator.cluster, topology, groups, seed=self.seed)
        except InfeasibleError:
            return
        plan = Repaired(made.routes, made.rings)
        evaluator = self.evaluator.on(PlanTraffic(topology, made.routes, made.rings, self.traffic.demand))
        whole = Surviving(topology, topology.multiplicity.astype(np.int32))
        self._keep(Rewired(exchange, topology, plan, evaluator.time_ms(whole, plan), method))

    def _searched(self) -> None:
        """Topologies for all traffic that give up no more links than allowed."""
        topology = self.traffic.topology
        left = Counter(links_of(topology)) - Counter(self.failure.links)
        total = self.traffic.demand.model_parallel_bytes.copy()
        hops = self.traffic.ring_hops
        for (group, ring, at), amount in zip(hops.place.tolist(), _step_bytes(hops.step, hops.amount), strict=True):
            order = self.traffic.rings[group].rings[ring].order
            total[order[at], order[(at + 1) % len(order)]] += amount
        if not total.any():
            return
        n = topology.servers
        kept = unit_arcs(tuple(left.elements()), topology.links)
        forbidden = unit_arcs(tuple(link for link in set(self.failure.links) if not left[link]), topology.links)
        problem = TopologyProblem(
            name="re-wiring",
            servers=n,
            degree=topology.degree,
            links=topology.links,
            demand=total / (total.sum() / (n * (n - 1))),
            forbidden=tuple((int(a), int(b)) for a, b in forbidden),
            kept=tuple(sorted((int(a), int(b)) for a, b in kept)),
            max_changed=self.most,
        )
        try:
            if n <= MILP_SERVERS:
                limits = ExactLimits(seed=self.seed, stop=first_part(self.stop, 1.0, MILP_S))
                found, method = solve_milp(problem, limits).plan.topology, "joint program with kept links"
            else:
                budget = SearchBudget(proposals=2_000 * n, evaluations=10 * n, accuracy=1e-3)
                found = search_topology(problem, seed=self.seed, budget=budget, stop=self.stop).topology
                method = "topology search with kept links"
        except (InfeasibleError, InputError, LimitError):
            return
        self._offer_anew(found, method)


def _step_bytes(step: Ints, amount: Floats) -> list[float]:
    """Bytes of each ring step, in order."""
    first = np.flatnonzero(np.diff(step, prepend=-1))
    return [float(value) for value in amount[first]]


def given_up(failure: Failure, exchange: Exchange) -> Failure:
    """What fails of a network that has the links set already: what failed, and what is given up."""
    return Failure(links=tuple(sorted((*failure.links, *exchange.removed))))


def difference(topology: Topology, failure: Failure, other: Topology) -> Exchange:
    """What is given up of the surviving links, and what is new, in another topology."""
    left = Counter(links_of(topology)) - Counter(failure.links)
    now = Counter(links_of(other))
    return Exchange(tuple(sorted((left - now).elements())), tuple(sorted((now - left).elements())))


def with_links(topology: Topology, added: tuple[LinkEnds, ...]) -> Topology:
    """The topology with more links, interfaces not counted."""
    n = topology.servers
    counts = np.zeros((n, n), dtype=np.int64)
    counts[topology.arcs[:, 0], topology.arcs[:, 1]] = topology.multiplicity
    new = unit_arcs(added, topology.links)
    np.add.at(counts, (new[:, 0], new[:, 1]), 1)
    arcs = np.argwhere(counts > 0).astype(np.int32)
    return replace(topology, arcs=arcs, multiplicity=counts[arcs[:, 0], arcs[:, 1]].astype(np.int32), offsets=())
