"""The checker of shared clusters: everything is worked out again from the decisions, the instance and the seed.

Draws of random jobs are made again, and so are the decisions of schedulers that leave nothing open. Plans of classes
keep the constraints of their jobs, and are simulated: the times, the compute and the bytes of a class follow from its
plan, by code that shares nothing with solvers and simulators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from topoopt.core.arrays import Draws
from topoopt.core.cluster import LinkSharing
from topoopt.core.job import BaselineSettings, CoOptimisation
from topoopt.core.price_book import PriceBook
from topoopt.core.proofs import Argument, StopReason, Tolerance
from topoopt.core.result import Decides, Result
from topoopt.core.shared_cluster import (
    PARTITIONED,
    ClassPlan,
    DrawnJobs,
    Fabric,
    FabricRun,
    FabricSchedule,
    JobClass,
    JobsAtOnce,
    JobTable,
    SharedCluster,
    SharedClusterPlan,
    too_short,
)
from topoopt.verify.checker import CheckDepth, Checker, CheckFindings, Derivation, ViolationLog
from topoopt.verify.job.bounds import compute_bounds, instance_bounds
from topoopt.verify.job.plan import Inspection, Parts, check_strategy, inspect_plan, recompute_traffic
from topoopt.verify.job.simulation import (
    TRANSFER,
    EventBudget,
    IterationTasks,
    SimulatedNetwork,
    events_of,
    flows_of,
    plan_network,
    simulate_rounds,
    task_count,
    tasks_of,
)
from topoopt.verify.laws.networks import equal_cost_gbps, requested_fabric
from topoopt.verify.laws.schedules import check_choice
from topoopt.verify.shared_cluster import servers as schedules
from topoopt.verify.shared_cluster.servers import (
    CheckedRun,
    arrived,
    complete_stays,
    fat_tree,
    ideal_switch,
    nic_gbps,
    scheduled_by,
    table_errors,
)
from topoopt.verify.shared_cluster.times import (
    alone_ms,
    bounds_of_plan,
    contention,
    crossings_of,
    first_iterations,
    joined_tasks,
    least_alone_ms,
    shared_bound,
    times_together,
)

SharedResult = Result[SharedCluster, SharedClusterPlan]

FLUID = "fluid"
SWITCHED = ("ideal-switch", "fat-tree", "full-fat-tree", "oversubscribed-fat-tree")
"""Fabrics that the checker builds again."""

EVENTS_OF_A_CROSSING = 25
"""What a link that a flow crosses takes in a fluid simulation, in events of one by rounds."""

PLANNED = "times and bytes of planned classes"


@dataclass(eq=False)
class CheckedPlan:
    """A planned class on one fabric, once its plan is seen to be sound."""

    job: CoOptimisation
    parts: tuple[Parts, ...]
    seen: Inspection | None = None

    @cached_property
    def traffic(self) -> Any:
        if self.seen is not None and self.seen.traffic is not None:
            return self.seen.traffic
        return recompute_traffic(self.job.cluster, self.job.workload, self.parts)

    @cached_property
    def tasks(self) -> IterationTasks:
        return tasks_of(self.job.workload, self.parts, self.traffic)

    def busiest_ms(self) -> float:
        """Compute time of the server that computes longest, ms."""
        busy = np.zeros(self.job.cluster.servers)
        for part in self.parts:
            np.add.at(busy, part.server, part.split.forward_ms + part.split.backward_ms)
        return float(busy.max())


@dataclass(eq=False)
class Case:
    """A result that is checked, and what the checker works out of it on its way.

    Attributes:
        problem: with seed, queue and moves of the result; fabrics have rates where a formula needs them.
        result: not trusted.
        depth: how much may be simulated.
        book: prices that rates of equal cost follow from.
        log: for what is left out.
        plans: sound plans, by class and fabric; fabric -1 is the shard.
        alone: simulated iteration of planned classes on shards of their own, ms.
    """

    problem: SharedCluster
    result: SharedResult
    depth: CheckDepth
    book: PriceBook | None
    log: ViolationLog = field(default_factory=ViolationLog)
    plans: dict[tuple[int, int], CheckedPlan] = field(default_factory=dict)
    alone: dict[int, float] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.problem.kind

    @property
    def name(self) -> str:
        return self.problem.name

    @property
    def sha256(self) -> str:
        return self.problem.sha256

    @property
    def seed(self) -> int:
        return self.problem.search.seed

    @property
    def jobs_at_once(self) -> JobsAtOnce | None:
        """The jobs, if they are at once."""
        return self.problem.at_once

    @property
    def flows(self) -> bool:
        return self.problem.contention == "flows"

    @cached_property
    def budget(self) -> EventBudget:
        return EventBudget.of(self.depth)

    @cached_property
    def planned(self) -> list[tuple[int, ClassPlan]]:
        """The planned classes: their index, and their plan."""
        indices = [index for index, row in enumerate(self.problem.classes) if row.plan is not None]
        return list(zip(indices, self.result.plan.classes, strict=True))

    @cached_property
    def classes(self) -> tuple[JobClass, ...] | None:
        """The classes with their times and what no plan beats; None where simulations take more than the check may."""
        classes = list(self.problem.classes)
        for index, _ in self.planned:
            timed = classes[index] if self.flows else self._timed(index)
            if timed is None:
                return None
            job = classes[index].plan
            assert job is not None
            classes[index] = replace(timed, lower_bounds=bounds_of_plan(job))
        return tuple(classes)

    def _timed(self, index: int) -> JobClass | None:
        shard = self.plans[index, -1]
        n, traffic = shard.job.cluster.servers, shard.traffic
        time = self.alone_on_shard(index, "rounds", Decides.BOTH)
        if time is None:
            return None
        return replace(
            self.problem.classes[index],
            servers=n,
            iteration_ms=(time,),
            compute_ms=shard.busiest_ms(),
            allreduce_bytes=traffic.wire_bytes / n,
            all_to_all_bytes=float(traffic.matrix.sum()) / n,
        )

    def alone_on_shard(self, index: int, model: str, decides: Decides) -> float | None:
        """Simulate an iteration of a class on a shard of its own, ms; None, and noted, where that takes too much."""
        shard, plan = self.plans[index, -1], dict(self.planned)[index]
        assert plan.shard is not None
        assert shard.seen is not None
        figures = f"times of class {self.problem.classes[index].name}"
        crossed = 0 if shard.seen.hops is None else shard.seen.hops.crossings(shard.traffic.transfers)
        if not self.budget.holds(self.log, figures, task_count(shard.parts, shard.traffic) + crossed, decides):
            return None
        network = plan_network(shard.job.cluster, plan.shard.plan(shard.job.cluster), shard.seen.schedules)
        if model == FLUID:
            events = EVENTS_OF_A_CROSSING * crossings_of(shard.tasks, network)
            if not self.budget.takes(self.log, figures, events, decides):
                return None
            return first_iterations([(shard.tasks, range(shard.job.cluster.servers))], network)[0]
        if not self.budget.takes(self.log, figures, events_of(shard.tasks, network), decides):
            return None
        flows = flows_of(shard.tasks, network)
        report = partial(self.budget.tell, f"simulating {figures}")
        return simulate_rounds(shard.tasks, flows, network, lambda done: report(done, len(shard.tasks))).total_ms

    @cached_property
    def timed(self) -> SharedCluster | None:
        """The problem with the times of its classes."""
        return None if self.classes is None else replace(self.problem, classes=self.classes)

    @cached_property
    def jobs(self) -> JobTable:
        assert self.timed is not None
        return drawn_jobs(self.timed)

    @cached_property
    def runs(self) -> tuple[CheckedRun, ...]:
        """The jobs that arrive on each fabric; none where the times of classes are not at hand."""
        timed = self.timed
        if timed is None or self.jobs_at_once is not None:
            return ()
        rows = zip(timed.fabrics, self.result.plan.schedules, strict=False)
        return tuple(self._run(timed, *row, index) for index, row in enumerate(rows))

    def _run(self, timed: SharedCluster, fabric: Fabric, schedule: FabricSchedule, index: int) -> CheckedRun:
        jobs = arrived(self.jobs, schedule)
        run = FabricRun(fabric, schedule.finished_jobs(len(jobs)), complete_stays(timed, fabric, jobs, schedule))
        return CheckedRun(timed, jobs, run, schedule.cut_s, index, self.log, self.seed)

    @cached_property
    def first(self) -> CheckedRun:
        """The run that the objective is of.

        Raises:
            ValueError: no job has ended.
        """
        if not self.runs[0].run.finished.any():
            raise ValueError("no job has ended on the first fabric")
        return self.runs[0]

    @cached_property
    def draws(self) -> list[tuple[int, int]]:
        """(load, repetition) of the draws of jobs at once that were run."""
        jobs = self.jobs_at_once
        assert jobs is not None
        rows = [(load, repetition) for repetition in range(jobs.repetitions) for load in jobs.loads]
        return rows[: self.result.plan.draws]


# What the plan holds.


def parts_of_plan(case: Case, plan: SharedClusterPlan) -> Iterator[str]:
    """A plan for every class that names a job; schedules of jobs that arrive, or draws of jobs at once."""
    problem = case.problem
    count = sum(row.plan is not None for row in problem.classes)
    if len(plan.classes) != count:
        yield f"{len(plan.classes)} plans of classes, not {count}"
        return
    shared = sum(fabric.kind != PARTITIONED for fabric in problem.fabrics)
    shards = not case.flows or shared < len(problem.fabrics)
    for index, row in case.planned:
        name, job = problem.classes[index].name, problem.classes[index].plan
        assert job is not None
        if (row.shard is not None) != shards:
            yield f"class {name}: {'no' if shards else 'a'} plan of a shard"
        if len(row.strategies) != (shared if case.flows else 0):
            yield f"class {name}: {len(row.strategies)} strategies on shared fabrics, not {shared if case.flows else 0}"
        allowed = () if case.flows else tuple(s for s in job.sharings if s is not job.cluster.link_sharing)
        if row.link_sharing is not None and row.link_sharing not in allowed:
            yield f"class {name}: links are not shared as {row.link_sharing}"
        if row.link_sharing is None and not case.flows and job.cluster.link_sharing not in job.sharings:
            yield f"class {name}: it is not said how links are shared"
    if case.jobs_at_once is None:
        if plan.draws != 0:
            yield "draws of jobs that arrive"
        if not 1 <= len(plan.schedules) <= len(problem.fabrics):
            yield f"{len(plan.schedules)} fabrics, not 1 to {len(problem.fabrics)}"
    else:
        most = len(case.jobs_at_once.loads) * case.jobs_at_once.repetitions
        if plan.schedules:
            yield "schedules of jobs at once"
        if not 1 <= plan.draws <= most:
            yield f"{plan.draws} draws, not 1 to {most}"


def plans_of_classes(case: Case, plan: SharedClusterPlan) -> Iterator[str]:
    """Plans keep the constraints of their jobs; of flows that are simulated, strategies fit every fabric."""
    for index, row in case.planned:
        job = _job(case.problem.classes[index], row)
        for fabric in [-1] if row.shard is not None else []:
            yield from _sound(case, index, fabric, job, row)
        for number in range(len(row.strategies)):
            yield from _sound(case, index, number, job, row)


def _job(job_class: JobClass, plan: ClassPlan) -> CoOptimisation:
    job = job_class.plan
    assert job is not None
    sharing: LinkSharing = job.cluster.link_sharing if plan.link_sharing is None else plan.link_sharing
    return replace(job, cluster=replace(job.cluster, link_sharing=sharing))


def _sound(case: Case, index: int, number: int, job: CoOptimisation, plan: ClassPlan) -> Iterator[str]:
    """Check a shard (-1) or the strategy of a shared fabric; a sound one is kept."""
    log, cluster, workload = ViolationLog(), job.cluster, job.workload
    seen, parts = None, None
    if number < 0:
        assert plan.shard is not None
        rows = plan.shard.plan(cluster)
        seen = inspect_plan(log, cluster, workload, rows)
        parts = seen.parts
        if case.flows and rows.schedules:
            log.add("allreduce", "AllReduces whose flows are simulated run on rings")
        elif not case.flows:
            check_choice(log, job.search.allreduce, rows)
    else:
        parts = check_strategy(log, cluster, workload, plan.strategies[number])
    for violation in log.violations():
        yield f"class {case.problem.classes[index].name}: {violation}"
    if parts is not None and log.clean:
        case.plans[index, number] = CheckedPlan(job, parts, seen)


def times_of_classes(case: Case, plan: SharedClusterPlan) -> Iterator[str]:
    """Bytes of a planned class can be sent in its times."""
    if case.flows or case.classes is None:
        return
    for index, _ in case.planned:
        row = case.classes[index]
        for key, time, needed in too_short(row, case.problem.direct_gbps(row), case.problem.fabrics):
            yield f"class {row.name!r}: {key} is {time} ms, sending its bytes takes {needed} ms"


def complete(case: Case, plan: SharedClusterPlan) -> Iterator[str]:
    """All jobs on all fabrics, or all draws, where nothing stopped the run."""
    ended = case.result.stopped_by in (StopReason.BUDGET, StopReason.CONVERGED)
    if case.jobs_at_once is not None:
        most = len(case.jobs_at_once.loads) * case.jobs_at_once.repetitions
        if plan.draws < most and ended:
            yield f"{plan.draws} draws of {most}, though nothing stopped the run"
        return
    reached, fabrics = len(plan.schedules), case.problem.fabrics
    if reached < len(fabrics):
        missing = ", ".join(fabric.name for fabric in fabrics[reached:])
        case.log.leave_out(f"jobs on {missing}", "the solution does not hold them: it is of the objective, not whole")
    # The first fabric alone is what is simulated where nothing but the objective was wanted.
    whole = reached in (1, len(fabrics)) and all(checked.run.whole for checked in case.runs)
    if not whole and ended and case.timed is not None:
        yield "not all jobs on all fabrics, though nothing stopped the run"


def tables(case: Case, plan: SharedClusterPlan) -> Iterator[str]:
    """Tables of stays have fitting lengths, indices in range, and ascending order."""
    jobs = case.problem.jobs
    if isinstance(jobs, JobsAtOnce):
        return
    count = jobs.count if isinstance(jobs, DrawnJobs) else len(jobs)
    for fabric, schedule in zip(case.problem.fabrics, plan.schedules, strict=False):
        yield from (f"{fabric.name}: {text}" for text in table_errors(case.problem, count, schedule))


def _of_runs(check: Callable[[CheckedRun], Iterator[str]]) -> Callable[[Case, SharedClusterPlan], Iterator[str]]:
    def constraint(case: Case, plan: SharedClusterPlan) -> Iterator[str]:
        for checked in case.runs:
            yield from check(checked)

    return constraint


def _shared_work(checked: CheckedRun) -> Iterator[str]:
    """On shared links every job does the work of its iterations between its start and its end."""
    if not checked.partitioned:
        decides = Decides.NOTHING if checked.index else Decides.VALUE
        yield from contention(checked.log, checked.problem, checked.jobs, checked.run, checked.seed, decides)


# Draws.


def drawn_jobs(problem: SharedCluster) -> JobTable:
    """Return the jobs of a trace, or draw them: classes by weight, times by class, lengths, gaps: in this order."""
    given, draws = problem.jobs, Draws(problem.search.seed)
    assert not isinstance(given, JobsAtOnce)
    if not isinstance(given, DrawnJobs):
        index = np.array([job.class_index for job in given], dtype=np.int32)
        times = _times(index, problem.classes, draws)
        rows = zip(given, _lengths(problem, index, times), strict=True)
        lengths = np.array([float(job.iterations or length) for job, length in rows])
        arrival = np.array([job.arrival_s for job in given])
        names = tuple(job.name for job in given)
        return JobTable(names, arrival, index, np.maximum(1, np.rint(lengths)).astype(np.int64), times)
    weights = np.array([weight for _, weight in given.mix])
    share = weights / weights.sum()
    index = np.array([number for number, _ in given.mix], dtype=np.int32)[draws.weighted(share, given.count)]
    times = _times(index, problem.classes, draws)
    length = np.array(_lengths(problem, index, times))
    if given.spread == "exponential":
        length = length * draws.exponential(given.count)
    arrival, rate = np.zeros(given.count), given.rate_per_s
    if rate is None and given.load is not None:
        seconds = [
            row.duration_s if row.duration_s is not None else (row.iterations or 0) * np.mean(row.iteration_ms) * 1e-3
            for row in (problem.classes[number] for number, _ in given.mix)
        ]
        counts = np.array([problem.classes[number].servers for number, _ in given.mix])
        rate = given.load * problem.servers / float(share @ (counts * np.array(seconds)))
    if rate is not None:
        arrival = np.cumsum(draws.exponential(given.count)) / rate
    names = tuple(f"job-{number}" for number in range(given.count))
    return JobTable(names, arrival, index, np.maximum(1, np.rint(length)).astype(np.int64), times)


def _times(index: np.ndarray, classes: Sequence[JobClass], draws: Draws) -> np.ndarray:
    times = np.zeros(len(index))
    for number, row in enumerate(classes):
        own, given = index == number, np.array(row.iteration_ms)
        times[own] = given[draws.below(len(given), int(own.sum()))] if len(given) > 1 else given[0]
    return times


def _lengths(problem: SharedCluster, index: np.ndarray, times: np.ndarray) -> list[float]:
    rows = [problem.classes[number] for number in index]
    return [
        float(row.iterations or 0) if row.duration_s is None else row.duration_s / (time * 1e-3)
        for row, time in zip(rows, times.tolist(), strict=True)
    ]


Draw = tuple[tuple[int, ...], tuple[tuple[int, ...], ...], tuple[float, ...], int]
"""Jobs at once: their classes; their servers, in rank order; which of the given times each takes, as a part of their
list; the seed of routes on fabrics with a choice."""


def drawn_together(problem: SharedCluster, load: int, repetition: int) -> Draw:
    """Return a draw of jobs at once."""
    jobs = problem.at_once
    assert jobs is not None
    draws = Draws(problem.search.seed, load, repetition)
    selected = draws.weighted(np.array([weight for _, weight in jobs.mix]), load)
    classes = tuple(jobs.mix[number][0] for number in selected)
    sample = tuple(draws.uniform(load).tolist())
    routes_seed = int(draws.below(2**31, 1)[0])
    n, rack = problem.servers, jobs.rack_servers
    if jobs.placement == "random":
        order = draws.permutation(n).tolist()
    else:
        racks = draws.permutation(-(-n // rack)).tolist()
        order = [server for k in racks for server in range(k * rack, min((k + 1) * rack, n))]
    servers = []
    for number in classes:
        size = problem.classes[number].servers
        own, order = order[:size], order[size:]
        servers.append(tuple(sorted(own) if jobs.rank_order == "sorted" else own))
    return classes, tuple(servers), sample, routes_seed


def given_ms(job_class: JobClass, sample: float) -> float:
    """Return which of the given times of its class a job has."""
    times = job_class.iteration_ms
    return times[min(int(sample * len(times)), len(times) - 1)]


# Objective.


def objective_name(case: Case) -> tuple[str, str]:
    """Return name and unit of the objective."""
    if case.jobs_at_once is None and case.problem.goal == "mean-completion-time":
        return "mean_completion_time", "s"
    return "mean_iteration_time", "ms"


def objective_value(case: Case, plan: SharedClusterPlan) -> float:
    """Return the mean on the first fabric; the declared one where its times take more than the check may."""
    if case.timed is None:
        return float(case.result.objective.value)
    if case.jobs_at_once is None:
        return _mean_of_run(case.first)
    largest = max(load for load, _ in case.draws)
    times: list[float] = []
    for load, repetition in case.draws:
        if load == largest:
            row = _times_on_first(case, drawn_together(case.timed, load, repetition))
            if row is None:
                return float(case.result.objective.value)
            times += row
    return math.fsum(times) / len(times)


def _mean_of_run(checked: CheckedRun) -> float:
    stays, jobs = checked.run.stays, checked.jobs
    done = np.flatnonzero(checked.run.finished).tolist()
    if checked.problem.goal == "mean-completion-time":
        end = {int(job): float(time) for job, time in zip(stays.job, stays.work_to_s, strict=True)}  # the last counts
        return math.fsum(end[j] - float(jobs.arrival_s[j]) for j in done) / len(done)
    worked = dict.fromkeys(done, 0.0)
    for job, begin, until in zip(stays.job.tolist(), stays.work_from_s, stays.work_to_s, strict=True):
        if job in worked:
            worked[job] += float(until - begin)
    return math.fsum(worked[j] * 1e3 / int(jobs.iterations[j]) for j in done) / len(done)


def _times_on_first(case: Case, draw: Draw) -> list[float] | None:
    """Return the iteration of each job of a draw on the first fabric; None where it is not simulated."""
    problem, (classes, servers, sample, _) = case.timed, draw
    assert problem is not None
    fabric = problem.fabrics[0]
    if not case.flows:
        given = [given_ms(problem.classes[k], part) for k, part in zip(classes, sample, strict=True)]
        if fabric.kind == PARTITIONED:
            return given
        jobs = single_iterations(classes, given)
        return [float(time) for time in times_together(problem, fabric, jobs, servers, case.seed)]
    if fabric.kind == PARTITIONED:
        alone = _alone_on_first(case)
        if alone is None:
            return None
        rows = zip(classes, sample, strict=True)
        return [alone[k] if k in alone else given_ms(problem.classes[k], part) for k, part in rows]
    return _flows_on_first(case, draw)


def single_iterations(classes: Sequence[int], iteration_ms: Sequence[float]) -> JobTable:
    """Return jobs of one iteration that begin at time 0."""
    count = len(classes)
    names = tuple(str(number) for number in range(count))
    ones, index = np.ones(count, dtype=np.int64), np.array(classes, dtype=np.int32)
    return JobTable(names, np.zeros(count), index, ones, np.array(iteration_ms, dtype=np.float64))


def _alone_on_first(case: Case) -> dict[int, float] | None:
    for index, _ in case.planned:
        if index not in case.alone:
            time = case.alone_on_shard(index, case.problem.time_model, Decides.VALUE)
            if time is None:
                return None
            case.alone[index] = time
    return case.alone


def _flows_on_first(case: Case, draw: Draw) -> list[float] | None:
    problem, fabric, figures = case.problem, case.problem.fabrics[0], "times of planned classes together"
    if problem.time_model != FLUID or fabric.kind not in SWITCHED:
        what = f"model {problem.time_model}" if problem.time_model != FLUID else f"fabric {fabric.kind}"
        case.log.leave_out(figures, f"the checker does not simulate several jobs by the {what}", Decides.VALUE)
        return None
    classes, servers_of_jobs, _, routes_seed = draw
    placed = [(case.plans[index, 0].tasks, servers) for index, servers in zip(classes, servers_of_jobs, strict=True)]
    network = _shared_network(case, fabric, routes_seed, placed)
    if network is None:
        case.log.leave_out(figures, "the rate of the first fabric is that of equal cost, without prices", Decides.VALUE)
        return None
    busiest = [case.plans[index, 0].busiest_ms() for index in classes]
    rounds = math.ceil(max(busiest) / max(min(busiest), 1e-9))
    crossed = crossings_of(joined_tasks(placed)[0], network)
    if not case.budget.takes(case.log, figures, EVENTS_OF_A_CROSSING * rounds * crossed, Decides.VALUE):
        return None
    return first_iterations(placed, network)


def _shared_network(
    case: Case, fabric: Fabric, routes_seed: int, placed: Sequence[tuple[IterationTasks, Sequence[int]]]
) -> SimulatedNetwork | None:
    requested, cluster = requested_fabric(fabric.choice, BaselineSettings()), case.problem.cluster
    gbps = nic_gbps(requested, cluster, case.book)
    if gbps is None:
        return None
    pairs: dict[tuple[int, int], None] = {}
    groups: dict[tuple[int, ...], None] = {}
    for tasks, servers in placed:
        for kind, lane, target, members in zip(tasks.kind, tasks.lane, tasks.target, tasks.members, strict=True):
            if kind == TRANSFER:
                pairs[servers[lane], servers[target]] = None
            elif members:
                groups[tuple(servers[member] for member in members)] = None
    if fabric.kind == "ideal-switch":
        return ideal_switch(cluster, gbps, pairs, groups)
    return fat_tree(requested, cluster, gbps, routes_seed, pairs, groups)


# Bound and status.


def arguments(case: Case) -> Mapping[Argument, Derivation]:
    """Return the argument of the largest bound, and what it proves."""
    timed = case.timed
    if timed is None:  # nothing can be said; that it is claimed is noted
        return {case.result.bound.argument: lambda *_: float(case.result.bound.value)}
    if case.jobs_at_once is None:
        checked = case.first
        bound = shared_bound(timed, checked.run.fabric, checked.jobs, checked.run.finished)
        return {bound.argument: lambda *_: bound.value}
    return {Argument.CLASS_BOUNDS: lambda *_: _mean_of_bounds(case, timed)}


def _mean_of_bounds(case: Case, problem: SharedCluster) -> float:
    largest = max(load for load, _ in case.draws)
    rows = [drawn_together(problem, load, repetition)[0] for load, repetition in case.draws if load == largest]
    least = {index: _least_ms(case, problem, index) for index in {index for row in rows for index in row}}
    values = [least[index] for row in rows for index in row]
    return math.fsum(values) / len(values)


def _least_ms(case: Case, problem: SharedCluster, index: int) -> float:
    fabric, row = problem.fabrics[0], problem.classes[index]
    if case.flows:
        if row.plan is None:
            return min(row.iteration_ms)
        bounds = instance_bounds if fabric.kind == PARTITIONED else compute_bounds
        return max(bound.value for bound in bounds(row.plan.cluster, row.plan.workload))
    if row.lower_bounds is not None:
        return least_alone_ms(problem, fabric, row)
    jobs = single_iterations([index] * len(row.iteration_ms), row.iteration_ms)
    return float(alone_ms(problem, fabric, jobs).min())


def scale(case: Case) -> float:
    """Return the size of figures whose rounding the objective inherits: differences of two moments, each rounded."""
    if case.jobs_at_once is not None or case.timed is None:
        return 0.0
    checked = case.first
    run, jobs = checked.run, checked.jobs
    end = np.zeros(len(jobs))
    np.maximum.at(end, run.stays.job, run.stays.work_to_s)
    mean_s = max(float((end - jobs.arrival_s)[run.finished].mean()), np.spacing(1.0))
    return float(4 * np.spacing(run.until_s) / mean_s * abs(_mean_of_run(checked))) / Tolerance.ROUNDING.relative


def further(case: Case, result: SharedResult) -> Iterator[str]:
    """Nothing is optimal but a mean over all jobs that arrive."""
    if case.jobs_at_once is not None:
        yield "called optimal: bounds of single jobs prove nothing of jobs that share links, nor of smaller loads"
    elif case.timed is not None and not case.first.run.whole:
        yield "called optimal, where not all jobs have ended"


CHECKER = Checker(
    objective=objective_name,
    constraints=(
        ("plan", parts_of_plan),
        ("classes", plans_of_classes),
        ("class-times", times_of_classes),
        ("stays", tables),
        ("runs", complete),
        ("size", _of_runs(schedules.sizes)),
        ("times", _of_runs(schedules.times_in_order)),
        ("queue", _of_runs(schedules.first_come)),
        ("servers", _of_runs(schedules.no_server_twice)),
        ("shard", _of_runs(schedules.whole_shards)),
        ("finished", _of_runs(schedules.ends)),
        ("moves", _of_runs(schedules.moves_take_their_time)),
        ("work", _of_runs(schedules.work_on_shards)),
        ("decisions", _of_runs(schedules.decisions)),
        ("contention", _of_runs(_shared_work)),
    ),
    value=objective_value,
    arguments=arguments,
    scale=scale,
    further=further,
    optimal=Tolerance.ROUNDING,
)


def check_shared_cluster(
    problem: SharedCluster, result: SharedResult, depth: CheckDepth, book: PriceBook | None = None
) -> CheckFindings:
    """Check a result of any content; never raises.

    Args:
        problem: taken as valid.
        result: not trusted.
        depth: how much may be simulated.
        book: prices that rates of fat-trees of equal cost follow from.

    Returns:
        All violations, and the figures that were not recomputed.
    """
    log, cases = ViolationLog(), []
    log.guard("method", "the method", lambda: cases.append(_case(problem, result, depth, book)))
    if not cases:
        return log.findings()
    findings = CHECKER(cases[0], result, depth)
    return CheckFindings(findings.violations, (*cases[0].log.left_out, *findings.not_recomputed))


def _case(problem: SharedCluster, result: SharedResult, depth: CheckDepth, book: PriceBook | None) -> Case:
    """Return the case: seed and way of scheduling are those of the result, rates those of the prices."""
    in_force = replace(problem, search=problem.search.but(seed=result.seed))
    if problem.at_once is None:
        in_force = scheduled_by(in_force, result.method)
    if in_force.contention != "flows":
        in_force = replace(in_force, fabrics=tuple(_rated(in_force, fabric, book) for fabric in in_force.fabrics))
    return Case(in_force, result, depth, book)


def _rated(problem: SharedCluster, fabric: Fabric, book: PriceBook | None) -> Fabric:
    if fabric.server_gbps is not None:
        return fabric
    if book is None:
        raise ValueError(f"the rate of {fabric.name} is that of equal cost, and the price book is not at hand")
    gbps = equal_cost_gbps(problem.cluster, fabric.oversubscription or 1.0, book)
    return replace(fabric, server_gbps=gbps)
