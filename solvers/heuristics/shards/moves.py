"""Moves for a waiting job by greedy: clear the region where that is cheapest, put the jobs cleared elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from formulations.shard_classes import Ints, classes_of, parts_of
from solvers.heuristics.shards.find import find_shard
from solvers.heuristics.shards.plane_choices import spans
from solvers.heuristics.shards.regions import regions_of
from solvers.heuristics.shards.steps import NOTHING_CHEAPER, move_plan
from topoopt.core.optical_layer import OpticalLayer, Shard, ShardShape
from topoopt.core.shard_moves import MovePlan, RunningJob
from topoopt.core.status import Status

MOST_REGIONS = 32
"""Regions tried, the ones cheapest to clear by a fractional count first."""

BY_REGIONS = "some region has to be cleared, servers counted"


@dataclass(frozen=True, eq=False)
class _Region:
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


def greedy_moves(
    layer: OpticalLayer,
    free: NDArray[np.bool_],
    running: Sequence[RunningJob],
    waiting: ShardShape,
    seed: int = 0,
) -> MovePlan | None:
    """The cheapest plan of moves met, or None; without moves when the waiting job fits as it is.

    A job that is cleared goes where it fits without moving others, so chains of moves are not met. The bound counts
    servers: of every region, the jobs that would have to leave at least.

    Args:
        layer: the switches.
        free: bool[n], servers without a job.
        running: jobs with shards; those that cannot move may be left out.
        waiting: shape of the job to make room for.
        seed: of the searches.
    """
    if (shard := find_shard(layer, free, waiting, seed)) is not None:
        return move_plan(running, {}, shard)
    movable = [job for job in running if np.isfinite(job.pause_s)]
    regions, bound = _regions(layer, free, movable, waiting)
    best: MovePlan | None = None
    for region in regions:
        if best is not None and region.floor >= best.cost_server_s:
            break
        plan = _clear_cover(layer, free, movable, waiting, region, seed)
        for by_size in () if plan is not None else (False, True):
            other = _clear(layer, free, movable, waiting, region, seed, by_size=by_size)
            plan = min((p for p in (plan, other) if p is not None), key=lambda p: p.cost_server_s, default=None)
        if plan is not None and (best is None or plan.cost_server_s < best.cost_server_s):
            best = plan
    if best is None:
        return None
    met = best.cost_server_s <= bound * (1 + 1e-9)
    least = min(bound, best.cost_server_s)
    status = Status.OPTIMAL if met else Status.FEASIBLE
    return replace(best, bound_server_s=least, proved_by=BY_REGIONS if bound > 0 else NOTHING_CHEAPER, status=status)


def _regions(
    layer: OpticalLayer, free: NDArray[np.bool_], movable: Sequence[RunningJob], waiting: ShardShape
) -> tuple[list[_Region], float]:
    """Regions large enough, cheapest first, and a lower bound on the cost of any moves."""
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
        priced.append(_Region(mask, freed, wanted, _floor(costs, freed, wanted)))
    priced.sort(key=lambda region: region.floor)
    tried = [_with_cover(costs, region) for region in priced[:MOST_REGIONS]]
    least = min((region.floor for region in tried + priced[MOST_REGIONS:]), default=0.0)
    return sorted(tried, key=lambda region: region.floor), least if complete else 0.0


def _floor(costs: NDArray[np.float64], freed: Ints, wanted: int) -> float:
    """Cost of freeing so many servers if parts of jobs could move."""
    inside = np.flatnonzero(freed)
    order = inside[np.argsort(costs[inside] / freed[inside], kind="stable")]
    before = np.cumsum(freed[order]) - freed[order]
    part = np.clip(wanted - before, 0, freed[order]) / freed[order]
    return float((costs[order] * part).sum()) if freed.sum() >= wanted else float("inf")


def _with_cover(costs: NDArray[np.float64], region: _Region) -> _Region:
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


def _clear_cover(
    layer: OpticalLayer,
    free: NDArray[np.bool_],
    movable: Sequence[RunningJob],
    waiting: ShardShape,
    region: _Region,
    seed: int,
) -> MovePlan | None:
    """The jobs of the cover out, if the waiting job then fits and they do elsewhere."""
    if not region.cover:
        return None
    cleared = [movable[j] for j in region.cover]
    room = free.copy()
    for job in cleared:
        room[list(job.shard.servers)] = True
    shard = find_shard(layer, room & region.mask, waiting, seed)
    if shard is None or (targets := _elsewhere(layer, room, cleared, shard, seed)) is None:
        return None
    return move_plan(movable, targets, shard)


def _clear(
    layer: OpticalLayer,
    free: NDArray[np.bool_],
    movable: Sequence[RunningJob],
    waiting: ShardShape,
    region: _Region,
    seed: int,
    *,
    by_size: bool,
) -> MovePlan | None:
    """Jobs out of a region, cheapest a server first (or smallest first), until the waiting job fits into it."""
    freed = region.freed.tolist()
    inside = [j for j, n in enumerate(freed) if n]
    inside.sort(key=lambda j: (movable[j].shape.servers if by_size else 0, movable[j].move_cost_server_s / freed[j]))
    wanted = region.wanted
    room = free.copy()
    cleared: list[RunningJob] = []
    for j in inside:
        # the last job needed is the cheapest one that is enough by itself
        enough = [i for i in inside if freed[i] >= wanted and movable[i] not in cleared]
        pick = min(enough, key=lambda i: movable[i].move_cost_server_s) if wanted > 0 and enough else j
        if movable[pick] in cleared:
            continue
        cleared.append(movable[pick])
        room[list(movable[pick].shard.servers)] = True
        wanted -= freed[pick]
        if wanted > 0:
            continue
        shard = find_shard(layer, room & region.mask, waiting, seed)
        if shard is not None and (targets := _elsewhere(layer, room, cleared, shard, seed)) is not None:
            return move_plan(movable, targets, shard)
    return None


def _elsewhere(
    layer: OpticalLayer, room: NDArray[np.bool_], cleared: Sequence[RunningJob], shard: Shard, seed: int
) -> dict[str, Shard] | None:
    """A shard for each job cleared, the largest first; jobs whose servers nobody needs stay where they are."""
    left = room.copy()
    left[list(shard.servers)] = False
    targets: dict[str, Shard] = {}
    for job in sorted(cleared, key=lambda job: -job.shape.servers):
        own = list(job.shard.servers)
        found = job.shard if left[own].all() else find_shard(layer, left, job.shape, seed)
        if found is None:
            return None
        left[list(found.servers)] = False
        if found is not job.shard:
            targets[job.name] = found
    return targets
