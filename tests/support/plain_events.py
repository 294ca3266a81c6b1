"""Plain-Python version of the `rounds` and `hop` time models, written from their description, with dicts and heapq.

Links are those of the checker, which are plain Python too.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict

from topoopt.core.cluster import LinkSharing
from topoopt.core.workload import TaskGraph, TaskKind
from topoopt.simulate.network import Network
from topoopt.verify.job.simulation import SimulatedLinks

SERVED = 2000
"""In place of a hop: the chunks of a step should have crossed their links."""


def plain_times(graph: TaskGraph, network: Network, model: str) -> dict[int, tuple[float, float]]:
    """(start, end) of every task that ran."""
    rounds = model == "rounds"
    segment = 256 * 1024.0 if rounds else 1024 * 1024.0
    waiting: dict[int, int] = defaultdict(int)
    for task in map(int, graph.successor):
        waiting[task] += 1
    ready: dict[int, float] = defaultdict(float)
    device_free: dict[int, float] = defaultdict(float)
    cut = network.link_sharing is not LinkSharing.FIFO
    turn = 0.0 if network.link_sharing is LinkSharing.TRANSFERS_FIRST else segment
    links = SimulatedLinks(network.link_rate.tolist(), turn)
    times: dict[int, list[float]] = {}
    heap: list[tuple[float, tuple[int, int, int, int], tuple]] = []
    first_flow = [0]  # flows are numbered task by task, one per path or ring
    for task in range(graph.tasks):
        flows_here = 0
        if graph.kind[task] == TaskKind.TRANSFER:
            pair = int(graph.source[task]) * network.servers + int(graph.target[task])
            flows_here = int(network.pair_ptr[pair + 1] - network.pair_ptr[pair])
        elif graph.kind[task] == TaskKind.ALLREDUCE and graph.group[task] >= 0:
            flows_here = int(network.group_ptr[graph.group[task] + 1] - network.group_ptr[graph.group[task]])
        first_flow.append(first_flow[-1] + flows_here)

    def push(time: float, event: tuple) -> None:
        """Events at the same time go by (task or flow number, step, hop, kind of event)."""
        if event[0] == "ready":
            code = (event[1], 0, 0, 0)
        else:
            number = first_flow[event[1]] + next(i for i, flow in enumerate(event[2]) if flow is event[3])
            code = (number, event[4], event[5], 1 if event[0] == "segment" else 2)
        heapq.heappush(heap, (time, code, event))

    def finish(task: int, end: float) -> None:
        times[task][1] = end
        for successor in map(int, graph.successor[graph.successor_ptr[task] : graph.successor_ptr[task + 1]]):
            ready[successor] = max(ready[successor], end)
            waiting[successor] -= 1
            if waiting[successor] == 0:
                push(ready[successor], ("ready", successor))

    def flow_done(task: int, flows: list[dict], end: float) -> None:
        times[task][1] = max(times[task][1], end)
        if all(flow["done"] for flow in flows):
            finish(task, times[task][1])

    def begin(task: int, now: float) -> None:
        kind = TaskKind(graph.kind[task])
        times[task] = [now, -1.0]
        if kind in (TaskKind.FORWARD, TaskKind.BACKWARD):
            server = int(graph.source[task])
            times[task][0] = max(now, device_free[server])
            device_free[server] = times[task][0] + float(graph.duration_ms[task])
            finish(task, device_free[server])
        elif kind is TaskKind.TRANSFER:
            flows = []
            pair = int(graph.source[task]) * network.servers + int(graph.target[task])
            for path in range(int(network.pair_ptr[pair]), int(network.pair_ptr[pair + 1])):
                links = network.path_link[network.path_ptr[path] : network.path_ptr[path + 1]].tolist()
                amount = int(graph.bytes[task]) * float(network.path_share[path])
                size = segment if rounds else max(segment, amount / 8)
                pieces = max(1, math.ceil(amount / size))
                sizes = [size] * (pieces - 1) + [amount - size * (pieces - 1)]
                flows.append({"links": links, "sizes": sizes, "left": pieces, "end": 0.0, "done": False})
            for flow in flows:
                push(now + float(graph.duration_ms[task]), ("segment", task, flows, flow, 0, 0))
        elif graph.group[task] < 0:
            finish(task, now + float(graph.duration_ms[task]))
        else:
            group = int(graph.group[task])
            k = len(network.groups[group])
            flows = []
            for ring in range(int(network.group_ptr[group]), int(network.group_ptr[group + 1])):
                members = [
                    network.member_link[network.member_ptr[m] : network.member_ptr[m + 1]].tolist()
                    for m in range(int(network.ring_ptr[ring]), int(network.ring_ptr[ring + 1]))
                ]
                payload = int(graph.bytes[task])
                amount = 2.0 * (k - 1) / k * payload * float(network.ring_share[ring])
                fixed = 2.0 * (k - 1) * network.ring_round_latency_ms
                if payload < 9000 * k:
                    steps, gap, tail = 1, 0.0, fixed
                elif rounds:
                    steps, gap, tail = 2 * (k - 1), network.ring_round_latency_ms, 0.0
                else:
                    steps, gap, tail = max(1, min(8, math.ceil(amount / segment))), 0.0, fixed
                flow = {"members": members, "steps": steps, "chunk": amount / steps, "gap": gap, "tail": tail}
                flow["links"] = [link for member in members for link in member]
                flow["cut"] = cut and payload >= 9000 * k and amount / steps > segment
                flows.append({**flow, "end": 0.0, "done": False})
            for flow in flows:
                push(now + float(graph.duration_ms[task]), ("step", task, flows, flow, 0, 0))

    for task in range(graph.tasks):
        if waiting[task] == 0:
            push(0.0, ("ready", task))
    while heap:
        now, _, event = heapq.heappop(heap)
        if event[0] == "ready":
            begin(event[1], now)
            continue
        name, task, flows, flow, step, hop = event
        if name == "segment":
            amount = flow["sizes"][step]
            began, free = links.serve_segment(flow["links"][hop], amount, now)
            if hop == 0 and step + 1 < len(flow["sizes"]):
                push(free, ("segment", task, flows, flow, step + 1, 0))
            if hop + 1 < len(flow["links"]):
                rate = float(network.link_rate[flow["links"][hop + 1]])
                arrival = max(began, free - amount / rate) + network.hop_latency_ms
                push(arrival, ("segment", task, flows, flow, step, hop + 1))
                continue
            flow["end"] = max(flow["end"], free + network.hop_latency_ms)
            flow["left"] -= 1
            if flow["left"] == 0:
                flow["done"] = True
                flow_done(task, flows, flow["end"])
            continue
        if hop == SERVED:
            flow["end"] = max([flow["end"], *(put_off := [links.put_off(chunk) for chunk in flow["chunks"]])])
            flow["chunks"] = [chunk for chunk, end in zip(flow["chunks"], put_off, strict=True) if end > now]
            if flow["end"] + flow["gap"] > now:
                push(flow["end"] + flow["gap"], (*event[:5], SERVED))
            elif step + 1 < flow["steps"]:
                push(now, ("step", task, flows, flow, step + 1, 0))
            else:
                links.end(flow["links"])
                flow["done"] = True
                flow_done(task, flows, now + flow["tail"])
            continue
        if flow["cut"] and hop == 0:
            flow["chunks"] = []
            if step == 0:
                links.begin(flow["links"])
        asked = [member[hop] for member in flow["members"] if hop < len(member)]
        sent = [links.serve(link, flow["chunk"], now) for link in asked]
        if flow["cut"]:
            flow["chunks"] += [(link, end, links.gone_ahead[link]) for link, (_, end) in zip(asked, sent, strict=True)]
        flow["end"] = max([flow["end"], *(free for _, free in sent)])
        if any(hop + 1 < len(member) for member in flow["members"]):
            latest = max([now, *(began for began, _ in sent)])
            push(latest + network.hop_latency_ms, ("step", task, flows, flow, step, hop + 1))
        elif flow["cut"]:
            push(flow["end"] + flow["gap"], ("step", task, flows, flow, step, SERVED))
        elif step + 1 < flow["steps"]:
            push(flow["end"] + flow["gap"], ("step", task, flows, flow, step + 1, 0))
        else:
            flow["done"] = True
            flow_done(task, flows, flow["end"] + flow["gap"] + flow["tail"])
    return {task: (start, end) for task, (start, end) in times.items()}
