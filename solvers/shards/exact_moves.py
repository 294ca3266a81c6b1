"""The least-cost moves that make room for a waiting job, by branch and bound over classes of servers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from formulations.shards.shard_assignment import ShardAssignment, ShardJob, build_arrays, choices_of
from formulations.shards.shard_classes import classes_of, parts_of, shard_of
from solvers.shards.exact_shards import BY_HIGHS, ShardLimits, solve_program
from solvers.shards.find import Verdict, search_shard
from solvers.shards.steps import move_plan
from topoopt.core.optical_layer import OpticalLayer, Shard, ShardShape, realisable
from topoopt.core.shard_moves import MovePlan, RunningJob
from topoopt.core.status import Status, StopReason


def moves_program(
    layer: OpticalLayer, free: NDArray[np.bool_], running: Sequence[RunningJob], waiting: ShardShape
) -> ShardAssignment:
    """Data of the program: the waiting job first, which must be placed, then the jobs that can move."""
    classes = classes_of(layer)
    movable = [job for job in running if np.isfinite(job.pause_s)]
    counts = classes.count(free)
    jobs = [ShardJob(parts_of(waiting), 0.0, must=True)]
    for job in movable:
        held = np.bincount(classes.class_of[list(job.shard.servers)], minlength=classes.classes)
        jobs.append(ShardJob(parts_of(job.shape), 0.0, held, job.move_cost_server_s))
        counts = counts + held
    return ShardAssignment(classes, counts, tuple(jobs))


def exact_moves(
    layer: OpticalLayer,
    free: NDArray[np.bool_],
    running: Sequence[RunningJob],
    waiting: ShardShape,
    limits: ShardLimits | None = None,
) -> tuple[MovePlan | None, Status, StopReason]:
    """The cheapest plan of moves; see `formulations.shards.shard_assignment` with running jobs.

    Args:
        layer, free, running, waiting: see `greedy_moves`.
        limits: see `ShardLimits`.

    Returns:
        The plan, or None; INFEASIBLE when no moves make room (a counting argument, or HiGHS, not certified), UNKNOWN
        when none were found in time; why the solver stopped.
    """
    limits = limits or ShardLimits()
    search = search_shard(layer, free, waiting, limits.seed)
    if search.shard is not None:
        return move_plan(running, {}, search.shard), Status.OPTIMAL, StopReason.CONVERGED
    movable = [job for job in running if np.isfinite(job.pause_s)]
    could = free.copy()
    for job in movable:
        could[list(job.shard.servers)] = True
    if search_shard(layer, could, waiting, limits.seed).verdict is Verdict.IMPOSSIBLE:
        return None, Status.INFEASIBLE, StopReason.CONVERGED
    if (reason := limits.stop.reason()) is not None:
        return None, Status.UNKNOWN, reason
    classes = classes_of(layer)
    data = moves_program(layer, free, running, waiting)
    program = build_arrays(data)
    result = solve_program(program, limits)
    if result.status is Status.INFEASIBLE:
        return None, Status.INFEASIBLE, StopReason.CONVERGED
    if result.x is None:
        return None, Status.UNKNOWN, result.stopped_by
    choices = choices_of(data, program, result.x)
    moved = [(job, choice) for job, choice in zip(movable, choices[1:], strict=True) if not choice.stays]
    room = free.copy()
    for job, _ in moved:
        room[list(job.shard.servers)] = True
    # free servers come first, to jobs that move, so that fewer have to wait for each other
    pools = [np.concatenate((m[free[m]], m[room[m] & ~free[m]])) for m in classes.members]
    targets: dict[str, Shard] = {}
    for job, choice in moved:
        targets[job.name] = shard_of(classes, parts_of(job.shape), choice.counts, choice.taken, tuple(pools))
        pools = [pool[n:] for pool, n in zip(pools, choice.counts.sum(axis=0).tolist(), strict=True)]
    shard = shard_of(classes, parts_of(waiting), choices[0].counts, choices[0].taken, tuple(pools))
    shapes = {job.name: job.shape for job in movable}
    laid_out = [(waiting, shard), *((shapes[name], target) for name, target in targets.items())]
    if not all(realisable(layer, shape, target) for shape, target in laid_out):
        return None, Status.UNKNOWN, StopReason.ERROR
    most = sum(job.move_cost_server_s for job in movable)
    # the program gains what stays, so cost = all - gain
    bound = 0.0 if result.bound is None else max(0.0, most + result.bound)
    plan = move_plan(movable, targets, shard, bound, BY_HIGHS)
    return plan, plan.status, result.stopped_by
