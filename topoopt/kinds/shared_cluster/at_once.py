"""Jobs at once, each flow simulated: a plan for every class, draws run together on every fabric, and the solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from solvers.stop import Stop
from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.core.shared_cluster import PARTITIONED, Fabric, SharedCluster
from topoopt.core.shared_cluster_jobs import JobsAtOnce
from topoopt.core.shared_cluster_solution import ClassPlan, DrawnRun, SharedClusterSolution
from topoopt.core.solution import UNCHECKED, Bound
from topoopt.core.verdict import StopReason, Tolerance, settle
from topoopt.core.versions import versions
from topoopt.kinds.shared_cluster.fabric_run import Progress
from topoopt.kinds.shared_cluster.plans import Planned, fabric_options, plan_class
from topoopt.simulate.cluster import load_objective, load_statistics
from topoopt.simulate.cluster.together import PlacedJob, simulate_together
from topoopt.simulate.fabrics import FABRICS
from topoopt.simulate.fabrics.chosen import settings_of
from topoopt.simulate.time_models import for_several_jobs
from topoopt.workloads.jobs_at_once import Draw, draw_jobs

MOST_UNEVEN = 100_000
"""Iterations of one job during one of another: about a minute of simulation."""

SETTINGS = {
    "server_gbps": "nic_gbps",
    "oversubscription": "oversubscription",
    "oversubscribed_at": "layer",
    "shape": "shape",
}
"""Settings of a fabric, and what the table of fabrics calls them."""


def problems_at_once(problem: SharedCluster) -> list[Problem]:
    """Names of fabrics and time model that do not exist; settings that a fabric does not have."""
    problems = []
    for place, fabric in enumerate(problem.fabrics):
        if fabric.kind == PARTITIONED:
            continue
        where = f"fabrics[{place}]"
        if fabric.kind not in FABRICS:
            allowed = ", ".join((PARTITIONED, *FABRICS))
            problems.append(Problem("no such fabric", path=f"{where}.kind", value=fabric.kind, allowed=allowed))
            continue
        known = settings_of(fabric.kind)
        allowed = ", ".join(("name", *(key for key, name in SETTINGS.items() if name in known)))
        for key, name in SETTINGS.items():
            value = getattr(fabric, key)
            if value is not None and name not in known:
                text = f"{fabric.kind} has no such setting"
                problems.append(Problem(text, path=f"{where}.{key}", value=str(value), allowed=allowed))
    if problem.time_model not in for_several_jobs():
        allowed = ", ".join(for_several_jobs())
        problems.append(Problem("no such name", path="time_model", value=repr(problem.time_model), allowed=allowed))
    return problems


def solve_at_once(problem: SharedCluster, jobs: JobsAtOnce, stop: Stop, progress: Progress) -> SharedClusterSolution:
    """Plan every class for every fabric, run the drawn jobs together and sum up.

    The stop ends it after the run at work; the draws simulated so far are kept.

    Raises:
        InputError: a fabric that is not for this cluster, or classes too uneven to run together.
        InfeasibleError: a class has no plan.
        LimitError: the time limit came before the first draw was simulated.
    """
    total = len(problem.classes) * len(problem.fabrics) + len(jobs.loads) * jobs.repetitions
    done = 0

    def tell(what: str) -> None:
        nonlocal done
        progress(what, done, total)
        done += 1

    planned: list[list[Planned]] = []
    for index in range(len(problem.classes)):
        planned.append(plan_class(problem, index, problem.search, stop, tell))
    _refuse_uneven(problem, planned)
    draws = _runs(problem, jobs, planned, stop, tell)
    reason = stop.reason()
    if not draws:
        raise LimitError("the time limit was reached before any jobs were run together")
    return _assemble(problem, jobs, planned, draws, reason)


def _refuse_uneven(problem: SharedCluster, planned: Sequence[Sequence[Planned]]) -> None:
    """Refuse jobs of which one would begin again for ever while another does its first iteration.

    Raises:
        InputError: iteration times alone are more than `MOST_UNEVEN` apart.
    """
    if all(fabric.kind == PARTITIONED for fabric in problem.fabrics):
        return
    alone = [each.plan.alone_ms for plans in planned for each in plans]
    if max(alone) > MOST_UNEVEN * min((time for time in alone if time > 0), default=0.0) > 0:
        text = f"{min(alone):.3g} to {max(alone):.3g} ms"
        allowed = f"iteration times within a factor of {MOST_UNEVEN}"
        raise InputError([Problem("classes too uneven to run together", path="classes", value=text, allowed=allowed)])


def _runs(
    problem: SharedCluster,
    jobs: JobsAtOnce,
    planned: Sequence[Sequence[Planned]],
    stop: Stop,
    tell: Callable[[str], None],
) -> list[DrawnRun]:
    """All draws, the loads in turn, so that an early end leaves as many of each."""
    runs: list[DrawnRun] = []
    for repetition in range(jobs.repetitions):
        for load in jobs.loads:
            if stop.reason() is not None:
                return runs
            tell(f"{load} jobs, draw {repetition + 1} of {jobs.repetitions}")
            draw = draw_jobs(jobs, problem.classes, problem.servers, load, repetition, problem.search.seed)
            times = []
            for place, fabric in enumerate(problem.fabrics):
                if stop.reason() is not None:
                    return runs
                times.append(_times(problem, planned, draw, place, fabric))
            runs.append(DrawnRun(load, repetition, draw.classes, draw.servers, tuple(times)))
    return runs


def _times(
    problem: SharedCluster,
    planned: Sequence[Sequence[Planned]],
    draw: Draw,
    place: int,
    fabric: Fabric,
) -> tuple[float, ...]:
    """First iteration of each job of a draw on one fabric, ms."""
    if fabric.kind == PARTITIONED:
        return tuple(
            _sampled(problem.classes[index].iteration_ms, sample) or planned[index][place].plan.alone_ms
            for index, sample in zip(draw.classes, draw.sample, strict=True)
        )
    placed = []
    for index, servers in zip(draw.classes, draw.servers, strict=True):
        graph = planned[index][place].graph
        if graph is None:
            raise ValueError("a class without a job on a fabric that jobs share")
        placed.append(PlacedJob(graph, servers))
    options = fabric_options(fabric, draw.routes_seed)
    first = simulate_together(placed, problem.cluster, FABRICS[fabric.kind].build, options, problem.time_model)
    return tuple(float(time) for time in first)


def _sampled(times_ms: Sequence[float], sample: float) -> float | None:
    """One of the given times."""
    return times_ms[min(int(sample * len(times_ms)), len(times_ms) - 1)] if times_ms else None


def _described(problem: SharedCluster, fabric: Fabric) -> str:
    cluster = problem.cluster
    if fabric.kind == PARTITIONED:
        return (
            f"every job on a topology of its own, {cluster.degree} interfaces of {cluster.link_gbps:g} Gbit/s a server"
        )
    return FABRICS[fabric.kind].describe(cluster, fabric_options(fabric, 0))


def _assemble(
    problem: SharedCluster,
    jobs: JobsAtOnce,
    planned: Sequence[Sequence[Planned]],
    draws: Sequence[DrawnRun],
    reason: StopReason | None,
) -> SharedClusterSolution:
    """The solution, unchecked."""
    names = [fabric.name for fabric in problem.fabrics]
    plans: tuple[ClassPlan, ...] = tuple(
        planned[index][place].plan for place in range(len(names)) for index in range(len(problem.classes))
    )
    statistics = load_statistics(names, [one.name for one in problem.classes], plans, draws)
    objective = load_objective(statistics)
    fullest = max(run.load for run in draws)
    bounds = [plans[index].bound_ms for run in draws if run.load == fullest for index in run.classes]
    bound, status = settle(
        objective.value, float(np.mean(bounds)), Tolerance.EVENTS, rounding=Tolerance.EVENTS, conclusive=False
    )
    return SharedClusterSolution(
        name=problem.name,
        status=status,
        stopped_by=reason or StopReason.BUDGET,
        objective=objective,
        bound=Bound(bound, "bounds of the classes"),
        check=UNCHECKED,
        seed=problem.search.seed,
        method=problem.search.method,
        servers=problem.servers,
        degree=problem.cluster.degree,
        link_gbps=problem.cluster.link_gbps,
        contention=problem.contention.value,
        classes=tuple(replace(one, plan=None) for one in problem.classes),
        time_model=problem.time_model,
        placement=jobs.placement.value,
        rank_order=jobs.rank_order.value,
        fabrics=tuple((fabric.name, _described(problem, fabric)) for fabric in problem.fabrics),
        plans=plans,
        draws=tuple(draws),
        statistics=statistics,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=problem.notes,
    )
