"""Host-based forwarding of a plan on Linux: for each server a script with addresses, routes and forwarding rules.

A pair of servers with several paths has an address for each at both ends: path k of a pair is what is sent from address
k of the source to address k of the target. Servers on the way choose the next hop by both addresses, so that every
packet takes its planned path (host-based forwarding of TopoOpt, NSDI'23, section 6).
"""

from __future__ import annotations

import itertools
from collections import Counter
from ipaddress import IPv4Address
from typing import Any

from topoopt.core.cluster import Host
from topoopt.core.errors import InputError, Problem
from topoopt.core.result import Result
from topoopt.core.topology import Topology
from topoopt.files.atomic import csv_text
from topoopt.formats.exporter import NOTES_FILE, Export, Exporter, ExportOptions, notes_bytes, refuse
from topoopt.formats.hosts.planned_paths import PlannedPath, planned_paths, with_answers
from topoopt.formats.hosts.server_names import named_servers
from topoopt.formats.linux_forwarding.scripts import Hop, HostPlan, flower_script, ip_script
from topoopt.formats.patch_list.write import circuits_csv, circuits_of
from topoopt.formats.traffic_classes import class_notes

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
    ways = {
        (address_of(hosts[p.source], p.source, p.index), address_of(hosts[p.target], p.target, p.index)): tuple(
            hosts[node].name for node in p.nodes
        )
        for p in paths
    }
    return Export(tuple(files), {"ip": ways, "flower": ways}, tuple(notes))


def _check(hosts: tuple[Host, ...], most: int) -> None:
    problems = []
    used = Counter(address_of(host, server, k) for server, host in enumerate(hosts) for k in range(most + 1))
    problems += [Problem("an address more than once", value=one) for one, count in used.items() if count > 1]
    for host in hosts:
        for link in host.links:
            if "." in link.interface:
                text = "a name with a dot cannot be a setting of the system"
                problems.append(Problem(text, path=f"interfaces of {host.name}", value=link.interface))
    if problems:
        raise InputError(problems[:20])


def _plans(topology: Topology, hosts: tuple[Host, ...], paths: tuple[PlannedPath, ...]) -> list[HostPlan]:
    """What each server sends and forwards."""
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
        for place, (here, there) in enumerate(itertools.pairwise(path.nodes)):
            came = ports[path.nodes[place - 1], here] if place else []
            hops[here].append(
                Hop(
                    source=ends[0],
                    target=ends[1],
                    own=place == 0,
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
