"""Hosts after the servers of a solution: what a user says about them, and defaults for the rest.

Defaults: a host is called like its server and has the address 10.200.a.b with a, b from its number, starting at 1. Link
k of every host is in one subnet with link k of the others, 10.k.a.b; links that join two hosts directly have subnets of
two addresses from 10.64.0.0 on. The bridge of an interface is br- and its name.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from ipaddress import IPv4Address

from topoopt.core.cluster import Host, HostLink, HostSetting, LinkSetting
from topoopt.core.errors import InputError, Problem
from topoopt.formats.exporter import refuse

MAX_RATES = 2_000_000
"""Pairs of hosts, each a command at least."""

MAX_SUBNET_LINKS = 63
SHARED = int(IPv4Address("10.200.0.0"))
CABLES = int(IPv4Address("10.64.0.0"))


@dataclass(frozen=True)
class ServerLink:
    """A link of a server in a solution: default interface name and address, rate."""

    interface: str
    address: str
    gbps: float


def switched_address(link: int, server: int, servers: int) -> str:
    """Default address of a link that all servers share a switch with."""
    number = server + 1
    return f"10.{link + 1}.{number >> 8}.{number & 255}/{24 if servers <= 254 else 16}"


def cable_address(cable: int, end: int) -> str:
    """Default address of an end, 0 or 1, of a link between two servers."""
    return f"{IPv4Address(CABLES + 2 * cable + end)}/31"


def bits(gbps: float) -> int:
    """Whole bit/s of a rate in Gbit/s, rounded down but for the dust of floating point."""
    return int(round(gbps * 1e9, 3))


def make_hosts(
    servers: tuple[tuple[str, tuple[ServerLink, ...]], ...], settings: tuple[HostSetting, ...]
) -> tuple[Host, ...]:
    """One host for each server (name, links).

    Raises:
        InputError: settings of servers or links that the solution does not have, or too many servers.
    """
    if len(servers) * (len(servers) - 1) > MAX_RATES:
        raise refuse("too many pairs of hosts", value=len(servers), allowed=f"at most {MAX_RATES} pairs")
    known = dict(servers)
    problems = []
    for name, count in Counter(setting.server for setting in settings).items():
        if name not in known:
            some = ", ".join(list(known)[:8])
            problems.append(
                Problem("no such server in the solution", path="hosts", value=repr(name[:80]), allowed=some)
            )
        elif count > 1:
            problems.append(Problem("a server more than once", path="hosts", value=name))
    for setting in settings:
        there = known.get(setting.server)
        if there is not None and setting.links and len(setting.links) != len(there):
            message = f"server {setting.server} has another number of links"
            problems.append(Problem(message, path="hosts", value=str(len(setting.links)), allowed=str(len(there))))
    if problems:
        raise InputError(problems[:20])
    given = {setting.server: setting for setting in settings}
    return tuple(_host(number, *server, given.get(server[0])) for number, server in enumerate(servers))


def _host(number: int, name: str, links: tuple[ServerLink, ...], setting: HostSetting | None) -> Host:
    said = setting if setting is not None else HostSetting(name)
    each = said.links or (LinkSetting(),) * len(links)
    return Host(
        name=said.name if said.name is not None else name,
        address=said.address if said.address is not None else str(IPv4Address(SHARED + number + 1)),
        links=tuple(_link(k, link, one) for k, (link, one) in enumerate(zip(links, each, strict=True))),
    )


def _link(number: int, link: ServerLink, said: LinkSetting) -> HostLink:
    interface = said.interface if said.interface is not None else link.interface
    bridge = f"br-{interface}" if len(interface) <= 12 else f"br-link{number + 1}"
    return HostLink(
        interface=interface,
        bridge=said.bridge if said.bridge is not None else bridge,
        address=said.address if said.address is not None else link.address,
        rate_bps=bits(link.gbps),
    )
