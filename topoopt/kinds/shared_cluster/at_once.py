"""Jobs at once: draws of jobs and servers, run together on every fabric, flow by flow or by formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from solvers.stop import Stop
from topoopt.core.errors import LimitError, Problem
from topoopt.core.proofs import Argument, Bound
from topoopt.core.shared_cluster import PARTITIONED, Contention, Fabric, SharedCluster
from topoopt.core.shared_cluster_figures import load_statistics
from topoopt.core.shared_cluster_jobs import JobClass, JobsAtOnce
from topoopt.core.shared_cluster_runs import ClassPlan, DrawnRun
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.core.solution import UNCHECKED
from topoopt.core.verdict import StopReason, Tolerance, settle
from topoopt.core.versions import versions
from topoopt.kinds.shared_cluster.fabric_run import Keep, Progress
from topoopt.kinds.shared_cluster.flows import JobFlows
from topoopt.kinds.shared_cluster.formula import Formula
from topoopt.kinds.shared_cluster.plans import Tell
from topoopt.simulate.cluster.objective import load_objective
from topoopt.simulate.fabrics import FABRICS
from topoopt.simulate.fabrics.chosen import settings_of
from topoopt.simulate.time_models import for_several_jobs
from topoopt.workloads.jobs_at_once import Draw, draw_jobs

SETTINGS = {
    "server_gbps": "nic_gbps",
    "oversubscription": "oversubscription",
    "oversubscribed_at": "layer",
    "shape": "shape",
}
"""Settings of a fabric, and what the table of fabrics calls them."""


def problems_at_once(problem: SharedCluster) -> list[Problem]:
    """Names of fabrics and time model that do not exist; settings that a fabric does not have."""
    if problem.contention is not Contention.FLOWS:
        return []
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
        if fabric.paths in ("spread", "sprayed") and "ecmp" not in known:
            text = f"{fabric.kind} has no equal-cost paths to choose from"
            problems.append(Problem(text, path=f"{where}.paths", value=fabric.paths, allowed=allowed))
        for key, name in SETTINGS.items():
            value = getattr(fabric, key)
            if value is not None and name not in known:
                text = f"{fabric.kind} has no such setting"
                problems.append(Problem(text, path=f"{where}.{key}", value=str(value), allowed=allowed))
    if problem.time_model not in for_several_jobs():
        allowed = ", ".join(for_several_jobs())
        problems.append(Problem("no such name", path="time_model", value=repr(problem.time_model), allowed=allowed))
    return problems


class Contender(Protocol):
    """What jobs at once do to each other on the fabrics of a problem: `JobFlows` or `Formula`.

    Attributes:
        classes: of the jobs; after `prepare` with what was planned.
        rates_gbps: of a server on each fabric, where a formula needs them.
        steps: calls of `tell` in `prepare`, about.
        notes: after `prepare`, for people.
    """

    classes: tuple[JobClass, ...]
    rates_gbps: tuple[float, ...]
    steps: int
    notes: tuple[str, ...]

    def prepare(self, stop: Stop, tell: Tell) -> None:
        """Whatever is needed before jobs run."""

    def plans(self) -> tuple[ClassPlan, ...]:
        """For every fabric every class."""

    def shard_ms(self, draw: Draw) -> tuple[float, ...]:
        """Time of each job on a shard of its own, where the times on fabrics follow from it."""

    def run(self, draw: Draw, place: int) -> tuple[float, ...]:
        """Iteration of each job on the fabric at that place, ms."""

    def describe(self, fabric: Fabric) -> str:
        """What a fabric that jobs share is."""


def solve_at_once(
    problem: SharedCluster, jobs: JobsAtOnce, stop: Stop, progress: Progress, keep: Keep
) -> SharedClusterSolution:
    """Plan every class, run the drawn jobs together on every fabric, and sum up.

    The stop ends it after the run at work; the draws simulated so far are kept.

    Raises:
        InputError: a fabric that is not for this cluster, classes too uneven to run together, or iteration times in
            which the bytes cannot be sent.
        InfeasibleError: a class has no plan.
        LimitError: the time limit came before the first draw was simulated.
    """
    contender: Contender = (JobFlows if problem.contention is Contention.FLOWS else Formula)(problem)
    total = contender.steps + len(jobs.loads) * jobs.repetitions
    done = 0

    def tell(what: str) -> None:
        nonlocal done
        progress(what, done, total)
        done += 1

    contender.prepare(stop, tell)

    def drawn(draws: tuple[DrawnRun, ...]) -> None:
        keep(lambda: _assemble(problem, jobs, contender, draws, stop.reason() or StopReason.TIME))

    draws = _draws(problem, jobs, contender, stop, tell, drawn)
    reason = stop.reason()
    if not draws:
        raise LimitError("the time limit was reached before any jobs were run together")
    return _assemble(problem, jobs, contender, draws, reason)


def _draws(
    problem: SharedCluster,
    jobs: JobsAtOnce,
    contender: Contender,
    stop: Stop,
    tell: Callable[[str], None],
    drawn: Callable[[tuple[DrawnRun, ...]], None],
) -> list[DrawnRun]:
    """All draws, the loads in turn, so that an early end leaves as many of each; `drawn` is given those so far."""
    draws: list[DrawnRun] = []
    for repetition in range(jobs.repetitions):
        for load in jobs.loads:
            if stop.reason() is not None:
                return draws
            tell(f"{load} jobs, draw {repetition + 1} of {jobs.repetitions}")
            draw = draw_jobs(jobs, problem.classes, problem.servers, load, repetition, problem.search.seed)
            times = []
            for place in range(len(problem.fabrics)):
                if stop.reason() is not None:
                    return draws
                times.append(contender.run(draw, place))
            shard_ms = contender.shard_ms(draw)
            draws.append(DrawnRun(load, repetition, draw.classes, draw.servers, tuple(times), shard_ms))
            drawn(tuple(draws))
    return draws


def _described(problem: SharedCluster, contender: Contender, fabric: Fabric) -> str:
    cluster = problem.cluster
    if fabric.kind == PARTITIONED:
        return (
            f"every job on a topology of its own, {cluster.degree} interfaces of {cluster.link_gbps:g} Gbit/s a server"
        )
    return contender.describe(fabric)


def _assemble(
    problem: SharedCluster, jobs: JobsAtOnce, contender: Contender, draws: Sequence[DrawnRun], reason: StopReason | None
) -> SharedClusterSolution:
    """The solution, unchecked."""
    names = [fabric.name for fabric in problem.fabrics]
    plans = contender.plans()
    objective = load_objective(load_statistics(names, [one.name for one in problem.classes], plans, draws))
    fullest = max(run.load for run in draws)
    bounds = [plans[index].bound.value for run in draws if run.load == fullest for index in run.classes]
    mean = Bound(float(np.mean(bounds)), Argument.CLASS_BOUNDS)
    verdict = settle(objective.value, (mean,), Tolerance.EVENTS, rounding=Tolerance.EVENTS, conclusive=False)
    return SharedClusterSolution(
        name=problem.name,
        status=verdict.status,
        stopped_by=reason or StopReason.BUDGET,
        objective=objective,
        bound=verdict.bound,
        check=UNCHECKED,
        seed=problem.search.seed,
        method=problem.search.method,
        servers=problem.servers,
        degree=problem.cluster.degree,
        link_gbps=problem.cluster.link_gbps,
        contention=problem.contention.value,
        classes=tuple(replace(one, plan=None, lower_bounds=None) for one in contender.classes),
        time_model=problem.time_model if problem.contention is Contention.FLOWS else "",
        rates_gbps=contender.rates_gbps,
        placement=jobs.placement.value,
        rank_order=jobs.rank_order.value,
        fabrics=tuple((fabric.name, _described(problem, contender, fabric)) for fabric in problem.fabrics),
        plans=plans,
        draws=tuple(draws),
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=(*problem.notes, *contender.notes),
    )
