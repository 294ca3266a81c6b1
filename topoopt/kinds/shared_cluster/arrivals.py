"""Jobs that arrive: run on every fabric under one way of scheduling, and the solution."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from solvers.stop import Stop
from solvers.timing import Timing
from topoopt.core.errors import CheckError, InputError, LimitError, Problem
from topoopt.core.shared_cluster import (
    ACROSS_GROUPS,
    MOST_EXACT_SERVERS,
    PARTITIONED,
    Goal,
    QueueOrder,
    Scheduling,
    SharedCluster,
    server_groups,
    too_short,
)
from topoopt.core.shared_cluster_figures import rounding_of
from topoopt.core.shared_cluster_jobs import DrawnJobs, JobClass, JobTable, TracedJob
from topoopt.core.shared_cluster_runs import Decisions, FabricRun
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.core.shared_plan import class_of_plan
from topoopt.core.solution import UNCHECKED
from topoopt.core.verdict import StopReason, Tolerance, settle
from topoopt.core.versions import versions
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.kinds.shared_cluster.fabric_run import Keep, Progress, rated, run_fabric
from topoopt.kinds.shared_cluster.methods import AS_STATED, BEST, SCHEDULING_METHODS
from topoopt.simulate.cluster.objective import objective_of
from topoopt.verify.shared_cluster.bounds import shared_bound
from topoopt.verify.shared_cluster.planned import bounds_of_plan
from topoopt.workloads.job_arrivals import job_table

TOO_SHORT = "shorter than sending the bytes of an iteration takes"


MOST_BACKFILLED_SERVERS = 16
"""Of a cluster whose placement is exact and whose queue is not fifo: larger bursts took the solver minutes."""


def outside(method: str, problem: SharedCluster) -> Problem | None:
    """Why a way of scheduling does not cover a problem."""
    exact = [fabric.name for fabric in problem.fabrics if fabric.placement == "exact"]
    if exact and problem.servers > MOST_EXACT_SERVERS:
        text = f"too many servers for the exact placement of {exact[0]}"
        allowed = f"up to {MOST_EXACT_SERVERS} servers, or placement spread"
        return Problem(text, path="cluster.servers", value=str(problem.servers), allowed=allowed)
    queue = SCHEDULING_METHODS[method].applied(problem.scheduling).queue
    if exact and queue is not QueueOrder.FIFO and problem.servers > MOST_BACKFILLED_SERVERS:
        text = f"too many servers to place out of turn on {exact[0]}, whose placement is exact"
        allowed = f"queue fifo, up to {MOST_BACKFILLED_SERVERS} servers, or placement spread"
        return Problem(text, path="scheduling.queue", value=queue.value, allowed=allowed)
    moved = SCHEDULING_METHODS[method].applied(problem.scheduling).defragment
    fixed = [fabric for fabric in problem.fabrics if fabric.placement in ACROSS_GROUPS]
    if moved and fixed:
        text = f"running jobs are not moved on {fixed[0].name}, whose placement is {fixed[0].placement}"
        allowed = "no defragmentation, or placement best-fit or first-fit"
        return Problem(text, path="search.method", value=repr(method), allowed=allowed)
    return None


def solve_arrivals(
    problem: SharedCluster, given: tuple[TracedJob, ...] | DrawnJobs, stop: Stop, progress: Progress, keep: Keep
) -> SharedClusterSolution:
    """Simulate the jobs on every fabric, sum up and bound; what was simulated until the stop is kept.

    Raises:
        InputError: iteration times in which the bytes cannot be sent.
        LimitError: the stop came before any job had ended on the first fabric.
    """
    search = problem.search
    classes, notes = planned_classes(problem, stop)
    problems = rate_problems(problem, classes)
    if problems:
        raise InputError(problems)
    jobs = job_table(given, classes, problem.servers, search.seed)

    def concluded(name: str, runs: Sequence[FabricRun]) -> SharedClusterSolution:
        whole = all(run.whole for run in runs) and len(runs) == len(problem.fabrics)
        stopped_by = StopReason.CONVERGED if whole else stop.reason() or StopReason.TIME
        chosen = replace(problem, search=replace(search, method=name), classes=classes)
        said = (*problem.notes, *notes, *_shortcomings(problem, runs))
        return _assemble(chosen, jobs, list(runs), stopped_by, said)

    def kept(name: str, runs: Sequence[FabricRun]) -> None:
        if runs[0].finished.any():
            so_far = tuple(runs)
            keep(lambda: concluded(name, so_far))

    name, runs = _runs(problem, classes, jobs, search.method, search.seed, stop, progress, kept)
    if not runs or not runs[0].finished.any():
        raise LimitError("the limit came before any job had ended on the first fabric")
    return concluded(name, runs)


def _shortcomings(problem: SharedCluster, runs: Sequence[FabricRun]) -> Iterator[str]:
    """What was not simulated, or not placed with a proof, for people."""
    if len(runs) < len(problem.fabrics):
        left = ", ".join(fabric.name for fabric in problem.fabrics[len(runs) :])
        yield f"not simulated, as the run was stopped: {left}"
    yield from (_cut_short(run) for run in runs if not run.whole)
    yield from (_decided(run.fabric.name, run.decisions) for run in runs if run.decisions is not None)


def planned_classes(problem: SharedCluster, stop: Stop) -> tuple[tuple[JobClass, ...], tuple[str, ...]]:
    """The classes with times and bytes, their plans solved, and with what no plan beats; and notes on that.

    Raises:
        CheckError: a plan is rejected (a bug of ours).
    """
    classes: list[JobClass] = []
    notes: list[str] = []
    for one in problem.classes:
        if one.plan is None:
            classes.append(one)
            continue
        left = stop.remaining_s()
        options = SolveOptions(time_limit_s=left, objective_only=True, timing=Timing(stop.within(left), left))
        solution = solve(one.plan, options)
        if not solution.check.ok:
            raise CheckError(f"the plan of class {one.name} is wrong: {'; '.join(solution.check.violations)}")
        least = bounds_of_plan(one.plan)
        made = replace(class_of_plan(one, solution), lower_bounds=least)
        classes.append(made)
        text = f"class {one.name}: {made.iteration_ms[0]:.6g} ms an iteration, planned from {one.plan.name}"
        notes.append(f"{text}; no plan takes under {least.iteration_ms:.6g} ms")
    return tuple(classes), tuple(notes)


def rate_problems(problem: SharedCluster, classes: tuple[JobClass, ...]) -> list[Problem]:
    """Times in which the bytes cannot be sent at the rates of the fabrics, now that all are known."""
    fabrics = [rated(problem, fabric) for fabric in problem.fabrics]
    return [
        Problem(TOO_SHORT, path=f"classes[{index}].{key}", value=f"{time:g}", allowed=f"at least {least:g}")
        for index, one in enumerate(classes)
        for key, time, least in too_short(one, problem.direct_gbps(one), fabrics)
    ]


def _cut_short(run: FabricRun) -> str:
    return (
        f"{run.fabric.name}: simulated until {run.until_s:.6g} s, {int(run.finished.sum())} of "
        f"{len(run.finished)} jobs have ended; the figures are of these"
    )


def _decided(name: str, decisions: Decisions) -> str:
    text = f"{name}: {decisions.proven} placements of waiting jobs are proven to be the best"
    if decisions.unproven:
        return f"{text}, {decisions.unproven} are not: the search was cut short, or only its word says so"
    return f"{text}, all that were made"


def _runs(
    problem: SharedCluster,
    classes: tuple[JobClass, ...],
    jobs: JobTable,
    method: str,
    seed: int,
    stop: Stop,
    progress: Progress,
    kept: Callable[[str, Sequence[FabricRun]], None],
) -> tuple[str, list[FabricRun]]:
    """The runs of the first fabric and of all on which a job ended, under one way of scheduling, and its name; `kept`
    is given those so far."""
    settings = {method: SCHEDULING_METHODS[method].applied(problem.scheduling)}
    first: dict[str, FabricRun] = {}
    if method == BEST or (method == AS_STATED and problem.scheduling.open):
        names = [one for one in SCHEDULING_METHODS if one != BEST and outside(one, problem) is None]
        settings = {one: SCHEDULING_METHODS[one].applied(problem.scheduling) for one in names}
        for name, one in settings.items():
            first[name] = run_fabric(problem, 0, classes, jobs, one, seed, stop, progress)
            best = _best(problem, jobs, first)
            kept(best, [first[best]])
            if stop.reason() is not None:
                break
        method = _best(problem, jobs, first)
    scheduling: Scheduling = settings[method]
    runs = [first[method]] if first else []
    for place in range(len(runs), len(problem.fabrics)):
        if stop.reason() is not None and runs:
            break
        run = run_fabric(problem, place, classes, jobs, scheduling, seed, stop, progress)
        if runs and not run.finished.any():  # cut before it says anything
            break
        runs.append(run)
        kept(method, runs)
    return method, runs


def _best(problem: SharedCluster, jobs: JobTable, runs: dict[str, FabricRun]) -> str:
    """Least objective among the whole ones, ties by completion time, then by order; else the first."""
    whole = {name: run for name, run in runs.items() if run.whole}

    def rank(name: str) -> tuple[float, ...]:
        return tuple(objective_of(goal, whole[name], jobs).value for goal in (problem.goal, Goal.COMPLETION_TIME))

    return min(whole, key=rank) if whole else next(iter(runs))


def _assemble(
    problem: SharedCluster, jobs: JobTable, runs: list[FabricRun], stopped_by: StopReason, notes: tuple[str, ...]
) -> SharedClusterSolution:
    """The solution, unchecked; `problem` has the classes and the method used."""
    first = runs[0]
    objective = objective_of(problem.goal, first, jobs)
    proven = shared_bound(problem, first.fabric, jobs, first.finished)
    rounding = rounding_of(objective.value, first, jobs)
    verdict = settle(objective.value, (proven,), Tolerance.ROUNDING, absolute=rounding, conclusive=first.whole)
    return SharedClusterSolution(
        name=problem.name,
        status=verdict.status,
        stopped_by=stopped_by,
        objective=objective,
        bound=verdict.bound,
        check=UNCHECKED,
        seed=problem.search.seed,
        method=problem.search.method,
        servers=problem.servers,
        degree=problem.cluster.degree,
        link_gbps=problem.cluster.link_gbps,
        look_ahead=problem.look_ahead,
        switching_time_s=problem.layer.switching_time_s,
        checkpoint_s=problem.scheduling.checkpoint_s,
        contention=problem.contention.value,
        classes=tuple(replace(one, plan=None, lower_bounds=None) for one in problem.classes),
        jobs=jobs,
        groups=partition_groups(problem),
        runs=tuple(runs),
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=notes,
    )


def partition_groups(problem: SharedCluster) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Group of each server as far as shards are concerned; one group when no fabric is partitioned."""
    if any(fabric.kind == PARTITIONED for fabric in problem.fabrics):
        return server_groups(problem.layer)
    return np.zeros(problem.servers, dtype=np.int64)
