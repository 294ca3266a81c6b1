"""Figures that follow from the plan of a shared cluster; each is computed when it is first read, and none is stored.

Times of iterations are ms, all others seconds. Draws that the method has simulated are remembered as long as its plan
lives, since simulating flows takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from topoopt.core.arrays import Draws, Floats, Ints
from topoopt.core.errors import Problem
from topoopt.core.job import BaselineSettings, CoOptimisation
from topoopt.core.result import Columns, Objective, listed
from topoopt.core.shared_cluster import (
    PARTITIONED,
    ClassPlan,
    Fabric,
    FabricRun,
    FabricSchedule,
    Goal,
    JobClass,
    JobTable,
    SharedCluster,
    SharedClusterPlan,
    Stays,
    server_groups,
)
from topoopt.core.workload import Strategy, TaskGraph
from topoopt.costs import cost_equivalent_fat_tree_gbps
from topoopt.simulate.cluster_rates import (
    WorkShared,
    alone_ms,
    first_iterations,
    job_view,
    shared_links,
    simulate_together,
)
from topoopt.simulate.fabrics import FABRICS, FabricOptions, options_of, plan_network, settings_of
from topoopt.simulate.network import Network, build_task_graph, demand_of
from topoopt.simulate.time_models import for_several_jobs
from topoopt.simulate.time_models.evaluate import simulate, whole
from topoopt.workloads.cluster_draws import Draw, draw_jobs, job_table, place_jobs, sampled

MS = 1e-3

ALONE = 2**32
"""In place of a load, for the placement on which a class is timed by itself."""


@dataclass(frozen=True)
class Tail:
    """Mean and tail of a list of figures; p of q percent is element floor(q N / 100) of the sorted list."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    largest: float


@dataclass(frozen=True)
class Metrics:
    """Figures of the finished jobs of a fabric, and of the servers over the time simulated.

    Attributes:
        finished: jobs.
        iteration_ms: time at work over iterations, of the finished jobs.
        waiting_s: from arrival until the servers are the job's.
        completion_s: from arrival to the end.
        slowdown: completion time over that on a shard of its own that is ready at once.
        makespan_s: first arrival to the last end.
        utilisation: held server-seconds over all, within the makespan.
        goodput: server-seconds at work over all, within the makespan.
        queue_length: waiting jobs, averaged over the makespan.
        waiting_free: free servers while a job waits, averaged over the makespan.
        stranded: free servers while the first waiting job asks for no more than are free.
        largest_share: largest group of free servers a shard can be cut from over all free servers, averaged over the
            time in which there are any; 1: no fragmentation.
        reconfigurations: circuits set for a job.
        moves: of running jobs.
        dark_s: time in which jobs held servers and did no work, all together.
    """

    finished: int
    iteration_ms: Tail
    waiting_s: Tail
    completion_s: Tail
    slowdown: Tail
    makespan_s: float
    utilisation: float
    goodput: float
    queue_length: float
    waiting_free: float
    stranded: float
    largest_share: float
    reconfigurations: int
    moves: int
    dark_s: float


@dataclass(frozen=True)
class LoadStatistics:
    """Iteration times of all jobs of all repetitions on one fabric at one load.

    Attributes:
        fabric, load, jobs: which, and how many times there are.
        iteration_ms: of them.
        over_alone: mean over jobs of the time over the time of its class alone on this fabric.
        over_first: mean time over the mean time of the same jobs on the first fabric.
        p99_over_first: the same of the 99th percentiles.
    """

    fabric: str
    load: int
    jobs: int
    iteration_ms: Tail
    over_alone: float
    over_first: float
    p99_over_first: float


def tail_of(values: Floats) -> Tail:
    """Mean and tail of one or more values."""
    ordered = np.sort(values)
    count = len(ordered)

    def at(percent: int) -> float:
        return float(ordered[min(percent * count // 100, count - 1)])

    return Tail(float(np.mean(values)), at(50), at(90), at(95), at(99), float(ordered[-1]))


def finished_times(run: FabricRun, jobs: JobTable) -> tuple[Floats, Floats, Floats, Floats]:
    """Time of an iteration, ms, wait, s, completion time, s, and slowdown of the jobs that ended; see `Metrics`."""
    stays, done = run.stays, run.finished
    start, end = np.full(len(jobs), np.inf), np.full(len(jobs), -np.inf)
    np.minimum.at(start, stays.job, stays.held_from_s)
    np.maximum.at(end, stays.job, stays.work_to_s)
    worked = np.bincount(stays.job, stays.work_to_s - stays.work_from_s, minlength=len(jobs))
    arrival, iterations = jobs.arrival_s[done], jobs.iterations[done]
    completion = end[done] - arrival
    alone = iterations * jobs.iteration_ms[done] * MS
    return worked[done] / iterations / MS, start[done] - arrival, completion, completion / alone


def load_statistics(
    fabrics: Sequence[str], class_names: Sequence[str], alone: Sequence[ClassTime], draws: Sequence[DrawnRun]
) -> tuple[LoadStatistics, ...]:
    """Of jobs at once, for every load, ascending, and every fabric."""
    by_class = {(row.fabric, row.job_class): row.alone_ms for row in alone}
    rows = []
    for load in sorted({run.load for run in draws}):
        own = [run for run in draws if run.load == load]
        first: Tail | None = None
        for index, fabric in enumerate(fabrics):
            times = np.array([time for run in own for time in run.times_ms[index]])
            without = np.array([by_class[fabric, class_names[number]] for run in own for number in run.classes])
            tail = tail_of(times)
            first = first or tail
            over_first, p99_over_first = tail.mean / first.mean, tail.p99 / first.p99
            over_alone = float(np.mean(times / without))
            rows.append(LoadStatistics(fabric, load, len(times), tail, over_alone, over_first, p99_over_first))
    return tuple(rows)


def metrics_of(
    run: FabricRun, jobs: JobTable, classes: Sequence[JobClass], groups: Ints, switching_s: float
) -> Metrics | None:
    """None when no job has ended. `groups` is int64[n], of the servers as far as shards are concerned."""
    if not run.finished.any():
        return None
    if run.fabric.kind != PARTITIONED:
        groups, switching_s = np.zeros_like(groups), 0.0
    stays, count = run.stays, len(jobs)
    size = np.array([job_class.servers for job_class in classes], dtype=np.float64)[jobs.class_index]
    start = np.full(count, np.inf)
    np.minimum.at(start, stays.job, stays.held_from_s)
    worked = np.bincount(stays.job, stays.work_to_s - stays.work_from_s, minlength=count)
    held = np.bincount(stays.job, stays.held_to_s - stays.held_from_s, minlength=count)
    last = run.until_s
    makespan = max(last - float(jobs.arrival_s[0]), 0.0)
    whole = len(groups) * makespan
    waited = np.where(np.isfinite(start), start, last) - np.minimum(jobs.arrival_s, last)
    free, stranded, share = _fragmentation(jobs, size, start, stays, groups, last)
    iteration_ms, waiting_s, completion_s, slowdown = map(tail_of, finished_times(run, jobs))
    return Metrics(
        finished=int(run.finished.sum()),
        iteration_ms=iteration_ms,
        waiting_s=waiting_s,
        completion_s=completion_s,
        slowdown=slowdown,
        makespan_s=makespan,
        utilisation=float((held * size).sum() / whole) if whole else 0.0,
        goodput=float((worked * size).sum() / whole) if whole else 0.0,
        queue_length=float(waited.sum() / makespan) if makespan else 0.0,
        waiting_free=free,
        stranded=stranded,
        largest_share=share,
        reconfigurations=len(stays) if switching_s > 0 else 0,
        moves=len(stays) - len(np.unique(stays.job)),
        dark_s=float((held - worked).sum()),
    )


def _fragmentation(
    jobs: JobTable, size: Floats, start: Floats, stays: Stays, group: Ints, last: float
) -> tuple[float, float, float]:
    """Free servers while a job waits, those of them while the first waiting job needs no more, largest over free."""
    groups = int(group.max()) + 1
    owner = np.repeat(np.arange(len(stays)), np.diff(stays.low))
    cells = np.bincount(owner * groups + group[stays.servers], minlength=len(stays) * groups).reshape(-1, groups)
    times = np.unique(np.concatenate((jobs.arrival_s[jobs.arrival_s <= last], stays.held_from_s, stays.held_to_s)))
    change = np.zeros((len(times), groups), dtype=np.int64)
    np.add.at(change, np.searchsorted(times, stays.held_from_s), -cells)
    np.add.at(change, np.searchsorted(times, stays.held_to_s), cells)
    free_of = np.bincount(group, minlength=groups) + np.cumsum(change, axis=0)
    free, largest = free_of.sum(axis=1)[:-1], free_of.max(axis=1)[:-1]
    seconds, moments = np.diff(times), times[:-1]
    # The first waiting job: the first in order of arrival that starts later, if it has arrived.
    head = np.searchsorted(np.maximum.accumulate(start), moments, side="right")
    first = np.minimum(head, len(jobs) - 1)
    waiting = (head < len(jobs)) & (jobs.arrival_s[first] <= moments)
    enough = waiting & (size[first] <= free)
    total = seconds.sum()
    if total <= 0:
        return 0.0, 0.0, 1.0
    some = free > 0
    open_s = seconds[some].sum()
    share = float((largest[some] / free[some] * seconds[some]).sum() / open_s) if open_s > 0 else 1.0
    return (float((free * seconds)[waiting].sum() / total), float((free * seconds)[enough].sum() / total), share)


def objective_of(goal: Goal, run: FabricRun, jobs: JobTable) -> Objective:
    """Return the objective of a run in which a job has ended."""
    iteration_ms, _, completion_s, _ = finished_times(run, jobs)
    if goal == "mean-iteration-time":
        return Objective("mean_iteration_time", float(np.mean(iteration_ms)), "ms")
    return Objective("mean_completion_time", float(np.mean(completion_s)), "s")


def load_objective(statistics: Sequence[LoadStatistics]) -> Objective:
    """Return the objective of jobs at once: on the first fabric at the largest load."""
    largest = max(row.load for row in statistics)
    mean = next(row.iteration_ms.mean for row in statistics if row.load == largest)
    return Objective("mean_iteration_time", mean, "ms")


# Classes and fabrics.


def rated(problem: SharedCluster, fabric: Fabric) -> Fabric:
    """Return the fabric with its server rate."""
    if fabric.server_gbps is not None:
        return fabric
    return replace(fabric, server_gbps=cost_equivalent_fat_tree_gbps(problem.cluster.degree, problem.cluster.link_gbps))


def job_of(job_class: JobClass, plan: ClassPlan) -> CoOptimisation:
    """Return the job of a planned class, its links shared as in the plan."""
    job = job_class.plan
    assert job is not None
    sharing = job.cluster.link_sharing if plan.link_sharing is None else plan.link_sharing
    return replace(job, cluster=replace(job.cluster, link_sharing=sharing))


def timed_class(job_class: JobClass, class_plan: ClassPlan) -> JobClass:
    """Return a planned class with the times and bytes of its plan on a shard.

    The iteration is simulated; compute is that of the busiest server, bytes are means over the servers. AllReduces
    count with their ring traffic, 2 (k - 1) / k of the payload; model-parallel traffic as all-to-all.
    """
    job = job_of(job_class, class_plan)
    assert class_plan.shard is not None
    plan, n = class_plan.shard.plan(job.cluster), job.cluster.servers
    graph = build_task_graph(job.cluster, job.workload, plan.strategy)
    demand, busy = demand_of(graph), [0.0] * n
    for index, (operator, placement) in enumerate(zip(job.workload.operators, plan.strategy.placements, strict=True)):
        split = operator.splits[placement.split]
        for server in plan.strategy.servers(job.workload, index, n):
            busy[server] += split.forward_ms + split.backward_ms
    return replace(
        job_class,
        servers=n,
        iteration_ms=(float(simulate(graph, plan_network(job.cluster, plan)).iteration_time_ms),),
        compute_ms=max(busy),
        allreduce_bytes=demand.allreduce_wire_bytes / n,
        all_to_all_bytes=float(demand.model_parallel_bytes.sum()) / n,
    )


def timed_classes(problem: SharedCluster, plans: Sequence[ClassPlan]) -> tuple[JobClass, ...]:
    """Return the classes with times and bytes, where a formula needs them."""
    if problem.contention == "flows":
        return problem.classes
    rows = iter(plans)
    return tuple(
        job_class if job_class.plan is None else timed_class(job_class, next(rows)) for job_class in problem.classes
    )


SETTINGS = {
    "server_gbps": "nic_gbps",
    "oversubscription": "oversubscription",
    "oversubscribed_at": "layer",
    "shape": "shape",
}
"""Settings of a fabric, and what the table of fabrics calls them."""


def fabric_errors(problem: SharedCluster) -> list[Problem]:
    """Return fabrics and time models that do not exist, and settings that a fabric does not have."""
    if problem.contention != "flows":
        return []
    errors: list[Problem] = []
    for index, fabric in enumerate(problem.fabrics):
        if fabric.kind == PARTITIONED:
            continue
        where = f"fabrics[{index}]"
        if fabric.kind not in FABRICS:
            allowed = ", ".join((PARTITIONED, *FABRICS))
            errors.append(Problem("no such fabric", path=f"{where}.kind", value=fabric.kind, allowed=allowed))
            continue
        settings = settings_of(fabric.kind)
        allowed = ", ".join(("name", *(key for key, name in SETTINGS.items() if name in settings)))
        if fabric.paths in ("spread", "sprayed") and "ecmp" not in settings:
            text = f"{fabric.kind} has no equal-cost paths to choose from"
            errors.append(Problem(text, path=f"{where}.paths", value=fabric.paths, allowed=allowed))
        for key, name in SETTINGS.items():
            value = getattr(fabric, key)
            if value is not None and name not in settings:
                text = f"{fabric.kind} has no such setting"
                errors.append(Problem(text, path=f"{where}.{key}", value=str(value), allowed=allowed))
    if problem.time_model not in for_several_jobs():
        allowed = ", ".join(for_several_jobs())
        errors.append(Problem("no such name", path="time_model", value=repr(problem.time_model), allowed=allowed))
    return errors


# Jobs that arrive.


def stays_of(problem: SharedCluster, fabric: Fabric, jobs: JobTable, schedule: FabricSchedule) -> Stays:
    """Return all times of a schedule: circuits are set before work begins, and a job that is moved saves its state."""
    job, start, end = schedule.job, schedule.start_s, schedule.end_s
    partitioned = fabric.kind == PARTITIONED
    low, servers = schedule.lists
    last = np.zeros(len(job), dtype=bool)
    last[len(job) - 1 - np.unique(job[::-1], return_index=True)[1]] = True
    held_to = np.where(last, end, end + problem.scheduling.checkpoint_s)
    if not partitioned:
        work_from = start.copy()
    elif problem.look_ahead:
        work_from = _prepared(problem, jobs, schedule)
    else:
        work_from = start + problem.layer.switching_time_s
    if schedule.cut_s is not None:
        at_work = last & np.isin(job, schedule.unfinished)
        held_to = np.minimum(np.where(at_work, schedule.cut_s, held_to), schedule.cut_s)
        work_from = np.minimum(work_from, schedule.cut_s)
    return Stays(job, start, work_from, end, held_to, low, servers)


def _prepared(problem: SharedCluster, jobs: JobTable, schedule: FabricSchedule) -> Floats:
    """When work begins if circuits are set on a second plane, from the moment on at which job and plane are there."""
    switching, (low, servers) = problem.layer.switching_time_s, schedule.lists
    taken = np.full(problem.servers, -np.inf)
    ready: dict[int, float] = {}
    work_from = np.empty(len(schedule))
    rows = zip(schedule.job.tolist(), schedule.start_s.tolist(), schedule.end_s.tolist(), strict=True)
    for stay, (job, begin, end) in enumerate(rows):
        held = servers[low[stay] : low[stay + 1]]
        prepared = max(ready.get(job, float(jobs.arrival_s[job])), float(taken[held].max()))
        work_from[stay] = begin + max(0.0, switching - max(0.0, begin - prepared))
        taken[held] = begin
        ready[job] = end
    return work_from


# Jobs at once.


@dataclass(frozen=True)
class ClassTime:
    """Iteration of a job of a class that has a fabric to itself, ms.

    On shared fabrics on the first placement drawn; the mean of the given times of a class without a plan.
    """

    fabric: str
    job_class: str
    alone_ms: float


@dataclass(frozen=True)
class DrawnRun:
    """One draw of jobs at once, run together on every fabric.

    Attributes:
        load: number of jobs.
        repetition: from 0.
        classes: of each job, index in the problem.
        servers: of each job, in rank order; all different.
        times_ms: for each fabric the first iteration of each job.
        shard_ms: of each job on a shard of its own, from which its times follow by the formula; empty for flows.
    """

    load: int
    repetition: int
    classes: tuple[int, ...]
    servers: tuple[tuple[int, ...], ...]
    times_ms: tuple[tuple[float, ...], ...]
    shard_ms: tuple[float, ...] = ()


def draws_of(problem: SharedCluster) -> list[tuple[int, int]]:
    """Return (load, repetition) of all draws, the loads in turn, so that an early end leaves as many of each."""
    jobs = problem.at_once
    assert jobs is not None
    return [(load, repetition) for repetition in range(jobs.repetitions) for load in jobs.loads]


def fabric_options(fabric: Fabric, seed: int) -> FabricOptions:
    """Return the options of a fabric that jobs share."""
    return options_of(fabric.choice, BaselineSettings(), seed)


def class_network(problem: SharedCluster, index: int, fabric: Fabric) -> Network:
    """Return a shared fabric as a job of a class sees it that has it to itself, on servers drawn as for all jobs."""
    jobs = problem.at_once
    assert jobs is not None
    draws = Draws(problem.search.seed, ALONE, index)
    servers = place_jobs(jobs, [problem.classes[index].servers], problem.servers, draws)[0]
    options = fabric_options(fabric, int(draws.below(2**31, 1)[0]))
    return job_view(servers, problem.cluster, FABRICS[fabric.kind].build, options)


class FlowTimes:
    """Times of jobs at once whose flows are simulated."""

    def __init__(self, problem: SharedCluster, plans: Sequence[ClassPlan]) -> None:
        self.problem = problem
        rows = iter(plans)
        self.plans = [None if job_class.plan is None else next(rows) for job_class in problem.classes]
        self._alone: dict[tuple[int, int], float] = {}
        self._graphs: dict[tuple[int, int], TaskGraph] = {}

    def strategy(self, index: int, fabric: int) -> Strategy:
        """Return the strategy of a planned class on a fabric."""
        plan, fabrics = self.plans[index], self.problem.fabrics
        assert plan is not None
        if fabrics[fabric].kind == PARTITIONED:
            assert plan.shard is not None
            return plan.shard.strategy
        return plan.strategies[sum(other.kind != PARTITIONED for other in fabrics[:fabric])]

    def graph(self, index: int, fabric: int) -> TaskGraph:
        """Return the tasks of an iteration of a planned class on a fabric."""
        if (index, fabric) not in self._graphs:
            job = self.problem.classes[index].plan
            assert job is not None
            self._graphs[index, fabric] = build_task_graph(job.cluster, job.workload, self.strategy(index, fabric))
        return self._graphs[index, fabric]

    def alone_ms(self, index: int, fabric: int) -> float:
        """Return the iteration time of a class that has a fabric to itself."""
        if (index, fabric) not in self._alone:
            self._alone[index, fabric] = self._time_alone(index, fabric)
        return self._alone[index, fabric]

    def _time_alone(self, index: int, fabric: int) -> float:
        problem, plan = self.problem, self.plans[index]
        job = problem.classes[index].plan
        if job is None or plan is None:
            return float(np.mean(problem.classes[index].iteration_ms))
        chosen, graph = problem.fabrics[fabric], self.graph(index, fabric)
        if chosen.kind == PARTITIONED:
            assert plan.shard is not None
            network = plan_network(job.cluster, plan.shard.plan(job.cluster))
        else:
            network = class_network(problem, index, chosen)
        return float(first_iterations(problem.time_model, graph, network, whole(graph))[0])

    def shard_ms(self, draw: Draw) -> tuple[float, ...]:
        """Return nothing: the times of plans are on the fabrics themselves."""
        return ()

    def run(self, draw: Draw, fabric: int) -> tuple[float, ...]:
        """Return the first iteration of each job of a draw on a fabric, ms."""
        problem, chosen = self.problem, self.problem.fabrics[fabric]
        classes, servers_of_jobs, samples, routes_seed = draw
        if chosen.kind == PARTITIONED:
            return tuple(
                sampled(problem.classes[index], sample) or self.alone_ms(index, fabric)
                for index, sample in zip(classes, samples, strict=True)
            )
        placed = [(self.graph(index, fabric), servers) for index, servers in zip(classes, servers_of_jobs, strict=True)]
        options = fabric_options(chosen, routes_seed)
        first = simulate_together(placed, problem.cluster, FABRICS[chosen.kind].build, options, problem.time_model)
        return tuple(float(time) for time in first)


class FormulaTimes:
    """Times of jobs at once whose contention follows a formula."""

    def __init__(self, problem: SharedCluster, classes: tuple[JobClass, ...]) -> None:
        self.problem, self.classes = problem, classes
        self.fabrics = [rated(problem, fabric) for fabric in problem.fabrics]
        self.direct_gbps = [problem.direct_gbps(job_class) for job_class in classes]

    def alone_ms(self, index: int, fabric: int) -> float:
        """Return the mean iteration time of a class that has a fabric to itself."""
        return float(self.times_alone(index, fabric).mean())

    def times_alone(self, index: int, fabric: int) -> Floats:
        """Return the iteration time alone on a fabric for each of the given times of a class."""
        times, chosen = self.classes[index].iteration_ms, self.fabrics[fabric]
        jobs = _single_iterations([index] * len(times), times)
        if chosen.kind == PARTITIONED:
            return jobs.iteration_ms
        return alone_ms(jobs, self.classes, chosen, self.direct_gbps)

    def shard_ms(self, draw: Draw) -> tuple[float, ...]:
        """Return the time of each job on a shard of its own."""
        return tuple(
            sampled(self.classes[index], sample) or 0.0 for index, sample in zip(draw[0], draw[2], strict=True)
        )

    def run(self, draw: Draw, fabric: int) -> tuple[float, ...]:
        """Return the iteration of each job of a draw on a fabric while all of them run, ms."""
        problem, chosen = self.problem, self.fabrics[fabric]
        jobs = _single_iterations(list(draw[0]), self.shard_ms(draw))
        if chosen.kind == PARTITIONED:
            return tuple(jobs.iteration_ms.tolist())
        links = shared_links(problem.servers, chosen, chosen.server_gbps or 0.0, problem.search.seed)
        work = WorkShared(jobs, self.classes, chosen, links, self.direct_gbps, problem.contention)
        for job, servers in enumerate(draw[1]):
            work.start(job, np.array(sorted(servers), dtype=np.int64), 0.0)
        work.refresh()
        return tuple(work.iteration_ms(job) for job in range(len(jobs)))


def _single_iterations(classes: list[int], iteration_ms: tuple[float, ...]) -> JobTable:
    count = len(classes)
    return JobTable(
        tuple(f"job-{number}" for number in range(count)),
        np.zeros(count),
        np.array(classes, dtype=np.int32),
        np.ones(count, dtype=np.int64),
        np.array(iteration_ms, dtype=np.float64),
    )


Times = FlowTimes | FormulaTimes


def times_of(problem: SharedCluster, plans: Sequence[ClassPlan], classes: tuple[JobClass, ...]) -> Times:
    """Return what times the jobs at once of a problem; `classes` have their times where a formula needs them."""
    return FlowTimes(problem, plans) if problem.contention == "flows" else FormulaTimes(problem, classes)


_SIMULATED: WeakKeyDictionary[SharedClusterPlan, tuple[SharedCluster, Times, tuple[DrawnRun, ...]]] = (
    WeakKeyDictionary()
)
"""Of a plan whose method is at work or has ended: the problem, what times it, the draws."""


def remember(problem: SharedCluster, plan: SharedClusterPlan, times: Times, draws: tuple[DrawnRun, ...]) -> None:
    """Keep the draws that a method has simulated, so that its figures do not simulate them once more."""
    _SIMULATED[plan] = problem, times, draws


@dataclass(frozen=True, eq=False)
class SharedClusterFigures:
    """Times, metrics and statistics that follow from a problem and its plan."""

    problem: SharedCluster
    plan: SharedClusterPlan

    @property
    def at_once(self) -> bool:
        return self.problem.at_once is not None

    @cached_property
    def classes(self) -> tuple[JobClass, ...]:
        """The classes, with times and bytes filled in where a formula needs them."""
        return self._times.classes if isinstance(self._times, FormulaTimes) else self._timed_classes

    @cached_property
    def _timed_classes(self) -> tuple[JobClass, ...]:
        return timed_classes(self.problem, self.plan.classes)

    @cached_property
    def fabrics(self) -> tuple[Fabric, ...]:
        """The fabrics, with their rates where a formula needs them."""
        if self.problem.contention == "flows":
            return self.problem.fabrics
        return tuple(rated(self.problem, fabric) for fabric in self.problem.fabrics)

    @cached_property
    def jobs(self) -> JobTable:
        """The jobs that arrive, drawn or from the trace."""
        assert self.problem.at_once is None
        jobs: Any = self.problem.jobs
        return job_table(jobs, self.classes, self.problem.servers, self.problem.search.seed)

    @cached_property
    def groups(self) -> Ints:
        """int64[n], group of each server; a shard within a group is always realisable."""
        return (
            server_groups(self.problem.layer)
            if any(fabric.kind == PARTITIONED for fabric in self.problem.fabrics)
            else np.zeros(self.problem.servers, dtype=np.int64)
        )

    @cached_property
    def runs(self) -> tuple[FabricRun, ...]:
        """The jobs that arrive on each fabric that was reached."""
        return tuple(
            FabricRun(
                fabric, schedule.finished_jobs(len(self.jobs)), stays_of(self.problem, fabric, self.jobs, schedule)
            )
            for fabric, schedule in zip(self.fabrics, self.plan.schedules, strict=False)
        )

    @cached_property
    def metrics(self) -> tuple[Metrics | None, ...]:
        """Of each run; None where no job ended."""
        switching_s = self.problem.layer.switching_time_s
        return tuple(metrics_of(run, self.jobs, self.classes, self.groups, switching_s) for run in self.runs)

    @property
    def _times(self) -> Times | None:
        """What times jobs at once, as it was left by the method, or made now."""
        if not self.at_once:
            return None
        problem, times, _ = _SIMULATED.get(self.plan, (None, None, ()))
        return times if problem is self.problem and times is not None else self._own_times

    @cached_property
    def _own_times(self) -> Times:
        return times_of(self.problem, self.plan.classes, self._timed_classes)

    @cached_property
    def draws(self) -> tuple[DrawnRun, ...]:
        """The draws of jobs at once, run together on every fabric."""
        problem, _, draws = _SIMULATED.get(self.plan, (None, None, ()))
        if problem is self.problem and len(draws) == self.plan.draws:
            return draws
        return tuple(self._drawn(*row) for row in draws_of(self.problem)[: self.plan.draws])

    def _drawn(self, load: int, repetition: int) -> DrawnRun:
        problem, times = self.problem, self._times
        assert times is not None
        assert problem.at_once is not None
        draw = draw_jobs(problem.at_once, problem.classes, problem.servers, load, repetition, problem.search.seed)
        run = drawn_run(load, repetition, draw, times)
        assert run is not None
        return run

    @cached_property
    def alone(self) -> tuple[ClassTime, ...]:
        """Of jobs at once: for every fabric every class, by itself."""
        times = self._times
        assert times is not None
        return tuple(
            ClassTime(fabric.name, job_class.name, times.alone_ms(index, number))
            for number, fabric in enumerate(self.problem.fabrics)
            for index, job_class in enumerate(self.problem.classes)
        )

    @cached_property
    def statistics(self) -> tuple[LoadStatistics, ...]:
        """Of jobs at once: for every load, ascending, every fabric."""
        names = [fabric.name for fabric in self.problem.fabrics]
        return load_statistics(names, [job_class.name for job_class in self.problem.classes], self.alone, self.draws)

    @cached_property
    def objective(self) -> Objective:
        """The mean on the first fabric, over the finished jobs, or over the jobs of the largest load."""
        if self.at_once:
            return load_objective(self.statistics)
        return objective_of(self.problem.goal, self.runs[0], self.jobs)

    def columns(self) -> dict[str, Columns]:
        """Tables of classes, and of jobs, stays and fabrics, or of draws, times alone and statistics."""
        classes = {"classes": listed([replace(job_class, plan=None) for job_class in self.classes])}
        if self.at_once:
            tables = {"draws": self.draws, "alone": self.alone, "statistics": self.statistics}
            return classes | {name: listed(rows) for name, rows in tables.items()}
        jobs, runs = self.jobs, self.runs
        counts = [len(run.stays) for run in runs]
        stays = ("job", "held_from_s", "work_from_s", "work_to_s", "held_to_s")
        ended = [(run.fabric, own) for run, own in zip(runs, self.metrics, strict=True) if own is not None]
        lists = [run.stays.servers_of(stay).tolist() for run in runs for stay in range(len(run.stays))]
        return classes | {
            "jobs": {
                "name": list(jobs.names),
                "arrival_s": jobs.arrival_s,
                "class_index": jobs.class_index,
                "iterations": jobs.iterations,
                "iteration_ms": jobs.iteration_ms,
            },
            "stays": {
                "fabric": [run.fabric.name for run, count in zip(runs, counts, strict=True) for _ in range(count)],
                **{name: np.concatenate([getattr(run.stays, name) for run in runs]) for name in stays},
                "servers": lists,
            },
            "fabrics": {
                f"{part}_{name}": column
                for part, rows in (("fabric", [row[0] for row in ended]), ("metrics", [row[1] for row in ended]))
                for name, column in listed(rows).items()
            },
        }


def drawn_run(
    load: int, repetition: int, draw: Draw, times: Times, stopped: Callable[[], bool] = lambda: False
) -> DrawnRun | None:
    """Return a draw run on every fabric; None if it was stopped before the last one."""
    by_fabric = []
    for fabric in range(len(times.problem.fabrics)):
        if stopped():
            return None
        by_fabric.append(times.run(draw, fabric))
    classes, servers, _, _ = draw
    return DrawnRun(load, repetition, classes, servers, tuple(by_fabric), times.shard_ms(draw))
