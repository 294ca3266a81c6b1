"""Routes of pairs of servers: over one switch, over a torus, over any links by shortest paths that spread the load."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InfeasibleError
from topoopt.core.routing import PathTable
from topoopt.simulate.llm_training.network.links import LinkGraph

CROWDED = 4.0
"""How much longer the fullest link seems to the next round of routes."""


def path_table(nodes: int, source: Ints, target: Ints, paths: list[tuple[Ints, Ints, Floats]]) -> PathTable:
    """Table of padded paths.

    Args:
        source, target: int64[m], the pairs, sorted and distinct.
        paths: some at a time: pairs, int64[k, w] nodes padded with -1 at the end, shares.
    """
    pair = np.concatenate([one[0] for one in paths])
    widest = max(one[1].shape[1] for one in paths)
    rows = np.full((len(pair), widest), -1, dtype=np.int64)
    begin = 0
    for one in paths:
        rows[begin : begin + len(one[0]), : one[1].shape[1]] = one[1]
        begin += len(one[0])
    share = np.concatenate([one[2] for one in paths])
    order = np.argsort(pair, kind="stable")
    pair, rows, share = pair[order], rows[order], share[order]
    used = rows >= 0
    return PathTable(
        nodes_total=nodes,
        source=source.astype(np.int32),
        target=target.astype(np.int32),
        pair_ptr=np.concatenate(([0], np.cumsum(np.bincount(pair, minlength=len(source))))).astype(np.int64),
        share=share,
        path_ptr=np.concatenate(([0], np.cumsum(used.sum(axis=1)))).astype(np.int64),
        node=rows[used].astype(np.int32),
    )


def switch_routes(servers: int, source: Ints, target: Ints) -> PathTable:
    """Over node n."""
    rows = np.stack([source, np.full_like(source, servers), target], axis=1)
    return path_table(servers + 1, source, target, [(np.arange(len(source)), rows, np.ones(len(source)))])


def torus_routes(steps: Ints, source: Ints, target: Ints) -> PathTable:
    """Two shortest paths a pair, each with half of it: along the axes in their order, and in the other one.

    Args:
        steps: int64[axes, n], the server one step on along each axis; all servers see the same torus.
    """
    axes, n = steps.shape
    moves = np.concatenate([steps, np.argsort(steps, axis=1)])
    words = _words(moves)
    reached = np.empty((n, n), dtype=np.int32)  # reached[v, s]: where the way from 0 to v leads from s
    for v, word in enumerate(words):
        at = np.arange(n)
        for move in word:
            at = moves[move][at]
        reached[v] = at
    shift = np.empty((n, n), dtype=np.int32)
    shift[np.broadcast_to(np.arange(n), (n, n)), reached] = np.arange(n)[:, None]
    own = shift[source, target]
    opposite = shift[np.arange(n), 0]  # the shift that leads from v back to 0
    found = []
    for v in np.unique(own).tolist():
        pairs = np.flatnonzero(own == v)
        back = [(move + axes) % (2 * axes) for move in reversed(words[opposite[v]])]
        for word in (words[v], back):
            rows = np.empty((len(pairs), len(word) + 1), dtype=np.int64)
            rows[:, 0] = source[pairs]
            for place, move in enumerate(word):
                rows[:, place + 1] = moves[move][rows[:, place]]
            found.append((pairs, rows, np.full(len(pairs), 0.5)))
    return path_table(n, source, target, found)


def _words(moves: Ints) -> list[list[int]]:
    """Moves of a shortest way from node 0 to every node: along one axis after the other, whichever way round it."""
    axes = len(moves) // 2
    words: list[list[int] | None] = [None] * moves.shape[1]
    words[0] = []
    front = [0]
    while front:
        after = []
        for node in front:
            word = words[node]
            assert word is not None
            for move in range(len(moves)):
                to = int(moves[move, node])
                if words[to] is None:
                    words[to] = sorted([*word, move], key=lambda one: (one % axes, one))
                    after.append(to)
        front = after
    return [word or [] for word in words]


def spread_routes(graph: LinkGraph, source: Ints, target: Ints, amount: Floats, *, rounds: int, seed: int) -> PathTable:
    """Shortest paths in several rounds, each with an equal part of a pair; full links seem longer to the next round.

    Of all numbers of rounds the one whose fullest link is least full is taken.

    Args:
        source, target, amount: pairs, sorted and distinct, and what they send.

    Raises:
        InfeasibleError: a pair has no path.
    """
    draw = np.random.default_rng(seed)
    load, rows, best, kept = np.zeros(len(graph.tail)), [], np.inf, 1
    seconds = 1.0 / graph.parallel
    for turn in range(rounds):
        fullest = float((load * seconds).max(initial=0.0))
        seems = 1.0 + (CROWDED * load * seconds / fullest if fullest > 0 else 0.0)
        paths = _shortest(graph, seems * (1.0 + 1e-3 * draw.random(len(load))), source, target)
        rows.append(paths)
        load = load + _loaded(graph, paths, amount)
        if float((load * seconds).max()) / (turn + 1) < best * (1.0 - 1e-9):
            best, kept = float((load * seconds).max()) / (turn + 1), turn + 1
    every = np.arange(len(source))
    found = [(every, paths, np.full(len(source), 1.0 / kept)) for paths in rows[:kept]]
    return path_table(graph.nodes, source, target, found)


def _shortest(graph: LinkGraph, length: Floats, source: Ints, target: Ints) -> Ints:
    """int64[m, w], padded with -1."""
    matrix = csr_array((length, (graph.tail, graph.head)), shape=(graph.nodes, graph.nodes))
    begins, place = np.unique(source, return_inverse=True)
    _, before = dijkstra(matrix, indices=begins, return_predecessors=True)
    columns, at = [target], target
    while True:
        at = np.where(at == source, -1, np.where(at < 0, -1, before[place, np.maximum(at, 0)]))
        if (at < -1).any():
            lost = int(np.flatnonzero(at < -1)[0])
            text = f"servers {source[lost]} and {target[lost]} send to each other and no links join them"
            raise InfeasibleError(text)
        if (at < 0).all():
            break
        columns.append(at)
    # From the target back to the source: turn every row round.
    rows = np.stack(columns, axis=1)
    width = (rows >= 0).sum(axis=1)
    place_of = width[:, None] - 1 - np.arange(rows.shape[1])
    return np.where(place_of >= 0, np.take_along_axis(rows, np.maximum(place_of, 0), axis=1), -1)


def _loaded(graph: LinkGraph, rows: Ints, amount: Floats) -> Floats:
    keys = graph.tail * graph.nodes + graph.head
    order = np.argsort(keys)
    crossing = rows[:, 1:] >= 0
    link = order[np.searchsorted(keys[order], (rows[:, :-1] * graph.nodes + rows[:, 1:])[crossing])]
    weight = np.broadcast_to(amount[:, None], crossing.shape)[crossing]
    return np.bincount(link, weight, len(keys)).astype(np.float64)
