"""Routes of pairs on a direct-connect network: the link between them, exchanges inside their group, else short paths.

What a group exchanges over links of its own is routed once for all groups of the same form: on a circulant the same
seen from every server, with the least load there is; else by a linear program where it is small, or in rounds of
shortest paths that keep off full links.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from solvers.llm_training.network.circulant_routes import circulant_routes
from solvers.llm_training.network.evaluation import sending_pairs
from solvers.network.constructions.split_routes import split_routes_lp
from solvers.network.routing.circulant import classes_of
from topoopt.core.arrays import Floats, Ints
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.routing import PathTable
from topoopt.core.topology import Topology
from topoopt.simulate.llm_training.network.groups import BlockGroups, FamilyGroups
from topoopt.simulate.llm_training.network.links import LinkGraph, family_flows
from topoopt.simulate.llm_training.network.routing import path_table, spread_routes

ROUNDS = 8
"""Rounds of shortest paths; of more than `LARGE` servers 2."""

LARGE = 256

LARGEST_PROGRAM = 8
"""Servers of a group whose exchange is routed by a linear program."""

Part = tuple[Ints, Ints, Floats]
"""Paths as `path_table` takes them."""


def direct_routes(
    graph: LinkGraph, groups: FamilyGroups, orders: dict[F, tuple[Ints, ...]], volume: Mapping[F, float], *, seed: int
) -> PathTable:
    """Routes of all pairs that send; blocks of ranks stand on the servers in order.

    Raises:
        InfeasibleError: a pair has no path.
    """
    n = graph.servers
    places = np.arange(n)
    source, target = sending_pairs(groups, places, orders)
    keys = source * n + target
    found = list(_exchanges(graph, groups, keys, seed))
    done = np.zeros(len(keys), dtype=bool)
    for pairs, _, _ in found:
        done[pairs] = True
    joined = np.flatnonzero(~done & np.isin(keys, graph.tail * n + graph.head))
    found.append((joined, np.column_stack([source, target])[joined], np.ones(len(joined))))
    done[joined] = True
    apart = np.flatnonzero(~done)
    if len(apart):
        amount = _amounts(groups, places, orders, volume, keys)[apart]
        rest = spread_routes(graph, source[apart], target[apart], amount, rounds=ROUNDS if n <= LARGE else 2, seed=seed)
        rows, owner = _padded(rest)
        found.append((apart[owner], rows, rest.share))
    return path_table(n, source, target, found)


def _padded(table: PathTable) -> tuple[Ints, Ints]:
    """int64[P, w] nodes of the paths, -1 behind their ends, and the pair of each."""
    lengths = np.diff(table.path_ptr)
    rows = np.full((len(lengths), int(lengths.max(initial=1))), -1, dtype=np.int64)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = table.node
    return rows, np.repeat(np.arange(len(table.source)), np.diff(table.pair_ptr))


def _amounts(
    groups: FamilyGroups, places: Ints, orders: dict[F, tuple[Ints, ...]], volume: Mapping[F, float], keys: Ints
) -> Floats:
    """Bytes of pairs."""
    amount, n = np.zeros(len(keys)), len(places)
    for family, directions in family_flows(groups, places, orders).items():
        for one in directions:
            place = np.searchsorted(keys, one.source * n + one.target)
            amount += np.bincount(place, one.amount * volume.get(family, 0.0), len(keys))
    return amount


def _exchanges(graph: LinkGraph, groups: FamilyGroups, keys: Ints, seed: int) -> Iterator[Part]:
    """Exchanges of tokens over the links inside their groups, where these join them and are the same in all."""
    n = graph.servers
    classes = groups.collectives.get(F.EXPERT, ())
    if not classes or np.bincount(np.concatenate([one.blocks.ravel() for one in classes])).max() > 1:
        return
    index = np.full((n, n), -1, dtype=np.int64)
    index[graph.tail, graph.head] = np.arange(len(graph.tail))
    for one in classes:
        own = _inner_graph(graph, one, index)
        if own is None:
            continue
        table = group_routes(own, seed)
        rows, owner = _padded(table)
        nodes = np.where(rows >= 0, one.blocks[:, np.maximum(rows, 0)], -1)
        pair = np.searchsorted(keys, one.blocks[:, table.source[owner]] * n + one.blocks[:, table.target[owner]])
        yield pair.ravel(), nodes.reshape(-1, rows.shape[1]), np.tile(table.share, len(one.blocks))


def _inner_graph(graph: LinkGraph, groups: BlockGroups, index: Ints) -> LinkGraph | None:
    """Links inside a group, if they are the same in all groups and join all servers of one."""
    servers, k = groups.blocks, groups.blocks.shape[1]
    tail, head = (side.ravel() for side in np.nonzero(~np.eye(k, dtype=bool)))
    link = index[servers[:, tail], servers[:, head]]
    parallel = (
        np.where(link >= 0, graph.parallel[np.maximum(link, 0)], 0) if len(graph.parallel) else np.zeros_like(link)
    )
    there = parallel[0] > 0
    if (parallel != parallel[0]).any() or not there.any():
        return None
    matrix = csr_array((parallel[0][there], (tail[there], head[there])), shape=(k, k))
    if connected_components(matrix, connection="strong")[0] > 1:
        return None
    return LinkGraph(k, k, tail[there], head[there], parallel[0][there], graph.link_gbps)


def group_routes(graph: LinkGraph, seed: int) -> PathTable:
    """Routes of all pairs of a group that send each other equally much."""
    n = graph.servers
    source, target = (side.ravel() for side in np.nonzero(~np.eye(n, dtype=bool)))
    classes = classes_of(n, graph.tail, graph.head, graph.parallel.astype(np.float64))
    if classes is not None and len(graph.tail) < len(source):
        return circulant_routes(n, *classes)
    if n <= LARGEST_PROGRAM and len(graph.tail) < len(source):
        arcs = np.repeat(np.column_stack([graph.tail, graph.head]), graph.parallel, axis=0)
        return split_routes_lp(Topology.of_arcs(n, arcs), seed=seed)
    return spread_routes(graph, source, target, np.ones(len(source)), rounds=ROUNDS, seed=seed)
