"""Times of tasks by the simulators of the checker, which share no code with the compiled ones."""

from __future__ import annotations

import math
from unittest.mock import patch

from topoopt.core.cluster import LinkSharing
from topoopt.core.workload import TaskGraph
from topoopt.simulate.network import Network
from topoopt.verify.job import simulation
from topoopt.verify.job.simulation import ALLREDUCE, TRANSFER, Flow, IterationTasks, SimulatedNetwork
from topoopt.verify.shared_cluster.times import _Fluid

HOP_SEGMENT_BYTES = 1024 * 1024.0

Times = tuple[list[float], list[float]]
"""Start and end of every task, ms."""


def checked_tasks(graph: TaskGraph) -> IterationTasks:
    """The same tasks for the checker."""
    tasks = IterationTasks()
    for task in range(graph.tasks):
        kind, group = int(graph.kind[task]), int(graph.group[task])
        tasks.add(
            kind,
            0,
            lane=int(graph.source[task]),
            target=int(graph.target[task]),
            members=graph.groups[group] if kind == ALLREDUCE and group >= 0 else (),
            duration_ms=float(graph.duration_ms[task]),
            size=int(graph.bytes[task]),
        )
        tasks.followers[task] += graph.successor[graph.successor_ptr[task] : graph.successor_ptr[task + 1]].tolist()
    return tasks


def checked_network(network: Network) -> SimulatedNetwork:
    """The same links, paths and rings for the checker."""
    n = network.servers

    def path(index: int) -> tuple[int, ...]:
        return tuple(network.path_link[network.path_ptr[index] : network.path_ptr[index + 1]].tolist())

    def member(index: int) -> tuple[int, ...]:
        return tuple(network.member_link[network.member_ptr[index] : network.member_ptr[index + 1]].tolist())

    return SimulatedNetwork(
        rate=network.link_rate.tolist(),
        hop_ms=network.hop_latency_ms,
        round_ms=network.ring_round_latency_ms,
        paths={
            divmod(pair, n): tuple(
                (float(network.path_share[k]), path(k))
                for k in range(network.pair_ptr[pair], network.pair_ptr[pair + 1])
            )
            for pair in range(n * n)
        },
        rings={
            members: tuple(
                (float(network.ring_share[r]), tuple(map(member, range(*network.ring_ptr[r : r + 2].tolist()))))
                for r in range(network.group_ptr[g], network.group_ptr[g + 1])
            )
            for g, members in enumerate(network.groups)
        },
        sharing=network.link_sharing,
    )


def checked_times(graph: TaskGraph, network: Network, model: str) -> Times:
    """By `rounds`; or by `hop`, with the flows of its description: eight segments or rounds of 1 MiB, or more bytes."""
    tasks, over = checked_tasks(graph), checked_network(network)
    if model == "rounds":
        times = simulation.simulate_rounds(tasks, simulation.flows_of(tasks, over), over)
        return times.start, times.end
    flows: list[list[Flow]] = []
    for task, kind in enumerate(tasks.kind):
        if kind == TRANSFER:
            ways = over.paths[tasks.lane[task], tasks.target[task]]
            flows.append([_hop_path(task, tasks.bytes[task] * share, links) for share, links in ways])
        elif kind == ALLREDUCE and (members := tasks.members[task]):
            flows.append([_hop_ring(task, tasks.bytes[task], len(members), ring, over) for ring in over.rings[members]])
        else:
            flows.append([])
    with patch.object(simulation, "TURN_BYTES", HOP_SEGMENT_BYTES):
        times = simulation.simulate_rounds(tasks, flows, over)
    return times.start, times.end


def _hop_path(task: int, amount: float, links: tuple[int, ...]) -> Flow:
    size = max(HOP_SEGMENT_BYTES, amount / 8)
    steps = max(1, math.ceil(amount / size))
    whole, last = (tuple(((link, own),) for link in links) for own in (size, amount - size * (steps - 1)))
    return Flow(task, (whole,), last, steps)


def _hop_ring(
    task: int, payload: int, k: int, ring: tuple[float, tuple[tuple[int, ...], ...]], over: SimulatedNetwork
) -> Flow:
    share, paths = ring
    amount, small = 2.0 * (k - 1) / k * payload * share, payload < simulation.SMALL_BYTES_OF_A_MEMBER * k
    steps = 1 if small else max(1, min(8, math.ceil(amount / HOP_SEGMENT_BYTES)))
    hops = range(max(map(len, paths)))
    together = tuple(tuple((path[hop], amount / steps) for path in paths if hop < len(path)) for hop in hops)
    is_cut = over.sharing is not LinkSharing.FIFO and not small and amount / steps > HOP_SEGMENT_BYTES
    cut = tuple(link for hop in together for link, _ in hop) if is_cut else ()
    return Flow(task, (together,), together, steps, 0.0, 2.0 * (k - 1) * over.round_ms, cut)


def checked_fluid(graph: TaskGraph, network: Network) -> Times:
    """By max-min fair flows."""
    tasks = checked_tasks(graph)
    run = _Fluid(tasks, [0, len(tasks)], checked_network(network))
    run.run()
    ran = zip(tasks.kind, tasks.duration_ms, run.ready, run.end, strict=True)
    return [end - ms if kind < TRANSFER else ready for kind, ms, ready, end in ran], run.end
