"""The reference search's segment model in plain Python: dicts, lists and heapq, written apart from the compiled one."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from fractions import Fraction
from itertools import count

from topoopt.core.workload import TaskGraph, TaskKind
from topoopt.simulate.network import Network

SEGMENT = 1024 * 1024

Link = tuple[int, int]


def named_paths(network: Network) -> tuple[dict[Link, list[list[Link]]], dict[tuple[int, ...], list[list[list[Link]]]]]:
    """Paths of pairs and of ring members of groups, as lists of (tail, head) links."""
    ends = [(int(a), int(b)) for a, b in network.link_ends]
    n = network.servers
    pairs: dict[Link, list[list[Link]]] = defaultdict(list)
    for i in range(n):
        for j in range(n):
            for p in range(network.pair_ptr[i * n + j], network.pair_ptr[i * n + j + 1]):
                pairs[i, j].append([ends[x] for x in network.path_link[network.path_ptr[p] : network.path_ptr[p + 1]]])
    rings: dict[tuple[int, ...], list[list[list[Link]]]] = {}
    for g, members in enumerate(network.groups):
        rings[members] = [
            [
                [ends[x] for x in network.member_link[network.member_ptr[m] : network.member_ptr[m + 1]]]
                for m in range(network.ring_ptr[r], network.ring_ptr[r + 1])
            ]
            for r in range(network.group_ptr[g], network.group_ptr[g + 1])
        ]
    return pairs, rings


def link_rates(network: Network) -> dict[Link, float]:
    """Rate of each link by its ends."""
    return {(int(a), int(b)): float(rate) for (a, b), rate in zip(network.link_ends, network.link_rate, strict=True)}


def ring_shares(network: Network, members: tuple[int, ...]) -> list[float]:
    """Shares of the rings of a group."""
    g = network.groups.index(members)
    return [float(x) for x in network.ring_share[network.group_ptr[g] : network.group_ptr[g + 1]]]


def bytes_on_ring(payload: int, members: int, share: float) -> int:
    """What each member sends, rounded up; equal shares are a division by the number of rings."""
    wire = 2.0 * (members - 1) * payload / members
    rings = Fraction(share).limit_denominator(64)
    if rings.numerator == 1 and 1.0 / rings.denominator == share:
        return math.ceil(wire / rings.denominator)
    return math.ceil(wire * share)


def plain_flexnet_times(
    graph: TaskGraph, network: Network, directions: list[int] | None = None
) -> tuple[list[float], list[float]]:
    """Start and end of every task, ms."""
    pairs, rings = named_paths(network)
    rates = link_rates(network)
    latency = network.hop_latency_ms
    successors = [
        [int(s) for s in graph.successor[graph.successor_ptr[t] : graph.successor_ptr[t + 1]]]
        for t in range(graph.tasks)
    ]
    blocked = [0] * graph.tasks
    for following in successors:
        for s in following:
            blocked[s] += 1
    release = [0.0] * graph.tasks
    starts, ends = [0.0] * graph.tasks, [0.0] * graph.tasks
    server_free: dict[int, float] = defaultdict(float)
    link_free: dict[Link, float] = defaultdict(float)
    pending: dict[int, int] = {}
    serial = count()
    # (time, serial, task, path, bytes left); a task that becomes ready has no path.
    queue: list[tuple[float, int, int, list[Link] | None, float]] = []

    def schedule(time: float, task: int, path: list[Link] | None = None, left: float = 0.0) -> None:
        heapq.heappush(queue, (time, next(serial), task, path, left))

    def finish(task: int) -> None:
        for s in successors[task]:
            release[s] = max(release[s], ends[task])
            blocked[s] -= 1
            if blocked[s] == 0:
                schedule(release[s], s)

    for task in range(graph.tasks):
        if blocked[task] == 0:
            schedule(0.0, task)
    while queue:
        now, _, task, path, left = heapq.heappop(queue)
        if path is not None:
            piece = min(SEGMENT, left)
            time, over, first_over = now, now, now
            for position, link in enumerate(path):
                time = max(link_free[link], time) + latency
                link_free[link] = time + piece / rates[link]
                over = max(over, link_free[link])
                if position == 0:
                    first_over = link_free[link]
            if left > piece:
                schedule(first_over, task, path, left - piece)
                continue
            ends[task] = max(ends[task], over)
            pending[task] -= 1
            if pending[task] == 0:
                finish(task)
            continue
        kind, source, target = TaskKind(graph.kind[task]), int(graph.source[task]), int(graph.target[task])
        starts[task] = now
        if kind in (TaskKind.FORWARD, TaskKind.BACKWARD):
            starts[task] = max(now, server_free[source])
            server_free[source] = ends[task] = starts[task] + float(graph.duration_ms[task])
            finish(task)
        elif kind is TaskKind.TRANSFER and source != target:
            pending[task] = 1
            schedule(now, task, pairs[source, target][0], float(graph.bytes[task]))
        elif kind is TaskKind.TRANSFER or graph.group[task] < 0:
            ends[task] = now + float(graph.duration_ms[task])
            finish(task)
        else:
            members = graph.groups[graph.group[task]]
            k = len(members)
            pending[task] = k * len(rings[members])
            for place in range(k):
                for ring, share in zip(rings[members], ring_shares(network, members), strict=True):
                    way = ring[place]
                    if directions is not None and directions[task] == -1:
                        way = [(head, tail) for tail, head in reversed(ring[place - 1])]
                    amount = float(bytes_on_ring(int(graph.bytes[task]), k, share))
                    schedule(now + float(graph.duration_ms[task]), task, way, amount)
    return starts, ends
