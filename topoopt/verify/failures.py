"""Constraints of repairs after a failure: nothing runs over what is dead, every byte still arrives, distances are
right.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.network import LengthCertificate, SourceFlow
from topoopt.core.outcomes import Failure, FailureOutcome, Rewiring
from topoopt.core.proofs import Tolerance
from topoopt.core.topology import Topology
from topoopt.core.workload import Demand, GroupRings, PathTable
from topoopt.verify.checker import Violation, ViolationLog, differs
from topoopt.verify.laws.networks import diameter_and_mean, hop_counts
from topoopt.verify.laws.routing import certified_theta_bound, check_flow, check_rings, check_routes

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
        reported = outcome.disconnected_pairs
        findings.add("failure-pairs", f"{where}: {reported} pairs are said to be disconnected, they are {lost}")
    if outcome.diameter != (None if lost else diameter):
        findings.add("failure-diameter", f"{where}: a diameter of {outcome.diameter} is stated, it is {diameter}")
    reported_mean = outcome.mean_hops
    if (reported_mean is None) != (lost > 0) or (reported_mean is not None and differs(reported_mean, mean)):
        findings.add("failure-hops", f"{where}: {reported_mean} mean hops are stated, they are {mean}")


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
        for members, share, ring_hops in followed:
            slot = [tail * n + head for tail, head in ring_hops]
            np.add.at(carried, np.array(slot, dtype=np.int64), share * wire.get(members, 0.0))
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
        routed = check_flow(arcs, wanted, flow)
        for message in routed.violations:
            findings.add("failure-flow", f"{failure.label}: {message}")
        if outcome.value is None or differs(outcome.value, routed.theta, RELATIVE):
            findings.add("failure-theta", f"{failure.label}: theta {outcome.value} stated, the flow has {routed.theta}")
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


Path = tuple[int, ...]


def check_training_repair(
    topology: Topology,
    outcome: FailureOutcome,
    routes: Mapping[tuple[int, int], Sequence[tuple[Path, float]]],
    rings: Iterable[tuple[Path, Path]],
    *,
    spine: bool = False,
) -> tuple[Violation, ...]:
    """All laws broken by what runs after a failure.

    Args:
        routes: of all pairs that send, with the share of each.
        rings: of every ring its order before and after.
        spine: all packet switches that work are joined to each other.
    """
    findings, failure = ViolationLog(), outcome.failure
    check_distances(findings, topology, outcome)
    links = surviving_links(topology, failure)  # a failed server keeps its links for what it sends and receives itself
    hosts = topology.servers - topology.packet_switches
    working = set(range(hosts, topology.servers)) - {hosts + plane for plane in failure.planes}
    for (source, target), shares in routes.items():
        if abs(sum(share for _, share in shares) - 1.0) > 1e-6:
            findings.add("failure-routes", f"{failure.label}: shares from {source} to {target} do not sum to 1")
        for path, _ in shares:
            if (path[0], path[-1]) != (source, target):
                findings.add("failure-routes", f"{failure.label}: {path} does not lead from {source} to {target}")
            if any(links[step] == 0 and not (spine and working.issuperset(step)) for step in pairwise(path)):
                findings.add("failure-routes", f"{failure.label}: {path} uses a dead link")
            if set(path[1:-1]) & set(failure.servers):
                findings.add("failure-routes", f"{failure.label}: {path} passes through a failed server")
    for before, now in rings:
        if sorted(before) != sorted(now):
            findings.add("failure-rings", f"{failure.label}: ring {now} is not of the servers {sorted(before)}")
        missing = [step for step in pairwise((*now, now[0])) if step not in routes]
        if missing:
            findings.add("failure-rings", f"{failure.label}: nothing leads from {missing[0][0]} to {missing[0][1]}")
    return findings.violations()


def copies_up(down: Bools, copies: int, servers_each: int, *, circuits: bool) -> list[int]:
    """Of each day.

    Args:
        down: bool[days, servers]; those of the copies come first, spare ones last.
        copies: of the plan.
        servers_each: of a copy.
        circuits: any servers make a copy; else each copy needs its own.
    """
    counts = []
    for day in down.tolist():
        if circuits:
            up = sum(not is_down for is_down in day)
            counts.append(min(copies, up // servers_each))
            continue
        whole = 0
        for copy in range(copies):
            whole += not any(day[copy * servers_each : (copy + 1) * servers_each])
        counts.append(whole)
    return counts


def servers_exchanged(down: Bools, up: list[int], servers_each: int) -> int:
    """Servers that copies get in place of others, the first day left out; those in use stay while they are up.

    Args:
        down: bool[days, servers].
        up: copies, by day.
        servers_each: of a copy.
    """
    total = 0
    used: set[int] = set()
    for day, (row, copies) in enumerate(zip(down.tolist(), up, strict=True)):
        working = [server for server, is_down in enumerate(row) if not is_down]
        kept = [server for server in working if server in used][: copies * servers_each]
        others = [server for server in working if server not in used]
        added = others[: copies * servers_each - len(kept)]
        total += len(added) if day else 0
        used = {*kept, *added}
    return total
