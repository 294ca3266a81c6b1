"""Shards: time of a search in a full cluster, and what the heuristics leave against proven optima."""

from __future__ import annotations

import time

import numpy as np

from solvers.shard_assignment import ShardLimits, assign_shards
from solvers.shards import find_shard, place_in_order, place_jobs, search_shard
from solvers.stop import Stop
from tests.benchmarks.figures import Figure
from tests.support.shard_cases import random_layer, random_shape, rings
from topoopt.core.cluster import OpticalLayer, Shard, ShardShape, block_layer, staggered_layer

SERVERS, PLANES, PORTS = 4096, 8, 384
CALLS = 10_000
SMALL_CASES = 300


def limits() -> ShardLimits:
    """Ten seconds from now."""
    return ShardLimits(stop=Stop().within(10.0))


def shard_figures() -> list[Figure]:
    """Searches on 4096 servers; random small cases against branch and bound."""
    layers = {"blocks": block_layer, "staggered": staggered_layer}
    figures = [
        Figure(
            f"shard of {SERVERS} servers, {name}, {kind}: a call, mean of {CALLS}",
            1e3 * _mean_call_s(build(SERVERS, PLANES, PORTS, 0.01), shapes),
            "ms",
            1.0,
        )
        for name, build in layers.items()
        for kind, shapes in _shapes().items()
    ]
    return [*figures, *_small_figures(), *_packing_figures()]


def _shapes() -> dict[str, list[ShardShape]]:
    rng = np.random.default_rng(0)
    sizes = (16, 32, 64)
    return {
        "rings on all planes": [rings(k, 1, 3, 5, 7, -1, -3, -5, -7) for k in sizes],
        "rings and 2 matchings": [
            ShardShape(np.concatenate((rings(k, 1, -1, 3, -3).arcs, _matchings(rng, k, 2)))) for k in sizes
        ],
        "4 matchings": [ShardShape(_matchings(rng, k, 4)) for k in sizes[:2]],
    }


def _matchings(rng: np.random.Generator, servers: int, count: int) -> np.ndarray:
    """int32[count, servers]: random perfect matchings."""
    arcs = np.empty((count, servers), dtype=np.int32)
    for row in arcs:
        order = rng.permutation(servers)
        row[order[::2]], row[order[1::2]] = order[1::2], order[::2]
    return arcs


def _mean_call_s(layer: OpticalLayer, shapes: list[ShardShape]) -> float:
    """Jobs come until one finds no place, then a random one leaves, so that most calls meet a full cluster."""
    rng = np.random.default_rng(0)
    free = np.ones(layer.servers, dtype=bool)
    running: list[Shard] = []
    for shape in shapes:  # compiled and sorted beforehand
        find_shard(layer, rng.random(layer.servers) < 0.01 * shape.servers, shape)
    spent = 0.0
    for call in range(CALLS):
        shape = shapes[int(rng.integers(len(shapes)))]
        began = time.perf_counter()
        shard = find_shard(layer, free, shape, call)
        spent += time.perf_counter() - began
        if shard is not None:
            free[list(shard.servers)] = False
            running.append(shard)
        elif running:
            free[list(running.pop(int(rng.integers(len(running)))).servers)] = True
    return spent / CALLS


def _small_figures() -> list[Figure]:
    """Shards missed where there is one, and servers not placed, of random wirings, shapes and busy servers."""
    rng = np.random.default_rng(1)
    missed = 0
    lost, lost_in_order = [], []
    for seed in range(SMALL_CASES):
        layer = random_layer(rng, int(rng.integers(8, 20)), int(rng.integers(2, 4)), 2)
        free = rng.random(layer.servers) < 0.8
        shapes = [
            random_shape(rng, int(rng.integers(2, 8)), int(rng.integers(1, layer.planes + 1)))
            for _ in range(int(rng.integers(1, 5)))
        ]
        shard, _, impossible = search_shard(layer, free, shapes[0], seed)
        if shard is None and not impossible:
            missed += assign_shards(layer, free, shapes[:1], None, limits()).value > 0
        bound = assign_shards(layer, free, shapes, None, limits()).bound
        if bound > 0:
            lost.append(1 - _placed(shapes, place_jobs(layer, free, shapes)) / bound)
            order = place_in_order(layer, free, shapes, range(len(shapes)))
            lost_in_order.append(1 - _placed(shapes, order) / bound)
    return [
        Figure(f"shards there are and the search misses, of {SMALL_CASES} small cases", missed, "", 0.0),
        Figure(
            f"servers of 1 to 4 jobs not placed, {len(lost)} small cases (plain: jobs as they come)",
            100 * float(np.mean(lost)), "%", 1.0, 100 * float(np.mean(lost_in_order)),
        ),
    ]  # fmt: skip


def _placed(shapes: list[ShardShape], shards: tuple[Shard | None, ...]) -> int:
    return sum(shape.servers for shape, shard in zip(shapes, shards, strict=True) if shard is not None)


def _packing_figures() -> list[Figure]:
    """Ninety waiting rings on 4096 servers, 30 % busy at random: time to the proof, and what is left to the bound."""
    layer = block_layer(SERVERS, PLANES, PORTS, 0.01)
    rng = np.random.default_rng(1)
    free = rng.random(SERVERS) < 0.7
    shapes = [rings(int(k), 1, -1) for k in rng.choice((16, 24, 40, 64, 100), 90)]
    began = time.perf_counter()
    result = assign_shards(layer, free, shapes, None, limits())
    spent = time.perf_counter() - began
    return [
        Figure(f"90 jobs on {SERVERS} servers, as many servers as can be: time", spent, "s", 1.0),
        Figure("the same: servers below the bound", result.bound - result.value, "", 0.0),
    ]
