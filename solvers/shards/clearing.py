"""Regions a waiting job could have, the jobs that would have to leave each, and what that costs at least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from formulations.shards.shard_classes import Ints, classes_of, parts_of
from solvers.shards.plane_choices import spans
from solvers.shards.regions import regions_of
from topoopt.core.optical_layer import OpticalLayer, ShardShape
from topoopt.core.shard_moves import RunningJob


@dataclass(frozen=True, eq=False)
class Region:
    """A place for the waiting job.

    Attributes:
        mask: bool[n], its servers.
        freed: int64[jobs], servers each job would leave in it.
        wanted: servers short of what the waiting job takes.
        floor: clearing it costs no less.
        cover: jobs whose leaving is enough by count at that cost; None: only a fractional count was made.
    """

    mask: NDArray[np.bool_]
    freed: Ints
    wanted: int
    floor: float
    cover: tuple[int, ...] | None = None


def regions_to_clear(
    layer: OpticalLayer, free: NDArray[np.bool_], movable: Sequence[RunningJob], waiting: ShardShape, most: int
) -> tuple[list[Region], float]:
    """Regions large enough, at most so many, the cheapest first; and a lower bound on the cost of any moves.

    Where interfaces join all ranks the waiting job needs a region over as many planes, so that the cheapest of all
    regions is a bound; for other shapes the whole layer is one of them, which counts servers only.
    """
    classes, parts = classes_of(layer), parts_of(waiting)
    spanning = sum(len(group.interfaces) for group in parts.groups if spans(group))
    could = free.copy()
    for job in movable:
        could[list(job.shard.servers)] = True
    masks: list[NDArray[np.bool_]] = []
    complete = True
    if spanning:
        regions = regions_of(classes, spanning)
        complete = regions.all_sets
        room = regions.free(classes.count(could))
        for r in np.flatnonzero(room >= waiting.servers).tolist():
            masks.append(regions.region[regions.set_of[r]][classes.class_of] == r)
    else:
        masks = [np.ones(layer.servers, dtype=bool)]
        masks += [classes.class_of == c for c in np.flatnonzero(classes.count(could) >= waiting.servers)]
    held = np.zeros((len(movable), layer.servers), dtype=np.int64)
    for row, job in zip(held, movable, strict=True):
        row[list(job.shard.servers)] = 1
    costs = np.array([job.move_cost_server_s for job in movable])
    priced = []
    for mask in masks:
        freed, wanted = held @ mask, waiting.servers - int((free & mask).sum())
        priced.append(Region(mask, freed, wanted, _floor(costs, freed, wanted)))
    priced.sort(key=lambda region: region.floor)
    tried = [_with_cover(costs, region) for region in priced[:most]]
    least = min((region.floor for region in tried + priced[most:]), default=0.0)
    return sorted(tried, key=lambda region: region.floor), least if complete else 0.0


def _floor(costs: NDArray[np.float64], freed: Ints, wanted: int) -> float:
    """Cost of freeing so many servers if parts of jobs could move."""
    inside = np.flatnonzero(freed)
    order = inside[np.argsort(costs[inside] / freed[inside], kind="stable")]
    before = np.cumsum(freed[order]) - freed[order]
    part = np.clip(wanted - before, 0, freed[order]) / freed[order]
    return float((costs[order] * part).sum()) if freed.sum() >= wanted else float("inf")


def _with_cover(costs: NDArray[np.float64], region: Region) -> Region:
    """The cheapest jobs that leave servers enough, by dynamic programming over servers (knapsack cover)."""
    inside = np.flatnonzero(region.freed).tolist()
    wanted = max(region.wanted, 0)
    best = np.full(wanted + 1, np.inf)
    best[0] = 0.0
    picks = np.zeros((len(inside), wanted + 1), dtype=bool)
    need = np.arange(wanted + 1)
    for row, j in zip(picks, inside, strict=True):
        offer = costs[j] + best[np.maximum(need - region.freed[j], 0)]
        row[:] = offer < best
        best = np.minimum(best, offer)
    if np.isinf(best[wanted]):
        return region
    cover, left = [], wanted
    for row, j in zip(picks[::-1], inside[::-1], strict=True):
        if row[left]:
            cover.append(j)
            left = max(left - int(region.freed[j]), 0)
    return replace(region, floor=float(best[wanted]), cover=tuple(cover))
