"""Moves for a waiting job by greedy: clear the region where that is cheapest, put the jobs cleared elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from solvers.shards.clearing import Region, regions_to_clear
from solvers.shards.find import find_shard
from solvers.shards.steps import NOTHING_CHEAPER, move_plan
from topoopt.core.optical_layer import OpticalLayer, Shard, ShardShape
from topoopt.core.shard_moves import MovePlan, RunningJob
from topoopt.core.status import Status

REGIONS = (32, 6)
"""Regions tried for the waiting job, and for a job that itself needs others moved."""

BY_REGIONS = "some region has to be cleared, servers counted"

Layout = tuple[Shard, dict[str, Shard]]
"""Where the waiting job goes, and where each job that moves does."""


@dataclass(frozen=True, eq=False)
class _Scene:
    """A moment at which room is looked for.

    Attributes:
        layer: the switches.
        free: bool[n], servers nobody has, or will have.
        movable: jobs that may still move.
        seed: of the searches.
        level: 0 for the waiting job, 1 for one that was cleared and finds no place by itself.
    """

    layer: OpticalLayer
    free: NDArray[np.bool_]
    movable: tuple[RunningJob, ...]
    seed: int
    level: int = 0


def greedy_moves(
    layer: OpticalLayer,
    free: NDArray[np.bool_],
    running: Sequence[RunningJob],
    waiting: ShardShape,
    seed: int = 0,
) -> MovePlan | None:
    """The cheapest plan of moves met, or None; without moves when the waiting job fits as it is.

    A job that is cleared goes where it fits, or makes room for itself in the same way, once. The bound counts servers:
    of every region, the jobs that would have to leave at least.

    Args:
        layer: the switches.
        free: bool[n], servers without a job.
        running: jobs with shards; those that cannot move may be left out.
        waiting: shape of the job to make room for.
        seed: of the searches.
    """
    if (shard := find_shard(layer, free, waiting, seed)) is not None:
        return move_plan(running, {}, shard)
    scene = _Scene(layer, free, tuple(job for job in running if np.isfinite(job.pause_s)), seed)
    layout, bound = _cheapest(scene, waiting)
    if layout is None:
        return None
    plan = move_plan(scene.movable, layout[1], layout[0])
    met = plan.cost_server_s <= bound * (1 + 1e-9)
    return replace(
        plan,
        bound_server_s=min(bound, plan.cost_server_s),
        proved_by=BY_REGIONS if bound > 0 else NOTHING_CHEAPER,
        status=Status.OPTIMAL if met else Status.FEASIBLE,
    )


def _cheapest(scene: _Scene, waiting: ShardShape) -> tuple[Layout | None, float]:
    """The cheapest layout met, and a lower bound on the cost of any."""
    regions, bound = regions_to_clear(scene.layer, scene.free, scene.movable, waiting, REGIONS[scene.level])
    price = {job.name: job.move_cost_server_s for job in scene.movable}
    best: Layout | None = None
    least = np.inf
    for region in regions:
        if region.floor >= least:
            break
        for cleared in _ways(scene, region):
            layout = _cleared(scene, waiting, region, cleared)
            if layout is None:
                continue
            cost = sum(price[name] for name in layout[1])
            if cost < least:
                best, least = layout, cost
            break
    return best, bound


def _ways(scene: _Scene, region: Region) -> Iterator[list[RunningJob]]:
    """Sets of jobs whose leaving may be enough: the cheapest cover, then by price of a server, then by size."""
    jobs, freed = scene.movable, region.freed.tolist()
    if region.cover:
        yield [jobs[j] for j in region.cover]
    inside = [j for j, n in enumerate(freed) if n]
    price = {j: jobs[j].move_cost_server_s / freed[j] for j in inside}
    for order in (
        sorted(inside, key=lambda j: price[j]),
        sorted(inside, key=lambda j: (jobs[j].shape.servers, price[j])),
    ):
        left, cleared = region.wanted, []
        for j in order:
            cleared.append(jobs[j])
            left -= freed[j]
            if left <= 0:
                yield list(cleared)


def _cleared(scene: _Scene, waiting: ShardShape, region: Region, cleared: Sequence[RunningJob]) -> Layout | None:
    """The waiting job in the region, the jobs cleared elsewhere, the largest first; None if that fails.

    Jobs whose servers nobody needs stay where they are.
    """
    room = scene.free.copy()
    for job in cleared:
        room[list(job.shard.servers)] = True
    shard = find_shard(scene.layer, room & region.mask, waiting, scene.seed)
    if shard is None:
        return None
    room[list(shard.servers)] = False
    gone = {job.name for job in cleared}
    others = tuple(job for job in scene.movable if job.name not in gone)
    targets: dict[str, Shard] = {}
    for job in sorted(cleared, key=lambda job: -job.shape.servers):
        if room[list(job.shard.servers)].all():
            room[list(job.shard.servers)] = False
            continue
        found = find_shard(scene.layer, room, job.shape, scene.seed)
        if found is None and scene.level + 1 < len(REGIONS):
            deeper = _Scene(scene.layer, room, others, scene.seed, scene.level + 1)
            layout, _ = _cheapest(deeper, job.shape)
            if layout is not None:
                found, more = layout
                leaving = [other for other in others if other.name in more]
                others = tuple(other for other in others if other.name not in more)
                for other in leaving:
                    room[list(other.shard.servers)] = True
                for target in more.values():
                    room[list(target.servers)] = False
                targets |= more
        if found is None:
            return None
        room[list(found.servers)] = False
        targets[job.name] = found
    return shard, targets
