"""Schedules of AllReduces written by hand, and tasks that run them alone."""

from __future__ import annotations

import numpy as np

from tests.support.verify_cases import make_cluster, paths_from
from topoopt.core.collective import CollectiveSchedule, GroupSchedule, Sends, VectorBlocks
from topoopt.core.topology import Topology
from topoopt.core.workload import TaskGraph


def links_topology(n, pairs, degree):
    """A cluster of 8 Gbit/s (1e6 bytes take 1 ms) and a round of 0.5 ms, and a topology of these fibre pairs."""
    cluster = make_cluster(n, degree, hop_latency_us=100.0, ring_round_latency_us=500.0)
    both = [*pairs, *((b, a) for a, b in pairs)]
    return cluster, Topology.of_arcs(n, np.array(both), degree=degree, links=cluster.links, origin="test")


def schedule_of(members, blocks, sends, *, pieces=1, method="trees", sizes=(0, None), routes=None):
    """A schedule.

    Args:
        members: servers.
        blocks: (units, owner) of each.
        sends: (step, block, tail, head, whether it is added), by step.
        routes: (tail, head) -> the way, where it is not straight.
    """
    ways = routes or {}
    used = list(dict.fromkeys(ways.get((tail, head), (tail, head)) for _, _, tail, head, _ in sends))
    number = {way: place for place, way in enumerate(used)}
    step, block, tail, head, adds = (np.array(column, dtype=np.int32) for column in zip(*sends, strict=True))
    route = [number[ways.get((a, b), (a, b))] for _, _, a, b, _ in sends]
    units, owner = (np.array(column) for column in zip(*blocks, strict=True))
    table = VectorBlocks(units.astype(np.int64), owner.astype(np.int32), np.full(len(units), -1, dtype=np.int32))
    made = CollectiveSchedule(
        table, Sends(block, tail, head, step, adds.astype(bool), np.array(route, dtype=np.int32)), tuple(used)
    )
    return GroupSchedule(tuple(members), *sizes, method, pieces, made)


def one_tree(topology, members, root, *, pieces=1, sizes=(0, None)):
    """All of the payload up the tree of shortest paths to a root and down again; others pass on between members."""
    up, routes = {}, {}
    for server, way in paths_from(topology, root).items():
        if server in members and server != root:
            last = max(place for place, node in enumerate(way[:-1]) if node in members)
            up[server] = way[last]
            routes[way[last], server] = way[last:]
            routes[server, way[last]] = way[last:][::-1]
    depth = {root: 0}
    while len(depth) < len(members):
        depth |= {server: depth[above] + 1 for server, above in up.items() if above in depth and server not in depth}
    high = max(depth.values())
    sends = [(high - depth[server], 0, server, above, True) for server, above in up.items()]
    sends += [(high + depth[server] - 1, 0, above, server, False) for server, above in up.items()]
    return schedule_of(members, [(1, root)], sorted(sends), pieces=pieces, sizes=sizes, routes=routes)


def one_allreduce(members, payload, servers):
    """A task graph of one AllReduce."""
    return TaskGraph(
        servers=servers,
        kind=np.array([3], dtype=np.int8),
        source=np.array([-1], dtype=np.int32),
        target=np.array([-1], dtype=np.int32),
        group=np.array([0], dtype=np.int32),
        duration_ms=np.zeros(1),
        bytes=np.array([payload], dtype=np.int64),
        operator=np.array([0], dtype=np.int32),
        successor_ptr=np.zeros(2, dtype=np.int64),
        successor=np.zeros(0, dtype=np.int32),
        groups=(tuple(members),),
    )
