"""Laws of repairs after a failure: nothing runs over what is dead, every byte still arrives, distances are right.

What is dead is worked out here from the plain fields of topology and failure.
"""

from __future__ import annotations

import math

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.failures import Failure, FailureOutcome, Rewiring
from topoopt.core.network import LengthCertificate, SourceFlow
from topoopt.core.proofs import Tolerance
from topoopt.core.routing import Demand, GroupRings, PathTable
from topoopt.core.topology import Topology
from topoopt.verify.job.rings import check_rings
from topoopt.verify.job.routes import check_routes
from topoopt.verify.laws.certificates import certified_theta_bound
from topoopt.verify.laws.findings import Violation, ViolationLog, differs
from topoopt.verify.laws.flows import check_flow
from topoopt.verify.laws.hops import diameter_and_mean, hop_counts

RELATIVE = Tolerance.ROUNDING.relative
"""Rounding forgiven in figures."""


def surviving_links(topology: Topology, failure: Failure) -> Ints:
    """int64[n, n]: links i -> j that neither a failed link nor a failed switch takes; servers are not looked at.

    Raises:
        ValueError: a failed link or switch does not exist.
    """
    n = topology.servers
    links = np.zeros((n, n), dtype=np.int64)
    for (tail, head), times in zip(topology.arcs.tolist(), topology.multiplicity.tolist(), strict=True):
        links[tail, head] += times
    for tail, head in failure.links:
        links[tail, head] -= 1
        if topology.links is LinkDirection.BIDIRECTIONAL:
            links[head, tail] -= 1
    for plane in failure.planes:
        if topology.packet_switches:
            gone = topology.servers - topology.packet_switches + plane
            links[gone, :] = links[:, gone] = 0
            continue
        for tail, head in enumerate(topology.switches[plane].tolist()):
            if head >= 0 and links[tail, head] > 0:  # a fibre of it may have failed as well
                links[tail, head] -= 1
    if (links < 0).any():
        raise ValueError("a failed link does not exist")
    return links


def check_distances(findings: ViolationLog, topology: Topology, outcome: FailureOutcome) -> None:
    """Disconnected pairs, diameter and mean hops over the servers that work."""
    links = surviving_links(topology, outcome.failure)
    works = np.ones(topology.servers, dtype=bool)
    works[list(outcome.failure.servers)] = False
    servers = int(works[: topology.servers - topology.packet_switches].sum())
    hops = hop_counts(links[np.ix_(works, works)] > 0)[:servers, :servers]
    lost = int((hops < 0).sum())
    diameter, mean = diameter_and_mean(hops)
    where = outcome.failure.label
    if outcome.disconnected_pairs != lost:
        stated = outcome.disconnected_pairs
        findings.add("failure-pairs", f"{where}: {stated} pairs are said to be disconnected, they are {lost}")
    if outcome.diameter != (None if lost else diameter):
        findings.add("failure-diameter", f"{where}: a diameter of {outcome.diameter} is stated, it is {diameter}")
    stated_mean = outcome.mean_hops
    if (stated_mean is None) != (lost > 0) or (stated_mean is not None and differs(stated_mean, mean)):
        findings.add("failure-hops", f"{where}: {stated_mean} mean hops are stated, they are {mean}")


def check_repair(
    topology: Topology,
    demand: Demand,
    outcome: FailureOutcome,
    routes: PathTable,
    rings: tuple[GroupRings, ...],
    link_bytes_per_ms: float,
) -> tuple[Violation, ...]:
    """All laws broken by the plan that runs after a failure; never raises.

    Paths and rings exist on what survives and pass through no failed server, shares sum to 1, all traffic has a way,
    and the time stated is not shorter than the busiest link takes for its bytes.
    """
    findings = ViolationLog()
    failure = outcome.failure

    def distances() -> None:
        check_distances(findings, topology, outcome)

    def traffic() -> None:
        links = surviving_links(topology, failure)
        hops = check_routes(findings, routes, links, demand.model_parallel_bytes)
        payload = {tuple(sorted(group.members)): math.ceil(group.payload_bytes) for group in demand.allreduce}
        followed = check_rings(findings, rings, links, payload)
        _check_relays(findings, failure, routes, rings)
        if hops is None:
            return
        n = topology.servers
        carried = np.zeros(n * n)
        hops.add_to(carried, demand.model_parallel_bytes.ravel(), shared=True)
        wire = {tuple(sorted(group.members)): group.wire_bytes_per_member for group in demand.allreduce}
        for ring in followed:
            slot = np.array(ring.tail, dtype=np.int64) * n + np.array(ring.head, dtype=np.int64)
            np.add.at(carried, slot, ring.share * wire.get(ring.members, 0.0))
        rate = links.ravel() * link_bytes_per_ms
        busy = float(np.divide(carried, rate, out=np.zeros(n * n), where=rate > 0).max())
        # Transfers are whole bytes: a few of them per path.
        if outcome.value is None or outcome.value < busy * (1 - 1e-6) - 1e-6:
            findings.add("failure-time", f"{failure.label}: {outcome.value} ms stated, a link is busy for {busy} ms")

    findings.guard("failure-shape", f"the failure {failure.label}", distances)
    findings.guard("failure-shape", f"the repair of {failure.label}", traffic)
    return findings.violations()


def _check_relays(findings: ViolationLog, failure: Failure, routes: PathTable, rings: tuple[GroupRings, ...]) -> None:
    gone = set(failure.servers)
    if not gone:
        return
    paths = [routes.path(index) for index in range(len(routes.share))]
    paths += [path for group in rings for ring in group.rings for path in ring.paths]
    for path in paths:
        through = gone.intersection(path[1:-1])
        if through:
            findings.add("failure-relay", f"path {list(path)} passes through the failed server {min(through)}")


def check_rerouted(
    topology: Topology,
    demand: Floats,
    outcome: FailureOutcome,
    arcs: Topology,
    flow: SourceFlow,
    certificate: LengthCertificate,
) -> tuple[Violation, ...]:
    """All laws broken by a routing after a failure; never raises.

    Args:
        topology: before the failure.
        demand: float64[n, n], before the failure.
        outcome: what is stated.
        arcs: the arcs `flow` and `certificate` are of.
    """
    findings = ViolationLog()
    failure = outcome.failure

    def look() -> None:
        check_distances(findings, topology, outcome)
        links = surviving_links(topology, failure)
        links[list(failure.servers), :] = 0
        links[:, list(failure.servers)] = 0
        given = np.zeros_like(links)
        given[arcs.arcs[:, 0], arcs.arcs[:, 1]] = arcs.multiplicity
        if (given != links).any():
            findings.add("failure-links", f"{failure.label}: not the links that survive")
            return
        wanted = demand.copy()
        wanted[list(failure.servers), :] = 0
        wanted[:, list(failure.servers)] = 0
        found = check_flow(arcs, wanted, flow)
        for message in found.violations:
            findings.add("failure-flow", f"{failure.label}: {message}")
        if outcome.value is None or differs(outcome.value, found.theta, RELATIVE):
            findings.add("failure-theta", f"{failure.label}: theta {outcome.value} stated, the flow has {found.theta}")
        try:
            proven = certified_theta_bound(arcs, wanted, certificate.lengths)
        except (InputError, InfeasibleError) as error:
            findings.add("failure-bound", f"{failure.label}: the certificate proves nothing: {error}")
            return
        if outcome.bound is not None and outcome.bound > proven * (1 + RELATIVE):
            findings.add("failure-bound", f"{failure.label}: a bound of {outcome.bound} is stated, {proven} is proven")

    findings.guard("failure-shape", f"the failure {failure.label}", look)
    return findings.violations()


def check_rewiring(topology: Topology, rewiring: Rewiring, after: Topology) -> tuple[Violation, ...]:
    """All laws broken by links that stand after re-wiring; never raises.

    They are those before the failure without the failed and the given-up ones, and with the ones set; no more are given
    up than allowed, and no failed link is set again.
    """
    findings = ViolationLog()

    def look() -> None:
        expected = surviving_links(topology, rewiring.failure)
        both = topology.links is LinkDirection.BIDIRECTIONAL
        for links, change in ((rewiring.removed, -1), (rewiring.added, 1)):
            for tail, head in links:
                expected[tail, head] += change
                if both:
                    expected[head, tail] += change
        given = np.zeros_like(expected)
        given[after.arcs[:, 0], after.arcs[:, 1]] = after.multiplicity
        if (expected != given).any() or (expected < 0).any():
            findings.add("rewiring-links", "the links that stand are not those stated")
        if len(rewiring.removed) > rewiring.allowed:
            text = f"{len(rewiring.removed)} circuits are given up, {rewiring.allowed} are allowed"
            findings.add("rewiring-circuits", text)
        for link in set(rewiring.added) & set(rewiring.failure.links):
            findings.add("rewiring-failed", f"the failed link {link[0]}-{link[1]} is set again")

    findings.guard("rewiring-shape", "the re-wiring", look)
    return findings.violations()
