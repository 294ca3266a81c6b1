"""Laws of a direct-connect topology: interfaces, fibre pairs, connectedness, switch settings, offsets."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.topology import Topology
from topoopt.verify.laws.findings import ViolationLog, as_int, int_array, plain
from topoopt.verify.laws.hops import hop_counts


def check_topology(findings: ViolationLog, cluster: Cluster, topology: Topology) -> Ints:
    """Report what is wrong; int64[n, n] parallel links i -> j, of the arcs that make sense."""
    n = cluster.servers
    for name, value, expected in (
        ("servers", as_int(topology.servers), n),
        ("degree", as_int(topology.degree), cluster.degree),
        ("links", topology.links, cluster.links),
    ):
        if value != expected:
            text = f"the topology has {name} {plain(value)!r}, the cluster {plain(expected)!r}"
            findings.add("topology-cluster", text)
    links = np.zeros((n, n), dtype=np.int64)
    findings.guard("arc-shape", "the arcs", lambda: _check_arcs(findings, topology, cluster.degree, links))
    _check_interfaces(findings, cluster, links)
    findings.guard("switch-shape", "the switches", lambda: _check_switches(findings, cluster, topology, links))
    findings.guard("offsets", "the ring offsets", lambda: _check_offsets(findings, topology, links))
    return links


def _check_arcs(findings: ViolationLog, topology: Topology, degree: int, links: Ints) -> None:
    """Report bad arcs; the good ones are added to `links`."""
    n = len(links)
    arcs, multiplicity = int_array(topology.arcs, 2), int_array(topology.multiplicity, 1)
    if arcs is None or multiplicity is None or arcs.shape != (len(multiplicity), 2):
        findings.add("arc-shape", "arcs must be integers [m, 2] and multiplicities integers [m]")
        return
    tail, head = arcs[:, 0], arcs[:, 1]
    inside = ((arcs >= 0) & (arcs < n)).all(axis=1)
    loop = tail == head
    findings.add_each(
        "arc-range", np.flatnonzero(~inside), lambda m: f"arc {m} {tail[m]} -> {head[m]} leaves servers 0..{n - 1}"
    )
    findings.add_each("arc-loop", np.flatnonzero(inside & loop), lambda m: f"arc {m} links server {tail[m]} to itself")
    findings.add_each(
        "arc-multiplicity",
        np.flatnonzero(multiplicity < 1),
        lambda m: f"arc {tail[m]} -> {head[m]} has {multiplicity[m]} links, at least 1 expected",
    )
    good = np.flatnonzero(inside & ~loop)
    key = tail[good] * n + head[good]
    ordered = np.argsort(key, kind="stable")
    again = good[ordered[1:][np.diff(key[ordered]) == 0]]
    findings.add_each("arc-repeated", again, lambda m: f"arc {tail[m]} -> {head[m]} is listed more than once")
    behind = good[1:][np.diff(key) < 0]
    findings.add_each("arc-order", behind, lambda m: f"arc {m} {tail[m]} -> {head[m]} is out of order")
    good = good[multiplicity[good] >= 1]
    # More links than interfaces are too many, however many: cut off, so that no sum can overflow.
    np.add.at(links, (tail[good], head[good]), np.minimum(multiplicity[good], degree + 1))


def _check_interfaces(findings: ViolationLog, cluster: Cluster, links: Ints) -> None:
    _check_degree(findings, "degree-out", "sends on", links.sum(axis=1), cluster.degree)
    _check_degree(findings, "degree-in", "receives on", links.sum(axis=0), cluster.degree)
    if cluster.links is LinkDirection.BIDIRECTIONAL:
        n = len(links)
        findings.add_each(
            "link-one-way",
            np.flatnonzero(np.triu(links != links.T)),
            lambda k: (
                f"{links[k // n, k % n]} links {k // n} -> {k % n} but {links[k % n, k // n]} links back, "
                "a bidirectional link is a pair"
            ),
        )
    unreachable = np.argwhere(hop_counts(links > 0) < 0)
    if len(unreachable):
        source, target = unreachable[0]
        findings.add(
            "not-connected", f"no way from server {source} to server {target} ({len(unreachable)} such ordered pairs)"
        )


def _check_degree(findings: ViolationLog, code: str, verb: str, count: Ints, degree: int) -> None:
    findings.add_each(
        code,
        np.flatnonzero(count > degree),
        lambda i: f"server {i} {verb} {count[i]} links and has {degree} interfaces",
    )


def _check_switches(findings: ViolationLog, cluster: Cluster, topology: Topology, links: Ints) -> None:
    n, degree = cluster.servers, cluster.degree
    switches = int_array(topology.switches, 2)
    if switches is None or switches.shape != (degree, n):
        findings.add("switch-shape", f"switches must be integers [{degree}, {n}], one row per optical switch")
        return
    inside = (switches >= -1) & (switches < n)
    findings.add_each(
        "switch-range",
        np.flatnonzero(~inside),
        lambda k: f"switch {k // n} sends server {k % n} to {switches[k // n, k % n]}, outside 0..{n - 1}",
    )
    lit = inside & (switches >= 0)
    patched = np.zeros_like(links)
    for row in range(degree):
        sender = np.flatnonzero(lit[row])
        receiver = switches[row, sender]
        np.add.at(patched, (sender, receiver), 1)
        for server in np.flatnonzero(np.bincount(receiver, minlength=n) > 1):
            findings.add("switch-conflict", f"switch {row} gives server {server} to several senders")
    findings.add_each(
        "switch-links",
        np.flatnonzero(patched != links),
        lambda k: (
            f"the switches patch {patched[k // n, k % n]} links {k // n} -> {k % n}, "
            f"the topology has {links[k // n, k % n]}"
        ),
    )


def _check_offsets(findings: ViolationLog, topology: Topology, links: Ints) -> None:
    """Of a circulant its distances, ascending, or nothing; of any other topology nothing."""
    if not topology.offsets:
        return
    n = len(links)
    server = np.arange(n)
    due: list[int] = []
    for distance in range(1, n):
        count = links[server, (server + distance) % n]
        if count.any():
            if count.min() != count.max():
                due = []
                break
            due.append(distance)
    if list(topology.offsets) != due or any(as_int(offset) is None for offset in topology.offsets):
        findings.add("offsets", f"the offsets are {topology.offsets!r}, the links have {tuple(due)!r}")


def same_topology(findings: ViolationLog, stated: Topology, given: Topology) -> None:
    """The topology of a solution is that of its instance, in every field."""
    fields = ("servers", "degree", "links", "origin", "offsets")
    findings.hold("topology", *((name, getattr(stated, name), getattr(given, name)) for name in fields))
    for name in ("arcs", "multiplicity", "switches"):
        if not np.array_equal(getattr(stated, name), getattr(given, name)):
            findings.add("topology", f"the solution has other {name} than the instance")
    both = stated.rates, given.rates
    if (both[0] is None) != (both[1] is None) or not np.array_equal(stated.capacity, given.capacity):
        findings.add("topology", "the solution has other rates than the instance")
