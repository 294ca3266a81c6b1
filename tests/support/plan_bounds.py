"""Bounds on the iteration time of a strategy from the strategy itself."""

from __future__ import annotations

from topoopt.core.cluster import Cluster
from topoopt.core.proofs import Bound
from topoopt.core.topology import Topology
from topoopt.core.workload import Strategy, Workload
from topoopt.verify.checker import ViolationLog
from topoopt.verify.job.bounds import bounds_of, instance_bounds
from topoopt.verify.job.plan import check_strategy, recompute_traffic
from topoopt.verify.laws.networks import check_topology, hop_counts


def plan_bounds(
    cluster: Cluster, workload: Workload, strategy: Strategy, topology: Topology | None = None
) -> tuple[Bound, ...]:
    """Lower bounds for this strategy, on every topology or on the one given.

    Raises:
        ValueError: the strategy is not legal for the workload, or the topology is not a connected one of this cluster.
    """
    findings = ViolationLog()
    parts = check_strategy(findings, cluster, workload, strategy)
    if parts is None:
        raise ValueError("; ".join(str(violation) for violation in findings.violations()))
    links = None
    if topology is not None:
        findings = ViolationLog()
        links = check_topology(findings, cluster, topology)
        if cluster.servers > 1 and (hop_counts(links > 0) < 0).any():
            raise ValueError("; ".join(str(violation) for violation in findings.violations()))
    return bounds_of(cluster, workload, parts, recompute_traffic(cluster, workload, parts), links)


def best_bound(cluster: Cluster, workload: Workload) -> Bound:
    """The largest bound that holds for every strategy."""
    return max(instance_bounds(cluster, workload), key=lambda bound: bound.value)
