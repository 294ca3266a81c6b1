"""Real hosts carry a plan: a script for each, with routes of Linux or with Open vSwitch and traffic control."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from topoopt.core.arrays import Floats
from topoopt.core.cluster import Host, HostLink, HostRates, HostSetting, LinkRate
from topoopt.core.errors import Problem, raise_any
from topoopt.core.result import Result
from topoopt.core.topology import Topology
from topoopt.files.atomic import csv_text
from topoopt.formats.hosts import (
    MAX_RATES,
    MAX_SUBNET_LINKS,
    PROTOCOL,
    TABLE,
    Command,
    HostTraffic,
    PlannedPath,
    ServerLink,
    bits,
    burst_bytes,
    cable_address,
    ceiling_bps,
    check_hosts,
    check_neighbours,
    fitted,
    make_hosts,
    named_servers,
    planned_paths,
    reserved_bps,
    routing_commands,
    run_all,
    script,
    settings,
    shares_script,
    switched_address,
    traffic_of_hosts,
    with_answers,
)
from topoopt.formats.patch_list import circuits_csv, circuits_of
from topoopt.formats.table import NOTES_FILE, Export, Exporter, ExportOptions, class_notes, notes_bytes, refuse

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


def build_linux(solution: Result[Any, Any], options: ExportOptions) -> Export:
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
    notes = [*LINUX.limits, *class_notes(solution.figures.cluster)]
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
    raise_any(problems[:20])


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


LINUX = Exporter(
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
    build=build_linux,
)


COOKIE = "0x746f706f"
OWNER = "external_ids:owner=topoopt"
FILTERS_PER_PRIORITY = 2000
"""A hash table of u32 filters holds 2047."""


def ovs_script(rates: HostRates, traffic: HostTraffic, strict: bool) -> bytes:
    host = rates.hosts[traffic.host]
    commands: list[Command] = []
    for link in host.links:
        commands += [["bridge", link.bridge, link.interface], ["address", link.address, link.bridge]]
    commands.append(["address", f"{host.address}/32", "lo"])
    commands += [["setting", key, str(value)] for key, value in settings(rates, traffic)]
    for link, queues in zip(host.links, traffic.queues, strict=True):
        commands.append(["vsctl", *_qos(link, queues, strict)])
        commands += _flows(link, queues)
    commands += run_all(routing_commands(rates, traffic, bridged=True))
    return shares_script(
        "ovs", host, "ip tc ovs-vsctl ovs-ofctl", [["own_qos", link.interface] for link in host.links], commands
    )


def _qos(link: HostLink, queues: tuple[tuple[int, tuple[str, ...], int], ...], strict: bool) -> list[str]:
    """One transaction: the QoS of a port with all its queues. The root rate is stated, or it would be 100 Mbit/s."""
    names = ["queues:0=@q0", *(f"queues:{number}=@q{number}" for number, _, _ in queues)]
    root = f"other_config:max-rate={link.rate_bps}"
    words = ["--", "set", "port", link.interface, "qos=@qos", "--", "--id=@qos", "create", "qos", "type=linux-htb"]
    words += [root, *names, OWNER]
    words += _queue(0, reserved_bps(link), link.rate_bps, "other_config:priority=7")
    for number, _, bps in queues:
        words += _queue(number, bps, ceiling_bps(bps, link.rate_bps, strict))
    return words


def _queue(number: int, least_bps: int, most_bps: int, *more: str) -> list[str]:
    rates = [f"other_config:min-rate={least_bps}", f"other_config:max-rate={most_bps}"]
    burst = f"other_config:burst={8 * burst_bytes(least_bps)}"
    return ["--", f"--id=@q{number}", "create", "queue", *rates, burst, *more, OWNER]


def _flows(link: HostLink, queues: tuple[tuple[int, tuple[str, ...], int], ...]) -> list[Command]:
    """What the host sends to a destination goes to its queue; NORMAL then finds the port, as for all other traffic."""
    commands: list[Command] = []
    count = 0
    for number, addresses, _ in queues:
        for address in addresses:
            match = f"cookie={COOKIE},priority=200,ip,in_port=LOCAL,nw_dst={address}"
            flow = f"{match},actions=set_queue:{number},NORMAL"
            commands.append(["run", "ovs-ofctl", "-O", "OpenFlow13", "add-flow", link.bridge, flow])
            priority = 1 + count // FILTERS_PER_PRIORITY
            commands.append(["classify", link.interface, address, format(number + 1, "x"), str(priority)])
            count += 1
    return commands


HANDLE = "7106"
ROOT = "ffff"


def tc_script(rates: HostRates, traffic: HostTraffic, strict: bool) -> bytes:
    host = rates.hosts[traffic.host]
    commands: list[Command] = []
    for link in host.links:
        commands += [["address", link.address, link.interface], ["run", "ip", "link", "set", link.interface, "up"]]
    commands.append(["address", f"{host.address}/32", "lo"])
    commands += [["setting", key, str(value)] for key, value in settings(rates, traffic)]
    for link, queues in zip(host.links, traffic.queues, strict=True):
        commands += run_all(_classes(link, queues, strict))
        commands += run_all(_filters(link, queues))
    commands += run_all(routing_commands(rates, traffic, bridged=False))
    checks = [["own_qdisc", link.interface] for link in host.links]
    return shares_script("tc", host, "ip tc", checks, commands)


def _classes(link: HostLink, queues: tuple[tuple[int, tuple[str, ...], int], ...], strict: bool) -> list[Command]:
    root = ["tc", "qdisc", "replace", "dev", link.interface, "root", "handle", f"{HANDLE}:", "htb", "default", "1"]
    full = link.rate_bps
    whole = _class(link, "", ROOT, full, full)
    commands = [root, whole, _class(link, ROOT, "1", reserved_bps(link), full, "prio", "7")]
    for number, _, bps in queues:
        commands.append(_class(link, ROOT, format(number + 1, "x"), bps, ceiling_bps(bps, full, strict)))
    return commands


def _class(link: HostLink, parent: str, number: str, least_bps: int, most_bps: int, *more: str) -> Command:
    head = ["tc", "class", "add", "dev", link.interface, "parent", f"{HANDLE}:{parent}", "classid"]
    rates = [f"{HANDLE}:{number}", "htb", "rate", f"{least_bps}bit", "ceil", f"{most_bps}bit"]
    bursts = ["burst", f"{burst_bytes(least_bps)}b", "cburst", f"{burst_bytes(most_bps)}b"]
    quantum = ["quantum", str(min(60_000, max(1514, least_bps // 800)))]
    return [*head, *rates, *bursts, *quantum, *more]


def _filters(link: HostLink, queues: tuple[tuple[int, tuple[str, ...], int], ...]) -> list[Command]:
    commands: list[Command] = []
    for number, addresses, _ in queues:
        for address in addresses:
            priority = str(1 + len(commands) // FILTERS_PER_PRIORITY)
            head = ["tc", "filter", "add", "dev", link.interface, "parent", f"{HANDLE}:", "protocol", "ip"]
            match = ["prio", priority, "u32", "match", "ip", "dst", f"{address}/32"]
            commands.append([*head, *match, "flowid", f"{HANDLE}:{number + 1:x}"])
    return commands


Ports = dict[tuple[int, int], list[tuple[int, int]]]
"""(server, neighbour) -> numbers of the links that join them: (of the server, of the neighbour)."""


def hosts_of_allocation(result: Result[Any, Any], settings: tuple[HostSetting, ...]) -> HostRates:
    """Hosts `server0`, `server1`, ... with interfaces `eth1`, `eth2`, ... by neighbour; parallel links share evenly.

    A host sends all traffic to a destination, its own and that of others, by the same next hops; so the rates of all
    links come out as the solution has them. Servers without a rate to a destination get a shortest route to it.

    Raises:
        InputError: links that are no cables between two interfaces, or routes that turn in circles once they are
            put together by destination.
    """
    figures = result.figures
    topology = figures.problem.topology
    hosts_of, ports = _cables(topology, figures.problem.capacity_gbps)
    hosts = make_hosts(hosts_of, settings)
    made: dict[tuple[int, int, int], LinkRate] = {}
    towards: dict[int, dict[int, list[tuple[int, float]]]] = defaultdict(dict)
    for server, destination, next_hops in figures.server_rates:
        hops = [(neighbour, gbps) for neighbour, gbps in next_hops if gbps > 0]
        if hops:
            towards[destination][server] = hops
    problems = []
    for destination in range(topology.servers):
        problems += _circle(destination, towards[destination])
        near = _shortest(topology, destination)
        for server in range(topology.servers):
            if server == destination or (server not in towards[destination] and server not in near):
                continue
            for neighbour, gbps in towards[destination].get(server, [(near.get(server, -1), 0.0)]):
                joined = ports.get((server, neighbour), [])
                if not joined:
                    problems.append(Problem(f"no link from server {server} to {neighbour}", path="servers"))
                used = joined if gbps > 0 else joined[:1]
                for link, back in used:
                    rate = bits(gbps / len(used))
                    made[server, link, destination] = LinkRate(server, link, destination, neighbour, back, rate)
    raise_any(problems[:20])
    return HostRates(result.name, hosts, tuple(made[key] for key in sorted(made)))


def _cables(topology: Topology, capacity_gbps: Floats) -> tuple[tuple[tuple[str, tuple[ServerLink, ...]], ...], Ports]:
    rate = {
        (tail, head): (count, gbps / count)
        for (tail, head), count, gbps in zip(
            topology.arcs.tolist(), topology.multiplicity.tolist(), capacity_gbps.tolist(), strict=True
        )
    }
    odd = [pair for pair in sorted(rate) if rate.get(pair[::-1]) != rate[pair]]
    if odd:
        text = f"server {odd[0][0]} and {odd[0][1]} are not joined alike in both directions ({len(odd)} such links)"
        raise refuse(text, path="topology", allowed="links of the same number and rate both ways: ARP needs answers")
    links: list[list[ServerLink]] = [[] for _ in range(topology.servers)]
    ends: dict[tuple[int, int], list[int]] = defaultdict(list)
    cable: dict[tuple[int, int, int], int] = {}
    for (tail, head), (count, gbps) in sorted(rate.items()):
        for k in range(count):
            number = cable.setdefault((min(tail, head), max(tail, head), k), len(cable))
            ends[tail, head].append(len(links[tail]))
            links[tail].append((f"eth{len(links[tail]) + 1}", cable_address(number, int(tail > head)), gbps))
    ports = {(server, other): list(zip(own, ends[other, server], strict=True)) for (server, other), own in ends.items()}
    return tuple((f"server{s}", tuple(own)) for s, own in enumerate(links)), ports


def _circle(destination: int, hops: dict[int, list[tuple[int, float]]]) -> list[Problem]:
    import networkx as nx

    graph = nx.DiGraph([(server, neighbour) for server, neighbours in hops.items() for neighbour, _ in neighbours])
    lost = sorted(neighbour for _, neighbour in graph.edges if neighbour != destination and neighbour not in hops)
    if lost:
        return [Problem(f"server {lost[0]} gets traffic for {destination} and sends none on", path="servers")]
    if destination in hops or not nx.is_directed_acyclic_graph(graph):
        circle = [destination] if destination in hops else [tail for tail, _ in nx.find_cycle(graph)]
        text = f"routes to server {destination} turn in a circle when put together: {circle}"
        return [Problem(text, path="servers", allowed="routes by destination, such as shortest ones")]
    return []


def _shortest(topology: Topology, destination: int) -> dict[int, int]:
    into: dict[int, list[int]] = defaultdict(list)
    for tail, head in topology.arcs.tolist():
        into[head].append(tail)
    near: dict[int, int] = {}
    queue = deque([destination])
    while queue:
        here = queue.popleft()
        for tail in sorted(into[here]):
            if tail not in near and tail != destination:
                near[tail] = here
                queue.append(tail)
    return near


def hosts_of_placement(result: Result[Any, Any], settings: tuple[HostSetting, ...]) -> HostRates:
    """Link k of a server leads to link k of every other one: all links of one number share a switch.

    Raises:
        InputError: the solution allocates no rates, does not say over which links, or over links that do not exist.
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
                    (link.name, switched_address(k, s, len(servers)), link.gbps) for k, link in enumerate(server.links)
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
    """Return the Gbit/s of each link, by pair of servers."""
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
    raise_any(problems[:20])
    return shares


HOST_RATES: dict[str, Callable[[Any, tuple[HostSetting, ...]], HostRates]] = {
    "placement": hosts_of_placement,
    "allocation": hosts_of_allocation,
}
"""How rates of hosts are read of the solutions of each kind."""

OLD_LIMIT_BPS = 34_000_000_000
"""Open vSwitch before 64-bit rates counts 32-bit bytes a second: 34.36 Gbit/s wrap to 0."""


def build_ovs(solution: Any, options: ExportOptions) -> Export:
    """Scripts of the rates in a solution.

    Raises:
        InputError: no rates, or hosts that no script is written for; InfeasibleError: rates exceed a link.
    """
    return host_export(HOST_RATES[solution.kind](solution, options.hosts), options.strict)


def host_export(wanted: HostRates, strict: bool) -> Export:
    """Scripts of any rates.

    Raises:
        InputError, InfeasibleError: as `build`.
    """
    if len(wanted.rates) > MAX_RATES:
        raise refuse("too many rates", value=len(wanted.rates), allowed=f"at most {MAX_RATES}")
    check_hosts(wanted)
    check_neighbours(wanted)
    rates = fitted(wanted)
    if not any(rate.rate_bps for rate in rates.rates):
        raise refuse("no rate above zero: nothing to configure")
    files: list[tuple[str, bytes]] = []
    for traffic in traffic_of_hosts(rates):
        name = rates.hosts[traffic.host].name
        files.append((f"{name}.ovs.sh", ovs_script(rates, traffic, strict)))
        files.append((f"{name}.tc.sh", tc_script(rates, traffic, strict)))
    notes = (*rates.notes, *_warnings(rates, strict), *LIMITS)
    files.append((NOTES_FILE, notes_bytes("Scripts for hosts, written by topoopt export", notes)))
    matrix = rate_table(rates)
    return Export(tuple(files), {"ovs": matrix, "tc": matrix}, notes)


def rate_table(rates: HostRates) -> dict[tuple[str, str, str], int]:
    table: dict[tuple[str, str, str], int] = defaultdict(int)
    for rate in rates.rates:
        if rate.rate_bps:
            host = rates.hosts[rate.source]
            table[host.name, host.links[rate.link].interface, rates.hosts[rate.destination].name] += rate.rate_bps
    return dict(table)


def _warnings(rates: HostRates, strict: bool) -> list[str]:
    links = [link for host in rates.hosts for link in host.links]
    largest = max((rate.rate_bps for rate in rates.rates), default=0) if strict else max(x.rate_bps for x in links)
    notes = []
    if largest > OLD_LIMIT_BPS:
        notes.append(
            f"WARNING: classes up to {largest / 1e9:g} Gbit/s; Open vSwitch that counts 32-bit rates wraps above 34: "
            "compare `tc class show` with the script after it is applied, or use the tc scripts"
        )
    hops: dict[tuple[int, int], int] = defaultdict(int)
    for rate in rates.rates:
        hops[rate.source, rate.destination] += rate.rate_bps > 0
    split = sum(count > 1 for count in hops.values())
    if split:
        notes.append(
            f"{split} pairs use several links: the kernel shares sockets out by weight, so that they need several "
            "(8 or more, such as NCCL_NSOCKS_PERTHREAD times NCCL_SOCKET_NTHREADS)"
        )
    notes.append("shares are limits" if strict else "shares are guaranteed; what others leave of a link may be used")
    return notes


LIMITS = (
    "traffic of the kernel's IPv4 sockets alone: RDMA (RoCE) passes by, such libraries must be set to use sockets",
    "the userspace datapath of Open vSwitch takes set_queue and ignores it: TOPOOPT_DATAPATH=netdev adds tc filters",
    "bandwidth above the shares may meet at a receiver, where its switch port divides it (not with strict=true)",
    "answers (TCP ACKs) of pairs without a share of their own use the default queue, a thousandth at least",
    "addresses and names are defaults unless the setting hosts gives them; interfaces must exist, without addresses",
)

OVS = Exporter(
    kinds=tuple(HOST_RATES),
    makes="for each host HOST.ovs.sh (Open vSwitch) and HOST.tc.sh (tc): dry run, apply, teardown; NOTES.txt",
    limits=LIMITS,
    folder=True,
    build=build_ovs,
)
