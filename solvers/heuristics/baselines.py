"""The same job on other fabrics, each with a strategy searched for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from solvers.heuristics.fabric_strategy import fabric_job, search_strategy
from solvers.stop import Stop
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError
from topoopt.core.solution import Baseline
from topoopt.core.strategy import Strategy, strided_groups
from topoopt.core.workload import Workload
from topoopt.simulate.fabrics import FABRICS, FabricOptions, cost_equivalent_fat_tree_gbps


@dataclass(frozen=True)
class FabricSearch:
    """Settings of the comparison: proposals per fabric, seed, and the options of the fabrics."""

    proposals: int
    seed: int
    options: FabricOptions


def describe(name: str, cluster: Cluster, options: FabricOptions) -> str:
    """What the fabric is, in words, with its rates."""
    total = cluster.degree * cluster.link_gbps
    if name == "ideal-switch":
        return f"one non-blocking switch, {total:g} Gbit/s per server"
    if name == "fat-tree":
        rate = options.fat_tree_gbps
        why = ""
        if rate is None:
            rate = cost_equivalent_fat_tree_gbps(
                cluster.degree, cluster.link_gbps, options.oversubscription, options.book
            )
            price = "same price as" if rate < total else "full rate for less than"
            why = f", {price} the direct-connect network"
        return f"k-ary fat-tree with ECMP, one NIC of {rate:.4g} Gbit/s, {options.oversubscription:g}:1{why}"
    if name == "full-fat-tree":
        return f"k-ary fat-tree with ECMP, one NIC of {total:g} Gbit/s, full bisection"
    return f"random {cluster.degree}-regular graph of {cluster.link_gbps:g} Gbit/s links, one short ring per AllReduce"


def compare_fabrics(
    cluster: Cluster, workload: Workload, found: Sequence[Strategy], search: FabricSearch, stop: Stop
) -> tuple[Baseline, ...]:
    """Iteration time (`rounds`) of the job on every fabric of the table.

    On each fabric the given strategies and the starting ones are tried, and the best is annealed for
    `search.proposals` proposals; once `stop` says so, only the first one is tried. A fabric that cannot be built for
    the cluster is left out.
    """
    job = fabric_job(cluster, workload, found)
    groups = strided_groups(cluster.servers)
    baselines = []
    for index, (name, build) in enumerate(FABRICS.items()):
        try:
            network = build(cluster, groups, search.options)
        except InputError:  # this fabric does not exist for the cluster (no connected 1-regular graph of 3 servers)
            continue
        seed = search.seed * 1_000_003 + 500 + index
        _, time_ms = search_strategy(job, network, proposals=search.proposals, seed=seed, stop=stop)
        baselines.append(Baseline(name, time_ms, describe(name, cluster, search.options)))
    return tuple(baselines)
