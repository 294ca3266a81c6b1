"""Laws of the network of a fabric: links that exist, interfaces, a way for every pair, rings that close.

Sees the flat arrays that the simulators run on, whatever built them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from topoopt.core.arrays import Bools, Floats, Int32s, Ints
from topoopt.core.proofs import Tolerance
from topoopt.verify.laws.findings import Violation, ViolationLog, int_array

RELATIVE = Tolerance.ROUNDING.relative


class FlatNetwork(Protocol):
    """Directed links with rates (bytes/ms), paths of ordered pairs and rings of groups, as link numbers."""

    @property
    def servers(self) -> int: ...
    @property
    def link_ends(self) -> Int32s: ...
    @property
    def link_rate(self) -> Floats: ...
    @property
    def pair_ptr(self) -> Ints: ...
    @property
    def path_share(self) -> Floats: ...
    @property
    def path_ptr(self) -> Ints: ...
    @property
    def path_link(self) -> Int32s: ...
    @property
    def groups(self) -> tuple[tuple[int, ...], ...]: ...
    @property
    def group_ptr(self) -> Ints: ...
    @property
    def ring_share(self) -> Floats: ...
    @property
    def ring_ptr(self) -> Ints: ...
    @property
    def member_ptr(self) -> Ints: ...
    @property
    def member_link(self) -> Int32s: ...


def check_network(
    network: FlatNetwork,
    *,
    servers: int,
    groups: Sequence[tuple[int, ...]],
    server_bytes_per_ms: float,
    interface_bytes_per_ms: float | None = None,
    both_ways: bool = True,
) -> tuple[Violation, ...]:
    """What is wrong with a network.

    Args:
        network: its arrays.
        servers: n, nodes 0..n-1; others are switches.
        groups: member tuples that need rings.
        server_bytes_per_ms: rate that may leave, and that may enter, a server over all links.
        interface_bytes_per_ms: for direct links, the rate of one; every link is a whole number of them. None: switched.
        both_ways: every link has one back of the same rate.
    """
    findings = ViolationLog()

    def run() -> None:
        if network.servers != servers:
            findings.add("network-servers", f"the network has {network.servers!r} servers, the cluster {servers}")
            return
        ends = int_array(network.link_ends, 2)
        if ends is None or ends.shape != (len(network.link_rate), 2):
            findings.add("network-links", "link ends and rates do not fit together")
            return
        _check_links(findings, ends, network.link_rate, both_ways)
        _check_interfaces(findings, ends, network.link_rate, servers, server_bytes_per_ms, interface_bytes_per_ms)
        _check_paths(findings, network, ends)
        _check_rings(findings, network, ends, groups)

    findings.guard("network-shape", "the network", run)
    return findings.violations()


def _check_links(findings: ViolationLog, ends: Ints, rate: Floats, both_ways: bool) -> None:
    tail, head = ends[:, 0], ends[:, 1]
    findings.add_each(
        "network-loop", np.flatnonzero(tail == head), lambda k: f"link {k} joins node {tail[k]} to itself"
    )
    bad = np.flatnonzero(~(np.isfinite(rate) & (rate > 0)))
    findings.add_each("network-rate", bad, lambda k: f"link {tail[k]} -> {head[k]} has the rate {rate[k]}")
    forward = {(int(a), int(b)): float(r) for a, b, r in zip(tail, head, rate, strict=True)}
    if len(forward) < len(rate):
        findings.add("network-repeated", "some pair of nodes has more than one entry; parallel links are one link")
    if both_ways:
        for (a, b), r in forward.items():
            back = forward.get((b, a))
            if back is None or abs(back - r) > RELATIVE * r:
                findings.add("network-one-way", f"link {a} -> {b} has the rate {r}, the one back {back}")


def _check_interfaces(
    findings: ViolationLog, ends: Ints, rate: Floats, servers: int, whole: float, unit: float | None
) -> None:
    for verb, node in (("sends", ends[:, 0]), ("receives", ends[:, 1])):
        used = np.bincount(node, weights=rate, minlength=servers)[:servers]
        findings.add_each(
            "network-interfaces",
            np.flatnonzero(used > whole * (1 + RELATIVE)),
            lambda i, verb=verb, used=used: f"server {i} {verb} {used[i]} bytes/ms, its interfaces carry {whole}",  # type: ignore[misc]
        )
    if unit is not None:
        findings.add_each(
            "network-switch",
            np.flatnonzero((ends >= servers).any(axis=1)),
            lambda k: f"link {ends[k, 0]} -> {ends[k, 1]} has a switch at an end, direct links have none",
        )
        parts = rate / unit
        findings.add_each(
            "network-interfaces",
            np.flatnonzero((np.abs(parts - np.rint(parts)) > RELATIVE * parts) | (parts < 0.5)),
            lambda k: f"link {ends[k, 0]} -> {ends[k, 1]} has the rate of {parts[k]} interfaces",
        )


def _walks(ends: Ints, pointer: Ints, link: Int32s) -> tuple[Ints, Ints, Bools]:
    """First and last node of each run of links (-1 for an empty one), and whether it hangs together without a loop."""
    count = np.diff(pointer)
    if len(count) == 0:
        none = np.zeros(0, dtype=np.int64)
        return none, none, none.astype(bool)
    owner = np.repeat(np.arange(len(count)), count)
    tail, head = ends[link, 0], ends[link, 1]
    first, last = np.full(len(count), -1), np.full(len(count), -1)
    some = np.flatnonzero(count > 0)
    first[some], last[some] = tail[pointer[some]], head[pointer[some + 1] - 1]
    good = count > 0
    torn = (owner[1:] == owner[:-1]) & (head[:-1] != tail[1:])
    good[owner[1:][torn]] = False
    # A loop: the same node twice among the first node and the heads of a run.
    nodes, runs = np.concatenate((head, first[some])), np.concatenate((owner, some))
    order = np.lexsort((nodes, runs))
    again = (np.diff(nodes[order]) == 0) & (np.diff(runs[order]) == 0)
    good[runs[order][1:][again]] = False
    return first, last, good


def _check_paths(findings: ViolationLog, network: FlatNetwork, ends: Ints) -> None:
    n = network.servers
    paths = np.diff(network.pair_ptr)
    if len(paths) != n * n or network.pair_ptr[-1] != len(network.path_share):
        findings.add("network-paths", "paths and pairs do not fit together")
        return
    apart = ~np.eye(n, dtype=bool).ravel()
    missing = np.flatnonzero(apart & (paths == 0))
    findings.add_each("network-unreached", missing, lambda k: f"no path {k // n} -> {k % n}")
    pair = np.repeat(np.arange(n * n), paths)
    share = np.bincount(pair, weights=network.path_share, minlength=n * n)
    wrong = np.flatnonzero((paths > 0) & ~(np.abs(share - 1.0) <= RELATIVE))
    findings.add_each("network-share", wrong, lambda k: f"the paths {k // n} -> {k % n} carry {share.item(k)!r}, not 1")
    first, last, good = _walks(ends, network.path_ptr, network.path_link)
    bad = np.flatnonzero(~good | (first != pair // n) | (last != pair % n))
    findings.add_each(
        "network-path",
        bad,
        lambda p: f"path {p} of {pair[p] // n} -> {pair[p] % n} goes {first[p]} -> {last[p]}, or loops",
    )


def _check_rings(findings: ViolationLog, network: FlatNetwork, ends: Ints, groups: Sequence[tuple[int, ...]]) -> None:
    for members in set(groups) - set(network.groups):
        findings.add("network-no-ring", f"group {list(members)} has no ring")
    first, last, good = _walks(ends, network.member_ptr, network.member_link)
    for place, members in enumerate(network.groups):
        low, high = int(network.group_ptr[place]), int(network.group_ptr[place + 1])
        total = float(network.ring_share[low:high].sum())
        if not abs(total - 1.0) <= RELATIVE:
            findings.add("network-ring-share", f"the rings of group {list(members)} carry {total!r}, not 1")
        for ring in range(low, high):
            start, stop = int(network.ring_ptr[ring]), int(network.ring_ptr[ring + 1])
            order = first[start:stop]
            where = f"ring {ring - low} of group {list(members)}"
            if sorted(order.tolist()) != sorted(members):
                findings.add("network-ring-order", f"{where} visits {order.tolist()}, not every member once")
            elif not good[start:stop].all() or (last[start:stop] != np.roll(order, -1)).any():
                findings.add("network-ring-open", f"{where} does not close over links that hang together")
