"""Hand-made clusters, workloads and valid plans for the tests of the checker, built without the solvers."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import pairwise

import numpy as np

from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.job import Plan
from topoopt.core.topology import Topology
from topoopt.core.workload import (
    GroupRings,
    Operator,
    OperatorInput,
    PathTable,
    Placement,
    Ring,
    Split,
    Strategy,
    Workload,
)


def make_cluster(servers=4, degree=2, links=LinkDirection.BIDIRECTIONAL, **changes):
    """A cluster of one-GPU servers with 8 Gbit/s links: 1e6 bytes take 1 ms."""
    fields = {"gpus_per_server": 1, "link_gbps": 8.0, "hop_latency_us": 0.0, "ring_round_latency_us": 0.0}
    return Cluster(servers=servers, degree=degree, links=links, **(fields | changes))


def sample_splits(ways, forward_ms=1.0, backward_ms=2.0, memory=100):
    """Splits along the samples alone, each part taking 1/P of the time."""
    return tuple(Split(p, forward_ms / p, backward_ms / p, memory // p) for p in ways)


def dense(name, width, inputs, splits, weights=(), **changes):
    """A dense layer of 4-byte elements reading all of its producers."""
    edges = tuple(OperatorInput(producer) for producer in inputs)
    return Operator(name, "dense", width, 4, tuple(weights), edges, tuple(splits), **changes)


def two_layers(servers=4, samples=8):
    """An undividable table feeding a dense layer that may be cut along samples, channels or inputs."""
    ways = [p for p in range(1, servers + 1) if servers % p == 0]
    splits = list(sample_splits([p for p in ways if samples % p == 0]))
    splits += [Split(1, 0.5, 1.0, 50, channel_ways=p) for p in ways if p > 1]
    splits += [Split(1, 0.5, 1.0, 50, reduce_ways=p) for p in ways if p > 1]
    table = dense("table", 6, (), sample_splits([1]), [1000], locally_reduced=False)
    return Workload("two-layers", samples, (table, dense("layer", 8, (0,), splits, [4096, 8])))


def split_index(operator, sample_ways, channel_ways=1, reduce_ways=1):
    """Which of an operator's splits has these ways."""
    ways = [(s.sample_ways, s.channel_ways, s.reduce_ways) for s in operator.splits]
    return ways.index((sample_ways, channel_ways, reduce_ways))


def circulant(cluster, distances):
    """The topology with a ring of every distance, and for fibre pairs its reverse (n/2 is its own reverse)."""
    n = cluster.servers
    rows = []
    for p in distances:
        rows.append(p % n)
        if cluster.links is LinkDirection.BIDIRECTIONAL and 2 * p != n:
            rows.append((n - p) % n)
    switches = np.array([[(i + p) % n for i in range(n)] for p in rows], dtype=np.int32).reshape(len(rows), n)
    dark = np.full((cluster.degree - len(rows), n), -1, dtype=np.int32)
    count = np.zeros((n, n), dtype=np.int32)
    for row in switches:
        for i, j in enumerate(row):
            count[i, j] += 1
    arcs = np.argwhere(count).astype(np.int32)
    return Topology(
        servers=n,
        degree=cluster.degree,
        links=cluster.links,
        arcs=arcs,
        multiplicity=count[arcs[:, 0], arcs[:, 1]].astype(np.int32),
        switches=np.concatenate((switches, dark)),
        offsets=tuple(sorted(set(rows))),
        origin="test",
    )


def paths_from(topology, source):
    """A shortest path to every server, by plain breadth-first search."""
    heads = {i: [] for i in range(topology.servers)}
    for tail, head in topology.arcs.tolist():
        heads[tail].append(head)
    paths = {source: (source,)}
    queue = deque([source])
    while queue:
        here = queue.popleft()
        for head in heads[here]:
            if head not in paths:
                paths[head] = (*paths[here], head)
                queue.append(head)
    return paths


def shortest_path(topology, source, target):
    """One shortest path."""
    return paths_from(topology, source)[target]


def path_table(n, paths):
    """A path table from {(i, j): [(nodes, share), ...]}."""
    pairs = sorted(paths)
    flat = [item for pair in pairs for item in paths[pair]]
    return PathTable(
        nodes_total=n,
        source=np.array([i for i, _ in pairs], dtype=np.int32),
        target=np.array([j for _, j in pairs], dtype=np.int32),
        pair_ptr=np.cumsum([0] + [len(paths[pair]) for pair in pairs]).astype(np.int64),
        share=np.array([share for _, share in flat], dtype=np.float64),
        path_ptr=np.cumsum([0] + [len(nodes) for nodes, _ in flat]).astype(np.int64),
        node=np.array([v for nodes, _ in flat for v in nodes], dtype=np.int32),
    )


def all_routes(topology):
    """A shortest path for every ordered pair."""
    n = topology.servers
    paths = [paths_from(topology, i) for i in range(n)]
    return path_table(n, {(i, j): [(paths[i][j], 1.0)] for i in range(n) for j in range(n) if i != j})


def rings_both_ways(topology, members):
    """Two rings of a group, ascending and descending, half the payload each."""
    rings = []
    for order in (tuple(members), tuple(members[::-1])):
        paths = tuple(shortest_path(topology, a, b) for a, b in pairwise((*order, order[0])))
        rings.append(Ring(order, 0.5, paths))
    return GroupRings(tuple(members), tuple(rings))


def make_plan(cluster, placements, distances, groups):
    """A plan on a circulant with routes for all pairs; placements are (split, offset)."""
    topology = circulant(cluster, distances)
    return Plan(
        strategy=Strategy(tuple(Placement(split, offset) for split, offset in placements)),
        topology=topology,
        routes=all_routes(topology),
        rings=tuple(rings_both_ways(topology, members) for members in groups),
    )


def rotated_plan(cluster, placements, distances):
    """A plan on a circulant whose routes are those of server 0 turned round, with one ring over neighbours."""
    n = cluster.servers
    topology = circulant(cluster, distances)
    first = paths_from(topology, 0)
    order = tuple(range(n))
    ring = Ring(order, 1.0, tuple((i, (i + 1) % n) for i in range(n)))
    return Plan(
        strategy=Strategy(tuple(Placement(split, offset) for split, offset in placements)),
        topology=topology,
        routes=path_table(
            n, {(i, (i + j) % n): [(tuple((i + v) % n for v in first[j]), 1.0)] for i in range(n) for j in range(1, n)}
        ),
        rings=(GroupRings(order, (ring,)),),
    )


def four_servers():
    """(cluster, workload, plan): four servers in a ring, the table on server 1, the layer on all."""
    cluster, workload = make_cluster(), two_layers()
    whole = split_index(workload.operators[1], 4)
    return cluster, workload, make_plan(cluster, [(0, 1), (whole, 0)], [1], [(0, 1, 2, 3)])


def twelve_servers():
    """(cluster, workload, plan) on the circulant {1, 5} of the 12-server testbed, with a group of every size."""
    cluster = make_cluster(12, 4)
    ways = (1, 2, 3, 4, 6, 12)
    layers = [dense("table", 6, (), sample_splits([1]), [1000], locally_reduced=False)]
    for index, _ in enumerate(ways):
        layers.append(dense(f"layer{index}", 6, (index,), sample_splits(ways), [100 * (index + 1)]))
    workload = Workload("twelve", 24, tuple(layers))
    placements = [(0, 7)] + [(index, 0) for index in range(len(ways))]
    groups = [tuple(range(0, 12, 12 // k)) for k in ways if k > 1]
    return cluster, workload, make_plan(cluster, placements, [1, 5], groups)


def with_arrays(table, **changes):
    """A topology or path table with fresh copies of its arrays, some of them replaced."""
    copies = {name: value.copy() for name, value in vars(table).items() if isinstance(value, np.ndarray)}
    return replace(table, **(copies | changes))
