"""Schedules out of trees, rows of sends and other schedules.

Reductions are gathers on the transposed network, backward; an AllReduce is both, over blocks that they share. Whole
shards go in the fewest steps, through switches too, or round rings.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from solvers.collective.trees import RoutedArc, RoutedTrees, TreePacking
from topoopt.core.arrays import Bools, Floats, Int32s, Ints
from topoopt.core.collective import CollectiveOp, CollectiveProblem, CollectiveSchedule, Path, Sends, VectorBlocks
from topoopt.core.rated_network import RatedNetwork

Row = tuple[int, int, int, int, int, bool]
"""Block, tail, head, step, route, whether the head adds it to what it has."""

CountedPaths = tuple[tuple[Path, int], ...]
"""Paths, and how many trees take each."""


def backward(schedule: CollectiveSchedule) -> CollectiveSchedule:
    """Every copy turned round in time and direction, to a sum: a gather becomes a reduction to the same owners."""
    sends = schedule.sends
    turned = Sends(
        sends.block, sends.head, sends.tail, schedule.steps - 1 - sends.step, np.ones(len(sends), np.bool_), sends.route
    )
    return CollectiveSchedule(schedule.blocks, turned.sorted(), tuple(route[::-1] for route in schedule.routes))


def one_after_other(first: CollectiveSchedule, second: CollectiveSchedule) -> CollectiveSchedule:
    """Two schedules of the same blocks, the second when the first has ended: a reduction and a gather, an AllReduce."""
    routes = {route: index for index, route in enumerate(dict.fromkeys((*first.routes, *second.routes)))}
    columns = []
    for part, later in ((first, 0), (second, first.steps)):
        number = np.array([routes[route] for route in part.routes], dtype=np.int32)
        columns.append(replace(part.sends, step=part.sends.step + np.int32(later), route=number[part.sends.route]))
    joined = (np.concatenate([getattr(column, name) for column in columns]) for name in Sends.__dataclass_fields__)
    return CollectiveSchedule(first.blocks, Sends(*joined).sorted(), tuple(routes))


def of_rows(
    units: Iterable[int], owner: Iterable[int], rows: list[Row], routes: tuple[Path, ...]
) -> CollectiveSchedule:
    """A schedule of rows."""
    sizes = np.fromiter(units, dtype=np.int64)
    blocks = VectorBlocks(sizes, np.fromiter(owner, dtype=np.int32), np.full(len(sizes), -1, dtype=np.int32))
    return of_columns(blocks, np.array(rows, dtype=np.int32).reshape(-1, 6).T, routes)


def of_columns(blocks: VectorBlocks, columns: Iterable[Ints | Int32s], routes: tuple[Path, ...]) -> CollectiveSchedule:
    """A schedule of what rows have, in columns."""
    block, tail, head, step, route, adds = (column.astype(np.int32) for column in columns)
    return CollectiveSchedule(blocks, Sends(block, tail, head, step, adds > 0, route).sorted(), routes)


def of_forest(forest: TreePacking, pieces: int) -> CollectiveSchedule:
    """Copies along trees: every block in so many pieces, one step behind each other."""
    return of_trees([(tree.root, tree.count, (), tree.arcs) for tree in forest.batches], pieces)


def of_two_forests(reductions: TreePacking, broadcasts: TreePacking, pieces: int) -> CollectiveSchedule:
    """An AllReduce: every piece goes up a tree of the first, to a root, and down a tree of the second from there.

    Args:
        reductions: on the transposed network, with as many trees from every rank as the other.
        pieces: of every block; they follow each other, so that both trees are in use at once.

    Raises:
        ValueError: another number of trees from some rank.
    """
    if reductions.trees != broadcasts.trees:
        raise ValueError("as many trees up as down are needed at every rank")
    rows: list[TreePair] = []
    for root in sorted(root for root, count in broadcasts.trees.items() if count):
        both = [
            _with_ends([batch for batch in forest.batches if batch.root == root]) for forest in (reductions, broadcasts)
        ]
        ends = sorted({*(end for _, end in both[0]), *(end for _, end in both[1])})
        for low, high in zip([0, *ends[:-1]], ends, strict=True):
            up, down = (next(_from(batch, low - end + batch.count) for batch, end in own if low < end) for own in both)
            rows.append((root, high - low, up, down))
    return of_trees(rows, pieces)


TreePair = tuple[int, int, tuple[RoutedArc, ...], tuple[RoutedArc, ...]]
"""Root, number of trees, arcs of the tree that is summed along (on the transposed network), of the one copied along."""


def _with_ends(batches: list[RoutedTrees]) -> list[tuple[RoutedTrees, int]]:
    """Batches one after the other, with where each ends."""
    return list(zip(batches, np.cumsum([batch.count for batch in batches]).tolist(), strict=True))


def _from(batch: RoutedTrees, skipped: int) -> tuple[RoutedArc, ...]:
    """Arcs of the trees of a batch after the first ones."""
    return tuple(RoutedArc(arc.tail, arc.head, _without(arc.paths, skipped)) for arc in batch.arcs)


def _without(paths: CountedPaths, skipped: int) -> CountedPaths:
    rest = []
    for path, count in paths:
        rest += [(path, count - skipped)] if skipped < count else []
        skipped = max(skipped - count, 0)
    return tuple(rest)


def of_trees(trees: list[TreePair], pieces: int) -> CollectiveSchedule:
    """Blocks in order of their roots; trees whose arcs part over several routes are divided as they are."""
    routes: dict[Path, int] = {}
    rows: list[Row] = []
    units: list[int] = []
    owner: list[int] = []
    summed = max((max(_depths(root, up).values()) for root, _, up, _ in trees), default=0)
    for root, count, up, down in sorted(trees, key=lambda row: row[0]):
        ends = {end for arc in (*up, *down) for end in np.cumsum([some for _, some in arc.paths]).tolist()}
        ordered = sorted(end for end in {*ends, count} if end <= count)
        above, below = _depths(root, up), _depths(root, down)
        for low, high in zip([0, *ordered[:-1]], ordered, strict=True):
            hops = [
                (arc.head, arc.tail, summed - 1 - above[arc.tail], True, _path_at(arc.paths, low)[::-1]) for arc in up
            ]
            hops += [(arc.tail, arc.head, summed + below[arc.tail], False, _path_at(arc.paths, low)) for arc in down]
            for piece in range(pieces):
                rows += [
                    (len(units), tail, head, step + piece, routes.setdefault(path, len(routes)), adds)
                    for tail, head, step, adds, path in hops
                ]
                units.append(high - low)
                owner.append(root)
    return of_rows(units, owner, rows, tuple(routes))


def _depths(root: int, arcs: tuple[RoutedArc, ...]) -> dict[int, int]:
    depth = {root: 0}
    for arc in arcs:
        depth[arc.head] = depth[arc.tail] + 1
    return depth


def _path_at(paths: CountedPaths, index: int) -> Path:
    """The path of the tree at a place in its batch."""
    for path, count in paths:
        if index < count:
            return path
        index -= count
    raise ValueError("a place outside the batch")


def gathered(
    problem: CollectiveProblem, make: Callable[[RatedNetwork], CollectiveSchedule | None]
) -> CollectiveSchedule | None:
    """The collective from a way to make an AllGather: turned round for a reduction, both for an AllReduce."""
    network, wanted = problem.network, problem.collective
    if wanted is CollectiveOp.ALLGATHER:
        return make(network)
    up = make(network.transposed())
    if up is None or wanted is CollectiveOp.REDUCE_SCATTER:
        return None if up is None else backward(up)
    down = make(network)
    return None if down is None else joined(backward(up), down)


def joined(up: CollectiveSchedule, down: CollectiveSchedule) -> CollectiveSchedule | None:
    """A reduction and a gather of the same blocks; None where they differ."""
    same = np.array_equal(up.blocks.units, down.blocks.units) and np.array_equal(up.blocks.owner, down.blocks.owner)
    return one_after_other(up, down) if same else one_after_other(*refined(up, down))


def refined(first: CollectiveSchedule, second: CollectiveSchedule) -> tuple[CollectiveSchedule, CollectiveSchedule]:
    """Both with the blocks that the ends of either make, where the owners stand in the same order."""
    scale = np.lcm(first.blocks.total, second.blocks.total)
    ends = np.union1d(*(np.cumsum(own.blocks.units) * (scale // own.blocks.total) for own in (first, second)))
    return divided(first, ends), divided(second, ends)


def divided(schedule: CollectiveSchedule, ends: np.ndarray) -> CollectiveSchedule:
    """The same with blocks that end at `ends`, int64, in units of the last of them; blocks must be in vector order."""
    blocks, sends = schedule.blocks, schedule.sends
    old = np.cumsum(blocks.units) * (int(ends[-1]) // blocks.total)
    inside = np.searchsorted(old, ends, side="left")  # the old block of each new one
    first = np.searchsorted(inside, np.arange(len(old)))
    count = np.bincount(inside, minlength=len(old))
    of_send = np.repeat(np.arange(len(sends)), count[sends.block])
    within = np.arange(len(of_send)) - np.repeat(np.cumsum(count[sends.block]) - count[sends.block], count[sends.block])
    fields = {name: getattr(sends, name)[of_send] for name in sends.__dataclass_fields__}
    fields["block"] = (first[sends.block][of_send] + within).astype(np.int32)
    parts = replace(
        blocks,
        units=np.diff(ends, prepend=0),
        owner=blocks.owner[inside],
        target=blocks.target[inside],
    )
    return CollectiveSchedule(parts, replace(sends, **fields).sorted(), schedule.routes)


def switched_paths(network: RatedNetwork, source: int) -> dict[int, Path]:
    """Ways of fewest links, and of the fastest ones, from a rank to those it reaches through switches alone."""
    out: dict[int, list[tuple[int, int]]] = {}
    for (tail, head), units in zip(network.arcs.tolist(), network.units.tolist(), strict=True):
        out.setdefault(tail, []).append((-units, head))
    paths: dict[int, Path] = {source: (source,)}
    frontier = [source]
    while frontier:
        following = []
        for node in frontier:
            for _, head in sorted(out.get(node, ())):
                if head not in paths:
                    paths[head] = (*paths[node], head)
                    if network.is_switch[head]:
                        following.append(head)
        frontier = following
    return {node: path for node, path in paths.items() if node != source and not network.is_switch[node]}


def fewest_steps(network: RatedNetwork, root: int | None = None, *, multicast: bool = False) -> CollectiveSchedule:
    """An AllGather of whole shards, or a broadcast from a root, in fewest steps; to pass on over switches is one.

    Of the ranks that have a shard a step before, the one whose links have carried least in the step sends it. With
    `multicast` a link carries what one rank sends several others once.
    """
    ranks = network.ranks.tolist()
    paths = {rank: switched_paths(network, rank) for rank in ranks}
    feeding = {head: [tail for tail in ranks if head in paths[tail]] for head in ranks}
    number = {(tail, head): index for index, (tail, head) in enumerate(network.arcs.tolist())}
    arcs = {path: [number[hop] for hop in itertools.pairwise(path)] for own in paths.values() for path in own.values()}
    distance = {rank: _steps_from(paths, rank) for rank in ranks}
    sources, index = ranks if root is None else [root], {rank: at for at, rank in enumerate(ranks)}
    routes: dict[Path, int] = {}
    rows: list[Row] = []
    load: dict[int, Floats] = {}
    passed: dict[tuple[int, int], set[int]] = {}
    for turn in range(len(ranks)):  # every rank sends its shard on in turn, so that none is always first
        for block, source in enumerate(sources):
            head = ranks[(index[source] + turn) % len(ranks)]
            far = distance[source][head]
            if far == 0:
                continue
            carried = load.setdefault(far - 1, np.zeros(len(network.arcs)))
            near = [paths[tail][head] for tail in feeding[head] if distance[source][tail] == far - 1]

            def fresh(route: Path, shard: int = block) -> list[int]:
                return [arc for arc in arcs[route] if arc not in passed.get((shard, route[0]), ())]

            def fullest(route: Path, before: Floats = carried) -> float:
                own = fresh(route)
                return float(((before[own] + 1) / network.units[own]).max(initial=0.0))

            path = min(near, key=fullest)
            carried[fresh(path)] += 1
            if multicast:
                passed.setdefault((block, path[0]), set()).update(arcs[path])
            rows.append((block, path[0], head, far - 1, routes.setdefault(path, len(routes)), False))
    return of_rows([1] * len(sources), sources, rows, tuple(routes))


def _steps_from(paths: Mapping[int, Mapping[int, Path]], source: int) -> dict[int, int]:
    """Messages that something needs one after the other to get to every rank."""
    steps, frontier = {source: 0}, [source]
    while frontier:
        following = []
        for node in frontier:
            for head in paths[node]:
                if head not in steps:
                    steps[head] = steps[node] + 1
                    following.append(head)
        frontier = following
    return steps


def ring_gather(network: RatedNetwork, rings: Sequence[Sequence[int]]) -> CollectiveSchedule | None:
    """An AllGather round several rings at once, each with an equal part; None where a ring uses what is not there.

    Args:
        rings: of all ranks, in the order of sending.
    """
    ranks = network.ranks.tolist()
    routes: dict[Path, int] = {}
    rounds = [_round(network, ring) for ring in rings]
    rows: list[Row] = []
    owner: list[int] = []
    for rank in ranks:
        for ring, hops in zip(rings, rounds, strict=True):
            if hops is None:
                return None
            block, start = len(owner), list(ring).index(rank)
            owner.append(rank)
            for step in range(len(ring) - 1):
                path = hops[(start + step) % len(ring)]
                rows.append((block, path[0], path[-1], step, routes.setdefault(path, len(routes)), False))
    return of_rows([1] * len(owner), owner, rows, tuple(routes))


def _round(network: RatedNetwork, ring: Sequence[int]) -> list[Path] | None:
    steps = []
    for tail, head in zip(ring, (*ring[1:], ring[0]), strict=True):
        path = switched_paths(network, tail).get(head)
        if path is None:
            return None
        steps.append(path)
    return steps


def natural_rings(network: RatedNetwork) -> list[list[int]]:
    """Rings p, 2p, 3p, ... of all ranks, of steps p without common factor with N, whose links are all there.

    Opposite rings both count; where none are there, the ranks in their order, which switches may join.
    """
    ranks = network.ranks
    n = len(ranks)
    linked: Bools = np.zeros((network.nodes, network.nodes), dtype=np.bool_)
    linked[network.arcs[:, 0], network.arcs[:, 1]] = True
    rings = []
    for offset in range(1, n):
        ring = ranks[np.arange(n) * offset % n]
        if np.gcd(offset, n) == 1 and linked[ring, np.roll(ring, -1)].all():
            rings.append(ring.tolist())
    return rings or [ranks.tolist()]
