"""Failures of a job's network: repair at once by every strategy, simulate, keep the best.

A failed server is evaluated as one that forwards no longer: it computes, sends and receives as before, and all that
passed through it takes other ways. Should it fail altogether, the job stands still until a spare server is patched in
its place (`FailureOutcome.spare_circuits` circuits), after which the plan runs as before, since the network is the same
one with another name for a server. Distances and disconnected pairs are those of the servers left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from solvers.failures.damage import Damage, PlanTraffic, damage_of
from solvers.failures.evaluator import RepairMemory
from solvers.failures.ring_repairs import RING_REPAIRS, Repaired
from solvers.failures.surviving import Surviving, after, not_forwarding, reach
from solvers.network.constructions import balanced_routes
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InfeasibleError
from topoopt.core.failures import Failure, FailureOutcome, RepairTrial
from topoopt.core.topology import Topology
from topoopt.core.workload import TaskGraph
from topoopt.native import jobs
from topoopt.simulate.fabrics import direct_connect_network
from topoopt.simulate.lower import GraphArrays, graph_arrays
from topoopt.simulate.network import network_arrays

REBALANCE_SERVERS = 32
"""Up to here all routes are balanced anew as well, not only the broken ones."""

NONE_NEEDED = "none needed"
REROUTE = "reroute"
REBALANCE = "rebalance"
IMPOSSIBLE = "impossible"


@dataclass(frozen=True, eq=False)
class Repair:
    """A failure, what became of it, and the plan that runs then; None where none delivers everything."""

    outcome: FailureOutcome
    plan: Repaired | None


class JobEvaluator(RepairMemory[Repair]):
    """Evaluates failures of one plan.

    Args:
        cluster: rates and latencies.
        traffic: plan and demand.
        graph: one iteration; None: the time the busiest link carries traffic stands for the iteration time.
        nominal: iteration time without failure; None: simulated here.
    """

    def __init__(
        self, cluster: Cluster, traffic: PlanTraffic, graph: TaskGraph | None, nominal: float | None = None
    ) -> None:
        super().__init__()
        self.cluster, self.traffic, self._graph = cluster, traffic, graph
        self._arrays: GraphArrays | None = None
        if nominal is None:
            whole = Surviving(traffic.topology, traffic.topology.multiplicity.astype(np.int32))
            nominal = self.time_ms(whole, Repaired(traffic.routes, traffic.rings))
        self._nominal = nominal

    def on(self, traffic: PlanTraffic) -> JobEvaluator:
        """The same job with another plan; its nominal value stays that of this one."""
        return JobEvaluator(self.cluster, traffic, self._graph, self._nominal)

    @property
    def topology(self) -> Topology:
        """Of the plan."""
        return self.traffic.topology

    @property
    def nominal(self) -> float:
        """Iteration time without failure, ms."""
        return self._nominal

    def time_ms(self, surviving: Surviving, plan: Repaired) -> float:
        """Iteration time by `rounds`, or the time of the busiest link without a task graph."""
        if self._graph is None:
            traffic = PlanTraffic(self.topology, plan.routes, plan.rings, self.traffic.demand)
            used = traffic.loads > 0
            rate = surviving.left[used] * self.cluster.link_bytes_per_ms
            return float((traffic.loads[used] / rate).max(initial=0.0))
        topology = replace(self.topology, multiplicity=surviving.left)
        network = direct_connect_network(self.cluster, topology, plan.routes, plan.rings)
        if self._arrays is None:
            self._arrays = graph_arrays(self._graph, network)
        return float(jobs.simulate(self._arrays, network_arrays(network), True)[0])

    def _repaired(self, failure: Failure) -> Repair:
        far = reach(after(self.topology, failure), failure.servers)
        surviving = not_forwarding(self.topology, failure)
        damage = damage_of(self.traffic, surviving)
        trials: dict[str, float | None] = {}
        best: tuple[float, str, Repaired] | None = None
        if damage.none:
            best = (self._nominal, NONE_NEEDED, Repaired(self.traffic.routes, self.traffic.rings))
        else:
            for network in self._networks(surviving):
                for name, time_ms, plan in self._tried(damage_of(self.traffic, network)):
                    known = trials.get(name)
                    trials[name] = time_ms if known is None else known if time_ms is None else min(known, time_ms)
                    if plan is not None and time_ms is not None and (best is None or time_ms < best[0]):
                        best = (time_ms, name, plan)
        outcome = FailureOutcome(
            failure=failure,
            disconnected_pairs=far.disconnected_pairs,
            diameter=far.diameter,
            mean_hops=far.mean_hops,
            broken_rings=len(damage.broken_rings),
            rings=sum(len(group.rings) for group in self.traffic.rings),
            rerouted_pairs=len(np.unique(self.traffic.route_hops.pair_of_path[damage.paths])),
            value=None if best is None else best[0],
            repair=IMPOSSIBLE if best is None else best[1],
            trials=tuple(RepairTrial(name, value) for name, value in trials.items()),
            spare_circuits=self._circuits(failure),
        )
        return Repair(outcome, None if best is None else best[2])

    def _networks(self, surviving: Surviving) -> list[Surviving]:
        """The network, and that without its idle arcs: a repair over these may be worse than one without them."""
        idle = np.flatnonzero((self.traffic.loads == 0) & (surviving.left > 0))
        return [surviving, surviving.without(idle)] if len(idle) else [surviving]

    def _tried(self, damage: Damage) -> list[tuple[str, float | None, Repaired | None]]:
        """Every strategy with its time and plan."""
        tried: list[tuple[str, float | None, Repaired | None]] = []
        if not damage.weakened and not len(damage.steps):
            plans = {REROUTE: _rerouted(damage)}
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
        """Links of the failed servers: fibre pairs once, single fibres each."""
        if not failure.servers:
            return 0
        touching = np.isin(self.topology.arcs, failure.servers).any(axis=1)
        arcs = int(self.topology.multiplicity[touching].sum())
        return arcs // 2 if self.topology.links.value == "bidirectional" else arcs


def _rerouted(damage: Damage) -> Repaired | None:
    routes = damage.rerouted(damage.traffic.rings)
    return None if routes is None else Repaired(routes, damage.traffic.rings)
