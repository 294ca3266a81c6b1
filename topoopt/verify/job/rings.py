"""Laws of the AllReduce rings: each is a Hamiltonian cycle of its group, over paths that exist."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from topoopt.core.arrays import Ints
from topoopt.core.proofs import Tolerance
from topoopt.core.routing import GroupRings, Ring
from topoopt.verify.laws.findings import ViolationLog, as_float, as_int

SHARE_TOLERANCE = Tolerance.ROUNDING.relative


@dataclass(frozen=True)
class RingHops:
    """What one readable ring puts on the links: every member sends `share` of its bytes along its own path."""

    members: tuple[int, ...]
    share: float
    tail: tuple[int, ...]
    head: tuple[int, ...]


def check_rings(
    findings: ViolationLog, rings: tuple[GroupRings, ...], links: Ints, payload_bytes: dict[tuple[int, ...], int] | None
) -> tuple[RingHops, ...]:
    """Report what is wrong; the hops of all rings that could be followed.

    Args:
        findings: where to report.
        rings: one entry per group.
        links: int64[n, n], parallel links i -> j.
        payload_bytes: sorted members -> payload; None if it is not known, then no group needs rings.
    """
    seen: set[tuple[int, ...]] = set()
    hops: list[RingHops] = []
    for position, group in enumerate(rings):
        check = partial(_check_group, findings, group, links, seen, hops)
        findings.guard("ring-shape", f"group {position} of the rings", check)
    for members, payload in (payload_bytes or {}).items():
        if members not in seen:
            findings.add("ring-missing", f"{payload} bytes are all-reduced over servers {list(members)} without a ring")
    return tuple(hops)


def _servers(values: Iterable[object], n: int) -> tuple[int, ...] | None:
    """Servers named by `values`, or None if one is not a server."""
    numbers = tuple(as_int(value) for value in values)
    known = tuple(number for number in numbers if number is not None and 0 <= number < n)
    return known if len(known) == len(numbers) else None


def _check_group(
    findings: ViolationLog, group: GroupRings, links: Ints, seen: set[tuple[int, ...]], hops: list[RingHops]
) -> None:
    """Report what is wrong with a group; its members go to `seen`, the hops of its readable rings to `hops`."""
    n = len(links)
    members = _servers(group.members, n)
    if members is None or len(set(members)) < max(len(members), 2):
        findings.add("ring-group", f"group {group.members!r} is not two or more different servers of 0..{n - 1}")
        return
    key = tuple(sorted(members))
    if key in seen:
        findings.add("ring-duplicate", f"group {list(key)} has more than one entry")
        return
    seen.add(key)
    total = sum(as_float(ring.share) for ring in group.rings)
    if not abs(total - 1.0) <= SHARE_TOLERANCE:
        findings.add("ring-share", f"the rings of group {list(key)} carry {total!r} of its payload, 1 expected")
    for index, ring in enumerate(group.rings):
        where = f"ring {index} of group {list(key)}"
        share = as_float(ring.share)
        if not 0.0 < share < float("inf"):
            findings.add("ring-share", f"{where} carries a share of {ring.share!r}")
            share = 0.0
        order = _servers(ring.order, n)
        if order is None or tuple(sorted(order)) != key:
            findings.add("ring-order", f"{where} visits {list(ring.order)}, not every member exactly once")
            continue
        ways = _check_paths(findings, where, ring, order, links)
        hops.append(RingHops(key, share, tuple(a for a, _ in ways), tuple(b for _, b in ways)))


def _check_paths(
    findings: ViolationLog, where: str, ring: Ring, order: tuple[int, ...], links: Ints
) -> list[tuple[int, int]]:
    """Report bad paths; the hops of the good ones."""
    if len(ring.paths) != len(order):
        findings.add("ring-paths", f"{where} has {len(ring.paths)} paths for {len(order)} members")
        return []
    hops: list[tuple[int, int]] = []
    for place, given in enumerate(ring.paths):
        here, there = order[place], order[(place + 1) % len(order)]
        path = _servers(given, len(links))
        if path is None or len(path) < 2 or path[0] != here or path[-1] != there:
            findings.add("ring-ends", f"{where}: path {list(given)} does not lead from {here} to {there}")
            continue
        if len(set(path)) < len(path):
            findings.add("ring-loop", f"{where}: path {list(given)} visits a server twice")
        for tail, head in pairwise(path):
            if links[tail, head] > 0:
                hops.append((tail, head))
            else:
                findings.add("ring-link", f"{where} uses a link {tail} -> {head} that does not exist")
    return hops
