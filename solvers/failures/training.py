"""The network under a language model in training loses links, interfaces or switches; repairs are evaluated.

Failures of links under a language model in training: re-routed, or rings put in another order as well.

Links join servers to each other, or lead through switches whose links may fill up. A server that fails is one that
forwards no longer: its GPUs are replaced by a spare at the same circuits, and until then what passed through it goes
round it.

Failures of interfaces and switches of rails under a language model in training.

Rail i joins the interfaces of GPU i of all servers. A GPU whose interface leads nowhere sends over those of the others
in its server, through the network inside it. With a spine what leaves on one rail comes in on any other; without one
both ends use a rail that both still have.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise

import numpy as np

from solvers.failures.job import Exchange, ExchangeSearch, Rewired, given_up, standing_links, unit_arcs, with_links
from solvers.failures.worst import FailureEvaluator, Repair, after, links_left, not_forwarding, reach
from solvers.llm_training.direct_connect import both_directions, orders_of
from solvers.llm_training.evaluation import evaluated, family_bytes, sending_pairs
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError
from topoopt.core.llm_training import GpuCluster, LlmTrainingProblem
from topoopt.core.llm_training_plan import DIRECT_FABRICS, FabricPlan, NetworkPlan, TrafficFamily
from topoopt.core.outcomes import Failure, FailureOutcome, RepairTrial
from topoopt.core.topology import Topology
from topoopt.core.workload import PathTable
from topoopt.simulate.fabrics.direct_graphs import short_tour
from topoopt.simulate.llm_training.links import (
    LinkGraph,
    PlacedNetwork,
    Rails,
    family_flows,
    family_groups,
    path_table,
    spread_routes,
    switch_routes,
)

NONE_NEEDED, REROUTED, IMPOSSIBLE = "none needed", "re-routed", "impossible"

Orders = dict[TrafficFamily, tuple[Ints, ...]]
SharedPath = tuple[tuple[int, ...], float]
"""Nodes of a path, and its share."""

PathsByPair = dict[tuple[int, int], list[SharedPath]]
"""Of pairs of servers."""


def paths_by_pair(table: PathTable) -> PathsByPair:
    """Paths of all pairs of a table."""
    pairs = zip(table.source.tolist(), table.target.tolist(), table.pair_ptr[:-1], table.pair_ptr[1:], strict=True)
    return {
        (source, target): [(table.path(path), float(table.share[path])) for path in range(first, last)]
        for source, target, first, last in pairs
    }


class TrainingFailures(FailureEvaluator[PlacedNetwork]):
    """Evaluates failures of the network of a plan; values are milliseconds of an iteration.

    Args:
        problem, plan: all families on rings.
        topology: whose parts fail; packet switches follow the servers.
    """

    def __init__(self, problem: LlmTrainingProblem, plan: FabricPlan, topology: Topology) -> None:
        super().__init__(topology)
        self.problem, self.plan = problem, plan
        cluster = problem.cluster
        self.groups = family_groups(plan.strategy, cluster.gpus_per_server)
        self.places = np.array(plan.network.places or range(cluster.servers), dtype=np.int64)
        self.orders = self._declared_orders()

    @cached_property
    def nominal(self) -> float:  # type: ignore[override]
        return self.value_ms(self._unbroken())

    @abstractmethod
    def _unbroken(self) -> PlacedNetwork:
        """The network without failure."""

    @property
    def rings(self) -> int:
        return sum(part.shape[0] * part.shape[1] for classes in self.orders.values() for part in classes)

    def routes(self, repair: Repair[PlacedNetwork]) -> PathsByPair:
        """Paths of all pairs that send after a failure."""
        return {} if repair[1] is None else paths_by_pair(repair[1].routes)

    def reordered(self, repair: Repair[PlacedNetwork]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Of every ring that runs after a failure one that the plan has in its group, and its order now."""
        orders = {} if repair[1] is None else repair[1].orders
        return [
            (tuple(before[0]), tuple(ring))
            for family, classes in orders.items()
            for now, own in zip(classes, self.orders[family], strict=True)
            for group, before in zip(now.tolist(), own.tolist(), strict=True)
            for ring in group
        ]

    def value_ms(self, network: PlacedNetwork) -> float:
        """Of an iteration on a network."""
        return 1e3 * evaluated(self.problem, self.plan.strategy, network, self.groups).iteration_time_s

    def _declared_orders(self) -> Orders:
        result: Orders = {}
        for rings in self.plan.network.rings:
            by_servers = {tuple(sorted(orders[0])): orders for orders in rings.orders}
            result[rings.dimension] = tuple(
                np.array(
                    [by_servers[tuple(sorted(row))] for row in self.places[collective.blocks].tolist()], dtype=np.int64
                )
                for collective in self.groups.collectives[rings.dimension]
            )
        return result


ROUNDS = 4
"""Rounds of shortest paths for what has to go another way."""


def declared_topology(problem: LlmTrainingProblem, network: NetworkPlan) -> Topology:
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
        super().__init__(problem, plan, declared_topology(problem, plan.network) if topology is None else topology)
        self._routes: dict[tuple[int, int], list[SharedPath]] = {}
        for route in plan.network.routes:
            self._routes.setdefault((route.path[0], route.path[-1]), []).append((route.path, route.share))

    def on(self, topology: Topology) -> TrainingEvaluator:
        """The same plan over other links."""
        return TrainingEvaluator(self.problem, self.plan, topology)

    def link_loads(self) -> Floats:
        """float64[n, n]: bytes from node to node over each link in an iteration."""
        table, nodes = self._unbroken().routes, self.topology.servers
        keys = table.source.astype(np.int64) * self.problem.cluster.servers + table.target
        load = np.zeros((nodes, nodes))
        for routes, amount in zip(
            paths_by_pair(table).values(), self._amounts(keys, self.orders).tolist(), strict=True
        ):
            for path, share in routes:
                for step in pairwise(path):
                    load[step] += share * amount
        return load

    def _unbroken(self) -> PlacedNetwork:
        return self._placed(self.topology.multiplicity.astype(np.int64), self.orders, ())[0]

    def _repaired(self, failure: Failure) -> Repair[PlacedNetwork]:
        left = links_left(self.topology, replace(failure, servers=())).astype(np.int64)
        surviving = not_forwarding(self.topology, failure)
        disconnected, diameter, mean_hops = reach(after(self.topology, failure), failure.servers)
        hosts = self.topology.hosts
        tries: tuple[tuple[str, Callable[[], Orders]], ...] = (
            (REROUTED, lambda: self.orders),
            (
                "re-routed, rings in another order",
                partial(self._toured, surviving.hops()[:hosts, :hosts].astype(np.int64)),
            ),
        )
        best: PlacedNetwork | None = None
        value, repair, moved = np.inf, IMPOSSIBLE, 0
        trials: list[RepairTrial] = []
        for name, orders in tries:
            try:
                placed, changed = self._placed(left, orders(), failure.servers)
            except InfeasibleError:
                trials.append((name, None))
                continue
            time_ms = self.value_ms(placed)
            trials.append((name, time_ms))
            moved = changed if name == REROUTED else moved
            if time_ms < value * (1.0 - 1e-9):
                best, value, repair = placed, time_ms, name
        if best is not None and not moved and (left == self.topology.multiplicity).all():
            repair = NONE_NEEDED
        outcome = FailureOutcome(
            failure=failure,
            disconnected_pairs=disconnected,
            diameter=diameter,
            mean_hops=mean_hops,
            broken_rings=self._broken(left > 0),
            rings=self.rings,
            rerouted_pairs=moved,
            value=None if best is None else value,
            repair=repair,
            trials=tuple(trials),
            spare_circuits=self._circuits(failure),
        )
        return outcome, best

    def _circuits(self, failure: Failure) -> int:
        if self.topology.packet_switches:
            return 0
        return int(self.topology.multiplicity[np.isin(self.topology.arcs[:, 0], failure.servers)].sum())

    def _toured(self, hops: Ints) -> Orders:
        far = np.where(hops < 0, len(hops), hops)

        def rings(servers: Ints) -> Ints:
            return both_directions(
                np.array([[short_tour(tuple(row), far)] for row in servers.tolist()], dtype=np.int64)
            )

        return orders_of(self.groups, self.places, rings)

    def _graph(self, left: Ints, alive: Bools) -> LinkGraph:
        arcs, cluster = self.topology.arcs[alive].astype(np.int64), self.problem.cluster
        own = self.plan.network.fabric == "direct-connect" and cluster.per_gpu and cluster.gpus_per_server > 1
        rails, parallel = Rails.OWNED if own else Rails.NONE, left[alive].astype(np.int64)
        rate, nodes = self.plan.network.link_gbps, self.topology.servers
        return LinkGraph(cluster.servers, nodes, arcs[:, 0], arcs[:, 1], parallel, rate, rails)

    def _placed(self, left: Ints, orders: Orders, closed: tuple[int, ...]) -> tuple[PlacedNetwork, int]:
        """All that send on what is left, and how many pairs go another way than before.

        Args:
            closed: servers that forward nothing.

        Raises:
            InfeasibleError: a pair has no path.
        """
        n, alive = self.problem.cluster.servers, left > 0
        there = {(a, b) for (a, b), good in zip(self.topology.arcs.tolist(), alive.tolist(), strict=True) if good}
        source, target = sending_pairs(self.groups, self.places, orders)
        amount = self._amounts(source * n + target, orders)
        rows: list[tuple[int, tuple[int, ...], float]] = []
        lost: list[int] = []
        moved = 0
        for index, pair in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
            routes = self._routes.get(pair, [(pair, 1.0)])
            if all(_alive(path, there, closed) for path, _ in routes):
                rows += [(index, path, share) for path, share in routes]
                continue
            moved += 1
            if pair in there:
                rows.append((index, pair, 1.0))
            else:
                lost.append(index)
        for ends, own in self._by_target(np.array(lost, dtype=np.int64), target, closed):
            heads = self.topology.arcs[:, 1]
            graph = self._graph(left, alive & ~np.isin(heads, [arc for arc in closed if arc != ends]))
            seed = self.problem.search.seed
            table = spread_routes(graph, source[own], target[own], amount[own], rounds=ROUNDS, seed=seed)
            for pair_at in range(len(own)):
                for path in range(int(table.pair_ptr[pair_at]), int(table.pair_ptr[pair_at + 1])):
                    rows.append((int(own[pair_at]), table.path(path), float(table.share[path])))
        rows.sort(key=lambda row: row[0])
        padded = np.full((len(rows), max((len(path) for _, path, _ in rows), default=1)), -1, dtype=np.int64)
        for index, (_, nodes, _) in enumerate(rows):
            padded[index, : len(nodes)] = nodes
        owner = np.array([pair for pair, _, _ in rows], dtype=np.int64)
        table = path_table(
            self.topology.servers, source, target, [(owner, padded, np.array([share for _, _, share in rows]))]
        )
        return PlacedNetwork(self._graph(left, alive), self.places, orders, table), moved

    @staticmethod
    def _by_target(lost: Ints, target: Ints, closed: tuple[int, ...]) -> list[tuple[int, Ints]]:
        """Pairs that need a way, those to each closed server by themselves: its arcs lead to it alone."""
        parts = [(-1, lost[~np.isin(target[lost], closed)])]
        parts += [(server, lost[target[lost] == server]) for server in closed]
        return [(server, part) for server, part in parts if len(part)]

    def _amounts(self, keys: Ints, orders: Orders) -> Floats:
        amount, n = np.zeros(len(keys)), self.problem.cluster.servers
        volume = family_bytes(self.problem, self.plan.strategy)
        for family, directions in family_flows(self.groups, self.places, orders).items():
            for direction in directions:
                position = np.searchsorted(keys, direction.source * n + direction.target)
                amount += np.bincount(position, direction.amount * volume.get(family, 0.0), len(keys))
        return amount

    def _broken(self, alive: Bools) -> int:
        dead = {tuple(arc) for arc in self.topology.arcs[~alive].tolist()}
        count = 0
        for classes in self.orders.values():
            for ring in (ring for part in classes for group in part.tolist() for ring in group):
                steps = zip(ring, ring[1:] + ring[:1], strict=True)
                routes = [path for step in steps for path, _ in self._routes.get(step, [(step, 1.0)])]
                count += any(step in dead for path in routes for step in pairwise(path))
        return count


def _alive(path: tuple[int, ...], there: set[tuple[int, int]], closed: tuple[int, ...]) -> bool:
    return all(step in there for step in pairwise(path)) and not set(path[1:-1]) & set(closed)


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

    def routes(self, repair: Repair[PlacedNetwork]) -> PathsByPair:
        """Over the rails by their numbers, a spine between two of them left out."""
        if repair[1] is None:
            return {}
        links, table = self._links(repair[0].failure), repair[1].routes
        return {
            pair: self._over_rails(links, *pair)
            for pair in zip(table.source.tolist(), table.target.tolist(), strict=True)
        }

    def _links(self, failure: Failure) -> Ints:
        """int64[n, r]: what is left of the links of each server to each rail; of a failed server that of its spare."""
        left = links_left(self.topology, replace(failure, servers=()))
        table = np.zeros((self.topology.hosts, self.topology.packet_switches), dtype=np.int64)
        tail, head = self.topology.arcs.T
        out = head >= self.topology.hosts
        table[tail[out], head[out] - self.topology.hosts] = left[out]
        return table

    def _repaired(self, failure: Failure) -> Repair[PlacedNetwork]:
        links = self._links(failure)
        disconnected, diameter, mean_hops = reach(after(self.topology, failure), failure.servers)
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
            disconnected_pairs=disconnected,
            diameter=diameter,
            mean_hops=mean_hops,
            broken_rings=sum(int(hurt[part].any(axis=2).sum()) for classes in self.orders.values() for part in classes),
            rings=self.rings,
            rerouted_pairs=int((hurt[source] | hurt[target]).sum()),
            value=None if network is None else value,
            repair=IMPOSSIBLE if network is None else NONE_NEEDED if untouched else REROUTED,
            trials=() if untouched else ((REROUTED, None if network is None else value),),
        )
        return outcome, network

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

    def _over_rails(self, links: Ints, source: int, target: int) -> list[SharedPath]:
        n = self.topology.hosts
        out, into = links[source] / links[source].sum(), links[target] / links[target].sum()
        common = np.minimum(links[source], links[target])
        same = common / common.sum() if self._rails is Rails.RELAYED else np.minimum(out, into)
        routes: list[SharedPath] = [
            ((source, n + rail, target), float(same[rail])) for rail in np.flatnonzero(same).tolist()
        ]
        out, into = out - same, into - same
        if self._rails is Rails.SPINE and out.sum() > 1e-12:
            for exit_ in np.flatnonzero(out > 0).tolist():
                for other in np.flatnonzero(into > 0).tolist():
                    share = float(out[exit_] * into[other] / out.sum())
                    routes.append(((source, n + exit_, n + other, target), share))
        return routes


class TrainingRewiring(ExchangeSearch[Repair[PlacedNetwork]]):
    """Re-wiring of one plan after one failure of links.

    Exchanges that give up links with little on them are tried first.

    Args:
        evaluator: of the plan.
        failure, most, stop: as of `ExchangeSearch`.
    """

    def __init__(self, evaluator: TrainingEvaluator, failure: Failure, most: int, stop: Stop) -> None:
        super().__init__(evaluator.topology, failure, most, stop)
        self.evaluator = evaluator
        self._load = evaluator.link_loads()

    def _promise(self, step: Exchange) -> tuple[int, float, Exchange]:
        return -len(step.added), float(sum(self._load[a, b] + self._load[b, a] for a, b in step.removed)), step

    def _repaired(self, exchange: Exchange, method: str) -> Rewired[Repair[PlacedNetwork]] | None:
        evaluator = self.evaluator.on(with_links(self.topology, exchange.added))
        repair = evaluator.repair(given_up(self.failure, exchange))
        if repair[1] is None or repair[0].value is None:
            return None
        before = self.topology
        arcs = unit_arcs(standing_links(before, self.failure, exchange), before.links)
        made = Topology.of_arcs(before.servers, arcs, degree=before.degree, links=before.links)
        topology = replace(
            made, origin=f"re-wired after {self.failure.label}", switches=np.full_like(before.switches, -1)
        )
        return Rewired(exchange, topology, repair, repair[0].value, method)
