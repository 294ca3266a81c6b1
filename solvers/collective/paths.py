"""Messages of ranks to ranks over paths: the flow of every rank taken apart, in whole parts, and sent step by step.

An All-to-All along shortest paths splits its traffic so that the fullest link carries little.
"""

from __future__ import annotations

import itertools

import numpy as np

from solvers.apportionment import whole_shares
from solvers.collective.limits import AllToAllRate
from solvers.collective.schedules import Row, of_rows
from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.collective import CollectiveSchedule, Path, Sends, VectorBlocks
from topoopt.core.rated_network import RatedNetwork
from topoopt.native import graph

ROUNDS = 40
EAGERNESS = 0.5
"""How far the weight of a link falls with its load, at first."""


def shortest_path_rate(network: RatedNetwork, distance: Int32s, generators: Ints | None = None) -> float:
    """Rate of every ordered pair that shortest paths allow, in units of the network: All-to-All attains it.

    Splits are improved over some rounds: a link that is fuller than the mean gets less weight.

    Args:
        network: without switches.
        distance: int32[n, n], hops from row to column; with `generators` the first row does.
        generators: int64[m], of a Cayley digraph: number of the generator of each arc. All links of a generator carry
            the same then, and one source tells how much.
    """
    n = network.nodes
    into = np.lexsort((network.arcs[:, 0], network.arcs[:, 1]))
    first = np.searchsorted(network.arcs[into, 1], np.arange(n + 1))
    tails = network.arcs[into, 0].astype(np.int64)
    units = network.units[into].astype(np.float64)
    label = np.arange(len(into), dtype=np.int64)
    rows = distance
    if generators is not None:
        label, rows = generators[into], distance[:1]
        units = np.bincount(label, units) / np.bincount(label)
    rows = np.ascontiguousarray(rows, dtype=np.int32)
    order = np.argsort(rows, axis=1, kind="stable")
    weight, best = units.copy(), np.inf
    for attempt in range(ROUNDS):
        use = graph.shortest_path_loads(rows, order, first, tails, label, weight) / units
        best = min(best, float(use.max()))
        mean = float(use.mean())
        if best <= mean * (1 + 1e-9):
            break
        weight = weight * np.exp(-EAGERNESS / (1 + attempt / 8) * (use / mean - 1))
    return 1.0 / best


PARTS = 5040
"""Parts of what a rank sends another, in which its paths share it; most optima are in such parts exactly."""

TOLERANCE = 1e-9
"""Part of the rate below which a flow is rounding."""


def paths_of(network: RatedNetwork, source: int, flow: Floats, rate: float) -> dict[int, list[tuple[Path, float]]]:
    """Paths from a rank to every other, with the rate over each; shortest first. Cycles are left out.

    Args:
        flow: float64[m], what the rank sends on each arc; changed.
        rate: due at every other rank.
    """
    into: dict[int, list[tuple[int, int]]] = {}
    for arc in np.flatnonzero(flow > TOLERANCE * rate).tolist():
        tail, head = network.arcs[arc].tolist()
        into.setdefault(head, []).append((tail, arc))
    paths: dict[int, list[tuple[Path, float]]] = {}
    for target in _by_distance(network, source, flow, rate):
        left, own = rate, []
        while left > TOLERANCE * rate:
            path = _shortest(into, flow, source, target, TOLERANCE * rate)
            if path is None:
                break
            amount = min(left, *(float(flow[arc]) for arc in path))
            flow[list(path)] -= amount
            left -= amount
            own.append(((source, *(int(network.arcs[arc, 1]) for arc in path)), amount))
        paths[target] = own
    return paths


def _by_distance(network: RatedNetwork, source: int, flow: Floats, rate: float) -> list[int]:
    """Other ranks, the farthest over arcs in use first: what is left of them feeds the nearer ones."""
    depth, frontier = {source: 0}, [source]
    out: dict[int, list[int]] = {}
    for arc in np.flatnonzero(flow > TOLERANCE * rate).tolist():
        out.setdefault(int(network.arcs[arc, 0]), []).append(int(network.arcs[arc, 1]))
    while frontier:
        following = []
        for node in frontier:
            for head in out.get(node, ()):
                if head not in depth:
                    depth[head] = depth[node] + 1
                    following.append(head)
        frontier = following
    others = [rank for rank in network.ranks.tolist() if rank != source]
    return sorted(others, key=lambda rank: (-depth.get(rank, 0), rank))


def _shortest(
    into: dict[int, list[tuple[int, int]]], flow: Floats, source: int, target: int, least: float
) -> list[int] | None:
    """Arcs of a path of fewest arcs that all carry more than `least`, found backward."""
    onward: dict[int, tuple[int, int]] = {}
    frontier, seen = [target], {target}
    while frontier and source not in seen:
        following = []
        for node in frontier:
            for tail, arc in into.get(node, ()):
                if tail not in seen and flow[arc] > least:
                    seen.add(tail)
                    onward[tail] = node, arc
                    following.append(tail)
        frontier = following
    if source not in seen:
        return None
    path, node = [], source
    while node != target:
        node, arc = onward[node]
        path.append(arc)
    return path


def path_schedule(network: RatedNetwork, rate: AllToAllRate, pieces: int) -> CollectiveSchedule:
    """Blocks for every ordered pair (those of a rank to itself stay), in so many pieces, a step behind each other.

    A path is cut at the ranks on it: what passes through switches alone is one message.
    """
    units: list[int] = []
    owner: list[int] = []
    target: list[int] = []
    rows: list[tuple[int, int, int, int, int]] = []
    routes: dict[Path, int] = {}
    for index, source in enumerate(network.ranks.tolist()):
        paths = paths_of(network, source, rate.flow[index].copy(), rate.units)
        for other in network.ranks.tolist():
            weighted = paths.get(other) or [((source,), 1.0)]
            for (path, _), share in zip(weighted, whole_shares((amount for _, amount in weighted), PARTS), strict=True):
                if share == 0:
                    continue
                messages = cut_at_ranks(network, path)
                for piece in range(pieces):
                    rows += [
                        (len(units), message[0], message[-1], step + piece, routes.setdefault(message, len(routes)))
                        for step, message in enumerate(messages)
                    ]
                    units.append(share)
                    owner.append(source)
                    target.append(other)
    block, tail, head, step, route = np.array(rows, dtype=np.int32).reshape(-1, 5).T
    blocks = VectorBlocks(np.array(units), np.array(owner, dtype=np.int32), np.array(target, dtype=np.int32))
    sends = Sends(block, tail, head, step, np.zeros(len(block), dtype=np.bool_), route)
    return CollectiveSchedule(blocks, sends.sorted(), tuple(routes))


def straight_gather(network: RatedNetwork, rate: AllToAllRate, root: int | None = None) -> CollectiveSchedule:
    """An AllGather in one step in which every rank sends its shard straight to every other; from a root, a broadcast.

    Shards are cut where the paths to some rank share them, so that every block goes one way to each.

    Args:
        rate: of an All-to-All in which ranks do not relay, of the root alone if there is one.
    """
    sources = network.ranks.tolist() if root is None else [root]
    units: list[int] = []
    owner: list[int] = []
    rows: list[Row] = []
    routes: dict[Path, int] = {}
    for index, source in enumerate(sources):
        paths = paths_of(network, source, rate.flow[index].copy(), rate.units)
        ends: dict[int, list[tuple[int, Path]]] = {}
        for target, weighted in paths.items():
            shares = np.cumsum(whole_shares((amount for _, amount in weighted), PARTS)).tolist()
            ends[target] = list(zip(shares, (path for path, _ in weighted), strict=True))
        cuts = sorted({end for own in ends.values() for end, _ in own} - {0})
        for low, high in zip([0, *cuts[:-1]], cuts, strict=True):
            for target, own in ends.items():
                path = next(path for end, path in own if low < end)
                rows.append((len(units), source, target, 0, routes.setdefault(path, len(routes)), False))
            units.append(high - low)
            owner.append(source)
    return of_rows(units, owner, rows, tuple(routes))


def cut_at_ranks(network: RatedNetwork, path: Path) -> list[Path]:
    """The messages along a path."""
    stops = [index for index, node in enumerate(path) if not network.is_switch[node]]
    return [path[begin : end + 1] for begin, end in itertools.pairwise(stops)]
