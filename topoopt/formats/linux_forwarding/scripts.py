"""Scripts that make a server send and forward along planned paths: with ip rules, or with tc rules at the entry."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from topoopt.core.cluster import Host
from topoopt.formats.hosts.policy_routing import PROTOCOL, TABLE
from topoopt.formats.hosts.script import Command, script

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
