"""Constraints of networks: interfaces, links and hops of topologies and of named fabrics, and what their parts cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np

from topoopt.core.arrays import Bools, Floats, Int32s, Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.job import BaselineSettings, FabricChoice, FabricGraph
from topoopt.core.price_book import FIBRE, NIC, ONE_BY_TWO_SWITCH, PATCH_PANEL_PORT, SWITCH_PORT, TRANSCEIVER, PriceBook
from topoopt.core.process import end_if_left
from topoopt.core.proofs import Tolerance
from topoopt.core.topology import Topology
from topoopt.verify.checker import Violation, ViolationLog, as_int, int_array, plain

_SOURCES = 512
"""Servers searched from at once: enough that rings of thousands take few steps, few enough for the cache."""


def hop_counts(linked: Bools) -> Ints:
    """int64[n, n]: fewest arcs from i to j, 0 on the diagonal, -1 where there is no way.

    Args:
        linked: bool[n, n], whether there is an arc i -> j.
    """
    n = len(linked)
    hops = np.full((n, n), -1, dtype=np.int64)
    tail, head = np.nonzero(linked)
    first = np.searchsorted(tail, np.arange(n + 1))
    for begin in range(0, n, _SOURCES):
        _search(hops[begin : begin + _SOURCES].reshape(-1), begin, n, first, head)
    return hops


def _search(hops: Ints, begin: int, n: int, first: Ints, head: Ints) -> None:
    """Fill in the rows of some sources: a pair stands at (source - begin) * n + server; every arc is looked at once."""
    frontier = np.arange(len(hops) // n) * (n + 1) + begin
    hops[frontier] = 0
    last = np.empty(len(hops), dtype=np.int64)
    distance = 0
    while len(frontier):
        end_if_left()
        distance += 1
        server = frontier % n
        degree = first[server + 1] - first[server]
        ends = np.cumsum(degree)
        arcs = np.arange(ends[-1]) + np.repeat(first[server] - (ends - degree), degree)
        there = np.repeat(frontier - server, degree) + head[arcs]
        there = there[hops[there] < 0]
        hops[there] = distance
        places = np.arange(len(there))
        last[there] = places
        frontier = there[last[there] == places]  # each pair once


def diameter_and_mean(hops: Ints) -> tuple[int, float]:
    """Largest and mean hop count over ordered pairs of different servers; (-1, inf) if some pair is not connected."""
    n = len(hops)
    if n < 2:
        return 0, 0.0
    if (hops < 0).any():
        return -1, float("inf")
    return int(hops.max()), float(hops.sum()) / (n * (n - 1))


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
    _check_server_interfaces(findings, cluster, links)
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


def _check_server_interfaces(findings: ViolationLog, cluster: Cluster, links: Ints) -> None:
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
    if not topology.offsets:
        return
    n = len(links)
    server = np.arange(n)
    expected: list[int] = []
    for distance in range(1, n):
        count = links[server, (server + distance) % n]
        if count.any():
            if count.min() != count.max():
                expected = []
                break
            expected.append(distance)
    if list(topology.offsets) != expected or any(as_int(offset) is None for offset in topology.offsets):
        findings.add("offsets", f"the offsets are {topology.offsets!r}, the links have {tuple(expected)!r}")


RELATIVE = Tolerance.ROUNDING.relative


FlatNetwork = Any
"""Directed links with rates (bytes/ms), paths of ordered pairs and rings of groups, as link numbers: the arrays of
`topoopt.simulate.network.Network`, which is not imported here."""


def check_network(
    network: FlatNetwork,
    *,
    servers: int,
    groups: Sequence[tuple[int, ...]],
    server_bytes_per_ms: float,
    interface_bytes_per_ms: float | None = None,
    symmetric: bool = True,
) -> tuple[Violation, ...]:
    """What is wrong with a network.

    Args:
        network: its arrays.
        servers: n, nodes 0..n-1; others are switches.
        groups: member tuples that need rings.
        server_bytes_per_ms: rate that may leave, and that may enter, a server over all links.
        interface_bytes_per_ms: for direct links, the rate of one; every link is a whole number of them. None: switched.
        symmetric: every link has one back of the same rate.
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
        _check_links(findings, ends, network.link_rate, symmetric)
        _check_fabric_interfaces(
            findings, ends, network.link_rate, servers, server_bytes_per_ms, interface_bytes_per_ms
        )
        _check_paths(findings, network, ends)
        _check_rings(findings, network, ends, groups)

    findings.guard("network-shape", "the network", run)
    return findings.violations()


def _check_links(findings: ViolationLog, ends: Ints, rate: Floats, symmetric: bool) -> None:
    tail, head = ends[:, 0], ends[:, 1]
    findings.add_each(
        "network-loop", np.flatnonzero(tail == head), lambda k: f"link {k} joins node {tail[k]} to itself"
    )
    bad = np.flatnonzero(~(np.isfinite(rate) & (rate > 0)))
    findings.add_each("network-rate", bad, lambda k: f"link {tail[k]} -> {head[k]} has the rate {rate[k]}")
    forward = {(int(a), int(b)): float(r) for a, b, r in zip(tail, head, rate, strict=True)}
    if len(forward) < len(rate):
        findings.add("network-repeated", "some pair of nodes has more than one entry; parallel links are one link")
    if symmetric:
        for (a, b), r in forward.items():
            back = forward.get((b, a))
            if back is None or abs(back - r) > RELATIVE * r:
                findings.add("network-one-way", f"link {a} -> {b} has the rate {r}, the one back {back}")


def _check_fabric_interfaces(
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
    for index, members in enumerate(network.groups):
        low, high = int(network.group_ptr[index]), int(network.group_ptr[index + 1])
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


RACK, AGGREGATION = "rack", "aggregation"
HASHED, SPREAD, SPRAYED = "hashed", "spread", "sprayed"


@dataclass(frozen=True)
class RequestedFabric:
    """A fabric and its settings.

    Attributes:
        kind: which fabric.
        nic_gbps: rate of the one NIC of a server; None: the fabric's own.
        ratio: downlink over uplink bandwidth of the switches of `layer`; 1: full bisection.
        layer: `rack` or `aggregation`.
        shape: sides of a torus; None: the most even ones.
        ecmp: paths of a pair in a fat-tree: `HASHED`, `SPREAD` or `SPRAYED`.
        radix: ports of a switch of a fat-tree; None: the least even number that holds the servers.
    """

    kind: str
    nic_gbps: float | None
    ratio: float
    layer: str
    shape: tuple[int, ...] | None
    ecmp: str = HASHED
    radix: int | None = None


def requested_fabric(choice: FabricChoice, settings: BaselineSettings) -> RequestedFabric:
    """The plain fat-tree takes what the choice leaves open from the settings; the oversubscribed one is 2:1."""
    nic, ratio = choice.nic_gbps, choice.oversubscription
    if choice.fabric == "fat-tree":
        nic = settings.fat_tree_gbps if nic is None else nic
        ratio = settings.fat_tree_oversubscription if ratio is None else ratio
    elif choice.fabric == "oversubscribed-fat-tree":
        ratio = 2.0 if ratio is None else ratio
    full = 1.0 if ratio is None else ratio
    layer, ecmp = choice.layer or RACK, choice.ecmp or HASHED
    return RequestedFabric(choice.fabric, nic, full, layer, choice.shape, ecmp, choice.radix)


Law = Callable[[Ints, FabricGraph, RequestedFabric, Cluster], str]
"""What is wrong with the links int64[n, n] of a fabric; empty: nothing."""


def links_of(graph: FabricGraph, servers: int) -> Ints | None:
    """int64[n, n], links from each server to each other; None if they are no table of links."""
    rows = np.array(graph.links, dtype=np.int64).reshape(-1, 3)
    ends = rows[:, :2]
    if not len(rows) or (ends < 0).any() or (ends >= servers).any() or (rows[:, 2] < 1).any():
        return None
    links = np.zeros((servers, servers), dtype=np.int64)
    np.add.at(links, (rows[:, 0], rows[:, 1]), rows[:, 2])
    return links if (links > 0).sum() == len(rows) and not links.diagonal().any() else None


def fabric_error(links: Ints, graph: FabricGraph, requested: RequestedFabric, cluster: Cluster) -> str:
    """Why these are not the links of a fabric of the cluster; empty if they are."""
    directed = requested.kind == "generalized-kautz"
    return unlawful(links, cluster, directed=directed) or LAWS[requested.kind](links, graph, requested, cluster)


def unlawful(links: Ints, cluster: Cluster, *, directed: bool = False) -> str:
    if max(links.sum(axis=0).max(), links.sum(axis=1).max()) > cluster.degree:
        return f"more than {cluster.degree} links at a server"
    if not directed and not np.array_equal(links, links.T):
        return "links that lead one way only"
    return "servers that cannot reach each other" if (hop_counts(links > 0) < 0).any() else ""


def dark_interfaces(links: Ints, cluster: Cluster) -> str:
    """All interfaces are used; one is dark if their number is odd."""
    n, d = cluster.servers, cluster.degree
    return "dark interfaces" if n * d - links.sum() != n * d % 2 else ""


def _same(links: Ints, expected: Ints | None) -> str:
    return "" if expected is not None and np.array_equal(links, expected) else "other links than the fabric has"


def _random_regular(links: Ints, graph: FabricGraph, requested: RequestedFabric, cluster: Cluster) -> str:
    """All interfaces are used, parallel links only where every pair has them."""
    n, d = cluster.servers, cluster.degree
    apart = links[~np.eye(n, dtype=bool)]
    parallel = "" if set(apart.tolist()) <= {d // (n - 1), d // (n - 1) + 1} else "parallel links"
    return dark_interfaces(links, cluster) or parallel


def _expander(links: Ints, graph: FabricGraph, requested: RequestedFabric, cluster: Cluster) -> str:
    """The rings of all servers are half the interfaces' cycles both ways; an odd interface joins pairs."""
    n, d = cluster.servers, cluster.degree
    # A cycle is gone round both ways, so each of its links is crossed by two rings; that of two servers by one alone.
    directions = 2 if n > 2 else 1
    rest = 2 * links
    for ring in graph.rings:
        if len(ring) == n:
            for a, b in pairwise((*ring, ring[0])):
                rest[a, b] -= 2 // directions
                rest[b, a] -= 2 // directions
    rings = sum(len(ring) == n for ring in graph.rings)
    expected = d // 2 * directions
    matching = np.array_equal(np.sort(rest.sum(axis=1))[n % 2 :], np.full(n - n % 2, 2 * (d % 2)))
    good = rings == max(expected, 1) and (d < 2 or ((rest >= 0).all() and matching))
    return "" if good else "links that are not the rings of all servers and pairs"


def _torus(links: Ints, graph: FabricGraph, requested: RequestedFabric, cluster: Cluster) -> str:
    n, axes = cluster.servers, 2 if requested.kind.endswith("2d") else 3
    twisted = requested.kind.startswith("twisted")
    shapes = [requested.shape] if requested.shape is not None else list(_shapes(n, axes, 2))
    fitting = [shape for shape in shapes if prod(shape) == n and (not twisted or min(shape) < max(shape))]
    if not fitting or cluster.degree < 2 * axes:
        return "no such torus"
    shape = min(fitting, key=lambda sides: (sum(sides), sides))
    copies, spare = divmod(cluster.degree // 2, axes)
    longest_first = sorted(range(axes), key=lambda axis: (-shape[axis], axis))
    expected = np.zeros((n, n), dtype=np.int64)
    for axis, steps in enumerate(torus_steps(shape, twisted=twisted)):
        count = copies + (longest_first.index(axis) < spare)
        for here, there in steps:
            expected[here, there] += count
            expected[there, here] += count
    return _same(links, expected)


def torus_steps(sides: Sequence[int], *, twisted: bool) -> list[list[tuple[int, int]]]:
    """Return of each axis the step up from every server; servers count fastest along the last axis.

    Twisted: round a shortest axis a step also goes half the way along all longest ones (Camara et al., IEEE TPDS 2010).
    """
    steps: list[list[tuple[int, int]]] = [[] for _ in sides]
    for server, position in enumerate(product(*map(range, sides))):
        for axis, side in enumerate(sides):
            after = list(position)
            after[axis] = (after[axis] + 1) % side
            if twisted and side == min(sides) and position[axis] == side - 1:
                for other, length in enumerate(sides):
                    if length == max(sides):
                        after[other] = (after[other] + length // 2) % length
            steps[axis].append((server, int(np.ravel_multi_index(tuple(after), tuple(sides)))))
    return steps


def _shapes(servers: int, axes: int, least: int) -> Iterator[tuple[int, ...]]:
    if axes == 1:
        yield from [(servers,)] if servers >= least else []
        return
    for side in range(least, int(servers ** (1 / axes) + 1e-9) + 1):
        if servers % side == 0:
            yield from ((side, *rest) for rest in _shapes(servers // side, axes - 1, side))


def _hypercube(links: Ints, graph: FabricGraph, requested: RequestedFabric, cluster: Cluster) -> str:
    """Servers whose numbers differ in one bit; interfaces that are left over are parallel links, low bits first."""
    n, d = cluster.servers, cluster.degree
    bits = n.bit_length() - 1
    if n != 1 << bits or d < bits:
        return "no such hypercube"
    expected = np.zeros((n, n), dtype=np.int64)
    for here in range(n):
        for bit in range(bits):
            expected[here, here ^ 1 << bit] = d // bits + (bit < d % bits)
    return _same(links, expected)


def _kautz(links: Ints, graph: FabricGraph, requested: RequestedFabric, cluster: Cluster) -> str:
    """Arcs i -> -(d i + a) mod n, a = 1..d (Imase and Itoh 1981); those to itself lead round a ring of such servers.

    Is there but one of these, it is exchanged with the first arc that has neither end there.
    """
    n = cluster.servers
    if cluster.links is not LinkDirection.UNIDIRECTIONAL:
        return "one-way links, where interfaces are patched in pairs"
    everywhere, d = divmod(cluster.degree, n - 1)
    arcs = [[i, -(d * i + a) % n] for i in range(n) for a in range(1, d + 1)]
    own = [arc for arc in arcs if arc[0] == arc[1]]
    heads = [arc[0] for arc in own]
    for arc, head in zip(own, heads[1:] + heads[:1], strict=True):
        arc[1] = head
    if len(own) == 1:
        other = next(arc for arc in arcs if own[0][0] not in arc)
        own[0][1], other[1] = other[1], own[0][1]
    expected = np.full((n, n), everywhere, dtype=np.int64)
    np.fill_diagonal(expected, 0)
    for tail, head in arcs:
        expected[tail, head] += 1
    return _same(links, expected)


LAWS: dict[str, Law] = {
    "random-regular": _random_regular,
    "expander": _expander,
    "torus-2d": _torus,
    "torus-3d": _torus,
    "twisted-torus-2d": _torus,
    "twisted-torus-3d": _torus,
    "hypercube": _hypercube,
    "generalized-kautz": _kautz,
}
"""Laws by fabric; a fabric that is not here is not built again."""


Counts = Mapping[str, float]
"""Pieces by part."""


def price_at(counts: Counts, book: PriceBook, gbps: float) -> float:
    """USD of all parts at a rate; above the fastest listed one it is a multiple of that, below the slowest that."""
    fastest = book.rates_gbps[-1]
    usd = sum(count * _unit_usd(part, book, min(gbps, fastest)) for part, count in counts.items())
    return usd * max(1.0, gbps / fastest)


def _unit_usd(name: str, book: PriceBook, gbps: float) -> float:
    part = book.part(name)
    usd = [quote.usd for quote in part.quotes]
    at = float(np.interp(gbps, part.rates_gbps, usd)) if part.rates_gbps else usd[0]
    return at * (book.length.least_m + book.length.most_m) / 2 if name == FIBRE else at


def plan_parts(degree: int) -> Counts:
    """Direct connect over patch panels with a look-ahead plane, a server's part."""
    ends = float(degree)
    return {NIC: ends, TRANSCEIVER: ends, FIBRE: ends, ONE_BY_TWO_SWITCH: ends, PATCH_PANEL_PORT: 2 * ends}


def tree_parts(rack_ratio: float) -> Counts:
    """A three-tier fat-tree, one port a server: a server's part."""
    up = 1 / rack_ratio  # links of racks, and as many of cores
    ends = 1 + 4 * up
    return {NIC: 1, TRANSCEIVER: 1 + ends, SWITCH_PORT: ends, FIBRE: 1 + up + up}


def equal_cost_gbps(cluster: Cluster, ratio: float, book: PriceBook) -> float:
    """NIC rate of the fat-tree that costs as much as the plan's network, at most that of all interfaces of a server.

    The largest rate that the money buys; where it does not buy the slowest listed one, the share of it that it does.
    """
    budget = price_at(plan_parts(cluster.degree), book, cluster.link_gbps)
    tree, rates = tree_parts(ratio), book.rates_gbps
    usd = [price_at(tree, book, rate) for rate in rates]
    gbps = rates[0] * budget / usd[0] if budget < usd[0] else 0.0
    for low in range(len(rates) - 1):
        if usd[low] <= budget < usd[low + 1]:
            part = (budget - usd[low]) / (usd[low + 1] - usd[low])
            gbps = rates[low] + part * (rates[low + 1] - rates[low])
    if budget >= usd[-1]:
        gbps = rates[-1] * budget / usd[-1]
    return min(gbps, cluster.degree * cluster.link_gbps)
