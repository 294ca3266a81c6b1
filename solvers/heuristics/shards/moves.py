"""Moves for a waiting job by greedy: clear the region where that is cheapest, put the jobs cleared elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from formulations.shard_classes import Ints, classes_of, parts_of
from solvers.heuristics.shards.find import find_shard
from solvers.heuristics.shards.regions import regions_of
from solvers.heuristics.shards.steps import move_plan
from topoopt.core.optical_layer import OpticalLayer, Shard, ShardShape
from topoopt.core.shard_moves import MovePlan, RunningJob

MOST_REGIONS = 32
"""Regions tried, the ones cheapest to clear by a fractional count first."""


def greedy_moves(
    layer: OpticalLayer,
    free: NDArray[np.bool_],
    running: Sequence[RunningJob],
    waiting: ShardShape,
    seed: int = 0,
) -> MovePlan | None:
    """The cheapest plan of moves met, or None; without moves when the waiting job fits as it is.

    A job that is cleared goes where it fits without moving others, so chains of moves are not met.

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
    best: MovePlan | None = None
    for region, floor in _regions(layer, free, movable, waiting):
        if best is not None and floor >= best.cost_server_s:
            break
        for by_size in (False, True):
            plan = _clear(layer, free, movable, waiting, region, seed, by_size=by_size)
            if plan is not None and (best is None or plan.cost_server_s < best.cost_server_s):
                best = plan
    return best


def _regions(
    layer: OpticalLayer, free: NDArray[np.bool_], movable: Sequence[RunningJob], waiting: ShardShape
) -> Iterator[tuple[NDArray[np.bool_], float]]:
    """Masks of regions large enough, each with the least cost of clearing it by a fractional count, cheapest first."""
    classes, parts = classes_of(layer), parts_of(waiting)
    spanning = sum(len(g.interfaces) for g in parts.groups if g.components == 1 and (g.component == 0).all())
    could = free.copy()
    for job in movable:
        could[list(job.shard.servers)] = True
    masks: list[NDArray[np.bool_]] = []
    if spanning:
        regions = regions_of(classes, spanning)
        room = regions.free(classes.count(could))
        for r in np.flatnonzero(room >= waiting.servers).tolist():
            masks.append(regions.region[regions.set_of[r]][classes.class_of] == r)
    else:
        masks = [np.ones(layer.servers, dtype=bool)]
        masks += [classes.class_of == c for c in np.flatnonzero(classes.count(could) >= waiting.servers)]
    held = [np.array(job.shard.servers) for job in movable]
    priced = []
    for number, mask in enumerate(masks):
        freed = np.array([mask[servers].sum() for servers in held], dtype=np.int64)
        priced.append((_floor(movable, freed, waiting.servers - int((free & mask).sum())), number))
    for floor, number in sorted(priced)[:MOST_REGIONS]:
        yield masks[number], floor


def _floor(movable: Sequence[RunningJob], freed: Ints, wanted: int) -> float:
    """Cost of freeing so many servers if parts of jobs could move."""
    cost, left = 0.0, float(wanted)
    offers = [(job.move_cost_server_s / n, n) for job, n in zip(movable, freed.tolist(), strict=True) if n]
    for price, n in sorted(offers):
        if left <= 0:
            break
        cost, left = cost + price * min(n, left), left - n
    return cost if left <= 0 else float("inf")


def _clear(
    layer: OpticalLayer,
    free: NDArray[np.bool_],
    movable: Sequence[RunningJob],
    waiting: ShardShape,
    region: NDArray[np.bool_],
    seed: int,
    *,
    by_size: bool,
) -> MovePlan | None:
    """Jobs out of a region, cheapest a server first (or smallest first), until the waiting job fits into it."""
    freed = [int(region[list(job.shard.servers)].sum()) for job in movable]
    inside = [j for j, n in enumerate(freed) if n]
    inside.sort(key=lambda j: (movable[j].shape.servers if by_size else 0, movable[j].move_cost_server_s / freed[j]))
    wanted = waiting.servers - int((free & region).sum())
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
        shard = find_shard(layer, room & region, waiting, seed)
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
