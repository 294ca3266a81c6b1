"""Rates of hosts after a bandwidth allocation: servers joined by cables, which forward for each other."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Protocol

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.host_rates import HostRates, HostSetting, LinkRate
from topoopt.core.topology import Topology
from topoopt.formats.exporter import refuse
from topoopt.formats.hosts.settings import ServerLink, bits, cable_address, make_hosts

Ports = dict[tuple[int, int], list[tuple[int, int]]]
"""(server, neighbour) -> numbers of the links that join them: (of the server, of the neighbour)."""


class Destination(Protocol):
    """What one server sends towards one destination."""

    @property
    def server(self) -> int: ...
    @property
    def destination(self) -> int: ...
    @property
    def next_hops(self) -> Sequence[tuple[int, float]]: ...


class AllocatedRates(Protocol):
    """What is read of an allocation solution."""

    @property
    def name(self) -> str: ...
    @property
    def topology(self) -> Topology: ...
    @property
    def capacity_gbps(self) -> Floats: ...
    @property
    def servers(self) -> Sequence[Destination]: ...


def hosts_of_allocation(solution: AllocatedRates, settings: tuple[HostSetting, ...]) -> HostRates:
    """Hosts `server0`, `server1`, ... with interfaces `eth1`, `eth2`, ... by neighbour; parallel links share evenly.

    A host sends all traffic to a destination, its own and that of others, by the same next hops; so the rates of all
    links come out as the solution has them. Servers without a rate to a destination get a shortest route to it.

    Raises:
        InputError: links that are no cables between two interfaces, or routes that turn in circles once they are
            put together by destination.
    """
    topology = solution.topology
    hosts_of, ports = _cables(topology, solution.capacity_gbps)
    hosts = make_hosts(hosts_of, settings)
    made: dict[tuple[int, int, int], LinkRate] = {}
    towards: dict[int, dict[int, list[tuple[int, float]]]] = defaultdict(dict)
    for one in solution.servers:
        hops = [(neighbour, gbps) for neighbour, gbps in one.next_hops if gbps > 0]
        if hops:
            towards[one.destination][one.server] = hops
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
    if problems:
        raise InputError(problems[:20])
    return HostRates(solution.name, hosts, tuple(made[key] for key in sorted(made)))


def _cables(topology: Topology, capacity_gbps: Floats) -> tuple[tuple[tuple[str, tuple[ServerLink, ...]], ...], Ports]:
    """Servers with their links, and which link leads where."""
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
            name = f"eth{len(links[tail]) + 1}"
            links[tail].append(ServerLink(name, cable_address(number, int(tail > head)), gbps))
    ports = {(one, other): list(zip(own, ends[other, one], strict=True)) for (one, other), own in ends.items()}
    return tuple((f"server{s}", tuple(own)) for s, own in enumerate(links)), ports


def _circle(destination: int, hops: dict[int, list[tuple[int, float]]]) -> list[Problem]:
    import networkx as nx

    graph = nx.DiGraph([(server, neighbour) for server, ways in hops.items() for neighbour, _ in ways])
    lost = sorted(neighbour for _, neighbour in graph.edges if neighbour != destination and neighbour not in hops)
    if lost:
        return [Problem(f"server {lost[0]} gets traffic for {destination} and sends none on", path="servers")]
    if destination in hops or not nx.is_directed_acyclic_graph(graph):
        circle = [destination] if destination in hops else [tail for tail, _ in nx.find_cycle(graph)]
        text = f"routes to server {destination} turn in a circle when put together: {circle}"
        return [Problem(text, path="servers", allowed="routes by destination, such as shortest ones")]
    return []


def _shortest(topology: Topology, destination: int) -> dict[int, int]:
    """Neighbour on a shortest route to a destination, of every server that has one."""
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
