"""Laws of the topology of a solution: what the problem says its links must satisfy. Rests on core and verify only."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.topology import Topology
from topoopt.verify.laws.findings import ViolationLog
from topoopt.verify.laws.hops import hop_counts
from topoopt.verify.laws.topology import check_topology, same_topology

Counts = Ints


def check_links(findings: ViolationLog, problem: RoutingProblem | TopologyProblem, topology: Topology) -> None:
    """Report what is wrong; of a routing, all that is not as in the instance."""
    if isinstance(problem, RoutingProblem):
        same_topology(findings, topology, problem.topology)
    else:
        _check_chosen(findings, problem, topology)


def _check_chosen(findings: ViolationLog, problem: TopologyProblem, topology: Topology) -> None:
    """Degrees, fibre pairs, switches, and the constraints of the instance."""
    # Rates play no part here; the laws of links are those of a cluster.
    cluster = Cluster(problem.servers, 1, problem.degree, 1.0, links=problem.links)
    own = ViolationLog()
    links = check_topology(own, cluster, topology)
    for violation in own.violations():
        # Servers without demand between them need not be connected: the flow shows what must be.
        if violation.code != "not-connected":
            findings.add(violation.code, violation.message)
    for tail, head in problem.forbidden:
        if links[tail, head]:
            findings.add("forbidden", f"{links[tail, head]} links {tail} -> {head}, which is forbidden")
    if not problem.parallel_links:
        findings.add_each(
            "parallel",
            np.flatnonzero(links > 1),
            lambda k: f"{links.flat[k]} parallel links {k // len(links)} -> {k % len(links)}, at most one allowed",
        )
    if problem.max_changed is not None:
        kept = np.zeros_like(links)
        for tail, head in problem.kept:
            kept[tail, head] += 1
        if problem.links is LinkDirection.BIDIRECTIONAL:  # listed one way or both ways
            kept = np.maximum(kept, kept.T)
        lost = int(np.maximum(kept - links, 0).sum())
        if problem.links is LinkDirection.BIDIRECTIONAL:
            lost //= 2
        if lost > problem.max_changed:
            findings.add("changed", f"{lost} links of the network as it stands given up, at most {problem.max_changed}")
    if problem.max_hops is not None:
        hops = hop_counts(links > 0)
        far = (hops < 0) | (hops > problem.max_hops)
        findings.add_each(
            "max-hops",
            np.flatnonzero(far),
            lambda k: f"server {k % len(links)} is {hops.flat[k]} hops from server {k // len(links)} (-1: no way)",
        )
