"""Jobs run together on one fabric: their task graphs merged, their flows contending for links.

As the multi-job runs of the TopoOpt artifact (NSDI'23, section 5.6): all jobs start at time 0, a job that is done
begins again at once until every job has finished its first iteration, and what counts is the first iteration of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.workload import TaskGraph, TaskKind, strided_groups
from topoopt.simulate.fabrics.options import FabricBuilder, FabricOptions, Group
from topoopt.simulate.network import Network
from topoopt.simulate.time_models import TIME_MODELS


@dataclass(frozen=True, eq=False)
class JobOnServers:
    """A job's task graph on its servers 0..m-1, and which server of the cluster each of them is."""

    graph: TaskGraph
    servers: tuple[int, ...]


def merge_jobs(jobs: Sequence[JobOnServers], servers: int) -> tuple[TaskGraph, Ints]:
    """One task graph over all servers of the cluster, and int64[J+1]: tasks of job j are job_ptr[j]..job_ptr[j+1].

    Only AllReduce groups in use are kept; each belongs to one job.

    Raises:
        ValueError: two jobs share a server, or a server is not of the cluster.
    """
    taken = [server for job in jobs for server in job.servers]
    if len(set(taken)) < len(taken) or any(not 0 <= server < servers for server in taken):
        raise ValueError("jobs need servers of their own")
    job_ptr = np.concatenate(([0], np.cumsum([job.graph.tasks for job in jobs]))).astype(np.int64)
    source, target, group, successor, groups = [], [], [], [], list[Group]()
    edge_ptr = [np.zeros(1, dtype=np.int64)]
    edges = 0
    for job, first in zip(jobs, job_ptr[:-1], strict=True):
        graph = job.graph
        number_of = np.array([*job.servers, -1], dtype=np.int32)
        source.append(number_of[graph.source])
        target.append(number_of[graph.target])
        used = np.unique(graph.group[graph.group >= 0])
        number = np.full(len(graph.groups) + 1, -1, dtype=np.int32)
        number[used] = len(groups) + np.arange(len(used), dtype=np.int32)
        group.append(number[graph.group])
        groups += [tuple(job.servers[member] for member in graph.groups[index]) for index in used.tolist()]
        successor.append((graph.successor + first).astype(np.int32))
        edge_ptr.append(graph.successor_ptr[1:] + edges)
        edges += len(graph.successor)
    merged = TaskGraph(
        servers=servers,
        kind=np.concatenate([job.graph.kind for job in jobs]),
        source=np.concatenate(source),
        target=np.concatenate(target),
        group=np.concatenate(group),
        duration_ms=np.concatenate([job.graph.duration_ms for job in jobs]),
        bytes=np.concatenate([job.graph.bytes for job in jobs]),
        operator=np.full(job_ptr[-1], -1, dtype=np.int32),
        successor_ptr=np.concatenate(edge_ptr),
        successor=np.concatenate(successor),
        groups=tuple(groups),
    )
    return merged, job_ptr


def needed_pairs(graph: TaskGraph) -> Ints:
    """Ordered pairs (source * n + target) of transfers and of neighbours on rings in list order, ascending, distinct.

    All pairs of n servers are too many for a large cluster whose jobs talk among themselves only.
    """
    moved = graph.kind == TaskKind.TRANSFER
    pairs = [graph.source[moved].astype(np.int64) * graph.servers + graph.target[moved]]
    for members in graph.groups:
        order = np.array(members, dtype=np.int64)
        pairs.append(order * graph.servers + np.roll(order, -1))
    distinct: Ints = np.unique(np.concatenate(pairs))
    return distinct


def shared_network(graph: TaskGraph, cluster: Cluster, build: FabricBuilder, options: FabricOptions) -> Network:
    """The fabric of the cluster with the routes and rings the merged jobs need."""
    return build(cluster, graph.groups, replace(options, pairs=needed_pairs(graph)))


def first_iterations(model: str, graph: TaskGraph, network: Network, job_ptr: Ints) -> Floats:
    """float64[J], by a time model; see `TimeModel.first_iterations`.

    Raises:
        ValueError: the model does not run several jobs.
    """
    run = TIME_MODELS[model].first_iterations
    if run is None:
        raise ValueError(f"time model {model} does not run several jobs")
    return run(graph, network, job_ptr)


def simulate_together(
    jobs: Sequence[JobOnServers], cluster: Cluster, build: FabricBuilder, options: FabricOptions, model: str
) -> Floats:
    """float64[J]: time of the first iteration of each job, ms.

    Args:
        jobs: placed on different servers.
        cluster: all servers.
        build: of the fabric table.
        options: of the fabric; its seed draws the routes.
        model: a name in `TIME_MODELS`, of one that runs several jobs.

    Raises:
        InputError: the fabric does not exist for the cluster.
        ValueError: jobs overlap, or the task graph of a job has a cycle.
    """
    graph, job_ptr = merge_jobs(jobs, cluster.servers)
    first = first_iterations(model, graph, shared_network(graph, cluster, build, options), job_ptr)
    if (first < 0).any():
        raise ValueError("the task graph has a cycle: some tasks can never start")
    return first


def job_view(servers: Sequence[int], cluster: Cluster, build: FabricBuilder, options: FabricOptions) -> Network:
    """The fabric as a job on some of its servers sees it, alone: server i is servers[i], links it cannot use are left
    out, and there are rings for all groups of `strided_groups`, in that order.
    """
    m, n = len(servers), cluster.servers
    placed = np.array(servers, dtype=np.int64)
    local = strided_groups(m)
    own = (placed[:, None] * n + placed[None, :]).ravel()
    apart = np.repeat(placed, m) != np.tile(placed, m)
    groups = [tuple(int(placed[member]) for member in group) for group in local]
    whole = build(cluster, groups, replace(options, pairs=np.sort(own[apart])))
    count = np.where(apart, whole.pair_ptr[own + 1] - whole.pair_ptr[own], 0)
    path = _ranges(whole.pair_ptr[own], count)
    hops = np.diff(whole.path_ptr)[path]
    path_link = whole.path_link[_ranges(whole.path_ptr[path], hops)]
    used, number = np.unique(np.concatenate((path_link, whole.member_link)), return_inverse=True)
    link_of: Int32s = number.astype(np.int32)
    return replace(
        whole,
        servers=m,
        link_ends=whole.link_ends[used],
        link_rate=whole.link_rate[used],
        pair_ptr=np.concatenate(([0], np.cumsum(count))).astype(np.int64),
        path_share=whole.path_share[path],
        path_ptr=np.concatenate(([0], np.cumsum(hops))).astype(np.int64),
        path_link=link_of[: len(path_link)],
        groups=local,
        member_link=link_of[len(path_link) :],
    )


def _ranges(first: Ints, count: Ints) -> Ints:
    """first[i], first[i] + 1, ... count[i] of them, for each i in turn."""
    ends = np.cumsum(count)
    ranges: Ints = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - count), count)
    return ranges
