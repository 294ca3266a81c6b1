"""A plan as a task graph of the FlexNet search (FlatBuffers), so that the public packet simulator can replay it.

Tables and slots as that format has them: one server is one device, channels between servers are devices of their own,
AllReduces name their servers in place of successors, rings are jumps that all members of a group size share.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from topoopt.core.cluster import LinkDirection, LinkSharing
from topoopt.core.result import Result
from topoopt.core.topology import Topology
from topoopt.core.workload import TaskGraph, TaskKind
from topoopt.formats.exporter import Export, Exporter, ExportOptions, plain_name, refuse
from topoopt.formats.flexnet.encode import encode
from topoopt.formats.flexnet.numbering import (
    Jumps,
    numbers_and_jumps,
    renumbered_graph,
    renumbered_path,
    renumbered_topology,
)
from topoopt.formats.flexnet.read_taskgraph import MAX_TASK_BYTES
from topoopt.formats.hosts.planned_paths import planned_paths

MAX_SERVERS = 1024


def build(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """The file.

    Raises:
        InputError: no instance given, one-way links, rings that the format cannot say, too many servers.
    """
    graph, plan = options.task_graph, solution.plan
    if graph is None:
        raise refuse("a task graph needs the operators of the job", path="--instance", allowed="the solved instance")
    plan.require_rings("FlexNet task graphs")
    if plan.topology.links is not LinkDirection.BIDIRECTIONAL:
        raise refuse("the format joins servers in both directions", path="plan.topology.links", value="unidirectional")
    if graph.servers > MAX_SERVERS:
        raise refuse("too many servers: routes of all pairs", value=graph.servers, allowed=f"at most {MAX_SERVERS}")
    if int(graph.bytes.max(initial=0)) > MAX_TASK_BYTES:
        raise refuse("a task of too many bytes", value=int(graph.bytes.max()), allowed=f"at most {MAX_TASK_BYTES}")
    used = {graph.groups[index] for index in graph.group.tolist() if index >= 0}
    number, jumps = numbers_and_jumps([group for group in plan.rings if group.members in used], graph.servers)
    planned = planned_paths(plan)
    widest = {(path.source, path.target): path for path in reversed(planned)}  # by share, the largest first
    paths = [renumbered_path(path, number) for path in widest.values()]
    shares = {len(group.members): {round(ring.share, 9) for ring in group.rings} for group in plan.rings}
    notes = [*EXPORTER.limits]
    cluster = solution.figures.cluster
    sharing = cluster.link_sharing
    if sharing is not LinkSharing.FIFO:
        notes.append(
            f"the plan has links shared {sharing}, which the format does not say: topoopt replay takes as long with "
            f"--link-sharing {sharing}, a packet simulator with one class of traffic may not"
        )
    if any(len(each) > 1 for each in shares.values()):
        notes.append("rings of unequal shares: the simulator gives all rings of a group size the same share")
    split = len({(path.source, path.target) for path in planned if 0 < path.share < 1 - 1e-9})
    if split:
        notes.append(f"{split} pairs send over several paths; each has the one of the largest share")
    if any(size < graph.servers for size in jumps):
        notes.append("the simulator as released misroutes rings of fewer servers than all: it takes the place of a "
                     "member in its group for the number of its server")  # fmt: skip
    if number != tuple(range(graph.servers)):
        called = ", ".join(f"{server} is {at}" for server, at in enumerate(number))
        notes.append(f"servers are numbered along a ring, so that rings are jumps: {called}")
    renamed, topology = renumbered_graph(graph, number), renumbered_topology(plan.topology, number)
    content = comparable(renamed, topology, jumps, {(path.source, path.target): path.nodes for path in paths})
    file = f"{plain_name(solution.name)}.fbuf"
    return Export(((file, encode(cluster, renamed, topology, paths, jumps)),), content, tuple(notes))


def comparable(
    graph: TaskGraph,
    topology: Topology,
    jumps: Jumps,
    paths: dict[tuple[int, int], tuple[int, ...]],
) -> dict[str, object]:
    """What a reader must find: tasks, links, paths, rings. Times are as exact as the format's 32 bits."""
    arcs = zip(topology.arcs.tolist(), topology.multiplicity.tolist(), strict=True)
    return {
        "kinds": tuple(graph.kind.tolist()),
        "sources": tuple(graph.source.tolist()),
        "targets": tuple(graph.target.tolist()),
        "bytes": tuple(graph.bytes.tolist()),
        "ms": tuple(graph.duration_ms.astype(np.float32).tolist()),
        "groups": tuple(graph.groups[index] if index >= 0 else () for index in graph.group.tolist()),
        "edges": frozenset(
            (task, after)
            for task in range(graph.tasks)
            if graph.kind[task] != TaskKind.ALLREDUCE
            for after in graph.successor[graph.successor_ptr[task] : graph.successor_ptr[task + 1]].tolist()
        ),
        "links": frozenset((tail, head, count) for (tail, head), count in arcs),
        "paths": tuple(sorted(paths.items())),
        "rings": {size: tuple(sorted(rows)) for size, rows in jumps.items()},
    }


EXPORTER = Exporter(
    kinds=("co-optimisation",),
    makes="one .fbuf file: tasks, topology, routes and rings",
    limits=(
        "one path a pair, that of the largest share: the packet simulator of the TopoOpt artifact draws one of those "
        "listed at random, whatever their shares; rings have equal shares",
        "rings must be the same jump from every server of a group, by some order of the servers; others are refused",
        "pairs without traffic get a shortest path; times are 32-bit numbers",
    ),
    folder=False,
    build=build,
    told=("co-optimisation",),
)
