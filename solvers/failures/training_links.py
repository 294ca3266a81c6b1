"""Failures of links under a language model in training: re-routed, or rings put in another order as well.

Links join servers to each other, or lead through switches whose links may fill up. A server that fails is one that
forwards no longer: its GPUs are replaced by a spare at the same circuits, and until then what passed through it goes
round it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from solvers.failures.listing import links_left
from solvers.failures.surviving import after, not_forwarding, reach
from solvers.failures.training import (
    IMPOSSIBLE,
    NONE_NEEDED,
    REROUTED,
    Orders,
    TrainingFailures,
    TrainingRepair,
    Way,
    table_ways,
)
from solvers.llm_training.network.direct_connect import both_ways, orders_of
from solvers.llm_training.network.evaluation import family_bytes, sending_pairs
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError
from topoopt.core.failures import Failure, FailureOutcome, RepairTrial
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import DIRECT_FABRICS, FabricPlan, NetworkPlan
from topoopt.core.topology import Topology
from topoopt.simulate.fabrics.direct_graphs import short_tour
from topoopt.simulate.llm_training.links import LinkGraph, PlacedNetwork, Rails, family_flows, path_table, spread_routes

REORDERED = "re-routed, rings in another order"
ROUNDS = 4
"""Rounds of shortest paths for what has to go another way."""


def stated_topology(problem: LlmTrainingProblem, network: NetworkPlan) -> Topology:
    """The links of a plan; switches are nodes of their own."""
    cluster = problem.cluster
    nodes = max(cluster.servers, 1 + max(max(tail, head) for tail, head, _ in network.links))
    links = cluster.links if network.fabric in DIRECT_FABRICS else LinkDirection.BIDIRECTIONAL
    units = [(tail, head) for tail, head, parallel in network.links for _ in range(parallel)]
    arcs = np.array(units, dtype=np.int64).reshape(-1, 2)
    return replace(Topology.of_arcs(nodes, arcs, links=links), packet_switches=nodes - cluster.servers)


class TrainingEvaluator(TrainingFailures):
    """Evaluates failures of the links of a plan.

    Args:
        problem, plan: as of `TrainingFailures`, on a fabric whose links are stated one by one.
        topology: other links that the plan runs on; None: its own.
    """

    def __init__(self, problem: LlmTrainingProblem, plan: FabricPlan, topology: Topology | None = None) -> None:
        super().__init__(problem, plan, stated_topology(problem, plan.network) if topology is None else topology)
        self._ways: dict[tuple[int, int], list[Way]] = {}
        for route in plan.network.routes:
            self._ways.setdefault((route.path[0], route.path[-1]), []).append((route.path, route.share))

    def on(self, topology: Topology) -> TrainingEvaluator:
        """The same plan over other links."""
        return TrainingEvaluator(self.problem, self.plan, topology)

    def link_loads(self) -> Floats:
        """float64[n, n]: bytes from node to node over each link in an iteration."""
        table, nodes = self._unbroken().routes, self._topology.servers
        keys = table.source.astype(np.int64) * self.problem.cluster.servers + table.target
        load = np.zeros((nodes, nodes))
        for ways, amount in zip(table_ways(table).values(), self._amounts(keys, self.orders).tolist(), strict=True):
            for path, share in ways:
                for step in pairwise(path):
                    load[step] += share * amount
        return load

    def _unbroken(self) -> PlacedNetwork:
        return self._placed(self._topology.multiplicity.astype(np.int64), self.orders, ())[0]

    def _repaired(self, failure: Failure) -> TrainingRepair:
        left = links_left(self._topology, replace(failure, servers=())).astype(np.int64)
        surviving = not_forwarding(self._topology, failure)
        far = reach(after(self._topology, failure), failure.servers)
        hosts = self._topology.hosts
        tries: tuple[tuple[str, Callable[[], Orders]], ...] = (
            (REROUTED, lambda: self.orders),
            (REORDERED, partial(self._toured, surviving.hops()[:hosts, :hosts].astype(np.int64))),
        )
        best: PlacedNetwork | None = None
        value, repair, trials, moved = np.inf, IMPOSSIBLE, [], 0
        for name, orders in tries:
            try:
                placed, changed = self._placed(left, orders(), failure.servers)
            except InfeasibleError:
                trials.append(RepairTrial(name, None))
                continue
            found = self.value_ms(placed)
            trials.append(RepairTrial(name, found))
            moved = changed if name == REROUTED else moved
            if found < value * (1.0 - 1e-9):
                best, value, repair = placed, found, name
        if best is not None and not moved and (left == self._topology.multiplicity).all():
            repair = NONE_NEEDED
        outcome = FailureOutcome(
            failure=failure,
            disconnected_pairs=far.disconnected_pairs,
            diameter=far.diameter,
            mean_hops=far.mean_hops,
            broken_rings=self._broken(left > 0),
            rings=self.rings,
            rerouted_pairs=moved,
            value=None if best is None else value,
            repair=repair,
            trials=tuple(trials),
            spare_circuits=self._circuits(failure),
        )
        return TrainingRepair(outcome, best)

    def _circuits(self, failure: Failure) -> int:
        """To be set for spares; behind packet switches they have links of their own."""
        if self._topology.packet_switches:
            return 0
        return int(self._topology.multiplicity[np.isin(self._topology.arcs[:, 0], failure.servers)].sum())

    def _toured(self, hops: Ints) -> Orders:
        """Every group along a short tour of what survives, both ways."""
        far = np.where(hops < 0, len(hops), hops)

        def rings(servers: Ints) -> Ints:
            return both_ways(np.array([[short_tour(tuple(row), far)] for row in servers.tolist()], dtype=np.int64))

        return orders_of(self.groups, self.places, rings)

    def _graph(self, left: Ints, alive: Bools) -> LinkGraph:
        arcs, cluster = self._topology.arcs[alive].astype(np.int64), self.problem.cluster
        own = self.plan.network.fabric == "direct-connect" and cluster.per_gpu and cluster.gpus_per_server > 1
        rails, parallel = Rails.OWNED if own else Rails.NONE, left[alive].astype(np.int64)
        rate, nodes = self.plan.network.link_gbps, self._topology.servers
        return LinkGraph(cluster.servers, nodes, arcs[:, 0], arcs[:, 1], parallel, rate, rails)

    def _placed(self, left: Ints, orders: Orders, closed: tuple[int, ...]) -> tuple[PlacedNetwork, int]:
        """All that send on what is left, and how many pairs go another way than before.

        Args:
            closed: servers that forward nothing.

        Raises:
            InfeasibleError: a pair has no path.
        """
        n, alive = self.problem.cluster.servers, left > 0
        there = {(a, b) for (a, b), good in zip(self._topology.arcs.tolist(), alive.tolist(), strict=True) if good}
        source, target = sending_pairs(self.groups, self.places, orders)
        amount = self._amounts(source * n + target, orders)
        rows: list[tuple[int, tuple[int, ...], float]] = []
        lost: list[int] = []
        moved = 0
        for place, pair in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
            ways = self._ways.get(pair, [(pair, 1.0)])
            if all(_alive(path, there, closed) for path, _ in ways):
                rows += [(place, path, share) for path, share in ways]
                continue
            moved += 1
            if pair in there:
                rows.append((place, pair, 1.0))
            else:
                lost.append(place)
        for ends, own in self._by_target(np.array(lost, dtype=np.int64), target, closed):
            heads = self._topology.arcs[:, 1]
            graph = self._graph(left, alive & ~np.isin(heads, [one for one in closed if one != ends]))
            seed = self.problem.search.seed
            table = spread_routes(graph, source[own], target[own], amount[own], rounds=ROUNDS, seed=seed)
            for pair_at in range(len(own)):
                for path in range(int(table.pair_ptr[pair_at]), int(table.pair_ptr[pair_at + 1])):
                    rows.append((int(own[pair_at]), table.path(path), float(table.share[path])))
        rows.sort(key=lambda row: row[0])
        padded = np.full((len(rows), max((len(path) for _, path, _ in rows), default=1)), -1, dtype=np.int64)
        for place, (_, nodes, _) in enumerate(rows):
            padded[place, : len(nodes)] = nodes
        owner = np.array([pair for pair, _, _ in rows], dtype=np.int64)
        table = path_table(
            self._topology.servers, source, target, [(owner, padded, np.array([share for _, _, share in rows]))]
        )
        return PlacedNetwork(self._graph(left, alive), self.places, orders, table), moved

    @staticmethod
    def _by_target(lost: Ints, target: Ints, closed: tuple[int, ...]) -> list[tuple[int, Ints]]:
        """Pairs that need a way, those to each closed server by themselves: its arcs lead to it alone."""
        parts = [(-1, lost[~np.isin(target[lost], closed)])]
        parts += [(server, lost[target[lost] == server]) for server in closed]
        return [(server, part) for server, part in parts if len(part)]

    def _amounts(self, keys: Ints, orders: Orders) -> Floats:
        """Bytes of pairs in an iteration."""
        amount, n = np.zeros(len(keys)), self.problem.cluster.servers
        volume = family_bytes(self.problem, self.plan.strategy)
        for family, directions in family_flows(self.groups, self.places, orders).items():
            for one in directions:
                place = np.searchsorted(keys, one.source * n + one.target)
                amount += np.bincount(place, one.amount * volume.get(family, 0.0), len(keys))
        return amount

    def _broken(self, alive: Bools) -> int:
        """Rings that used a dead link."""
        dead = {tuple(arc) for arc in self._topology.arcs[~alive].tolist()}
        count = 0
        for classes in self.orders.values():
            for ring in (ring for part in classes for group in part.tolist() for ring in group):
                steps = zip(ring, ring[1:] + ring[:1], strict=True)
                ways = [path for step in steps for path, _ in self._ways.get(step, [(step, 1.0)])]
                count += any(step in dead for path in ways for step in pairwise(path))
        return count


def _alive(path: tuple[int, ...], there: set[tuple[int, int]], closed: tuple[int, ...]) -> bool:
    return all(step in there for step in pairwise(path)) and not set(path[1:-1]) & set(closed)
