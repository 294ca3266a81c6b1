"""Policy routing of a host: a table for each link, chosen by source address, and one of weighted next hops.

A packet whose socket is bound to the address of a link leaves by that link. A packet to the address of a host that is
reached over all its links finds its next hops in a table of its own; with several, the kernel shares flows (not
packets) out by weight, 1 to 256, so that a pair that needs two links needs several sockets.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import reduce
from ipaddress import IPv4Interface
from math import gcd

import numpy as np

from topoopt.core.cluster import HostRates, LinkRate

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
    found = [int(weight) for weight in tried[best]]
    divisor = reduce(gcd, found)
    return [weight // divisor for weight in found]


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
    for there, ways in sorted(hops.items()):
        head = ["ip", "route", "replace", f"{rates.hosts[there].address}/32", "table", str(TABLE), *mark]
        head += ["src", host.address]
        vias = [
            [
                "via",
                str(IPv4Interface(rates.hosts[way.next_host].links[way.next_link].address).ip),
                "dev",
                devices[way.link],
            ]
            for way in ways
        ]
        if len(ways) == 1:
            commands.append([*head, *vias[0]])
            continue
        for via, weight in zip(vias, weights([way.rate_bps for way in ways]), strict=True):
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
