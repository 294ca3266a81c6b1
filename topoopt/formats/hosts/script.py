"""Scripts set up the routing of hosts: planned paths, tables of policy routing, and quoted commands."""

from __future__ import annotations

import shlex
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from importlib.resources import files
from ipaddress import IPv4Interface
from math import gcd

import numpy as np

from topoopt.core.cluster import Host, HostRates, LinkRate
from topoopt.core.plan import Plan
from topoopt.core.topology import Topology
from topoopt.formats.exporter import refuse

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
