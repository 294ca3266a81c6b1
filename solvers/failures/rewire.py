"""Repair by re-wiring: at most so many surviving circuits of a job's network are given up for better ones.

Exchange by exchange the one after which the repaired plan runs fastest, tried in the order of the broken rings it makes
whole; on small clusters also the topology search for the whole traffic with the links that stay (`max_changed`), with
routes and rings made anew. Whatever is kept was simulated.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, eq=False)
class Rewired:
    """A re-wired network, the plan on it, its time, and what was tried."""

    exchange: Exchange
    topology: Topology
    plan: Repaired
    time_ms: float
    method: str


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


class JobRewiring:
    """Re-wiring of one plan after one failure of links.

    Args:
        evaluator: of the plan.
        failure: links only.
        most: circuits that may be given up.
    """

    def __init__(self, evaluator: JobEvaluator, failure: Failure, most: int, seed: int, stop: Stop) -> None:
        self.evaluator, self.failure, self.most = evaluator, failure, most
        self.seed, self.stop = seed, stop
        self.traffic = evaluator.traffic
        self.best: Rewired | None = None

    def run(self) -> Rewired | None:
        """The best found; None if neither the repair at once nor any re-wiring delivers everything."""
        at_once = self.evaluator.repair(self.failure)
        if at_once.plan is not None and at_once.outcome.value is not None:
            try:
                topology = rewired_topology(self.traffic.topology, self.failure, NOTHING)
            except InfeasibleError:
                topology = None
            if topology is not None:
                self.best = Rewired(NOTHING, topology, at_once.plan, at_once.outcome.value, "no re-wiring helps")
        done = NOTHING
        while len(done.removed) <= self.most and self.stop.reason() is None:
            step = self._best_exchange(done)
            if step is None:
                break
            done = step
        if self.traffic.topology.servers <= SMALL_SERVERS and self.most and self.stop.reason() is None:
            self._searched()
        return self.best

    def _best_exchange(self, done: Exchange) -> Exchange | None:
        """The exchange on top of `done` that gains most; None if none gains anything."""
        topology = self.traffic.topology
        most = TRIED_SMALL if topology.servers <= SMALL_SERVERS else TRIED_LARGE
        within = [step for step in exchanges(topology, self.failure, done) if self._allowed(done.then(step))]
        found: Exchange | None = None
        for step in sorted(within, key=self._promise)[:most]:
            if self.stop.reason() is not None:
                break
            total = done.then(step)
            if self._offer_repaired(total):
                found = total
        if found is not None and topology.servers <= SMALL_SERVERS:
            self._offer_anew(rewired_topology(topology, self.failure, found), "exchanges of link ends, routed anew")
        return found

    def _allowed(self, exchange: Exchange) -> bool:
        return len(exchange.removed) <= self.most

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

    def _offer_repaired(self, exchange: Exchange) -> bool:
        """Keep what the repairs make of the plan on the re-wired network, if it is the best."""
        traffic = self.traffic
        union = _with_links(traffic.topology, exchange.added)
        other = PlanTraffic(union, traffic.routes, traffic.rings, traffic.demand)
        evaluator = self.evaluator.on(other)
        gone = Failure(links=tuple(sorted((*self.failure.links, *exchange.removed))))
        repair = evaluator.repair(gone)
        if repair.plan is None or repair.outcome.value is None:
            return False
        try:
            topology = rewired_topology(traffic.topology, self.failure, exchange)
        except InfeasibleError:
            return False
        return self._keep(Rewired(exchange, topology, repair.plan, repair.outcome.value, "exchanges of link ends"))

    def _offer_anew(self, topology: Topology, method: str) -> None:
        """Keep the topology with routes and rings of its own, if it is the best."""
        exchange = difference(self.traffic.topology, self.failure, topology)
        if not self._allowed(exchange) or set(exchange.added) & set(self.failure.links):
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
                found, method = solve_milp(problem, limits).network.topology, "joint program with kept links"
            else:
                budget = SearchBudget(proposals=2_000 * n, evaluations=10 * n, accuracy=1e-3)
                found = search_topology(problem, seed=self.seed, budget=budget, stop=self.stop).topology
                method = "topology search with kept links"
        except (InfeasibleError, InputError, LimitError):
            return
        self._offer_anew(found, method)

    def _keep(self, other: Rewired) -> bool:
        if self.best is not None and other.time_ms >= self.best.time_ms * (1 - 1e-12):
            return False
        self.best = other
        return True


def _step_bytes(step: Ints, amount: Floats) -> list[float]:
    """Bytes of each ring step, in order."""
    first = np.flatnonzero(np.diff(step, prepend=-1))
    return [float(value) for value in amount[first]]


def difference(topology: Topology, failure: Failure, other: Topology) -> Exchange:
    """What is given up of the surviving links, and what is new, in another topology."""
    left = Counter(links_of(topology)) - Counter(failure.links)
    now = Counter(links_of(other))
    return Exchange(tuple(sorted((left - now).elements())), tuple(sorted((now - left).elements())))


def _with_links(topology: Topology, added: tuple[LinkEnds, ...]) -> Topology:
    """The topology with more links, interfaces not counted."""
    n = topology.servers
    counts = np.zeros((n, n), dtype=np.int64)
    counts[topology.arcs[:, 0], topology.arcs[:, 1]] = topology.multiplicity
    new = unit_arcs(added, topology.links)
    np.add.at(counts, (new[:, 0], new[:, 1]), 1)
    arcs = np.argwhere(counts > 0).astype(np.int32)
    return replace(topology, arcs=arcs, multiplicity=counts[arcs[:, 0], arcs[:, 1]].astype(np.int32), offsets=())
