"""Routes over the k shortest paths of every pair, shares from a linear program that makes the largest load least."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

import numpy as np

from formulations.job.path_split import PathSplit, build_arrays, shares_of
from solvers.backends import BACKENDS, SolverLimits
from solvers.network.constructions.graph import ArcGraph, arc_graph
from solvers.network.constructions.routes import checked_weights
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import LimitError
from topoopt.core.routing import PathTable
from topoopt.core.topology import Topology

MOST_ENUMERATED = 256
HOP_PRICE = 1e-6
"""Charge per byte-hop, relative to the largest load: shorter paths win ties."""


def split_routes_lp(
    topology: Topology,
    weights: Floats | None = None,
    k: int = 8,
    *,
    slack: int = 1,
    seed: int = 0,
    backend: str = "highs-simplex",
    limits: SolverLimits | None = None,
) -> PathTable:
    """Traffic of each pair split over up to k simple paths of at most `slack` hops more than the shortest.

    Meant for small clusters (n <= 32; n^2 k columns). Pairs without traffic get one shortest path.

    Args:
        topology: connected.
        weights: float64[n, n], bytes i -> j; None: uniform.
        k: most paths per pair, shortest first.
        seed: of the draw among equally long paths.

    Raises:
        InputError: bad weights.
        InfeasibleError: the topology is not connected.
        LimitError: the solver reached its limit.
    """
    n = topology.servers
    amount = checked_weights(n, weights, k)
    graph = arc_graph(topology)
    scale = max(float(amount.max(initial=0.0)), 1e-300)
    pairs = [(s, t) for s in range(n) for t in range(n) if s != t]
    rng = Random(seed)
    paths: list[list[int]] = []
    owner: list[int] = []
    for index, (s, t) in enumerate(pairs):
        found = shortest_arc_paths(graph, s, t, k if amount[s, t] > 0 else 1, slack, rng)
        paths += found
        owner += [index] * len(found)
    demand = np.array(owner, dtype=np.int64)
    hops = np.array([len(path) for path in paths], dtype=np.int64)
    arcs = np.array([a for path in paths for a in path], dtype=np.int64)
    per_path = np.array([amount[s, t] / scale for s, t in pairs])[demand] if paths else np.zeros(0)
    data = PathSplit(
        demand=demand,
        resource=arcs,
        alternative=np.repeat(np.arange(len(paths)), hops),
        use=np.repeat(per_path, hops) * graph.inverse_capacity[arcs],
        resources=len(graph.head),
        price=HOP_PRICE * per_path * hops,
    )
    if not paths:
        share = np.zeros(0)
    else:
        result = BACKENDS[backend](build_arrays(data), limits or SolverLimits())
        if result.x is None:
            raise LimitError(f"no split of the routes found: {result.message}")
        share = shares_of(data, result.x)
    return _table(n, pairs, paths, demand, share, graph)


def shortest_arc_paths(graph: ArcGraph, source: int, target: int, k: int, slack: int, rng: Random) -> list[list[int]]:
    """Up to k different simple paths (arc ids), fewest hops first, of at most `slack` hops over the shortest."""
    to_target = graph.hops_to[target]

    def walk(node: int, left: int, visited: set[int], prefix: list[int]) -> Iterator[list[int]]:
        if node == target:
            if left == 0:
                yield prefix
            return
        for arc in range(int(graph.ptr[node]), int(graph.ptr[node + 1])):
            after = int(graph.head[arc])
            if after not in visited and int(to_target[after]) < left:
                yield from walk(after, left - 1, visited | {after}, [*prefix, arc])

    found: list[list[int]] = []
    shortest = int(to_target[source])
    for length in range(shortest, shortest + slack + 1):
        level = list(islice(walk(source, length, {source}, []), MOST_ENUMERATED))
        room = k - len(found)
        if len(level) <= room:
            found += level
            continue
        # Drawn, since the first ones in arc order share their first arcs.
        found += rng.sample(level, room)
        break
    return found


def _table(
    n: int, pairs: list[tuple[int, int]], paths: list[list[int]], demand: Ints, share: Floats, graph: ArcGraph
) -> PathTable:
    used = [p for p in range(len(paths)) if share[p] > 0]
    nodes = [[pairs[demand[p]][0], *(int(graph.head[a]) for a in paths[p])] for p in used]
    per_pair = np.bincount(demand[used], minlength=len(pairs)) if used else np.zeros(len(pairs), dtype=np.int64)
    return PathTable(
        nodes_total=n,
        source=np.array([s for s, _ in pairs], dtype=np.int32),
        target=np.array([t for _, t in pairs], dtype=np.int32),
        pair_ptr=np.concatenate(([0], np.cumsum(per_pair))).astype(np.int64),
        share=share[used],
        path_ptr=np.concatenate(([0], np.cumsum([len(path) for path in nodes]))).astype(np.int64),
        node=np.array([v for path in nodes for v in path], dtype=np.int32),
    )
