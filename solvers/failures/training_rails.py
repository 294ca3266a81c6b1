"""Failures of interfaces and switches of rails under a language model in training.

Rail i joins the interfaces of GPU i of all servers. A GPU whose interface leads nowhere sends over those of the others
in its server, through the network inside it. With a spine what leaves on one rail comes in on any other; without one
both ends use a rail that both still have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from solvers.failures.listing import links_left
from solvers.failures.surviving import after, reach
from solvers.failures.training import IMPOSSIBLE, NONE_NEEDED, REROUTED, TrainingFailures, TrainingRepair, Way, Ways
from solvers.llm_training.network.evaluation import sending_pairs
from topoopt.core.arrays import Bools, Ints
from topoopt.core.errors import InfeasibleError
from topoopt.core.failures import Failure, FailureOutcome, RepairTrial
from topoopt.core.llm_training import GpuCluster, LlmTrainingProblem
from topoopt.core.llm_training_plan import FabricPlan
from topoopt.core.topology import Topology
from topoopt.simulate.llm_training.links import LinkGraph, PlacedNetwork, Rails, path_table, switch_routes

RAIL_FABRICS = {"rail-fat-tree": Rails.SPINE, "rail-only": Rails.RELAYED}


def rail_topology(cluster: GpuCluster) -> Topology:
    """Servers, and a packet switch for each rail."""
    rails = cluster.gpus_per_server if cluster.per_gpu else cluster.degree
    hosts = np.repeat(np.arange(cluster.servers), cluster.degree)
    switch = cluster.servers + np.tile(np.arange(cluster.degree) % rails, cluster.servers)
    arcs = np.concatenate([np.column_stack([hosts, switch]), np.column_stack([switch, hosts])])
    return replace(Topology.of_arcs(cluster.servers + rails, arcs), packet_switches=rails)


class RailEvaluator(TrainingFailures):
    """Evaluates failures of a plan on rails.

    Args:
        problem, plan: as of `TrainingFailures`, on one of `RAIL_FABRICS`.
    """

    def __init__(self, problem: LlmTrainingProblem, plan: FabricPlan) -> None:
        super().__init__(problem, plan, rail_topology(problem.cluster))
        self._rails = RAIL_FABRICS[plan.network.fabric]
        self._whole = self._links(Failure())

    def _unbroken(self) -> PlacedNetwork:
        return self._placed(self._whole)

    @property
    def spine(self) -> bool:
        """What leaves on one rail may come in on another."""
        return self._rails is Rails.SPINE

    def ways(self, repair: TrainingRepair) -> Ways:
        """Over the rails by their numbers, a spine between two of them left out."""
        if repair.network is None:
            return {}
        links, table = self._links(repair.outcome.failure), repair.network.routes
        return {
            pair: self._over_rails(links, *pair)
            for pair in zip(table.source.tolist(), table.target.tolist(), strict=True)
        }

    def _links(self, failure: Failure) -> Ints:
        """int64[n, r]: what is left of the links of each server to each rail; of a failed server that of its spare."""
        left = links_left(self._topology, replace(failure, servers=()))
        table = np.zeros((self._topology.hosts, self._topology.packet_switches), dtype=np.int64)
        tail, head = self._topology.arcs.T
        out = head >= self._topology.hosts
        table[tail[out], head[out] - self._topology.hosts] = left[out]
        return table

    def _repaired(self, failure: Failure) -> TrainingRepair:
        links = self._links(failure)
        far = reach(after(self._topology, failure), failure.servers)
        hurt: Bools = np.any(links < self._whole, axis=1)
        network: PlacedNetwork | None
        try:
            network = self._placed(links)
            value = self.value_ms(network)
        except InfeasibleError:
            network, value = None, np.inf
        untouched = not hurt.any()
        source, target = sending_pairs(self.groups, self.places, self.orders)
        outcome = FailureOutcome(
            failure=failure,
            disconnected_pairs=far.disconnected_pairs,
            diameter=far.diameter,
            mean_hops=far.mean_hops,
            broken_rings=sum(int(hurt[ring].any()) for ring in self._each_ring()),
            rings=self.rings,
            rerouted_pairs=int((hurt[source] | hurt[target]).sum()),
            value=None if network is None else value,
            repair=IMPOSSIBLE if network is None else NONE_NEEDED if untouched else REROUTED,
            trials=() if untouched else (RepairTrial(REROUTED, None if network is None else value),),
        )
        return TrainingRepair(outcome, network)

    def _each_ring(self) -> Iterator[Ints]:
        for classes in self.orders.values():
            for part in classes:
                yield from part.reshape(-1, part.shape[2])

    def _placed(self, links: Ints) -> PlacedNetwork:
        """All that send, over the rails that are left.

        Raises:
            InfeasibleError: a server has none of those that it needs.
        """
        cluster, (n, rails) = self.problem.cluster, links.shape
        source, target = sending_pairs(self.groups, self.places, self.orders)
        if self._rails is Rails.SPINE:
            up = links.sum(axis=1)
            cut = np.flatnonzero(up[source] * up[target] == 0)
            table, hubs, parallel = switch_routes(n, source, target), np.full(n, n), up
            hosts, nodes = np.arange(n), n + 1
        else:
            common = np.minimum(links[source], links[target])
            cut = np.flatnonzero(common.sum(axis=1) == 0)
            pair, rail = np.nonzero(common)
            rows = np.stack([source[pair], n + rail, target[pair]], axis=1)
            share = common[pair, rail] / np.maximum(common.sum(axis=1), 1)[pair]
            table = path_table(n + rails, source, target, [(pair, rows, share)])
            hosts, hubs = np.nonzero(links)
            hubs, parallel, nodes = hubs + n, links[links > 0], n + rails
        if len(cut):
            text = f"servers {source[cut[0]]} and {target[cut[0]]} send to each other and no rail joins them"
            raise InfeasibleError(text)
        lit = np.flatnonzero(parallel)
        ends = (np.concatenate([hosts[lit], hubs[lit]]), np.concatenate([hubs[lit], hosts[lit]]))
        graph = LinkGraph(
            n, nodes, *ends, np.tile(parallel[lit], 2), cluster.link_gbps, self._rails, links / self._whole
        )
        return PlacedNetwork(graph, self.places, self.orders, table)

    def _over_rails(self, links: Ints, source: int, target: int) -> list[Way]:
        n = self._topology.hosts
        out, into = links[source] / links[source].sum(), links[target] / links[target].sum()
        common = np.minimum(links[source], links[target])
        same = common / common.sum() if self._rails is Rails.RELAYED else np.minimum(out, into)
        ways: list[Way] = [((source, n + rail, target), float(same[rail])) for rail in np.flatnonzero(same).tolist()]
        out, into = out - same, into - same
        if self._rails is Rails.SPINE and out.sum() > 1e-12:
            for one in np.flatnonzero(out > 0).tolist():
                for other in np.flatnonzero(into > 0).tolist():
                    share = float(out[one] * into[other] / out.sum())
                    ways.append(((source, n + one, n + other, target), share))
        return ways
