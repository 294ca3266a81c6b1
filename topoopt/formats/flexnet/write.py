"""A plan as a task graph of the FlexNet search (FlatBuffers), so that the public packet simulator can replay it.

Tables and slots as that format has them: one server is one device, channels between servers are devices of their own,
AllReduces name their servers in place of successors, rings are jumps that all members of a group size share.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from topoopt.core.cluster import LinkDirection
from topoopt.core.job_solution import JobSolution
from topoopt.core.routing import GroupRings
from topoopt.core.taskgraph import TaskGraph, TaskKind
from topoopt.core.topology import Topology
from topoopt.formats.exporter import Export, Exporter, ExportOptions, plain_name, refuse
from topoopt.formats.flexnet.encode import encode
from topoopt.formats.flexnet.read_taskgraph import read_flexnet_taskgraph
from topoopt.formats.hosts.planned_paths import planned_paths

MAX_SERVERS = 1024


def ring_jumps(groups: Sequence[GroupRings], servers: int) -> dict[int, tuple[tuple[int, ...], ...]]:
    """Jumps of the rings by group size.

    Raises:
        InputError: a ring whose members do not all jump alike, or groups of one size with different rings.
    """
    found: dict[int, tuple[tuple[int, ...], ...]] = {}
    for group in groups:
        jumps = []
        for ring in group.rings:
            hops = {tuple((b - a) % servers for a, b in itertools.pairwise(path)) for path in ring.paths}
            if len(hops) != 1:
                raise refuse(
                    f"a ring of {len(group.members)} servers is not the same jump from every server",
                    path="plan.rings",
                    allowed="rings i -> i + p, such as --method fixed-topology mostly gives",
                )
            jumps.append(hops.pop())
        if found.setdefault(len(group.members), tuple(sorted(jumps))) != tuple(sorted(jumps)):
            raise refuse(f"groups of {len(group.members)} servers use different rings", path="plan.rings")
    return found


def build(solution: JobSolution, options: ExportOptions) -> Export:
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
    used = {graph.groups[index] for index in graph.group.tolist() if index >= 0}
    jumps = ring_jumps([group for group in plan.rings if group.members in used], graph.servers)
    paths = planned_paths(plan)
    shares = {len(group.members): {round(ring.share, 9) for ring in group.rings} for group in plan.rings}
    notes = [*EXPORTER.limits]
    if any(len(each) > 1 for each in shares.values()):
        notes.append("rings of unequal shares: the simulator gives all rings of a group size the same share")
    content = comparable(graph, plan.topology, jumps, {(p.source, p.target): p.nodes for p in reversed(paths)})
    file = f"{plain_name(solution.name)}.fbuf"
    return Export(((file, encode(solution, graph, paths, jumps)),), content, tuple(notes))


def comparable(
    graph: TaskGraph,
    topology: Topology,
    jumps: dict[int, tuple[tuple[int, ...], ...]],
    first_paths: dict[tuple[int, int], tuple[int, ...]],
) -> dict[str, object]:
    """What a reader must find: tasks, links, first paths, rings. Times are as exact as the format's 32 bits."""
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
        "paths": tuple(sorted(first_paths.items())),
        "rings": {size: tuple(sorted(rows)) for size, rows in jumps.items()},
    }


def read_back(folder: Path) -> object:
    """Tasks, topology, rings and the first path of every pair, of the one file of a folder; None: not all are there."""
    file = read_flexnet_taskgraph(next(folder.iterdir()))
    if file.topology is None or file.routes is None or (file.graph.kind > TaskKind.ALLREDUCE).any():
        return None
    routes = file.routes
    first = {
        (int(source), int(target)): routes.path(int(routes.pair_ptr[pair]))
        for pair, (source, target) in enumerate(zip(routes.source, routes.target, strict=True))
        if source != target
    }
    return comparable(file.graph, file.topology, file.ring_jumps, first)


EXPORTER = Exporter(
    kinds=("co-optimisation",),
    makes="one .fbuf file: tasks, topology, routes and rings; needs --instance",
    limits=(
        "the packet simulator of the TopoOpt artifact takes one path a pair (the first) and equal shares of rings",
        "rings must be the same jump from every server of a group; others are refused",
        "pairs without traffic get a shortest path; times are 32-bit numbers; read back here, not replayed by that "
        "simulator",
    ),
    folder=False,
    build=build,
    read_back=read_back,
)
