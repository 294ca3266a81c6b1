"""Jobs of one cluster advance alone on shards, share links of a fat-tree, or contend on one fabric."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS, Floats, Int32s, Ints, offsets, ranges
from topoopt.core.clos import fat_tree_arity
from topoopt.core.cluster import Cluster
from topoopt.core.shared_cluster import FAT_TREE, Contention, Fabric, JobClass, JobTable
from topoopt.core.workload import TaskGraph, TaskKind, strided_groups
from topoopt.native import jobs as native
from topoopt.simulate.fabrics import FabricBuilder, FabricOptions, Group
from topoopt.simulate.network import Network
from topoopt.simulate.time_models import TIME_MODELS

MS = 1e-3
"""Seconds."""


# Links.


@dataclass(frozen=True, eq=False)
class SharedLinks:
    """Links that jobs share; none for a non-blocking switch.

    Attributes:
        half: k/2 of the fat-tree, 0 without links.
        racks, pods: in use.
        hashed: flows take single paths.
        seed: of the hash.
        capacity_gbps: float64[L].
    """

    half: int
    racks: int
    pods: int
    hashed: bool
    seed: int
    capacity_gbps: Floats


def shared_links(servers: int, fabric: Fabric, server_gbps: float, seed: int) -> SharedLinks:
    """The links of a shared fabric with servers of that rate."""
    if fabric.kind != FAT_TREE:
        return SharedLinks(0, 0, 0, False, 0, np.zeros(0))
    half = fat_tree_arity(servers) // 2
    racks, pods = -(-servers // half), -(-servers // half**2)
    rack_gbps, pod_gbps = server_gbps / fabric.rack_ratio, server_gbps / fabric.pod_ratio
    if fabric.paths == "hashed":
        capacity = np.concatenate((np.full(2 * racks * half, rack_gbps), np.full(2 * pods * half**2, pod_gbps)))
        return SharedLinks(half, racks, pods, True, seed, capacity)
    capacity = np.concatenate((np.full(racks, rack_gbps * half), np.full(pods, pod_gbps * half**2)))
    return SharedLinks(half, racks, pods, False, 0, capacity)


def job_loads(links: SharedLinks, job_class: JobClass, servers: Ints) -> tuple[Ints, Floats]:
    """Links a job uses, and traffic on each over what one of its servers sends; ring in ascending order of servers."""
    sent = job_class.sent_bytes
    if not links.half or sent <= 0 or len(servers) < 2:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    ring, pair = job_class.allreduce_bytes / sent, job_class.all_to_all_bytes / sent / (len(servers) - 1)
    load = np.zeros(len(links.capacity_gbps))
    if links.hashed:
        _hashed_loads(servers, ring, pair, links.half, links.racks, links.pods, np.uint64(links.seed), load)
    else:
        _even_loads(servers, ring, pair, links.half, links.racks, load)
    used = np.flatnonzero(load)
    return used, load[used]


def _even_loads(servers: Ints, ring: float, pair: float, half: int, racks: int, load: Floats) -> None:
    k = len(servers)
    for size, base in ((half, 0), (half * half, racks)):
        block, inside = np.unique(servers // size, return_counts=True)
        if len(block) > 1:
            load[base + block] += ring + pair * inside * (k - inside)


def _path(seed: np.uint64, source: int, target: Ints) -> NDArray[np.uint64]:
    """SplitMix64 (Steele et al., OOPSLA'14) of the pairs."""
    z = seed + (np.uint64(source * 65536 + 1) + target.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _hashed_loads(
    servers: Ints, ring: float, pair: float, half: int, racks: int, pods: int, seed: np.uint64, load: Floats
) -> None:
    """Add flow by flow, source by source, that of the ring first: sums of doubles depend on the order."""
    square = half * half
    core_up, core_down = 2 * racks * half, 2 * racks * half + pods * square
    for i, source in enumerate(servers.tolist()):
        target, part = servers[[(i + 1) % len(servers)]], np.array([ring])
        if pair > 0.0:
            target = np.append(target, np.delete(servers, i))
            part = np.append(part, np.full(len(servers) - 1, pair))
        own = (target // half != source // half) & (part > 0.0)
        target, part = target[own], part[own]
        h = _path(seed, source, target)
        up = (h % np.uint64(half)).astype(np.int64)
        core = ((h // np.uint64(half)) % np.uint64(half)).astype(np.int64)
        np.add.at(load, (source // half) * half + up, part)
        np.add.at(load, racks * half + (target // half) * half + up, part)
        far = target // square != source // square
        lane, part = (up * half + core)[far], part[far]
        np.add.at(load, core_up + (source // square) * square + lane, part)
        np.add.at(load, core_down + (target[far] // square) * square + lane, part)


# Work.


class WorkAlone:
    """Every job on its shard, at its own speed: all ends are known."""

    def __init__(self, jobs: JobTable) -> None:
        self.seconds = jobs.iterations * jobs.iteration_ms * MS
        self._end: dict[int, float] = {}
        self._order: list[tuple[float, int]] = []

    def start(self, job: int, servers: Ints, work_from: float) -> None:
        """The job begins its iterations then, on those servers."""
        self._end[job] = work_from + float(self.seconds[job])
        heapq.heappush(self._order, (self._end[job], job))

    def pause(self, job: int, at: float, work_from: float) -> None:
        """The job does nothing from `at` until `work_from`."""
        self._end[job] += work_from - at
        heapq.heappush(self._order, (self._end[job], job))

    def next_end(self) -> tuple[float, int]:
        """When the next job ends, and which; (infinity, -1) when none runs."""
        while self._order and self._end.get(self._order[0][1]) != self._order[0][0]:
            heapq.heappop(self._order)  # moved since
        return self._order[0] if self._order else (np.inf, -1)

    def advance(self, to: float) -> None:
        """Let time pass, to no later than the next end."""

    def end(self, job: int) -> None:
        del self._end[job]

    def refresh(self) -> None:
        """After all starts and ends of one moment."""

    def expected_end(self, job: int) -> float:
        """End of a running job if nothing else starts or ends."""
        return self._end[job]

    def expected_seconds(self, job: int) -> float:
        """Length of a job that does not run yet, if it had the fabric to itself."""
        return float(self.seconds[job])


def hidden_ms(jobs: JobTable, classes: tuple[JobClass, ...], fabric: Fabric, direct_gbps: Sequence[float]) -> Floats:
    """float64[J], h of the time model on a fabric whose `server_gbps` is known; `direct_gbps` is R of each class."""
    assert fabric.server_gbps is not None
    hidden = np.empty(len(jobs))
    for c, row in enumerate(classes):
        own = jobs.class_index == c
        given = dict(row.fabric_ms).get(fabric.name)
        if given is None:
            wire = row.sent_bytes / (direct_gbps[c] * BYTES_PER_MS_PER_GBPS)
            hidden[own] = row.compute_ms + wire - jobs.iteration_ms[own]
        else:
            wire = row.sent_bytes / (fabric.server_gbps * BYTES_PER_MS_PER_GBPS)
            hidden[own] = row.compute_ms + wire - given
    return hidden


def alone_ms(jobs: JobTable, classes: tuple[JobClass, ...], fabric: Fabric, direct_gbps: Sequence[float]) -> Floats:
    """float64[J], iteration of each job that has a shared fabric to itself; arguments as of `hidden_ms`."""
    assert fabric.server_gbps is not None
    own = [classes[c] for c in jobs.class_index]
    compute = np.array([row.compute_ms for row in own])
    wire = np.array([row.sent_bytes / BYTES_PER_MS_PER_GBPS for row in own])
    lost = np.maximum(0.0, wire / fabric.server_gbps - hidden_ms(jobs, classes, fabric, direct_gbps))
    alone: Floats = compute + lost
    return alone


class WorkShared:
    """Jobs that share links, max-min fair; speeds change whenever a job starts or ends."""

    def __init__(
        self,
        jobs: JobTable,
        classes: tuple[JobClass, ...],
        fabric: Fabric,
        links: SharedLinks,
        direct_gbps: Sequence[float],
        contention: Contention,
    ) -> None:
        assert fabric.server_gbps is not None
        self._classes = [classes[c] for c in jobs.class_index]
        self._links = links
        self._interleaved = contention == "interleaved"
        self._compute = np.array([row.compute_ms for row in self._classes])
        self._wire = np.array([row.sent_bytes / BYTES_PER_MS_PER_GBPS for row in self._classes])  # ms at 1 Gbit/s
        self._hidden = hidden_ms(jobs, classes, fabric, direct_gbps)
        self._alone_ms = alone_ms(jobs, classes, fabric, direct_gbps)
        self._limit = np.full(len(jobs), fabric.server_gbps)
        if self._interleaved:
            self._limit = np.minimum(self._limit, self._wire / self._alone_ms)
        self._left = jobs.iterations.astype(np.float64)
        self._speed = 1.0 / (self._alone_ms * MS)
        self._rate = self._limit.copy()
        self._active = np.zeros(0, dtype=np.int64)
        self._low = np.zeros(len(jobs), dtype=np.int64)
        self._high = np.zeros(len(jobs), dtype=np.int64)
        self._link = np.zeros(1024, dtype=np.int64)
        self._part = np.zeros(1024)
        self._used = 0
        self._now = 0.0
        self._stale = False

    def start(self, job: int, servers: Ints, work_from: float) -> None:
        link, part = job_loads(self._links, self._classes[job], servers)
        self._reserve(len(link))
        low, self._used = self._used, self._used + len(link)
        self._link[low : self._used], self._part[low : self._used] = link, part
        self._low[job], self._high[job] = low, self._used
        self._active = np.append(self._active, job)
        self._stale |= len(link) > 0

    def pause(self, job: int, at: float, work_from: float) -> None:
        """Jobs on shared fabrics are not moved."""
        raise AssertionError("a job on a shared fabric was moved")

    def _reserve(self, more: int) -> None:
        if self._used + more <= len(self._link):
            return
        kept = [np.arange(self._low[job], self._high[job]) for job in self._active]
        chosen = np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)
        size = max(1024, 2 * (len(chosen) + more))
        link, part = np.zeros(size, dtype=np.int64), np.zeros(size)
        link[: len(chosen)], part[: len(chosen)] = self._link[chosen], self._part[chosen]
        ends = np.cumsum([len(indices) for indices in kept], dtype=np.int64)
        self._low[self._active] = ends - np.array([len(indices) for indices in kept], dtype=np.int64)
        self._high[self._active] = ends
        self._link, self._part, self._used = link, part, len(chosen)

    def next_end(self) -> tuple[float, int]:
        if not len(self._active):
            return np.inf, -1
        seconds = self._left[self._active] / self._speed[self._active]
        first = int(np.argmin(seconds))
        return self._now + float(seconds[first]), int(self._active[first])

    def advance(self, to: float) -> None:
        if to > self._now:
            done = self._speed[self._active] * (to - self._now)
            self._left[self._active] = np.maximum(0.0, self._left[self._active] - done)
        self._now = to

    def end(self, job: int) -> None:
        self._active = self._active[self._active != job]
        self._left[job] = 0.0
        self._stale |= bool(self._high[job] > self._low[job])

    def refresh(self) -> None:
        if not self._stale:
            return
        self._stale = False
        active, rate = self._active, self._rate
        rate[active] = native.fair_rates(
            active, self._low, self._high, self._link, self._part, self._links.capacity_gbps, self._limit
        )
        loaded = active[self._high[active] > self._low[active]]
        wire = self._wire[loaded] / rate[loaded]
        if self._interleaved:
            time_ms = np.maximum(self._alone_ms[loaded], np.where(rate[loaded] < self._limit[loaded], wire, 0.0))
        else:
            time_ms = self._compute[loaded] + np.maximum(0.0, wire - self._hidden[loaded])
        self._speed[loaded] = 1.0 / (time_ms * MS)

    def iteration_ms(self, job: int) -> float:
        """Time of an iteration of a running job beside those that run, after `refresh`."""
        return float(1.0 / (self._speed[job] * MS))

    def expected_end(self, job: int) -> float:
        return self._now + float(self._left[job] / self._speed[job])

    def expected_seconds(self, job: int) -> float:
        return float(self._left[job] * self._alone_ms[job] * MS)


RunningWork = WorkAlone | WorkShared
"""Running jobs and what is left of them; times in seconds."""


JobOnServers = tuple[TaskGraph, tuple[int, ...]]
"""A job's task graph on its servers 0..m-1, and which server of the cluster each of them is."""


def merge_jobs(jobs: Sequence[JobOnServers], servers: int) -> tuple[TaskGraph, Ints]:
    """One task graph over all servers of the cluster, and int64[J+1]: tasks of job j are job_ptr[j]..job_ptr[j+1].

    Only AllReduce groups in use are kept; each belongs to one job.

    Raises:
        ValueError: two jobs share a server, or a server is not of the cluster.
    """
    taken = [server for _, own in jobs for server in own]
    if len(set(taken)) < len(taken) or any(not 0 <= server < servers for server in taken):
        raise ValueError("jobs need servers of their own")
    job_ptr = offsets([graph.tasks for graph, _ in jobs])
    source, target, group, successor, groups = [], [], [], [], list[Group]()
    edge_ptr = [np.zeros(1, dtype=np.int64)]
    edges = 0
    for (graph, own), first in zip(jobs, job_ptr[:-1], strict=True):
        number_of = np.array([*own, -1], dtype=np.int32)
        source.append(number_of[graph.source])
        target.append(number_of[graph.target])
        used = np.unique(graph.group[graph.group >= 0])
        number = np.full(len(graph.groups) + 1, -1, dtype=np.int32)
        number[used] = len(groups) + np.arange(len(used), dtype=np.int32)
        group.append(number[graph.group])
        groups += [tuple(own[member] for member in graph.groups[index]) for index in used.tolist()]
        successor.append((graph.successor + first).astype(np.int32))
        edge_ptr.append(graph.successor_ptr[1:] + edges)
        edges += len(graph.successor)
    merged = TaskGraph(
        servers=servers,
        kind=np.concatenate([graph.kind for graph, _ in jobs]),
        source=np.concatenate(source),
        target=np.concatenate(target),
        group=np.concatenate(group),
        duration_ms=np.concatenate([graph.duration_ms for graph, _ in jobs]),
        bytes=np.concatenate([graph.bytes for graph, _ in jobs]),
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
    path = ranges(whole.pair_ptr[own], count)
    hops = np.diff(whole.path_ptr)[path]
    path_link = whole.path_link[ranges(whole.path_ptr[path], hops)]
    used, number = np.unique(np.concatenate((path_link, whole.member_link)), return_inverse=True)
    link_of: Int32s = number.astype(np.int32)
    return replace(
        whole,
        servers=m,
        link_ends=whole.link_ends[used],
        link_rate=whole.link_rate[used],
        pair_ptr=offsets(count),
        path_share=whole.path_share[path],
        path_ptr=offsets(hops),
        path_link=link_of[: len(path_link)],
        groups=local,
        member_link=link_of[len(path_link) :],
    )
