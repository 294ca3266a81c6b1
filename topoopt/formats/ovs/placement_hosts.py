"""Rates of hosts after a placement: what each pair of servers may send, over the links of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.host_rates import HostRates, HostSetting, LinkRate
from topoopt.formats.exporter import refuse
from topoopt.formats.hosts.settings import MAX_SUBNET_LINKS, ServerLink, bits, make_hosts, switched_address

ROUNDING = 1e-6
"""Relative difference of a rate and its parts that is none."""


class NamedLink(Protocol):
    """A link of a server."""

    @property
    def name(self) -> str: ...
    @property
    def gbps(self) -> float: ...


class LinkedServer(Protocol):
    """A server with its links."""

    @property
    def name(self) -> str: ...
    @property
    def links(self) -> Sequence[NamedLink]: ...


class Share(Protocol):
    """Rate of a link of a server, and of the link of the same number at the other end, for one destination."""

    @property
    def source(self) -> int: ...
    @property
    def target(self) -> int: ...
    @property
    def link(self) -> int: ...
    @property
    def gbps(self) -> float: ...


class PlacedRates(Protocol):
    """What is read of a placement solution."""

    @property
    def name(self) -> str: ...
    @property
    def servers(self) -> Sequence[LinkedServer]: ...
    @property
    def rates_gbps(self) -> Floats | None: ...
    @property
    def link_shares(self) -> Sequence[Share]: ...


def hosts_of_placement(solution: PlacedRates, settings: tuple[HostSetting, ...]) -> HostRates:
    """Link k of a server leads to link k of every other one: all links of one number share a switch.

    Raises:
        InputError: the solution allocates no rates, does not say over which links, or over links that do not exist.
    """
    rates = solution.rates_gbps
    if rates is None or not (rates > 0).any():
        allowed = "objective latency with static rates, and operators on several servers"
        raise refuse("the solution allocates no rates between servers", allowed=allowed)
    servers = solution.servers
    most = max(len(server.links) for server in servers)
    if most > MAX_SUBNET_LINKS:
        raise refuse("too many links of a server", value=most, allowed=f"at most {MAX_SUBNET_LINKS}")
    hosts = make_hosts(
        tuple(
            (
                server.name,
                tuple(
                    ServerLink(link.name, switched_address(k, s, len(servers)), link.gbps)
                    for k, link in enumerate(server.links)
                ),
            )
            for s, server in enumerate(servers)
        ),
        settings,
    )
    share = _shares(solution, rates)
    made = []
    for s, source in enumerate(servers):
        for t, target in enumerate(servers):
            if s == t or not source.links or not target.links:
                continue
            links = sorted(share.get((s, t), {0: 0.0}).items())
            made += [LinkRate(s, link, t, t, link, bits(gbps)) for link, gbps in links]
    made.sort(key=lambda one: (one.source, one.link, one.destination))
    return HostRates(solution.name, hosts, tuple(made), ("links of one number are taken to share a switch",))


def _shares(solution: PlacedRates, rates: Floats) -> dict[tuple[int, int], dict[int, float]]:
    """Gbit/s of each link, by pair."""
    servers = solution.servers
    problems = []
    share: dict[tuple[int, int], dict[int, float]] = {}
    for one in solution.link_shares:
        pair = f"{servers[one.source].name} -> {servers[one.target].name}"
        if one.source == one.target or one.link >= min(len(servers[end].links) for end in (one.source, one.target)):
            text = f"link {one.link} does not lead from {pair}"
            problems.append(Problem(text, path="link_shares", allowed="links that both servers have"))
        elif one.gbps > 0:
            links = share.setdefault((one.source, one.target), {})
            links[one.link] = links.get(one.link, 0.0) + one.gbps
    for s, t in np.argwhere(rates > 0).tolist():
        if s == t:
            continue
        pair, rate = f"{servers[s].name} -> {servers[t].name}", float(rates[s, t])
        links = share.get((s, t), {})
        if not links and min(len(servers[end].links) for end in (s, t)) == 1:
            share[s, t] = {0: rate}
        elif abs(sum(links.values()) - rate) > ROUNDING * rate:
            text = f"the links of {pair} do not carry its rate"
            problems.append(Problem(text, path="link_shares", value=f"{sum(links.values()):g}", allowed=f"{rate:g}"))
    if problems:
        raise InputError(problems[:20])
    return share
