"""A given task graph runs on a network, and nothing is searched: `topoopt.replay`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from topoopt.core.cluster import Cluster, ComputeOrder, LinkSharing
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.job import CoOptimisation
from topoopt.core.topology import Topology
from topoopt.core.workload import GroupRings, Placement, Ring, Strategy, TaskGraph
from topoopt.formats.flexnet import FlexnetFile, read_flexnet_taskgraph
from topoopt.kinds.files import read_instance
from topoopt.simulate.fabrics import FABRICS, FabricOptions, direct_connect_network
from topoopt.simulate.network import Network, build_task_graph
from topoopt.simulate.time_models import TIME_MODELS


@dataclass(frozen=True, eq=False)
class ReplayResult:
    """A replayed iteration.

    Attributes:
        iteration_time_ms: latest end of a task.
        start_ms, end_ms: float64[T].
        fabric, time_model: names.
        link_gbps: rate of one interface used.
        graph: what was replayed.
    """

    iteration_time_ms: float
    start_ms: NDArray[np.float64]
    end_ms: NDArray[np.float64]
    fabric: str
    time_model: str
    link_gbps: float
    graph: TaskGraph


def replay(
    source: str | Path | FlexnetFile | CoOptimisation | TaskGraph,
    *,
    fabric: str,
    link_gbps: float | None = None,
    time_model: str = "rounds",
    link_sharing: str | None = None,
) -> ReplayResult:
    """Iteration time of a task graph.

    Args:
        source: the path of a FlexNet task graph (.fbuf) or of an instance of kind `co-optimisation` that leaves no
            choice of strategy (every operator pinned, with one split), what is read from either, or a task graph
            (which needs `link_gbps`). Only a FlexNet file can have a direct-connect network.
        fabric: a name in `REPLAY_FABRICS`.
        link_gbps: rate of one interface, Gbit/s: the one NIC of a server on a switched fabric, one link of the
            direct-connect topology. None: the rate in the file.
        time_model: a name in `TIME_MODELS`.
        link_sharing: a value of `LinkSharing`, for time models that share by it; None: as in the instance, or `fifo`.

    Raises:
        InputError: unreadable file, unknown name, rate not positive, a way to share links that the time model does
            not have, or a fabric the file cannot provide.
    """
    problems = [
        Problem(f"unknown {what}", value=name, allowed=", ".join(table))
        for what, name, table in (
            ("fabric", fabric, REPLAY_FABRICS),
            ("time model", time_model, TIME_MODELS),
            ("link sharing", link_sharing, tuple(LinkSharing)),
        )
        if name is not None and name not in table
    ]
    if link_gbps is not None and not 0 < link_gbps < np.inf:
        problems.append(Problem("link rate must be positive", path="link_gbps", value=str(link_gbps)))
    if not problems and link_sharing is not None and not TIME_MODELS[time_model].by_sharing:
        able = ", ".join(name for name, model in TIME_MODELS.items() if model.by_sharing)
        message = f"time model {time_model} shares links in a way of its own"
        problems.append(Problem(message, path="link_sharing", value=link_sharing, allowed=f"with {able}"))
    raise_any(problems)
    content = _read(source) if isinstance(source, str | Path) else source
    order = content.cluster.compute_order if isinstance(content, CoOptimisation) else ComputeOrder.ARRIVAL
    if isinstance(content, CoOptimisation):
        link_gbps = content.cluster.link_gbps if link_gbps is None else link_gbps
        link_sharing = content.cluster.link_sharing if link_sharing is None else link_sharing
        content = pinned_graph(content)
    if link_gbps is None:
        if isinstance(content, TaskGraph):
            raise InputError("a task graph without a file needs the link rate")
        link_gbps = content.link_gbps
    graph = content if isinstance(content, TaskGraph) else content.graph
    network = replace(REPLAY_FABRICS[fabric](content, link_gbps), compute_order=order)
    if link_sharing is not None:
        network = replace(network, link_sharing=LinkSharing(link_sharing))
    done = TIME_MODELS[time_model].run(graph, network)
    return ReplayResult(done.iteration_time_ms, done.start_ms, done.end_ms, fabric, time_model, link_gbps, graph)


def _read(path: str | Path) -> FlexnetFile | CoOptimisation:
    if Path(path).suffix.lower() not in (".yaml", ".yml", ".json"):
        return read_flexnet_taskgraph(path)
    instance = read_instance(path)
    if isinstance(instance, CoOptimisation):
        return instance
    text = "no strategy to replay"
    raise InputError([Problem(text, file=str(path), path="kind", value=instance.kind, allowed="co-optimisation")])


def pinned_graph(instance: CoOptimisation) -> TaskGraph:
    """The task graph of a job whose operators leave no choice.

    Raises:
        InputError: operators may be split or placed in several ways.
    """
    operators = instance.workload.operators
    free = [i for i, operator in enumerate(operators) if len(operator.splits) != 1 or operator.pinned_offset is None]
    if free:
        first = operators[free[0]]
        text = f"{len(free)} of {len(operators)} operators may be split or placed in several ways, nothing to replay"
        value = f"{first.name}: {len(first.splits)} splits, pinned_offset {first.pinned_offset}"
        path, allowed = f"workload.operators[{free[0]}]", "one split and a pinned_offset for each operator"
        raise InputError([Problem(text, file=instance.source or None, path=path, value=value, allowed=allowed)])
    placements = tuple(Placement(0, operator.pinned_offset or 0) for operator in operators)
    return build_task_graph(instance.cluster, instance.workload, Strategy(placements))


def _cluster(servers: int, degree: int, link_gbps: float) -> Cluster:
    return Cluster(servers=servers, gpus_per_server=1, degree=degree, link_gbps=link_gbps)


def _switched(name: str) -> Callable[[FlexnetFile | TaskGraph, float], Network]:
    """A switched fabric of the table, each server on one NIC of the given rate."""

    def build(source: FlexnetFile | TaskGraph, link_gbps: float) -> Network:
        graph = source if isinstance(source, TaskGraph) else source.graph
        return FABRICS[name].build(_cluster(graph.servers, 1, link_gbps), graph.groups, FabricOptions())

    return build


def _direct_connect(source: FlexnetFile | TaskGraph, link_gbps: float) -> Network:
    if isinstance(source, TaskGraph) or source.topology is None or source.routes is None:
        raise InputError("the task graph has no direct-connect topology (links between servers, and routes)")
    rings = file_rings(source.graph.groups, source.ring_jumps, source.topology)
    cluster = _cluster(source.servers, source.topology.degree, link_gbps)
    return direct_connect_network(cluster, source.topology, source.routes, rings)


REPLAY_FABRICS: Mapping[str, Callable[[FlexnetFile | TaskGraph, float], Network]] = {
    "ideal-switch": _switched("ideal-switch"),
    "full-fat-tree": _switched("full-fat-tree"),
    "oversubscribed-fat-tree": _switched("oversubscribed-fat-tree"),
    "direct-connect": _direct_connect,
}
"""Fabrics a task graph can be replayed on."""


def file_rings(
    groups: tuple[tuple[int, ...], ...], ring_jumps: Mapping[int, tuple[tuple[int, ...], ...]], topology: Topology
) -> tuple[GroupRings, ...]:
    """Rings of the groups from the ring descriptors of their size, in equal shares.

    A descriptor lists the jumps, hop by hop, from a member to the next one, modulo n (TopoOpt artifact).

    Raises:
        InputError: a group has no descriptors, a descriptor leaves the group or does not pass all of it, or a hop has
            no link; all problems are listed.
    """
    arcs = topology.arc_ids()
    problems: list[Problem] = []
    out = []
    for group in groups:
        descriptors = ring_jumps.get(len(group), ())
        if not descriptors:
            problems.append(Problem(f"no rings for groups of {len(group)} servers", path="rings"))
        rings = []
        for jumps in descriptors:
            paths = _ring_paths(group, jumps, topology.servers)
            order = tuple(path[0] for path in paths)
            if set(order) != set(group):
                value = f"jumps {list(jumps)}, servers {list(group)}"
                problems.append(Problem("a ring descriptor does not pass all servers of its group", value=value))
            elif any(arcs[tail, head] < 0 for path in paths for tail, head in pairwise(path)):
                problems.append(
                    Problem("a ring descriptor crosses servers that are not joined", value=str(list(jumps)))
                )
            else:
                rings.append(Ring(order, 1.0 / len(descriptors), paths))
        out.append(GroupRings(group, tuple(rings)))
    raise_any(problems)
    return tuple(out)


def _ring_paths(group: tuple[int, ...], jumps: tuple[int, ...], servers: int) -> tuple[tuple[int, ...], ...]:
    """As many consecutive paths of these jumps as the group has members, from its first member on."""
    paths = []
    at = group[0]
    for _ in group:
        path = [at]
        for jump in jumps:
            path.append((path[-1] + jump) % servers)
        paths.append(tuple(path))
        at = path[-1]
    return tuple(paths)
