"""Shards for several waiting jobs, one after the other, in a few orders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from solvers.shards.find import find_shard
from solvers.shards.packing import fill_regions
from topoopt.core.arrays import Bools
from topoopt.core.cluster import OpticalLayer, Shard, ShardShape

RANDOM_ORDERS = 8


def place_in_order(
    layer: OpticalLayer, free: Bools, shapes: Sequence[ShardShape], order: Sequence[int], seed: int = 0
) -> tuple[Shard | None, ...]:
    """A shard for each job that gets one when its turn comes; `free` is left as it is."""
    left = free.copy()
    found: list[Shard | None] = [None] * len(shapes)
    for k in order:
        found[k] = shard = find_shard(layer, left, shapes[k], seed)
        if shard is not None:
            left[list(shard.servers)] = False
    return tuple(found)


def place_jobs(
    layer: OpticalLayer, free: Bools, shapes: Sequence[ShardShape], worth: Sequence[float] | None = None, seed: int = 0
) -> tuple[Shard | None, ...]:
    """The best of some orders: by worth of a server, by size both ways, as given, and at random; and of regions filled.

    Filling regions one by one (`fill_regions`) is for jobs that each need one of several that do not overlap.

    Args:
        layer, free: see `find_shard`.
        shapes: of the waiting jobs.
        worth: of placing each, not negative; None: its servers.
        seed: of the random orders and of the searches.
    """
    sizes = np.array([shape.servers for shape in shapes], dtype=np.float64)
    gains = sizes if worth is None else np.array(worth, dtype=np.float64)
    rng = np.random.default_rng(seed)
    orders = [np.arange(len(shapes)), *(np.argsort(key, kind="stable") for key in (-gains / sizes, -sizes, sizes))]
    orders += [rng.permutation(len(shapes)) for _ in range(RANDOM_ORDERS)]
    best: tuple[Shard | None, ...] = (None,) * len(shapes)
    most = 0.0

    def candidates() -> Iterator[tuple[Shard | None, ...] | None]:
        for order in {tuple(order.tolist()): None for order in orders}:
            yield place_in_order(layer, free, shapes, order, seed)
        for fullest_first in (False, True):
            yield fill_regions(layer, free, shapes, gains, seed, fullest_first=fullest_first)

    for found in candidates():
        if found is None:
            break
        gained = float(sum(gain for gain, shard in zip(gains, found, strict=True) if shard is not None))
        if gained > most:
            best, most = found, gained
        if most == gains.sum():
            break
    return best
