"""Failures of a job's network are repaired by every strategy, or by exchanging circuits, simulated, and the best is
kept.

Exchanges of link ends that put the interfaces freed by failed links to use again.

A failed link a - b leaves an interface free at a and at b. Giving up one surviving link x - y, these four make a - x
and b - y (or a - y and b - x); single fibres a -> b and x -> y make a -> y and x -> b. The failed links themselves are
not made again: their fibres are broken. Free interfaces of two failed links may be joined without giving anything up.

Failures of a job's network: repair at once by every strategy, simulate, keep the best.

A failed server is evaluated as one that forwards no longer: it computes, sends and receives as before, and all that
passed through it takes other ways. Should it fail altogether, the job stands still until a spare server is patched in
its place (`FailureOutcome.spare_circuits` circuits), after which the plan runs as before, since the network is the same
one with another name for a server. Distances and disconnected pairs are those of the servers left.

Repair by re-wiring: at most so many surviving circuits of a job's network are given up for better ones.

Exchange by exchange the one after which the repaired plan runs fastest, tried in the order of the broken rings it makes
whole; on small clusters also the topology search for the whole traffic with the links that stay (`max_changed`), with
routes and rings made anew. Whatever is kept was simulated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Generic

import numpy as np

from solvers.failures.repairs import RING_REPAIRS, Damage, PlanTraffic, Repaired, damage_of
from solvers.failures.worst import FailureEvaluator, Plan, Repair, Surviving, after, links_of, not_forwarding, reach
from solvers.job.realise import realise
from solvers.network.assembly import assemble, link_arcs
from solvers.network.exact import solve_milp
from solvers.network.polish import SearchBudget
from solvers.network.routes import balanced_routes
from solvers.network.search import search_topology
from solvers.network.space import ExactLimits
from solvers.stop import Stop, first_part
from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InfeasibleError, InputError, LimitError
from topoopt.core.network import TopologyProblem
from topoopt.core.outcomes import Failure, FailureOutcome, LinkEnds
from topoopt.core.topology import Topology
from topoopt.core.workload import TaskGraph
from topoopt.native import jobs
from topoopt.simulate.fabrics import direct_connect_network
from topoopt.simulate.network import GraphArrays, graph_arrays, network_arrays


@dataclass(frozen=True, order=True)
class Exchange:
    """Links given up, and links set instead; of fibre pairs the smaller server first."""

    removed: tuple[LinkEnds, ...]
    added: tuple[LinkEnds, ...]

    def then(self, other: Exchange) -> Exchange:
        """Both: what was added and given up again is neither."""
        added = Counter((*self.added, *other.added))
        removed = Counter((*self.removed, *other.removed))
        both = added & removed
        return Exchange(tuple(sorted((removed - both).elements())), tuple(sorted((added - both).elements())))


NOTHING = Exchange((), ())


def standing_links(topology: Topology, failure: Failure, done: Exchange) -> tuple[LinkEnds, ...]:
    """Links that survive and were not given up, those added included."""
    left = Counter(links_of(topology)) - Counter(failure.links) - Counter(done.removed)
    return tuple(sorted((left + Counter(done.added)).elements()))


def exchanges(topology: Topology, failure: Failure, done: Exchange) -> Iterator[Exchange]:
    """Single exchanges on top of what was done, each once."""
    paired = topology.links is LinkDirection.BIDIRECTIONAL

    def link(a: int, b: int) -> LinkEnds:
        return (min(a, b), max(a, b)) if paired else (a, b)

    broken = set(failure.links)
    senders = Counter(a for a, _ in failure.links) + Counter(a for a, _ in done.removed)
    receivers = Counter(b for _, b in failure.links) + Counter(b for _, b in done.removed)
    senders -= Counter(a for a, _ in done.added)
    receivers -= Counter(b for _, b in done.added)
    if paired:
        ends = Counter(end for pair in (*failure.links, *done.removed) for end in pair)
        ends -= Counter(end for pair in done.added for end in pair)
        senders = receivers = ends
    seen: set[Exchange] = set()

    def fresh(removed: tuple[LinkEnds, ...], added: tuple[LinkEnds, ...]) -> Iterator[Exchange]:
        legal = all(a != b and (a, b) not in broken and (a, b) not in removed for a, b in added)
        made = Exchange(removed, tuple(sorted(added)))
        if legal and made not in seen:
            seen.add(made)
            yield made

    standing = sorted(set(standing_links(topology, failure, done)))
    for a in sorted(senders):
        for b in sorted(receivers):
            if a == b and (not paired or senders[a] < 2):
                continue
            yield from fresh((), (link(a, b),))
            for x, y in standing:
                if paired:
                    yield from fresh(((x, y),), (link(a, x), link(b, y)))
                    yield from fresh(((x, y),), (link(a, y), link(b, x)))
                else:
                    yield from fresh(((x, y),), ((a, y), (x, b)))


REBALANCE_SERVERS = 32
"""Up to here all routes are balanced anew as well, not only the broken ones."""

NONE_NEEDED = "none needed"
REROUTE = "reroute"
REBALANCE = "rebalance"
IMPOSSIBLE = "impossible"


class JobEvaluator(FailureEvaluator[Repaired]):
    """Evaluates failures of one plan.

    Args:
        cluster: rates and latencies.
        traffic: plan and demand.
        graph: one iteration.
        nominal: iteration time without failure; None: simulated here.
    """

    def __init__(self, cluster: Cluster, traffic: PlanTraffic, graph: TaskGraph, nominal: float | None = None) -> None:
        super().__init__(traffic.topology)
        self.cluster, self.traffic, self._graph = cluster, traffic, graph
        self._arrays: GraphArrays | None = None
        if nominal is None:
            whole = Surviving(traffic.topology, traffic.topology.multiplicity.astype(np.int32))
            nominal = self.time_ms(whole, Repaired(traffic.routes, traffic.rings))
        self.nominal = nominal

    def on(self, traffic: PlanTraffic) -> JobEvaluator:
        """The same job with another plan; its nominal value stays that of this one."""
        return JobEvaluator(self.cluster, traffic, self._graph, self.nominal)

    def time_ms(self, surviving: Surviving, plan: Repaired) -> float:
        """Iteration time by `rounds`."""
        topology = replace(self.topology, multiplicity=surviving.left)
        network = direct_connect_network(self.cluster, topology, plan.routes, plan.rings)
        if self._arrays is None:
            self._arrays = graph_arrays(self._graph, network)
        return float(jobs.simulate(self._arrays, network_arrays(network), True)[0])

    def _repaired(self, failure: Failure) -> Repair[Repaired]:
        disconnected, diameter, mean_hops = reach(after(self.topology, failure), failure.servers)
        surviving = not_forwarding(self.topology, failure)
        damage = damage_of(self.traffic, surviving)
        trials: dict[str, float | None] = {}
        best: tuple[float, str, Repaired] | None = None
        if damage.none:
            best = (self.nominal, NONE_NEEDED, Repaired(self.traffic.routes, self.traffic.rings))
        else:
            idle = np.flatnonzero((self.traffic.loads == 0) & (surviving.left > 0))
            for network in [surviving, surviving.without(idle)] if len(idle) else [surviving]:
                for name, time_ms, plan in self._tried(damage_of(self.traffic, network)):
                    cached = trials.get(name)
                    trials[name] = time_ms if cached is None else cached if time_ms is None else min(cached, time_ms)
                    if plan is not None and time_ms is not None and (best is None or time_ms < best[0]):
                        best = (time_ms, name, plan)
        outcome = FailureOutcome(
            failure=failure,
            disconnected_pairs=disconnected,
            diameter=diameter,
            mean_hops=mean_hops,
            broken_rings=len(damage.broken_rings),
            rings=sum(len(group.rings) for group in self.traffic.rings),
            rerouted_pairs=len(np.unique(self.traffic.route_hops.pair_of_path[damage.paths])),
            value=None if best is None else best[0],
            repair=IMPOSSIBLE if best is None else best[1],
            trials=tuple(trials.items()),
            spare_circuits=self._circuits(failure),
        )
        return outcome, None if best is None else best[2]

    def _tried(self, damage: Damage) -> list[tuple[str, float | None, Repaired | None]]:
        tried: list[tuple[str, float | None, Repaired | None]] = []
        if not damage.weakened and not len(damage.steps):
            routes = damage.rerouted(damage.traffic.rings)
            plans = {REROUTE: None if routes is None else Repaired(routes, damage.traffic.rings)}
        else:
            plans = {name: strategy(damage) for name, strategy in RING_REPAIRS.items()}
        for name, plan in plans.items():
            tried.append((name, None if plan is None else self.time_ms(damage.surviving, plan), plan))
        best = min((row for row in tried if row[1] is not None), key=lambda row: row[1] or 0.0, default=None)
        if best is not None and best[2] is not None:
            plan = self._rebalanced(damage, best[2])
            if plan is not None:
                name = REBALANCE if best[0] == REROUTE else f"{best[0]} + {REBALANCE}"
                tried.append((name, self.time_ms(damage.surviving, plan), plan))
        return tried

    def _rebalanced(self, damage: Damage, plan: Repaired) -> Repaired | None:
        """All routes balanced anew for the demand; None where that takes too long or does not apply."""
        weights = self.traffic.demand.model_parallel_bytes
        surviving = damage.surviving
        if self.topology.servers > REBALANCE_SERVERS or surviving.relays or not weights.any():
            return None
        left = surviving.left > 0
        network = replace(
            self.topology, arcs=self.topology.arcs[left], multiplicity=surviving.left[left], offsets=(), origin=""
        )
        try:
            return Repaired(balanced_routes(network, weights), plan.rings)
        except InfeasibleError:
            return None

    def _circuits(self, failure: Failure) -> int:
        if not failure.servers:
            return 0
        touching = np.isin(self.topology.arcs, failure.servers).any(axis=1)
        arcs = int(self.topology.multiplicity[touching].sum())
        return arcs // 2 if self.topology.links.value == "bidirectional" else arcs


TRIED_SMALL, TRIED_LARGE = 240, 24
SMALL_SERVERS = 32
"""Up to here every exchange is simulated, and whole topologies are searched for."""

MILP_SERVERS = 6
"""Up to here these come from the joint program with kept links (`max_changed`), beyond from the portfolio's search."""


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
        best: Exchange | None = None
        for step in sorted(within, key=self._promise)[:most]:
            if self.stop.reason() is not None:
                break
            total = done.then(step)
            if self._keep(self._repaired(total, "exchanges of link ends")):
                best = total
        return best

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
        exchange = super()._best_exchange(done)
        if exchange is not None and self.topology.servers <= SMALL_SERVERS:
            topology = rewired_topology(self.topology, self.failure, exchange)
            self._offer_anew(topology, "exchanges of link ends, routed anew")
        return exchange

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
        other = PlanTraffic(with_links(traffic.topology, exchange.added), traffic.routes, traffic.rings, traffic.demand)
        outcome, plan = self.evaluator.on(other).repair(given_up(self.failure, exchange))
        if plan is None or outcome.value is None:
            return None
        try:
            topology = rewired_topology(traffic.topology, self.failure, exchange)
        except InfeasibleError:
            return None
        return Rewired(exchange, topology, plan, outcome.value, method)

    def _offer_anew(self, topology: Topology, method: str) -> None:
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
        topology = self.traffic.topology
        left = Counter(links_of(topology)) - Counter(self.failure.links)
        total = self.traffic.demand.model_parallel_bytes.copy()
        hops = self.traffic.ring_hops
        first = np.flatnonzero(np.diff(hops.step, prepend=-1))
        for (group, ring, at), amount in zip(
            hops.place.tolist(), [float(value) for value in hops.amount[first]], strict=True
        ):
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
                limits = ExactLimits(seed=self.seed, stop=first_part(self.stop, 1.0, 20.0))
                rewired, method = solve_milp(problem, limits).plan.topology, "joint program with kept links"
            else:
                budget = SearchBudget(proposals=2_000 * n, evaluations=10 * n, accuracy=1e-3)
                rewired = search_topology(problem, seed=self.seed, budget=budget, stop=self.stop).topology
                method = "topology search with kept links"
        except (InfeasibleError, InputError, LimitError):
            return
        self._offer_anew(rewired, method)


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
