"""Laws of the repair of a language model in training: it uses what survives, and leaves no group and no pair out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from topoopt.core.failures import FailureOutcome
from topoopt.core.topology import Topology
from topoopt.verify.failures.laws import check_distances, surviving_links
from topoopt.verify.laws.findings import Violation, ViolationLog

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
    for (source, target), ways in routes.items():
        if abs(sum(share for _, share in ways) - 1.0) > 1e-6:
            findings.add("failure-routes", f"{failure.label}: shares from {source} to {target} do not sum to 1")
        for path, _ in ways:
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
