"""Hosts stand behind the servers of a solution: their names, addresses and rates are read, completed and checked."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from importlib.resources import files
from ipaddress import AddressValueError, IPv4Address, IPv4Interface, NetmaskValueError
from math import gcd
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from topoopt.core.cluster import DEFAULT_QUEUE_BPS, Host, HostLink, HostRates, HostSetting, LinkRate, LinkSetting
from topoopt.core.errors import InfeasibleError, InputError, Problem, raise_any
from topoopt.core.job import Plan
from topoopt.core.topology import Topology
from topoopt.files.codec import MAX_SERVERS, FileModel, SchemaVersion
from topoopt.files.reader_fields import read_checked
from topoopt.formats.table import refuse

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
    raise_any([*_name_problems(rates), *_address_problems(rates)][:20])


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
    raise_any(problems[:20])


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


ServerLink = tuple[str, str, float]
"""A link of a server in a solution: default name of the interface, default address, Gbit/s."""


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
    raise_any(problems[:20])
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
    name, address, gbps = link
    interface = name if said.interface is None else said.interface
    bridge = f"br-{interface}" if len(interface) <= 12 else f"br-link{number + 1}"
    return HostLink(
        interface=interface,
        bridge=bridge if said.bridge is None else said.bridge,
        address=address if said.address is None else said.address,
        rate_bps=bits(gbps),
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
                (f"eth{port + 1}", cable_address(server * interfaces + port, 0), link_gbps)
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


UNPLANNED = "unplanned"
ANSWERS = "answers"
MODEL_PARALLEL = "model-parallel"


@dataclass(frozen=True)
class PlannedPath:
    """One path of an ordered pair of servers.

    Attributes:
        source, target: the pair.
        index: of the path among those of the pair.
        nodes: of the path, both ends included.
        share: of the model-parallel bytes of the pair, 0 if only AllReduces use it.
        used_by: `model-parallel`, `ring GROUP.RING`, `schedule NUMBER`; `unplanned` or `answers` alone.
    """

    source: int
    target: int
    index: int
    nodes: tuple[int, ...]
    share: float
    used_by: tuple[str, ...]


def planned_paths(plan: Plan) -> tuple[PlannedPath, ...]:
    """Paths of routes, rings and schedules, by pair; a pair without any gets a shortest path.

    Raises:
        InputError: some pair is not connected.
    """
    shares: dict[tuple[int, ...], float] = defaultdict(float)
    uses: dict[tuple[int, ...], list[str]] = defaultdict(list)
    routes = plan.routes
    for pair in range(len(routes.source)):
        for path in range(int(routes.pair_ptr[pair]), int(routes.pair_ptr[pair + 1])):
            nodes = routes.path(path)
            shares[nodes] += float(routes.share[path])
            if MODEL_PARALLEL not in uses[nodes]:
                uses[nodes].append(MODEL_PARALLEL)
    for number, group in enumerate(plan.rings):
        for position, ring in enumerate(group.rings):
            for nodes in ring.paths:
                if len(nodes) > 1:
                    uses[nodes].append(f"ring {number}.{position}")
    for number, schedule in enumerate(plan.schedules):
        for nodes in schedule.schedule.routes:
            uses[nodes].append(f"schedule {number}")
    by_pair: dict[tuple[int, int], list[tuple[int, ...]]] = defaultdict(list)
    for nodes in uses:
        by_pair[nodes[0], nodes[-1]].append(nodes)
    n = plan.topology.servers
    for source in range(n):
        missing = [target for target in range(n) if target != source and (source, target) not in by_pair]
        if missing:
            before = _tree(plan.topology, source)
            for target in missing:
                nodes = _along(before, source, target)
                by_pair[source, target].append(nodes)
                uses[nodes].append(UNPLANNED)
    return tuple(
        PlannedPath(*pair, index, nodes, shares.get(nodes, 0.0), tuple(uses[nodes]))
        for pair, paths in sorted(by_pair.items())
        for index, nodes in enumerate(sorted(paths, key=lambda nodes: (-shares.get(nodes, 0.0), len(nodes), nodes)))
    )


def with_answers(paths: tuple[PlannedPath, ...]) -> tuple[PlannedPath, ...]:
    """The same, and as many paths back as forth: what is missing repeats those there are.

    What is sent on path k of a pair is answered on path k of the opposite pair (acknowledgements, for one).
    """
    by_pair: dict[tuple[int, int], list[PlannedPath]] = defaultdict(list)
    for path in paths:
        by_pair[path.source, path.target].append(path)
    for (source, target), own in by_pair.items():
        given = len(own)
        for index in range(given, len(by_pair[target, source])):
            own.append(replace(own[index % given], index=index, share=0.0, used_by=(ANSWERS,)))
    return tuple(path for _, own in sorted(by_pair.items()) for path in own)


def _tree(topology: Topology, source: int) -> dict[int, int]:
    """Node before each one on a shortest path from the source; lower numbers first."""
    out: dict[int, list[int]] = defaultdict(list)
    for tail, head in topology.arcs.tolist():
        out[tail].append(head)
    before = {source: source}
    queue = deque([source])
    while queue:
        here = queue.popleft()
        for head in out[here]:
            if head not in before:
                before[head] = here
                queue.append(head)
    return before


def _along(before: dict[int, int], source: int, target: int) -> tuple[int, ...]:
    if target not in before:
        raise refuse(f"server {target} cannot be reached from server {source}", path="plan.topology")
    nodes = [target]
    while nodes[-1] != source:
        nodes.append(before[nodes[-1]])
    return tuple(reversed(nodes))


TABLE = 7100
"""Routing table, and priority of its rule, of the hosts' own addresses; 7101, 7102, ... are those of the links."""

PROTOCOL = 106
"""Mark of rules and routes that topoopt made."""

MAX_WEIGHT = 256
SCALES = np.arange(1.0, MAX_WEIGHT + 1)


@dataclass(frozen=True)
class HostTraffic:
    """The rates of one host, and where addresses lead.

    Attributes:
        host: index.
        rates: its own, by link and destination.
        queues: of each of its links: (queue number, destination addresses, rate) with a guarantee above 0.
    """

    host: int
    rates: tuple[LinkRate, ...]
    queues: tuple[tuple[tuple[int, tuple[str, ...], int], ...], ...]


def traffic_of_hosts(rates: HostRates) -> list[HostTraffic]:
    """One for each host. Queue numbers are those of the destinations plus one: 0 is everything else."""
    subnets: dict[str, dict[int, str]] = defaultdict(dict)
    for number, host in enumerate(rates.hosts):
        for link in host.links:
            interface = IPv4Interface(link.address)
            subnets[str(interface.network)][number] = str(interface.ip)
    by_host: dict[int, list[LinkRate]] = defaultdict(list)
    for rate in rates.rates:
        by_host[rate.source].append(rate)
    made = []
    for number, host in enumerate(rates.hosts):
        own = tuple(by_host[number])
        shares: list[dict[int, int]] = [defaultdict(int) for _ in host.links]
        for rate in own:
            shares[rate.link][rate.destination] += rate.rate_bps
        queues = []
        for link, share in zip(host.links, shares, strict=True):
            near = subnets[str(IPv4Interface(link.address).network)]
            queues.append(
                tuple(
                    (there + 1, (rates.hosts[there].address, *([near[there]] if there in near else [])), bps)
                    for there, bps in sorted(share.items())
                    if bps > 0
                )
            )
        made.append(HostTraffic(number, own, tuple(queues)))
    return made


def weights(rates: list[int]) -> list[int]:
    """Whole numbers from 1 to 256 in the ratio of the rates, as near as can be and as small as that allows."""
    if sum(rates) == 0:
        return [1] * len(rates)
    part = np.array(rates) / sum(rates)
    tried = np.maximum(1, np.floor(SCALES[:, None] * (part / part.max()) + 0.5))
    error = np.abs(tried / tried.sum(axis=1, keepdims=True) - part).max(axis=1)
    best = int(np.argmax(error <= error.min() + 1e-9))
    counts = [int(weight) for weight in tried[best]]
    divisor = reduce(gcd, counts)
    return [weight // divisor for weight in counts]


def routing_commands(rates: HostRates, traffic: HostTraffic, *, bridged: bool) -> list[list[str]]:
    """`ip` commands of one host, as words; `bridged`: addresses are on the bridges, else on the interfaces."""
    host = rates.hosts[traffic.host]
    devices = [link.bridge if bridged else link.interface for link in host.links]
    mark = ["proto", str(PROTOCOL)]
    commands = []
    for number, (link, device) in enumerate(zip(host.links, devices, strict=True)):
        address = IPv4Interface(link.address)
        table = str(TABLE + 1 + number)
        route = ["ip", "route", "replace", str(address.network), "dev", device, "src", str(address.ip)]
        commands.append([*route, "table", table, *mark])
        rule = ["ip", "rule", "add", "from", str(address.ip), "lookup", table, "priority", table]
        commands.append([*rule, "protocol", str(PROTOCOL)])
    hops: dict[int, list[LinkRate]] = defaultdict(list)
    for rate in traffic.rates:
        hops[rate.destination].append(rate)
    for there, next_hops in sorted(hops.items()):
        head = ["ip", "route", "replace", f"{rates.hosts[there].address}/32", "table", str(TABLE), *mark]
        head += ["src", host.address]
        vias = [
            [
                "via",
                str(IPv4Interface(rates.hosts[hop.next_host].links[hop.next_link].address).ip),
                "dev",
                devices[hop.link],
            ]
            for hop in next_hops
        ]
        if len(next_hops) == 1:
            commands.append([*head, *vias[0]])
            continue
        for via, weight in zip(vias, weights([hop.rate_bps for hop in next_hops]), strict=True):
            head += ["nexthop", *via, "weight", str(weight)]
        commands.append(head)
    if hops:
        rule = ["ip", "rule", "add", "from", "all", "lookup", str(TABLE), "priority", str(TABLE)]
        commands.append([*rule, "protocol", str(PROTOCOL)])
    return commands


def settings(rates: HostRates, traffic: HostTraffic) -> list[tuple[str, int]]:
    """Kernel settings a host needs: shares by socket, answers on the link that is asked, forwarding."""
    made: list[tuple[str, int]] = []
    if len(rates.hosts[traffic.host].links) > 1:
        made += [
            ("net.ipv4.fib_multipath_hash_policy", 1),
            ("net.ipv4.conf.all.rp_filter", 2),
            ("net.ipv4.conf.all.arp_ignore", 1),
            ("net.ipv4.conf.all.arp_announce", 2),
        ]
    if rates.forwards:
        made.append(("net.ipv4.ip_forward", 1))
    return made


Command = list[str]


def line(command: Iterable[str]) -> str:
    """One command of a script, every word quoted where the shell needs it."""
    return f"  {shlex.join(command)}"


def burst_bytes(rate_bps: int) -> int:
    """What may be sent at once: 2 ms of the rate, two full frames at least."""
    return max(3028, rate_bps // 4000)


def ceiling_bps(share_bps: int, link_bps: int, strict: bool) -> int:
    """Most a class may use: what others leave of the link, or its share alone."""
    return share_bps if strict else link_bps


def script(
    rendering: str,
    host: str,
    about: str,
    tools: str,
    tables: Iterable[int],
    checks: list[Command],
    commands: list[Command],
) -> bytes:
    """A whole script.

    Args:
        rendering: the part of the head, `host_script_RENDERING.sh`.
        host: its name.
        about: what it sets, in a few words.
        tools: programs it needs, by name.
        tables: routing tables that must be its own.
        checks: what else must hold before anything is changed.
        commands: what applies the settings.
    """
    folder = files("topoopt.formats.hosts")
    head, part = (folder.joinpath(name).read_text() for name in ("host_script.sh", f"host_script_{rendering}.sh"))
    first = [
        "#!/usr/bin/env bash",
        f"# {about} of host {host} ({rendering}), written by topoopt export.",
        "# Usage: bash THIS [dry-run|apply|teardown]; without a word it prints what it would do.",
        "set -Eeuo pipefail",
    ]
    owned = [["own_table", str(table)] for table in tables]
    before = [line(["need", *tools.split()]), *(line(check) for check in (*owned, *checks))]
    parts = [
        "\n".join(first),
        head.strip(),
        part.strip(),
        "preflight() {\n" + "\n".join(before) + "\n}",
        "apply_host() {\n" + "\n".join(line(command) for command in commands) + "\n}",
        "main",
    ]
    return ("\n\n".join(parts) + "\n").encode()


def shares_script(rendering: str, host: Host, tools: str, checks: list[Command], commands: list[Command]) -> bytes:
    """Script of the bandwidth shares and routes of a host."""
    tables = range(TABLE, TABLE + len(host.links) + 1)
    return script(rendering, host.name, "Bandwidth shares and routes", tools, tables, checks, commands)


def run_all(commands: Iterable[Command]) -> list[Command]:
    return [["run", *command] for command in commands]
