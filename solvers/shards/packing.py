"""Jobs that each need one region, where regions do not overlap: every region filled as well as can be.

That is how blocks alike in all planes are, and any layer for jobs whose rings take all planes. A region alone is a
knapsack; all together they are a multiple knapsack, whose bound lets every region choose from all jobs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from formulations.shards.shard_classes import LayerClasses, ShapeParts, classes_of, parts_of
from solvers.shards.find import find_shard
from solvers.shards.plane_choices import spans
from solvers.shards.regions import regions_of
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import OpticalLayer, Shard, ShardShape


def separate_regions(classes: LayerClasses, parts: Sequence[ShapeParts]) -> Ints | None:
    """int64[C]: region of each class, none of which any of the jobs can leave; None where regions overlap.

    A job of m interfaces that join all ranks stays within a region over m planes, so within one over fewer.
    """
    needed = min((sum(len(g.interfaces) for g in shape.groups if spans(g)) for shape in parts), default=0)
    if not needed:
        return None
    regions = regions_of(classes, needed)
    return regions.region[0] if len(regions.sets) == 1 and regions.all_sets else None


def knapsack(sizes: Ints, gains: Floats, room: int) -> tuple[float, list[int]]:
    """The most worth that fits, and which jobs make it; of equal choices one with large jobs."""
    order = np.argsort(sizes, kind="stable")
    best = np.zeros(room + 1)
    picks = np.zeros((len(order), room + 1), dtype=bool)
    for row, k in zip(picks, order.tolist(), strict=True):
        size = int(sizes[k])
        if size > room:
            continue
        offer = best[: room + 1 - size] + gains[k]
        row[size:] = offer >= best[size:]
        best[size:] = np.maximum(best[size:], offer)
    chosen, left = [], room
    for row, k in zip(picks[::-1], order[::-1].tolist(), strict=True):
        if row[left] and gains[k] > 0:
            chosen.append(k)
            left -= int(sizes[k])
    return float(best[room]), chosen


def knapsack_bound(region: Ints, counts: Ints, sizes: Ints, gains: Floats) -> float:
    """No placing is worth more: each region as if it had all jobs for itself.

    Args:
        region: of each class, see `separate_regions`.
        counts: int64[C], free servers.
        sizes, gains: of the jobs.
    """
    room = np.bincount(region, counts).astype(np.int64)
    values = {free: knapsack(sizes, gains, free)[0] for free in set(room.tolist())}
    return float(sum(values[free] for free in room.tolist()))


def fill_regions(
    layer: OpticalLayer,
    free: Bools,
    shapes: Sequence[ShardShape],
    gains: Floats,
    seed: int = 0,
    *,
    fullest_first: bool = False,
) -> tuple[Shard | None, ...] | None:
    """A shard for each job chosen, region by region, each the best of what is left; None where regions overlap."""
    classes = classes_of(layer)
    region = separate_regions(classes, [parts_of(shape) for shape in shapes])
    if region is None:
        return None
    room = np.bincount(region, classes.count(free)).astype(np.int64)
    sizes = np.array([shape.servers for shape in shapes], dtype=np.int64)
    found: list[Shard | None] = [None] * len(shapes)
    left, open_jobs = free.copy(), np.arange(len(shapes))
    for r in np.argsort(room if fullest_first else -room, kind="stable").tolist():
        _, chosen = knapsack(sizes[open_jobs], gains[open_jobs], int(room[r]))
        for k in open_jobs[chosen].tolist():
            shard = find_shard(layer, left & (region == r)[classes.class_of], shapes[k], seed)
            if shard is not None:
                left[list(shard.servers)] = False
                found[k] = shard
        open_jobs = np.array([k for k in open_jobs.tolist() if found[k] is None], dtype=np.int64)
    return tuple(found)
