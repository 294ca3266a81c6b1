"""Messages of ranks to ranks over paths: the flow of every rank taken apart, in whole parts, and sent step by step."""

from __future__ import annotations

import itertools

import numpy as np

from solvers.apportionment import whole_shares
from solvers.collective.all_to_all import AllToAllRate
from solvers.collective.schedules import Row, of_rows
from topoopt.core.arrays import Floats
from topoopt.core.collective import CollectiveSchedule, Path, Sends, VectorBlocks
from topoopt.core.rated_network import RatedNetwork

PARTS = 5040
"""Parts of what a rank sends another, in which its paths share it; most optima are in such parts exactly."""

DUST = 1e-9
"""Part of the rate below which a flow is rounding."""


def paths_of(network: RatedNetwork, source: int, flow: Floats, rate: float) -> dict[int, list[tuple[Path, float]]]:
    """Paths from a rank to every other, with the rate over each; shortest first. Cycles are left out.

    Args:
        flow: float64[m], what the rank sends on each arc; changed.
        rate: due at every other rank.
    """
    into: dict[int, list[tuple[int, int]]] = {}
    for place in np.flatnonzero(flow > DUST * rate).tolist():
        tail, head = network.arcs[place].tolist()
        into.setdefault(head, []).append((tail, place))
    found: dict[int, list[tuple[Path, float]]] = {}
    for target in _by_distance(network, source, flow, rate):
        left, own = rate, []
        while left > DUST * rate:
            path = _shortest(into, flow, source, target, DUST * rate)
            if path is None:
                break
            amount = min(left, *(float(flow[place]) for place in path))
            flow[list(path)] -= amount
            left -= amount
            own.append(((source, *(int(network.arcs[place, 1]) for place in path)), amount))
        found[target] = own
    return found


def _by_distance(network: RatedNetwork, source: int, flow: Floats, rate: float) -> list[int]:
    """Other ranks, the farthest over arcs in use first: what is left of them feeds the nearer ones."""
    depth, frontier = {source: 0}, [source]
    out: dict[int, list[int]] = {}
    for place in np.flatnonzero(flow > DUST * rate).tolist():
        out.setdefault(int(network.arcs[place, 0]), []).append(int(network.arcs[place, 1]))
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
            for tail, place in into.get(node, ()):
                if tail not in seen and flow[place] > least:
                    seen.add(tail)
                    onward[tail] = node, place
                    following.append(tail)
        frontier = following
    if source not in seen:
        return None
    path, node = [], source
    while node != target:
        node, place = onward[node]
        path.append(place)
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
    for place, source in enumerate(network.ranks.tolist()):
        ways = paths_of(network, source, rate.flow[place].copy(), rate.units)
        for other in network.ranks.tolist():
            found = ways.get(other) or [((source,), 1.0)]
            for (path, _), share in zip(found, whole_shares((amount for _, amount in found), PARTS), strict=True):
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
    for place, source in enumerate(sources):
        ways = paths_of(network, source, rate.flow[place].copy(), rate.units)
        ends: dict[int, list[tuple[int, Path]]] = {}
        for target, found in ways.items():
            shares = np.cumsum(whole_shares((amount for _, amount in found), PARTS)).tolist()
            ends[target] = list(zip(shares, (path for path, _ in found), strict=True))
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
    stops = [place for place, node in enumerate(path) if not network.is_switch[node]]
    return [path[begin : end + 1] for begin, end in itertools.pairwise(stops)]
