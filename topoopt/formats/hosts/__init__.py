"""Hosts stand behind the servers of a solution: their names, addresses and rates are read, completed and checked."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import AddressValueError, IPv4Address, IPv4Interface, NetmaskValueError
from typing import Annotated, Literal

from pydantic import Field

from topoopt.core.cluster import DEFAULT_QUEUE_BPS, Host, HostLink, HostRates, HostSetting, LinkRate, LinkSetting
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.topology import Topology
from topoopt.files.fields import MAX_SERVERS, FileModel, SchemaVersion
from topoopt.files.findings import read_checked
from topoopt.formats.exporter import refuse

HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
INTERFACE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,14}", re.ASCII)
RESERVED = frozenset({"lo", "all", "default"})
"""Interface names that mean something else to the system."""

MAX_HOSTS = 61_440
"""Queue numbers of linux-htb end below it; 0 is the default queue and 1, 2, ... are the hosts."""

ROUNDING = 1e-6
"""Relative excess over a link that is rounding of the solution; it is taken off the largest share."""


def check_hosts(rates: HostRates) -> None:
    """Names, addresses and indices.

    Raises:
        InputError: everything that is wrong with them.
    """
    if len(rates.hosts) > MAX_HOSTS - 1:
        message = "too many hosts: a queue each, and queue numbers end below 61440"
        raise InputError([Problem(message, value=str(len(rates.hosts)), allowed=f"at most {MAX_HOSTS - 1}")])
    problems = [*_name_problems(rates), *_address_problems(rates)]
    if problems:
        raise InputError(problems[:20])


def _name_problems(rates: HostRates) -> Iterable[Problem]:
    words = "letters, digits and . _ - after a first letter or digit, at most 63"
    for name, count in Counter(host.name for host in rates.hosts).items():
        if not HOST_NAME.fullmatch(name):
            yield Problem("not a host name", path="hosts", value=repr(name[:80]), allowed=words)
        elif count > 1:
            yield Problem("a host name more than once", path="hosts", value=name)
    words = "letters, digits and . _ - after a first letter, at most 15; the setting hosts can name it"
    for host in rates.hosts:
        names = [name for link in host.links for name in (link.interface, link.bridge)]
        for name, count in Counter(names).items():
            where = f"interfaces of {host.name[:63]!r}"
            if not INTERFACE_NAME.fullmatch(name) or name in RESERVED:
                yield Problem(
                    "not the name of an interface or a bridge", path=where, value=repr(name[:80]), allowed=words
                )
            elif count > 1:
                yield Problem("an interface or bridge more than once", path=where, value=name)
        for link in host.links:
            if link.rate_bps < 10 * DEFAULT_QUEUE_BPS:
                yield Problem("a link this slow cannot be shared", path=where, value=f"{link.rate_bps} bit/s")


def _address_problems(rates: HostRates) -> Iterable[Problem]:
    used: Counter[IPv4Address] = Counter()
    for host in rates.hosts:
        where = f"addresses of {host.name[:63]!r}"
        for text, form in ((host.address, "10.9.0.1"), *((link.address, "10.1.0.1/24") for link in host.links)):
            try:
                given = IPv4Interface(text)
            except (AddressValueError, NetmaskValueError, ValueError):
                yield Problem("not an IPv4 address", path=where, value=repr(text[:80]), allowed=f"such as {form}")
                continue
            plain = given.with_prefixlen if "/" in form else str(given.ip)
            if text != plain:
                yield Problem("not a plain address", path=where, value=repr(text[:80]), allowed=f"such as {form}")
            ip = given.ip
            if ip.is_multicast or ip.is_loopback or ip.is_unspecified or ip.is_reserved or ip.is_link_local:
                yield Problem("not an address of a host", path=where, value=text)
            used[ip] += 1
    yield from (
        Problem("an address more than once", value=str(address)) for address, count in used.items() if count > 1
    )


def check_neighbours(rates: HostRates) -> None:
    """Both ends of every link in use share a subnet.

    Raises:
        InputError: some do not.
    """
    pairs = {((r.source, r.link), (r.next_host, r.next_link)) for r in rates.rates}
    problems = []
    for ends in sorted(pairs):
        (first, other) = (rates.hosts[host].links[link] for host, link in ends)
        if IPv4Interface(first.address).network != IPv4Interface(other.address).network:
            named = [f"{rates.hosts[host].name} {rates.hosts[host].links[link].interface}" for host, link in ends]
            message = f"{named[0]} and {named[1]} are not in one subnet"
            problems.append(Problem(message, value=f"{first.address}, {other.address}"))
    if problems:
        raise InputError(problems[:20])


def reserved_bps(link: HostLink) -> int:
    """Guarantee of everything that has no share: a thousandth of the link."""
    return max(DEFAULT_QUEUE_BPS, link.rate_bps // 1000)


def fitted(rates: HostRates) -> HostRates:
    """The same with rates that every link can guarantee together with its default queue.

    Shares below 1500 bytes a second become routes without a guarantee. A link that is promised in full gives up a
    thousandth for its default queue, all shares alike. Both are told in the notes.

    Raises:
        InfeasibleError: the shares exceed a link, in the direction that is named.
    """
    kept = _without_trifles(rates.rates)
    small = sum(0 < r.rate_bps < DEFAULT_QUEUE_BPS for r in rates.rates)
    excess: list[str] = []
    for direction in ("egress", "ingress"):
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for index, r in enumerate(kept):
            groups[(r.source, r.link) if direction == "egress" else (r.next_host, r.next_link)].append(index)
        for (host, link), members in sorted(groups.items()):
            _fit(rates, direction, rates.hosts[host].name, rates.hosts[host].links[link], kept, members, excess)
    if excess:
        raise InfeasibleError("\n".join(excess[:20]))
    shrunk = _leave_default_queue(rates, kept)
    notes = list(rates.notes)
    if small:
        notes.append(f"{small} shares below {DEFAULT_QUEUE_BPS} bit/s are routes without a guarantee")
    if shrunk:
        notes.append(f"{shrunk} links are promised in full: their shares are 0.1 % smaller, for the default queue")
    return replace(rates, rates=tuple(kept), notes=tuple(notes))


def _without_trifles(rates: tuple[LinkRate, ...]) -> list[LinkRate]:
    kept = {(r.source, r.destination): False for r in rates}
    for r in rates:
        kept[r.source, r.destination] |= r.rate_bps >= DEFAULT_QUEUE_BPS
    made = []
    for r in rates:
        if r.rate_bps >= DEFAULT_QUEUE_BPS:
            made.append(r)
        elif not kept[r.source, r.destination]:
            kept[r.source, r.destination] = True
            made.append(replace(r, rate_bps=0))
    return made


def _fit(
    rates: HostRates,
    direction: str,
    host: str,
    link: HostLink,
    kept: list[LinkRate],
    members: list[int],
    excess: list[str],
) -> None:
    total = sum(kept[index].rate_bps for index in members)
    over = total - link.rate_bps
    if over > link.rate_bps * ROUNDING:
        key = "destination" if direction == "egress" else "source"
        parts = ", ".join(
            f"{rates.hosts[getattr(kept[k], key)].name} {kept[k].rate_bps}" for k in members[:8] if kept[k].rate_bps
        )
        excess.append(
            f"{direction} of {host}, {link.interface}: {total} bit/s promised, {link.rate_bps} there ({parts})"
        )
    elif over > 0:
        largest = max(members, key=lambda k: kept[k].rate_bps)
        kept[largest] = replace(kept[largest], rate_bps=kept[largest].rate_bps - over)


def _leave_default_queue(rates: HostRates, kept: list[LinkRate]) -> int:
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, r in enumerate(kept):
        groups[r.source, r.link].append(index)
    shrunk = 0
    for (host, number), members in groups.items():
        link = rates.hosts[host].links[number]
        total = sum(kept[k].rate_bps for k in members)
        spare_bps = link.rate_bps - reserved_bps(link)
        if total > spare_bps:
            shrunk += 1
            for k in members:
                kept[k] = replace(kept[k], rate_bps=kept[k].rate_bps * spare_bps // total)
    return shrunk


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
    named = dict(servers)
    problems = []
    for name, count in Counter(setting.server for setting in settings).items():
        if name not in named:
            some = ", ".join(list(named)[:8])
            problems.append(
                Problem("no such server in the solution", path="hosts", value=repr(name[:80]), allowed=some)
            )
        elif count > 1:
            problems.append(Problem("a server more than once", path="hosts", value=name))
    for setting in settings:
        there = named.get(setting.server)
        if there is not None and setting.links and len(setting.links) != len(there):
            message = f"server {setting.server} has another number of links"
            problems.append(Problem(message, path="hosts", value=str(len(setting.links)), allowed=str(len(there))))
    if problems:
        raise InputError(problems[:20])
    given = {setting.server: setting for setting in settings}
    return tuple(_host(number, *server, given.get(server[0])) for number, server in enumerate(servers))


def _host(number: int, name: str, links: tuple[ServerLink, ...], setting: HostSetting | None) -> Host:
    said = setting if setting is not None else HostSetting(name)
    settings = said.links or (LinkSetting(),) * len(links)
    return Host(
        name=said.name if said.name is not None else name,
        address=said.address if said.address is not None else str(IPv4Address(SHARED + number + 1)),
        links=tuple(_link(k, link, given) for k, (link, given) in enumerate(zip(links, settings, strict=True))),
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


def named_servers(topology: Topology, settings: tuple[HostSetting, ...], link_gbps: float = 1.0) -> tuple[Host, ...]:
    """Hosts of the servers of a topology; interface j of a server is patched to optical switch j.

    Raises:
        InputError: names that no file or script should hold, or settings that do not fit.
    """
    return numbered_servers(topology.servers, topology.degree, settings, link_gbps)


def numbered_servers(
    servers: int, interfaces: int, settings: tuple[HostSetting, ...], link_gbps: float = 1.0
) -> tuple[Host, ...]:
    """A host for each server: `server0`, ... with `eth1`, ... for its interfaces, unless a setting says otherwise.

    Every interface is one, dark or not.

    Raises:
        InputError: names that no file or script should hold, or settings that do not fit.
    """
    ports = [
        (
            f"server{server}",
            tuple(
                ServerLink(f"eth{port + 1}", cable_address(server * interfaces + port, 0), link_gbps)
                for port in range(interfaces)
            ),
        )
        for server in range(servers)
    ]
    hosts = make_hosts(tuple(ports), settings)
    check_hosts(HostRates("", hosts, ()))
    return hosts


class HostsFile(FileModel):
    """Names, interfaces and addresses of real hosts; what is not said is a default."""

    schema_version: SchemaVersion
    kind: Literal["hosts"]
    hosts: Annotated[list[HostSetting], Field(max_length=MAX_SERVERS)]


def read_hosts(path: str | os.PathLike[str]) -> tuple[HostSetting, ...]:
    """Settings of the servers that the file names; whether they fit a solution is for the exporter to say.

    Raises:
        InputError: everything wrong with the file.
    """
    return tuple(read_checked(path, HostsFile).hosts)
