"""Shards of a cluster under optical switches: who gets which servers, when to wait, when to move a running job.

    from topoopt.kinds.shared_cluster.shards import block_layer, search_shard, shape_of
    layer = block_layer(servers=432, planes=8, switch_ports=144, switching_time_s=0.01)
    search = search_shard(layer, free, shape_of(topology))        # one job: found, not found, or proven impossible
    result = place(layer, free, shapes)                           # several jobs: the most servers, with a bound
    plan = plan_moves(layer, free, running, shape)                # room for a job by moving others, at least cost
    decide(plan, shape.servers, wait_s(layer, free, running, shape)).pays
    look_ahead(layer, planned, panel_s=120.0, turn_s=0.01)        # starts with and without a second side of panels

Everything placed or moved here has passed the independent checker (`topoopt.verify`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from solvers.shards import (
    Fragmentation,
    MoveDecision,
    ShardSearch,
    Verdict,
    decide,
    find_shard,
    fragmentation,
    greedy_moves,
    place_in_order,
    place_jobs,
    search_shard,
    wait_s,
    wire,
)
from solvers.shards.exact_moves import exact_moves, moves_program
from solvers.shards.exact_shards import AssignmentResult, ShardLimits, assign_shards
from topoopt.core.errors import CheckError
from topoopt.core.optical_layer import (
    OpticalLayer,
    Shard,
    ShardShape,
    block_layer,
    layer_faults,
    layer_from_table,
    realisable,
    shape_faults,
    staggered_layer,
)
from topoopt.core.shard_moves import Move, MovePlan, RunningJob
from topoopt.core.shard_wiring import PlannedJob, WiredJob, Wiring
from topoopt.core.status import Status
from topoopt.core.topology import Topology
from topoopt.verify.laws.findings import Violation
from topoopt.verify.shard_bounds import placing_bound
from topoopt.verify.shards.moves import move_violations
from topoopt.verify.shards.shards import PlacedJob, shard_violations
from topoopt.verify.shards.wiring import wiring_violations

__all__ = [
    "CERTIFIED",
    "AssignmentResult",
    "Fragmentation",
    "Lookahead",
    "Move",
    "MoveDecision",
    "MoveMethod",
    "MovePlan",
    "OpticalLayer",
    "PlacedJob",
    "PlannedJob",
    "RunningJob",
    "Shard",
    "ShardLimits",
    "ShardSearch",
    "ShardShape",
    "Verdict",
    "WiredJob",
    "Wiring",
    "block_layer",
    "decide",
    "find_shard",
    "fragmentation",
    "layer_faults",
    "layer_from_table",
    "look_ahead",
    "move_violations",
    "place",
    "place_in_order",
    "place_jobs",
    "plan_moves",
    "realisable",
    "search_shard",
    "shape_faults",
    "shape_of",
    "shard_violations",
    "staggered_layer",
    "wait_s",
    "wiring_violations",
]


CERTIFIED = "servers counted by the checker (knapsacks)"
TOLERANCE = 1e-9


class MoveMethod(StrEnum):
    """How moves are looked for."""

    AUTO = "auto"
    EXACT = "exact"
    GREEDY = "greedy"


def shape_of(topology: Topology) -> ShardShape:
    """The shape of a job planned on its own: what its optical switches were to realise, rank = server."""
    return ShardShape(topology.switches)


def place(
    layer: OpticalLayer,
    free: NDArray[np.bool_],
    shapes: Sequence[ShardShape],
    worth: Sequence[float] | None = None,
    limits: ShardLimits | None = None,
) -> AssignmentResult:
    """`assign_shards`, checked; `proved_by` says when the checker has found the bound itself.

    Raises:
        ValueError: `free` does not fit the layer, or `worth` the jobs.
        CheckError: a bug of ours.
    """
    result = assign_shards(layer, free, shapes, worth, limits)
    placed = [
        PlacedJob(str(k), shape, shard)
        for k, (shape, shard) in enumerate(zip(shapes, result.shards, strict=True))
        if shard is not None
    ]
    _refuse(shard_violations(layer, placed))
    gains = [float(shape.servers) for shape in shapes] if worth is None else worth
    value = sum(gains[int(job.name)] for job in placed)
    counted = placing_bound(layer, free, shapes, gains)
    if abs(value - result.value) > TOLERANCE * max(1.0, value) or value > counted * (1 + TOLERANCE):
        raise CheckError(f"jobs worth {value} are placed, {result.value} is stated, {counted} is possible by counting")
    if result.bound >= counted * (1 - TOLERANCE):
        return replace(result, proved_by=CERTIFIED)
    return result


def plan_moves(
    layer: OpticalLayer,
    free: NDArray[np.bool_],
    running: Sequence[RunningJob],
    waiting: ShardShape,
    limits: ShardLimits | None = None,
    *,
    method: MoveMethod = MoveMethod.AUTO,
) -> MovePlan | None:
    """The least-cost moves of running jobs that make room for a waiting one, checked; None when none were found.

    Greedy first; where its cost does not meet its bound, exact as well, unless the program is large.

    Args:
        layer: the switches.
        free: bool[n], servers without a job.
        running: jobs with shards, names distinct.
        waiting: shape of the job to make room for.
        limits: of the exact method.
        method: see `MoveMethod`.

    Raises:
        ValueError: two running jobs have one name, or one holds a free server.
        CheckError: a bug of ours.
    """
    if len({job.name for job in running}) < len(running):
        raise ValueError("running jobs have distinct names")
    for job in running:
        if free[list(job.shard.servers)].any():
            raise ValueError(f"job {job.name} holds servers that are free")
    limits = limits or ShardLimits()
    plan = None
    if method is not MoveMethod.EXACT:
        plan = greedy_moves(layer, free, running, waiting, limits.seed)
    if plan is not None and plan.status is Status.OPTIMAL:
        return _checked(layer, free, running, waiting, plan)
    small = moves_program(layer, free, running, waiting).columns <= limits.most_columns
    if method is MoveMethod.EXACT or (method is MoveMethod.AUTO and small):
        other, _, _ = exact_moves(layer, free, running, waiting, limits)
        if other is not None and (plan is None or other.cost_server_s <= plan.cost_server_s):
            plan = other
    return _checked(layer, free, running, waiting, plan)


@dataclass(frozen=True)
class Lookahead:
    """A plan wired with and without a second side of panels.

    Attributes:
        ahead: with two sides and 1x2 switches.
        without: with one side and no switches.
        saved_server_s: server-seconds of idle time between being ready and starting that the second side saves.
    """

    ahead: tuple[WiredJob, ...]
    without: tuple[WiredJob, ...]
    saved_server_s: float


def look_ahead(layer: OpticalLayer, plan: Sequence[PlannedJob], panel_s: float, turn_s: float) -> Lookahead:
    """`wire` both ways, checked.

    Args:
        layer, plan: see `wire`.
        panel_s: time of a patch panel to set a job's circuits, seconds.
        turn_s: time of the 1x2 switches, seconds.

    Raises:
        ValueError: bad times, or a shard that does not fit its shape.
        CheckError: a shard that does not realise its shape, or a bug of ours.
    """
    wired = []
    for sides, turn in ((2, turn_s), (1, 0.0)):
        found = wire(layer, plan, panel_s, turn, sides=sides)
        _refuse(wiring_violations(layer, plan, found, panel_s, turn, sides))
        wired.append(found)
    ahead, without = wired
    saved = sum(
        job.shape.servers * (one.delay_s - two.delay_s) for job, two, one in zip(plan, ahead, without, strict=True)
    )
    return Lookahead(ahead, without, saved)


def _checked(
    layer: OpticalLayer,
    free: NDArray[np.bool_],
    running: Sequence[RunningJob],
    waiting: ShardShape,
    plan: MovePlan | None,
) -> MovePlan | None:
    if plan is not None:
        open_to_all = free.copy()
        for job in running:
            open_to_all[list(job.shard.servers)] = True
        _refuse(move_violations(layer, running, waiting, plan, np.flatnonzero(~open_to_all).tolist()))
    return plan


def _refuse(violations: tuple[Violation, ...]) -> None:
    if violations:
        raise CheckError("; ".join(map(str, violations)))
