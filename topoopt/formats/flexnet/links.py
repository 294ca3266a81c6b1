"""The network part of a FlexNet task graph: connections, routes and ring descriptors, checked and in core's types."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Bools, Floats, Int32s, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import Problem
from topoopt.core.routing import PathTable
from topoopt.core.topology import Topology
from topoopt.formats.flexnet.buffer import BufferTables, ranges

SHOWN_PROBLEMS = 5
"""Problems of one sort listed in full; the rest are counted."""

MAX_DEGREE = 64


def report(problems: list[Problem], bad: Bools, path: str, message: str, values: NDArray[Any] | None = None) -> None:
    """Add a problem for the first few rows where `bad` holds; `path` has `{}` for the row."""
    rows = np.flatnonzero(bad)
    for row in rows[:SHOWN_PROBLEMS].tolist():
        value = None if values is None else str(values[row])
        problems.append(Problem(message, path=path.format(row), value=value))
    if len(rows) > SHOWN_PROBLEMS:
        problems.append(Problem(f"{message}: {len(rows) - SHOWN_PROBLEMS} more", path=path.format("...")))


def read_connections(rows: BufferTables, nodes: int, servers: int, problems: list[Problem]) -> Ints:
    """int64[c, 3] of (from, to, parallel links) over nodes 0..nodes-1; each joins two nodes in both directions."""
    before = len(problems)
    table = np.stack([rows.scalar(slot, np.uint32).astype(np.int64) for slot in range(3)], axis=1)
    report(problems, table[:, :2].max(axis=1, initial=0) >= nodes, "conn[{}]", f"joins a node outside 0..{nodes - 1}")
    report(problems, table[:, 0] == table[:, 1], "conn[{}]", "joins a node to itself")
    too_many = (table[:, 2] < 1) | (table[:, 2] > nodes)
    report(problems, too_many, "conn[{}].nconn", f"must be 1..{nodes}", table[:, 2])
    ends = np.sort(table[:, :2], axis=1)
    distinct = np.unique(ends, axis=0)
    if len(distinct) < len(ends):
        problems.append(Problem("the same two nodes are joined twice", path="conn"))
    if len(problems) == before:
        links = np.bincount(table[:, :2].ravel(), weights=np.repeat(table[:, 2], 2), minlength=nodes)[:servers]
        message = f"a server has more than {MAX_DEGREE} links"
        report(problems, links > MAX_DEGREE, "conn, server {}", message, links)
    return table


def colour_arcs(tails: list[int], heads: list[int], servers: int, degree: int) -> Int32s:
    """int32[degree, servers]: arcs as `degree` partial permutations (bipartite edge colouring, Koenig 1916).

    No node may send or receive more than `degree` of the arcs. Where an arc finds no colour free at both ends, the
    colours of an alternating path are swapped.
    """
    send = np.full((degree, servers), -1, dtype=np.int32)
    receive = np.full((degree, servers), -1, dtype=np.int32)
    for tail, head in zip(tails, heads, strict=True):
        out = int(np.flatnonzero(send[:, tail] < 0)[0])
        into = int(np.flatnonzero(receive[:, head] < 0)[0])
        if send[into, tail] < 0:
            out = into
        # Follow the path from `head` whose arcs have colours out, into, out, ... It cannot come back to `tail`.
        path = []
        at, colour, receiving = head, out, True
        while True:
            other = int(receive[colour, at] if receiving else send[colour, at])
            if other < 0:
                break
            path.append((other, at, colour) if receiving else (at, other, colour))
            at, colour, receiving = other, into if colour == out else out, not receiving
        for u, v, c in path:
            send[c, u] = receive[c, v] = -1
        for u, v, c in path:
            swapped = into if c == out else out
            send[swapped, u], receive[swapped, v] = v, u
        send[out, tail], receive[out, head] = head, tail
    return send


def topology_of(connections: Ints, servers: int) -> Topology:
    """The direct-connect topology of checked connections between servers."""
    links = np.repeat(connections[:, :2], connections[:, 2], axis=0)
    both = np.concatenate((links, links[:, ::-1]))
    topology = Topology.of_arcs(servers, both, links=LinkDirection.BIDIRECTIONAL, origin="task graph file")
    arcs = np.repeat(topology.arcs, topology.multiplicity, axis=0)
    switches = colour_arcs(arcs[:, 0].tolist(), arcs[:, 1].tolist(), servers, topology.degree)
    return replace(topology, switches=switches)


def _shares(chance: Floats, owner: Ints, routes: int) -> Floats:
    """Fraction of its pair's bytes on each path: the chances if they sum to 1, their steps if they climb to 1."""
    total = np.bincount(owner, weights=chance, minlength=routes)
    first = np.concatenate(([True], owner[1:] != owner[:-1])) if len(owner) else np.zeros(0, dtype=bool)
    last = np.concatenate((first[1:], [True])) if len(owner) else first
    step = np.where(first, chance, chance - np.concatenate(([0.0], chance[:-1]))) if len(owner) else chance
    climbs = np.bincount(owner[last], weights=np.abs(chance[last] - 1.0), minlength=routes) < 1e-4
    direct = np.abs(total - 1.0) < 1e-4
    share = np.where(direct[owner], chance, np.where(climbs[owner], step, np.nan))
    total = np.bincount(owner, weights=share, minlength=routes)
    return np.asarray(share / np.where(total[owner] > 0, total[owner], np.nan), dtype=np.float64)


def read_routes(
    rows: BufferTables, connections: Ints, nodes: int, servers: int, problems: list[Problem]
) -> PathTable | None:
    """Paths of all ordered server pairs that have any; None if the file has none or they are wrong."""
    before = len(problems)
    source, target = (rows.scalar(slot, np.uint32).astype(np.int64) for slot in range(2))
    paths, path_rows = rows.tables(2)
    hops, raw = path_rows.vector(0, np.uint32)
    node = raw.astype(np.int64)
    chance = path_rows.scalar(1, np.float32).astype(np.float64)
    report(problems, (source >= servers) | (target >= servers), "routes[{}]", f"ends outside 0..{servers - 1}")
    report(problems, hops < 2, "paths[{}]", "a path needs two nodes or more")
    report(problems, hops > nodes, "paths[{}]", "a path longer than the number of nodes")
    report(problems, node >= nodes, "hopnode[{}]", f"no node of 0..{nodes - 1}", node)
    key = source * nodes + target
    if len(np.unique(key)) < len(key):
        problems.append(Problem("two entries for the same pair of servers", path="routes"))
    if len(problems) > before or len(hops) == 0:
        return None
    owner = np.repeat(np.arange(len(source)), paths)
    end = np.cumsum(hops)
    wrong = (node[end - hops] != source[owner]) | (node[end - 1] != target[owner])
    report(problems, wrong, "paths[{}]", "does not lead from the source to the target of its route")
    joined = np.zeros((nodes, nodes), dtype=bool)
    joined[connections[:, 0], connections[:, 1]] = joined[connections[:, 1], connections[:, 0]] = True
    inside = np.ones(len(node), dtype=bool)
    inside[end - 1] = False
    at = np.flatnonzero(inside)
    missing = ~joined[node[at], node[at + 1]]
    report(problems, missing, "hopnode[{}]", "a path crosses two nodes that are not connected")
    share = _shares(chance, owner, len(source))
    report(problems, ~(share >= 0), "paths[{}].chance", "chances of a route must sum to 1, or climb to 1", chance)
    if len(problems) > before:
        return None
    order = np.argsort(key, kind="stable")
    order = order[paths[order] > 0]
    first_path = np.cumsum(paths) - paths
    picked = ranges(first_path[order], paths[order], 1)
    return PathTable(
        nodes_total=nodes,
        source=source[order].astype(np.int32),
        target=target[order].astype(np.int32),
        pair_ptr=np.concatenate(([0], np.cumsum(paths[order]))),
        share=share[picked],
        path_ptr=np.concatenate(([0], np.cumsum(hops[picked]))),
        node=node[ranges((end - hops)[picked], hops[picked], 1)].astype(np.int32),
    )


def read_ring_jumps(
    rows: BufferTables, servers: int, problems: list[Problem]
) -> dict[int, tuple[tuple[int, ...], ...]]:
    """For each group size, the ring descriptors: jumps from a member to the next, hop by hop, modulo `servers`."""
    sizes = rows.scalar(0, np.uint64)
    counts, descriptors = rows.tables(1)
    lengths, jumps = descriptors.vector(0, np.int32)
    report(problems, (sizes < 2) | (sizes > servers), "rings[{}].ringsz", f"must be 2..{servers}", sizes)
    report(problems, (lengths < 1) | (lengths > servers), "ringpaths[{}]", f"must have 1..{servers} jumps")
    report(problems, (jumps % servers) == 0, "jumps[{}]", f"a multiple of {servers} leads nowhere", jumps)
    if len(set(sizes.tolist())) < len(sizes):
        problems.append(Problem("two entries for the same group size", path="rings"))
    flat = jumps.tolist()
    start = (np.cumsum(lengths) - lengths).tolist()
    all_descriptors = [tuple(flat[a : a + k]) for a, k in zip(start, lengths.tolist(), strict=True)]
    out: dict[int, tuple[tuple[int, ...], ...]] = {}
    at = 0
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        out[size] = tuple(all_descriptors[at : at + count])
        at += count
    return out
