"""Static rates of pairs of servers, as the shares of the physical links that make them up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.placement import Latency, PlacementProblem, RateAllocation, Sharing
from topoopt.core.placement_solution import PlacementSolution
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.findings import ViolationLog

RELATIVE = Tolerance.ROUNDING.relative
EVEN = Tolerance.LONG_SUMS.relative
"""By how much even parts may differ: shares are scaled until every physical link carries them."""


def check_rates(
    findings: ViolationLog, problem: PlacementProblem, settings: Latency, solution: PlacementSolution
) -> Floats:
    """float64[servers, servers]: rates of pairs; every share within its link at both ends, uniform rates alike."""
    servers = problem.servers
    rates = np.zeros((len(servers), len(servers)))
    if settings.sharing is not Sharing.STATIC:
        if solution.link_shares:
            findings.add("links", "shares of links are stated, but rates are not allocated")
        return rates
    out: dict[tuple[int, int], float] = defaultdict(float)
    into: dict[tuple[int, int], float] = defaultdict(float)
    last = (-1, -1, -1)
    for share in solution.link_shares:
        key = (share.source, share.target, share.link)
        if not 0 < share.gbps < float("inf") or key <= last or share.source == share.target:
            findings.add("links", f"a share of {share.gbps!r} Gbit/s, or one out of order: {key}")
            return rates
        last = key
        if share.link >= len(servers[share.target].links):
            findings.add("links", f"{servers[share.target].name} has no link {share.link} to receive on")
            return rates
        rates[share.source, share.target] += share.gbps
        out[share.source, share.link] += share.gbps
        into[share.target, share.link] += share.gbps
    for name, table in (("out of", out), ("into", into)):
        for (s, link), gbps in table.items():
            if gbps > servers[s].links[link].gbps * (1 + RELATIVE):
                findings.add("links", f"{gbps!r} Gbit/s {name} {servers[s].name} by {servers[s].links[link].name}")
    if settings.rates is RateAllocation.UNIFORM:
        _check_uniform(findings, problem, rates)
    return rates


def _check_uniform(findings: ViolationLog, problem: PlacementProblem, rates: Floats) -> None:
    """Every pair has the same part of what the smaller of its two servers could give each other server."""
    room = [sum(link.gbps for link in server.links) for server in problem.servers]
    used = sorted({entry.server for entry in problem.devices})
    parts = [float(rates[s, t]) * (len(used) - 1) / min(room[s], room[t]) for s in used for t in used if s != t]
    if parts and (max(parts) - min(parts) > EVEN or max(parts) > 1 + RELATIVE):
        text = f"parts of the links from {min(parts)!r} to {max(parts)!r} of the even one"
        findings.add("rates", f"uniform rates, but {text}")


def check_idle_rates(
    findings: ViolationLog,
    problem: PlacementProblem,
    device: Ints,
    transfers: Iterable[tuple[int, int]],
    rates: Floats,
) -> None:
    """Only pairs that send something have a chosen rate; `transfers`: (tensor, target device) of each."""
    sends = set()
    for index, target in transfers:
        tensor = problem.tensors[index]
        if tensor.size_bytes:
            home = int(device[tensor.producer])
            sends.add((problem.devices[home].server, problem.devices[target].server))
    for s, t in np.argwhere(rates > 0).tolist():
        if (s, t) not in sends:
            findings.add("rates", f"{problem.servers[s].name} sends nothing to {problem.servers[t].name}")
