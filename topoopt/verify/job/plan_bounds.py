"""Lower bounds on the iteration time of one strategy, on any topology or on a given one.

Assumed of the time model: tasks of a server run one at a time; tasks wait for their inputs; an AllReduce starts after
the backward tasks of its shard, first inside its servers and then over the network; a link carries at most
multiplicity * B in each direction; latencies only add.

An AllReduce of S bytes on rings has every member send and receive 2 (k-1)/k S. On any other schedule that adds and
copies at members only, every piece of the payload is passed on by each of the k - 1 members that are not its owner
while it is summed, and received by each of them as a sum: all members together send, and receive, at least 2 (k-1) S,
and each of them alone at least S (the owner of a piece receives one part of it and sends the sum at least once). By
averaging over members whose interfaces are as fast, one of them still needs the time of 2 (k-1)/k S: whatever speaks of
all members, or of servers with d interfaces each, is the same on rings and on schedules.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.proofs import Argument, Bound
from topoopt.core.workload import Workload
from topoopt.verify.job.least_times import EarliestStarts, Rates, least_byte_hops, least_schedule
from topoopt.verify.job.parts import Parts
from topoopt.verify.job.traffic import BYTES_PER_MS_OF_ONE_GBPS, Traffic
from topoopt.verify.laws.hops import hop_counts
from topoopt.verify.laws.windows import window_bound, windows_by

Columns = list[Floats]


def bounds_of(
    cluster: Cluster,
    workload: Workload,
    parts: tuple[Parts, ...],
    traffic: Traffic,
    links: Ints | None,
    *,
    on_rings: bool = True,
) -> tuple[Bound, ...]:
    """Lower bounds for a strategy, for any routes: on int64[n, n] parallel `links`; None: on any topology.

    With `on_rings` for AllReduces on any rings, else for those on any schedules, rings among them.

    * `compute of one server`: `window_bound` over the tasks of each server.
    * `compute critical path`: longest chain of forward and backward tasks, no communication.
    * `critical path with traffic`: the same with least transfer and AllReduce times (`least_schedule`).
    * `bytes sent by one server`, `bytes received by one server`: `window_bound` over a server's own traffic on its
      interfaces.
    * `bytes times hops`: all traffic, each byte counted once per link it must cross, on all links together. On a given
      topology a transfer crosses at least its hop count and what a member sends at least the hops to the nearest other
      member; on a schedule each sends the payload at least, and the rest goes where that is least. Without one, a
      server has at most d others at one hop, at most d^2 (d (d-1) for fibre pairs) at two and so on, so its largest
      transfers are taken to go to the nearest.
    """
    n = cluster.servers
    link_rate = cluster.link_gbps * BYTES_PER_MS_OF_ONE_GBPS
    free = np.full(n, np.inf)
    compute_only = least_schedule(workload, parts, traffic, Rates(free, free), reductions=False)
    bounds = [Bound(compute_only.end_ms, Argument.COMPUTE_CHAIN)]
    if n == 1:
        local = least_schedule(workload, parts, traffic, Rates(free, free))
        return (*bounds, _compute_bound(cluster, parts, local))
    if links is None:
        interfaces = np.full(n, float(cluster.degree))
        rates = Rates(interfaces * link_rate, interfaces * link_rate)
    else:
        rates = Rates(links.sum(axis=1) * link_rate, links.sum(axis=0) * link_rate)
    schedule = least_schedule(workload, parts, traffic, rates, on_rings=on_rings)
    bounds.append(Bound(schedule.end_ms, Argument.TRAFFIC_CHAIN))
    bounds.append(_compute_bound(cluster, parts, schedule))
    bounds.extend(_network_bounds(cluster, traffic, schedule, rates, links, on_rings=on_rings))
    return tuple(bounds)


def _compute_bound(cluster: Cluster, parts: tuple[Parts, ...], schedule: EarliestStarts) -> Bound:
    server, release, work, tail = [], [], [], []
    for index, part in enumerate(parts):
        for starts, tails, duration in (
            (schedule.forward_start, schedule.forward_tail, part.split.forward_ms),
            (schedule.backward_start, schedule.backward_tail, part.split.backward_ms),
        ):
            server.append(part.server)
            release.append(starts[index])
            work.append(np.full(len(part.server), duration))
            tail.append(tails[index] - duration)
    value, _ = windows_by(
        np.concatenate(server), cluster.servers, np.concatenate(release), np.concatenate(work), np.concatenate(tail)
    )
    return Bound(value, Argument.SERVER_COMPUTE)


def _network_bounds(
    cluster: Cluster, traffic: Traffic, schedule: EarliestStarts, rates: Rates, links: Ints | None, *, on_rings: bool
) -> list[Bound]:
    """Windows on the traffic of each server and of all; one row per transfer or per member of an AllReduce."""
    n = cluster.servers
    hops = None if links is None else hop_counts(links > 0)
    sender, receiver = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    columns: tuple[Columns, Columns, Columns, Columns] = ([np.zeros(0)], [np.zeros(0)], [np.zeros(0)], [np.zeros(0)])

    @cache
    def nearest(members: tuple[int, ...]) -> Floats:
        """float64[k], least hops of each member to another."""
        if hops is None:
            return np.ones(len(members))
        among = hops[np.ix_(members, members)]
        np.fill_diagonal(among, n)
        least: Floats = among.min(axis=1).astype(np.float64)
        return least

    def add(start: Ints, end: Ints, *values: Floats) -> None:
        """Rows of start -> end: release, tail, bytes, bytes times least hops."""
        sender.append(start)
        receiver.append(end)
        for column, value in zip(columns, values, strict=True):
            column.append(value)

    for edge in traffic.edges:
        sent = edge.source != edge.target
        out_of, into = edge.source_part[sent], edge.target_part[sent]
        source, target, size = edge.source[sent], edge.target[sent], edge.bytes[sent].astype(np.float64)
        far = np.ones(len(size)) if hops is None else hops[source, target].astype(np.float64)
        back = far if hops is None else hops[target, source].astype(np.float64)
        ended, follows = schedule.forward_end[edge.producer][out_of], schedule.forward_tail[edge.consumer][into]
        add(source, target, ended, follows, size, size * far)
        ended, follows = schedule.backward_end[edge.consumer][into], schedule.backward_tail[edge.producer][out_of]
        add(target, source, ended, follows, size, size * back)
    for reduction in traffic.reductions:
        k = len(reduction.members)
        if k < 2 or not reduction.wire_bytes:
            continue
        members = np.array(reduction.members, dtype=np.int64)
        ended = schedule.backward_end[reduction.operator][list(reduction.parts)]
        release = np.full(k, float(ended.max()) + reduction.local_ms)
        far = nearest(reduction.members)
        # Only the sender's hops are counted.
        sent_by = np.full(k, reduction.wire_bytes if on_rings else float(reduction.payload_bytes))
        crossed = sent_by * far
        if (
            not on_rings
        ):  # 2 (k - 1) payloads in all: beyond one from each, those of the member that is nearest to another
            crossed[np.argmin(far)] += (k - 2) * reduction.payload_bytes * far.min()
        add(members, members, release, np.zeros(k), sent_by, crossed)

    start, end = np.concatenate(sender), np.concatenate(receiver)
    release, tail, size, byte_hops = (np.concatenate(column) for column in columns)
    if not len(size):
        return []
    sent_ms, _ = windows_by(start, n, release, size / rates.send[start], tail)
    received_ms, _ = windows_by(end, n, release, size / rates.receive[end], tail)
    capacity = float(rates.send.sum())
    pooled = window_bound(release, byte_hops / capacity, tail)
    if hops is None:
        reduced = sum(2.0 * (len(members) - 1) * payload for members, payload in traffic.payload_bytes.items())
        byte_links = float(least_byte_hops(traffic.matrix, cluster)) + reduced
        pooled = max(pooled, float(release.min() + tail.min()) + byte_links / capacity)
    return [
        Bound(sent_ms, Argument.BYTES_SENT),
        Bound(received_ms, Argument.BYTES_RECEIVED),
        Bound(pooled, Argument.BYTE_HOPS),
    ]
