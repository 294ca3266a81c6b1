"""Random small networks and task graphs, for comparing simulators."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from topoopt.core.workload import GroupRings, PathTable, Ring, TaskGraph, TaskKind
from topoopt.simulate.network import Network, compile_network

MIB = 1024 * 1024


def network_of(
    servers: int,
    links: dict[tuple[int, int], float],
    paths: dict[tuple[int, int], list[tuple[tuple[int, ...], float]]],
    rings: tuple[GroupRings, ...] = (),
    hop_latency_ms: float = 0.0,
    ring_round_latency_ms: float = 0.0,
) -> Network:
    """A network of named links (bytes/ms) and, for each pair, paths with their shares."""
    pairs = sorted(paths)
    flat = [item for pair in pairs for item in paths[pair]]
    table = PathTable(
        nodes_total=servers,
        source=np.array([i for i, _ in pairs], dtype=np.int32),
        target=np.array([j for _, j in pairs], dtype=np.int32),
        pair_ptr=np.cumsum([0] + [len(paths[pair]) for pair in pairs]),
        share=np.array([share for _, share in flat], dtype=np.float64),
        path_ptr=np.cumsum([0] + [len(path) for path, _ in flat]),
        node=np.array([v for path, _ in flat for v in path], dtype=np.int32),
    )
    return compile_network(
        servers=servers,
        link_ends=np.array(list(links), dtype=np.int32).reshape(-1, 2),
        link_rate=np.array(list(links.values()), dtype=np.float64),
        hop_latency_ms=hop_latency_ms,
        ring_round_latency_ms=ring_round_latency_ms,
        routes=table,
        rings=rings,
    )


def graph_of(
    servers: int,
    tasks: list[tuple[TaskKind, int, int, int, float, int]],
    edges: set[tuple[int, int]],
    groups: tuple[tuple[int, ...], ...] = (),
) -> TaskGraph:
    """A graph of tasks (kind, source, target, group, duration_ms, bytes) and edges between them."""
    ordered = sorted(edges)
    out = np.bincount([i for i, _ in ordered], minlength=len(tasks)) if ordered else np.zeros(len(tasks), dtype=int)
    return TaskGraph(
        servers=servers,
        kind=np.array([task[0] for task in tasks], dtype=np.int8),
        source=np.array([task[1] for task in tasks], dtype=np.int32),
        target=np.array([task[2] for task in tasks], dtype=np.int32),
        group=np.array([task[3] for task in tasks], dtype=np.int32),
        duration_ms=np.array([task[4] for task in tasks], dtype=np.float64),
        bytes=np.array([task[5] for task in tasks], dtype=np.int64),
        operator=np.full(len(tasks), -1, dtype=np.int32),
        successor_ptr=np.concatenate(([0], np.cumsum(out))).astype(np.int64),
        successor=np.array([j for _, j in ordered], dtype=np.int32),
        groups=groups,
    )


def random_network(draw: np.random.Generator, groups: tuple[tuple[int, ...], ...], servers: int) -> Network:
    """A ring of links in both directions and some chords, one or two random simple paths for each pair."""
    joined = {(i, (i + 1) % servers) for i in range(servers)}
    joined |= {(int(i), int(j)) for i, j in draw.integers(servers, size=(servers, 2)) if i != j}
    links = {(i, j): float(draw.uniform(0.5, 2.0)) * MIB for i, j in sorted(joined | {(j, i) for i, j in joined})}

    def walk(source: int, target: int) -> tuple[int, ...]:
        while True:
            path = [source]
            while path[-1] != target:
                onward = [j for i, j in links if i == path[-1] and j not in path]
                if not onward:
                    break
                path.append(int(draw.choice(onward)))
            if path[-1] == target:
                return tuple(path)

    paths = {}
    for i in range(servers):
        for j in range(servers):
            if i != j and draw.random() < 0.5:
                share = float(draw.uniform(0.1, 0.9))
                paths[i, j] = [(walk(i, j), share), (walk(i, j), 1.0 - share)]
            elif i != j:
                paths[i, j] = [(walk(i, j), 1.0)]
    rings = []
    for members in groups:
        count = int(draw.integers(1, 4))
        shares = np.full(count, 1.0 / count) if draw.random() < 0.5 else draw.dirichlet(np.ones(count))
        drawn = []
        for share in shares:
            order = [int(v) for v in draw.permutation(members)]
            way = tuple(walk(i, j) for i, j in pairwise([*order, order[0]]))
            drawn.append(Ring(tuple(order), float(share), way))
        rings.append(GroupRings(members, tuple(drawn)))
    return network_of(servers, links, paths, tuple(rings), 0.001, 0.0021)


def random_case(seed: int, with_ties: bool) -> tuple[TaskGraph, Network]:
    """A random acyclic graph of up to 40 tasks on a random network of 2 to 6 servers.

    With ties, durations and sizes come from a few round values, so that many events fall on the same time.
    """
    draw = np.random.default_rng(seed)
    servers = int(draw.integers(2, 7))
    groups = tuple(
        {
            tuple(int(v) for v in draw.permutation(servers)[: int(draw.integers(2, servers + 1))])
            for _ in range(int(draw.integers(1, 4)))
        }
    )
    network = random_network(draw, groups, servers)
    tasks = []
    for _ in range(int(draw.integers(1, 41))):
        kind = TaskKind(int(draw.choice(4, p=[0.25, 0.25, 0.35, 0.15])))
        source, target = (int(v) for v in draw.integers(servers, size=2))
        ms = float(draw.choice([0.0, 0.5, 1.0])) if with_ties else float(draw.uniform(0.01, 1.0))
        amount = int(draw.choice([0, 1, MIB, 2 * MIB, 2 * MIB + 1])) if with_ties else int(draw.integers(1, 3 * MIB))
        group = int(draw.integers(-1, len(groups)))
        if kind is TaskKind.TRANSFER:
            tasks.append((kind, source, target, -1, 0.0, amount))
        elif kind is TaskKind.ALLREDUCE:
            tasks.append((kind, -1, -1, group, ms, amount))
        else:
            tasks.append((kind, source, -1, -1, ms, 0))
    edges = set()
    for j in range(1, len(tasks)):
        before = (int(v) for v in draw.integers(j, size=int(draw.integers(0, 3))))
        edges |= {(i, j) for i in before if tasks[i][0] != TaskKind.ALLREDUCE}
    return graph_of(servers, tasks, edges, groups), network
