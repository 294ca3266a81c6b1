"""Rates of hosts after a placement: what each pair of servers may send, over the links of both."""

from __future__ import annotations

from typing import Any

from topoopt.core.cluster import HostRates, HostSetting, LinkRate
from topoopt.core.errors import InputError, Problem
from topoopt.core.result import Result
from topoopt.formats.exporter import refuse
from topoopt.formats.hosts.settings import MAX_SUBNET_LINKS, ServerLink, bits, make_hosts, switched_address


def hosts_of_placement(result: Result[Any, Any], settings: tuple[HostSetting, ...]) -> HostRates:
    """Link k of a server leads to link k of every other one: all links of one number share a switch.

    Raises
    ------
    InputError
        The solution allocates no rates, does not say over which links, or over links that do not exist.
    """
    rates = result.figures.rates_gbps
    if rates is None or not (rates > 0).any():
        allowed = "objective latency with static rates, and operators on several servers"
        raise refuse("the solution allocates no rates between servers", allowed=allowed)
    servers = result.figures.problem.servers
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
    shares = _shares(result)
    made = []
    for s, source in enumerate(servers):
        for t, target in enumerate(servers):
            if s == t or not source.links or not target.links:
                continue
            links = sorted(shares.get((s, t), {0: 0.0}).items())
            made += [LinkRate(s, link, t, t, link, bits(gbps)) for link, gbps in links]
    made.sort(key=lambda rate: (rate.source, rate.link, rate.destination))
    return HostRates(result.name, hosts, tuple(made), ("links of one number are taken to share a switch",))


def _shares(result: Result[Any, Any]) -> dict[tuple[int, int], dict[int, float]]:
    """Return the Gbit/s of each link, by pair of servers.

    Raises
    ------
    InputError
        A share is of a link that the two servers have not in common.
    """
    servers = result.figures.problem.servers
    problems = []
    shares: dict[tuple[int, int], dict[int, float]] = {}
    for share in result.plan.link_shares:
        pair = (share.source, share.target)
        if share.source == share.target or share.link >= min(len(servers[s].links) for s in pair):
            text = f"link {share.link} does not lead from {servers[share.source].name} -> {servers[share.target].name}"
            problems.append(Problem(text, path="plan.link_shares", allowed="links that both servers have"))
        elif share.gbps > 0:
            links = shares.setdefault(pair, {})
            links[share.link] = links.get(share.link, 0.0) + share.gbps
    if problems:
        raise InputError(problems[:20])
    return shares
