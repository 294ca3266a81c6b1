"""Linux servers forward along the planned paths: each gets a script with addresses, routes and forwarding rules."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from topoopt.core.cluster import Host
from topoopt.core.errors import InputError, Problem
from topoopt.core.result import Result
from topoopt.core.topology import Topology
from topoopt.files.atomic import csv_text
from topoopt.formats.exporter import NOTES_FILE, Export, Exporter, ExportOptions, class_notes, notes_bytes, refuse
from topoopt.formats.hosts import named_servers
from topoopt.formats.hosts.script import PROTOCOL, TABLE, Command, PlannedPath, planned_paths, script, with_answers
from topoopt.formats.patch_list import circuits_csv, circuits_of

FORWARD_PRIORITY = str(TABLE + 1)


@dataclass(frozen=True)
class Hop:
    """What a server does with the packets of one path.

    Attributes:
        source, target: addresses of the path's ends.
        own: the server is the source; else it forwards.
        entries: interfaces they come in by (parallel links), if it forwards.
        exits: interfaces they leave by (parallel links); hardware: address of the interface each leads to.
        neighbour: address of the next server.
    """

    source: str
    target: str
    own: bool
    entries: tuple[str, ...]
    exits: tuple[str, ...]
    hardware: tuple[str, ...]
    neighbour: str


@dataclass(frozen=True)
class HostPlan:
    """A server: addresses of its interfaces' hardware, its own addresses, and its part of all paths."""

    host: Host
    hardware: tuple[str, ...]
    addresses: tuple[str, ...]
    hops: tuple[Hop, ...]


def ip_script(plan: HostPlan) -> bytes:
    """Packets of others are forwarded by the kernel, each source with a routing table of its own."""
    forwarded: dict[str, list[Hop]] = defaultdict(list)
    for hop in plan.hops:
        if not hop.own:
            forwarded[hop.source].append(hop)
    tables = {source: TABLE + 1 + number for number, source in enumerate(forwarded)}
    commands = [["setting", "net.ipv4.ip_forward", "1"], *_common(plan)]
    for source, table in tables.items():
        commands += [_route(hop, table) for hop in forwarded[source]]
        commands.append(["run", "ip", "rule", "add", "from", source, "lookup", str(table), *_mark(FORWARD_PRIORITY)])
    owned = (TABLE, *tables.values())
    return script("ip", plan.host.name, "Forwarding", "ip", owned, [], commands)


def flower_script(plan: HostPlan) -> bytes:
    """Packets of others are sent on where they come in, before the kernel routes anything."""
    commands = _common(plan)
    entries: dict[str, int] = defaultdict(int)
    for hop in plan.hops:
        if hop.own:
            continue
        for position, entry in enumerate(hop.entries):
            if not entries[entry]:
                commands.append(["entry", entry])
            entries[entry] += 1
            leaves = position % len(hop.exits)
            head = ["tc", "filter", "add", "dev", entry, "ingress", "protocol", "ip", "prio"]
            match = ["flower", "src_ip", hop.source, "dst_ip", hop.target]
            rewrite = ["action", "pedit", "ex", "munge", "eth", "dst", "set", hop.hardware[leaves], "pipe"]
            send = ["action", "mirred", "egress", "redirect", "dev", hop.exits[leaves]]
            commands.append(["run", *head, "1", *match, *rewrite, *send])
    checks = [["own_entry", entry] for entry in entries]
    return script("flower", plan.host.name, "Forwarding", "ip tc", [TABLE], checks, commands)


def _mark(priority: str) -> list[str]:
    return ["priority", priority, "protocol", str(PROTOCOL)]


def _common(plan: HostPlan) -> list[Command]:
    """Interfaces, addresses, neighbours, and routes of what the server sends itself."""
    commands: list[Command] = []
    for key in ("all", *(link.interface for link in plan.host.links)):
        commands += [["setting", f"net.ipv4.conf.{key}.{name}", "0"] for name in ("rp_filter", "send_redirects")]
    for link, hardware in zip(plan.host.links, plan.hardware, strict=True):
        commands += [["hardware", link.interface, hardware], ["run", "ip", "link", "set", link.interface, "up"]]
    commands += [["address", f"{address}/32", "lo"] for address in plan.addresses]
    neighbours = {
        (hop.neighbour, exit_): hardware
        for hop in plan.hops
        for exit_, hardware in zip(hop.exits, hop.hardware, strict=True)
    }
    commands += [["neighbour", address, hardware, exit_] for (address, exit_), hardware in sorted(neighbours.items())]
    commands += [_route(hop, TABLE) for hop in plan.hops if hop.own]
    commands.append(["run", "ip", "rule", "add", "iif", "lo", "lookup", str(TABLE), *_mark(str(TABLE))])
    return commands


def _route(hop: Hop, table: int) -> Command:
    words = ["run", "ip", "route", "add", f"{hop.target}/32", "table", str(table), "protocol", str(PROTOCOL)]
    if hop.own:
        words += ["src", hop.source]
    if len(hop.exits) == 1:
        return [*words, "via", hop.neighbour, "dev", hop.exits[0], "onlink"]
    for exit_ in hop.exits:
        words += ["nexthop", "via", hop.neighbour, "dev", exit_, "weight", "1", "onlink"]
    return words


MAX_PATHS = 200_000
MAX_INDEX = 54
"""Addresses of path k are 10.(200 + k).x.y."""


def address_of(host: Host, server: int, index: int) -> str:
    """Address k of a server: its own for k = 0, by its number for the others."""
    return host.address if index == 0 else str(IPv4Address("10.200.0.0") + (index << 16) + server + 1)


def hardware_of(server: int, port: int) -> str:
    """A locally administered hardware address for an interface."""
    return f"02:74:6f:{server >> 8:02x}:{server & 255:02x}:{port:02x}"


def build(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """Scripts of all servers and the table of paths.

    Raises:
        InputError: names or addresses that cannot be written, a pair that is not connected, too many paths.
    """
    topology = solution.plan.topology
    hosts = named_servers(topology, options.hosts, solution.figures.cluster.link_gbps)
    paths = with_answers(planned_paths(solution.plan))
    if len(paths) > MAX_PATHS:
        raise refuse("too many paths", value=len(paths), allowed=f"at most {MAX_PATHS}")
    most = max((path.index for path in paths), default=0)
    if most > MAX_INDEX:
        raise refuse("too many paths of one pair", value=most + 1, allowed=f"at most {MAX_INDEX + 1}")
    _check(hosts, most)
    plans = _plans(topology, hosts, paths)
    files: list[tuple[str, bytes]] = []
    for plan in plans:
        files.append((f"{plan.host.name}.ip.sh", ip_script(plan)))
        files.append((f"{plan.host.name}.flower.sh", flower_script(plan)))
    files += [("paths.csv", _table(hosts, paths)), ("circuits.csv", circuits_csv(circuits_of(topology), hosts))]
    unplanned = sum(path.used_by == ("unplanned",) for path in paths)
    notes = [*EXPORTER.limits, *class_notes(solution.figures.cluster)]
    if unplanned:
        notes.append(f"{unplanned} pairs without traffic in the plan have a shortest path")
    if most:
        notes.append(
            f"pairs with several paths: sockets choose path k by binding address k (10.{200 + 1}.x.y for k = 1)"
        )
    files.append((NOTES_FILE, notes_bytes("Forwarding of the plan, written by topoopt export", tuple(notes))))
    next_hops = {
        (address_of(hosts[p.source], p.source, p.index), address_of(hosts[p.target], p.target, p.index)): tuple(
            hosts[node].name for node in p.nodes
        )
        for p in paths
    }
    return Export(tuple(files), {"ip": next_hops, "flower": next_hops}, tuple(notes))


def _check(hosts: tuple[Host, ...], most: int) -> None:
    problems = []
    used = Counter(address_of(host, server, k) for server, host in enumerate(hosts) for k in range(most + 1))
    problems += [Problem("an address more than once", value=address) for address, count in used.items() if count > 1]
    for host in hosts:
        for link in host.links:
            if "." in link.interface:
                text = "a name with a dot cannot be a setting of the system"
                problems.append(Problem(text, path=f"interfaces of {host.name}", value=link.interface))
    if problems:
        raise InputError(problems[:20])


def _plans(topology: Topology, hosts: tuple[Host, ...], paths: tuple[PlannedPath, ...]) -> list[HostPlan]:
    ports: dict[tuple[int, int], list[int]] = {}
    for port, row in enumerate(topology.switches.tolist()):
        for tail, head in enumerate(row):
            if head >= 0:
                ports.setdefault((tail, head), []).append(port)
    for path in paths:
        missing = [arc for arc in itertools.pairwise(path.nodes) if arc not in ports]
        if missing:
            raise refuse("a path of the plan uses a link that no switch makes", path="plan.routes", value=missing[0])
    hops: list[list[Hop]] = [[] for _ in hosts]
    addresses: list[set[str]] = [{host.address} for host in hosts]
    for path in paths:
        ends = [address_of(hosts[server], server, path.index) for server in (path.source, path.target)]
        addresses[path.source].add(ends[0])
        addresses[path.target].add(ends[1])
        for index, (here, there) in enumerate(itertools.pairwise(path.nodes)):
            came = ports[path.nodes[index - 1], here] if index else []
            hops[here].append(
                Hop(
                    source=ends[0],
                    target=ends[1],
                    own=index == 0,
                    entries=tuple(hosts[here].links[port].interface for port in came),
                    exits=tuple(hosts[here].links[port].interface for port in ports[here, there]),
                    hardware=tuple(hardware_of(there, port) for port in ports[here, there]),
                    neighbour=hosts[there].address,
                )
            )
    return [
        HostPlan(
            host=host,
            hardware=tuple(hardware_of(server, port) for port in range(topology.degree)),
            addresses=tuple(sorted(addresses[server], key=IPv4Address)),
            hops=tuple(hops[server]),
        )
        for server, host in enumerate(hosts)
    ]


def _table(hosts: tuple[Host, ...], paths: tuple[PlannedPath, ...]) -> bytes:
    rows = []
    for p in paths:
        ends = [address_of(hosts[server], server, p.index) for server in (p.source, p.target)]
        names = [hosts[node].name for node in p.nodes]
        rows.append((names[0], names[-1], p.index, *ends, repr(p.share), "; ".join(p.used_by), " ".join(names)))
    header = ("source", "target", "path", "source_address", "target_address", "share", "used_by", "hosts")
    return csv_text(header, rows).encode()


EXPORTER = Exporter(
    kinds=("co-optimisation",),
    makes="scripts of all servers (HOST.ip.sh: ip rules and routes; HOST.flower.sh: tc rules that network cards can "
    "take over, for RDMA), paths.csv, circuits.csv",
    limits=(
        "IPv4; addresses are set on the loopback device, hardware addresses of the interfaces are replaced "
        "(teardown gives them back)",
        "a pair with several paths is split by whoever opens its connections, as the shares in paths.csv say",
        "HOST.flower.sh leaves it to the driver whether a rule runs in the card; RoCE needs the addresses on its own "
        "device as well. No kernel has run it here: the one at hand has no flower classifier",
    ),
    folder=True,
    build=build,
)
