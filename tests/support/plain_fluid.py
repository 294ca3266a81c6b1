"""Max-min fair flow simulation in plain Python, written apart from the compiled one."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

from tests.support import plain_flexnet as plain
from topoopt.core.workload import TaskGraph, TaskKind
from topoopt.simulate.network import Network

Link = tuple[int, int]


def plain_max_min(flows: list[Counter[Link]], capacity: dict[Link, float]) -> list[float]:
    """Rates of flows, each a multiset of links: raise all together, freeze those on the link that fills first."""
    rates = [math.nan] * len(flows)
    rising = set(range(len(flows)))
    while rising:
        levels = {}
        for link in {link for i in rising for link in flows[i]}:
            spent = sum(rates[i] * flows[i][link] for i in range(len(flows)) if i not in rising)
            levels[link] = (capacity[link] - spent) / sum(flows[i][link] for i in rising)
        tightest = min(levels, key=lambda link: levels[link])
        for i in [i for i in rising if tightest in flows[i]]:
            rates[i] = levels[tightest]
            rising.remove(i)
    return rates


def plain_fluid_times(graph: TaskGraph, network: Network) -> tuple[list[float], list[float]]:
    """Start and end of every task, ms."""
    pairs, rings = plain.named_paths(network)
    capacity = plain.link_rates(network)
    successors = [
        [int(s) for s in graph.successor[graph.successor_ptr[t] : graph.successor_ptr[t + 1]]]
        for t in range(graph.tasks)
    ]
    blocked = [0] * graph.tasks
    for following in successors:
        for s in following:
            blocked[s] += 1
    starts, ends = [math.nan] * graph.tasks, [0.0] * graph.tasks
    server_free: dict[int, float] = defaultdict(float)
    agenda: list[tuple[float, int, str]] = [(0.0, t, "ready") for t in range(graph.tasks) if blocked[t] == 0]
    moving: list[tuple[int, Counter[Link], float, float]] = []  # task, links, bytes left, latency to add

    def departures(task: int) -> list[tuple[int, Counter[Link], float, float]]:
        amount = float(graph.bytes[task])
        if graph.kind[task] == TaskKind.TRANSFER:
            pair = int(graph.source[task]), int(graph.target[task])
            first = int(network.pair_ptr[pair[0] * network.servers + pair[1]])
            return [
                (task, Counter(path), amount * float(network.path_share[first + i]), len(path) * network.hop_latency_ms)
                for i, path in enumerate(pairs[pair])
            ]
        members = graph.groups[graph.group[task]]
        k = len(members)
        return [
            (
                task,
                Counter(link for path in ring for link in path),
                2 * (k - 1) / k * amount * share,
                2 * (k - 1) * network.ring_round_latency_ms,
            )
            for ring, share in zip(rings[members], plain.ring_shares(network, members), strict=True)
        ]

    now = 0.0
    while agenda or moving:
        rates = plain_max_min([links for _, links, _, _ in moving], capacity)
        times = [now + left / rate for (_, _, left, _), rate in zip(moving, rates, strict=True)]
        now, before = min(times + [time for time, _, _ in agenda]), now
        still, arrived = [], []
        for (task, links, left, tail), rate, time in zip(moving, rates, times, strict=True):
            if time > now + 1e-9:
                still.append((task, links, left - rate * (now - before), tail))
            else:
                ends[task] = max(ends[task], now + tail)
                arrived.append(task)
        moving = still
        under_way = {task for task, *_ in moving}
        agenda += [(ends[task], task, "done") for task in dict.fromkeys(arrived) if task not in under_way]
        due = True
        while due:
            agenda.sort(key=lambda item: item[0])  # stable: older items first
            due = bool(agenda) and agenda[0][0] <= now + 1e-9
            if not due:
                break
            time, task, what = agenda.pop(0)
            kind = TaskKind(graph.kind[task])
            if what == "ready":
                starts[task] = time
                if kind < TaskKind.TRANSFER:
                    server = int(graph.source[task])
                    starts[task] = max(time, server_free[server])
                    server_free[server] = starts[task] + float(graph.duration_ms[task])
                local = kind is TaskKind.TRANSFER and graph.source[task] == graph.target[task]
                sends = not local and (kind is TaskKind.TRANSFER or graph.group[task] >= 0)
                agenda.append((starts[task] + float(graph.duration_ms[task]), task, "send" if sends else "done"))
            elif what == "send":
                ends[task] = time
                new = departures(task)
                for flow in new:
                    if flow[2] <= 0:
                        ends[task] = max(ends[task], time + flow[3])
                new = [flow for flow in new if flow[2] > 0]
                moving += new
                if not new:
                    agenda.append((ends[task], task, "done"))
            else:
                ends[task] = time
                for s in successors[task]:
                    blocked[s] -= 1
                    if blocked[s] == 0:
                        agenda.append((time, s, "ready"))
    return starts, ends
