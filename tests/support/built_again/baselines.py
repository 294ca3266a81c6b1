"""The job on other fabrics, each built by other code than the simulator's, and simulated by the checker."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tests.support.built_again.wired import check_rings, wired_network
from topoopt.core.cluster import Cluster
from topoopt.core.job import CoOptimisation, FabricChoice, FabricGraph
from topoopt.core.price_book import PriceBook
from topoopt.core.workload import Strategy
from topoopt.simulate.network import Network
from topoopt.verify.checker import FULL, ViolationLog
from topoopt.verify.job.plan import check_strategy, recompute_traffic
from topoopt.verify.job.simulation import TRANSFER, EventBudget, IterationTasks, SimulatedNetwork, simulated, tasks_of
from topoopt.verify.laws.networks import LAWS, RequestedFabric, fabric_error, links_of, requested_fabric
from topoopt.verify.shared_cluster.servers import fat_tree, ideal_switch, nic_gbps


def graph_of(cluster: Cluster, network: Network) -> FabricGraph:
    """Links of interfaces and the rings of a network of direct links."""
    tail = network.link_ends[:, 0]
    counts = (network.link_rate / cluster.link_bytes_per_ms).round().astype(int).tolist()
    links = tuple((ends[0], ends[1], count) for ends, count in zip(network.link_ends.tolist(), counts, strict=True))
    first = network.member_link[network.member_ptr[:-1]]
    orders = np.split(tail[first], network.ring_ptr[1:-1])
    return FabricGraph(links, tuple(tuple(order.tolist()) for order in orders))


def time_built_again(
    findings: ViolationLog,
    problem: CoOptimisation,
    choice: FabricChoice,
    strategy: Strategy,
    graph: FabricGraph | None,
    seed: int,
    book: PriceBook | None,
) -> float | None:
    """The iteration time, ms; None, and a finding, where the fabric cannot be built of what is given.

    Args:
        findings: where to report.
        problem: the job.
        choice: the fabric.
        strategy: of the job on it.
        graph: its links and rings, where it has direct ones.
        seed: of the paths that are drawn.
        book: prices behind rates of equal cost.
    """
    parts = check_strategy(findings, problem.cluster, problem.workload, strategy)
    if parts is None:
        return None
    tasks = tasks_of(problem.workload, parts, recompute_traffic(problem.cluster, problem.workload, parts))
    asked = requested_fabric(choice, problem.baselines)
    network = _network(findings, problem, asked, graph, seed, book, tasks)
    if network is None:
        return None
    times = simulated(findings, choice.name, tasks, network, EventBudget.of(FULL))
    return None if times is None else times.total_ms


def _network(
    findings: ViolationLog,
    problem: CoOptimisation,
    asked: RequestedFabric,
    graph: FabricGraph | None,
    seed: int,
    book: PriceBook | None,
    tasks: IterationTasks,
) -> SimulatedNetwork | None:
    cluster = problem.cluster
    if asked.kind in LAWS:
        links = None if graph is None else links_of(graph, cluster.servers)
        if graph is None or links is None:
            findings.add("baseline", f"{asked.kind} has no table of links")
            return None
        issue = fabric_error(links, graph, asked, cluster)
        if issue:
            findings.add("baseline", f"{asked.kind}: {issue}")
        if not check_rings(findings, asked.kind, graph, cluster.servers) or issue:
            return None
        return wired_network(cluster, links, graph, seed)
    gbps = nic_gbps(asked, cluster, book)
    assert gbps is not None
    pairs, groups = _used(tasks)
    if asked.kind == "ideal-switch":
        return ideal_switch(cluster, gbps, pairs, groups)
    return fat_tree(asked, cluster, gbps, seed, pairs, groups)


def _used(tasks: IterationTasks) -> tuple[Iterable[tuple[int, int]], Iterable[tuple[int, ...]]]:
    """Pairs of transfers and groups of AllReduces, each once, in the order of the tasks."""
    pairs = {
        (lane, target): None
        for kind, lane, target in zip(tasks.kind, tasks.lane, tasks.target, strict=True)
        if kind == TRANSFER
    }
    return pairs, {members: None for members in tasks.members if members}
