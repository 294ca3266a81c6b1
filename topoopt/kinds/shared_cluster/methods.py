"""The methods for shared clusters: ways of scheduling jobs that arrive, or ways to plan classes of jobs at once.

A method decides plans of the classes, and which job holds which servers when; figures and bounds follow. What was
decided until the limit is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from solvers.job.fabrics import fabric_job, search_strategy
from solvers.job.methods import METHODS, default_budget, run_method
from solvers.shard_assignment import AssignmentResult, ShardLimits, assign_shards
from solvers.shards import find_shard
from solvers.stop import Stop
from solvers.timing import Timing
from topoopt.core.arrays import Bools, Ints
from topoopt.core.cluster import OpticalLayer, ShardShape
from topoopt.core.errors import CheckError, InputError, LimitError, Problem, raise_any
from topoopt.core.proofs import Argument, Bound, Status, StopReason, Tolerance, settle
from topoopt.core.result import Certificate, Result, SearchResult
from topoopt.core.shared_cluster import (
    ACROSS_GROUPS,
    MOST_EXACT_SERVERS,
    PARTITIONED,
    ClassPlan,
    DrawnJobs,
    FabricRun,
    FabricSchedule,
    Goal,
    JobClass,
    JobsAtOnce,
    JobTable,
    QueueOrder,
    Scheduling,
    ShardPlan,
    SharedCluster,
    SharedClusterPlan,
    TracedJob,
    server_groups,
    too_short,
)
from topoopt.kinds.kind import Effort, Method, SolveOptions, Solver, table
from topoopt.kinds.pipeline import concluded, solve
from topoopt.kinds.shared_cluster.figures import (
    DrawnRun,
    FormulaTimes,
    SharedClusterFigures,
    Times,
    class_network,
    drawn_run,
    draws_of,
    finished_times,
    objective_of,
    rated,
    remember,
    timed_class,
    times_of,
)
from topoopt.simulate.cluster_events import PLACERS, ClusterState, Placer, simulate
from topoopt.simulate.cluster_rates import RunningWork, WorkAlone, WorkShared, shared_links
from topoopt.verify.job.bounds import compute_bounds, instance_bounds
from topoopt.verify.job.plan import check_plan
from topoopt.verify.shared_cluster.servers import placing_bound, shard_violations
from topoopt.verify.shared_cluster.times import bounds_of_plan, least_alone_ms, shared_bound
from topoopt.workloads.cluster_draws import draw_jobs, job_table

MOST_BACKFILLED_SERVERS = 16
"""Of a cluster whose placement is exact and whose queue is not fifo: larger bursts took the solver minutes."""

MOST_JOBS = 12
"""Waiting jobs placed at once by the exact program."""

MOST_NODES = 2_000
"""Of the branch and bound of one question, so that an instance has the same schedule on any machine."""

MOST_UNEVEN = 100_000
"""Iterations of one job during one of another: about a minute of simulation."""

EXACT = 1e-9
"""Rounding of values of placements."""

Keep = Callable[[Callable[[], "ClusterSearch"]], None]
"""Called whenever there is more, with what makes a result of it should the run have to be left."""

Progress = Callable[[str, int, int], None]
"""Called with (what is begun, steps done, steps in all)."""


ClusterSearch = SearchResult[SharedClusterPlan]
"""The result of a method: its notes say what was not reached, or not placed with a proof."""

# Ways of scheduling.


@dataclass(frozen=True)
class SchedulingMethod:
    """A line of the table; a queue of None keeps what the instance says of queue and defragmentation."""

    summary: str
    queue: QueueOrder | None = None
    defragment: bool = False

    def applied(self, scheduling: Scheduling) -> Scheduling:
        """Return the settings of an instance under this method."""
        if self.queue is None:
            return scheduling
        return replace(scheduling, queue=self.queue, defragment=self.defragment)


AS_DECLARED = "auto"
"""The method that keeps what the instance says."""

BEST = "best"
"""The method that runs all others."""

SCHEDULING_METHODS: Mapping[str, SchedulingMethod] = {
    AS_DECLARED: SchedulingMethod("as scheduling.queue of the instance says; without it the best of all"),
    "fifo": SchedulingMethod("only the first waiting job may start", "fifo"),
    "backfill": SchedulingMethod("any waiting job that fits may start", "backfill"),
    "reserve": SchedulingMethod("any that does not delay the first (EASY backfilling)", "reserve"),
    "fifo-defragment": SchedulingMethod("fifo, running jobs are moved where that pays", "fifo", True),
    "backfill-defragment": SchedulingMethod("backfill, running jobs are moved", "backfill", True),
    "reserve-defragment": SchedulingMethod("reserve, running jobs are moved", "reserve", True),
    BEST: SchedulingMethod("all of them on the first fabric; the one with the least objective on all fabrics"),
}


def outside(method: str, problem: SharedCluster) -> Problem | None:
    """Return why a way of scheduling does not cover a problem, or None."""
    exact = [fabric.name for fabric in problem.fabrics if fabric.placement == "exact"]
    if exact and problem.servers > MOST_EXACT_SERVERS:
        text = f"too many servers for the exact placement of {exact[0]}"
        allowed = f"up to {MOST_EXACT_SERVERS} servers, or placement spread"
        return Problem(text, path="cluster.servers", value=str(problem.servers), allowed=allowed)
    queue = SCHEDULING_METHODS[method].applied(problem.scheduling).queue
    if exact and queue != "fifo" and problem.servers > MOST_BACKFILLED_SERVERS:
        text = f"too many servers to place out of turn on {exact[0]}, whose placement is exact"
        allowed = f"queue fifo, up to {MOST_BACKFILLED_SERVERS} servers, or placement spread"
        return Problem(text, path="scheduling.queue", value=queue, allowed=allowed)
    moved = SCHEDULING_METHODS[method].applied(problem.scheduling).defragment
    fixed = [fabric for fabric in problem.fabrics if fabric.placement in ACROSS_GROUPS]
    if moved and fixed:
        text = f"running jobs are not moved on {fixed[0].name}, whose placement is {fixed[0].placement}"
        allowed = "no defragmentation, or placement best-fit or first-fit"
        return Problem(text, path="search.method", value=repr(method), allowed=allowed)
    return None


# Placers of shards that reach over several groups of servers.


def any_shape(servers: int, interfaces: int) -> ShardShape:
    """Return the hardest shape to place: every interface joins all ranks. Any other shape fits its shard."""
    ring = (np.arange(servers, dtype=np.int32) + 1) % np.int32(servers)
    return ShardShape(np.tile(ring if servers > 1 else np.full(1, -1, dtype=np.int32), (interfaces, 1)))


class SpreadPlacer:
    """Servers that share a switch in as many planes as the class has interfaces, whatever they do in the others."""

    by_size = False

    def __init__(self, layer: OpticalLayer, classes: Sequence[JobClass], seed: int) -> None:
        self.layer, self.seed = layer, seed
        self.shapes = [any_shape(job_class.servers, job_class.interfaces or layer.planes) for job_class in classes]

    def fits(self, free: Bools, servers: int, job_class: int) -> bool:
        """Return whether there is a shard."""
        return self.place(free, servers, job_class) is not None

    def place(self, free: Bools, servers: int, job_class: int) -> Ints | None:
        """Return int64[servers], ascending; None where the heuristics give no shard."""
        if int(np.count_nonzero(free)) < servers:
            return None
        shard = find_shard(self.layer, free, self.shapes[job_class], self.seed)
        return None if shard is None else np.sort(np.array(shard.servers, dtype=np.int64))


def place(
    layer: OpticalLayer,
    free: Bools,
    shapes: Sequence[ShardShape],
    values: Sequence[float] | None = None,
    limits: ShardLimits | None = None,
) -> AssignmentResult:
    """Return shards for the jobs that have most value together, checked; optimal only where the checker agrees.

    Raises:
        ValueError: `free` does not fit the layer, or `values` the jobs.
        CheckError: a bug of ours.
    """
    result = assign_shards(layer, free, shapes, values, limits)
    placed = [
        (str(k), shape, shard)
        for k, (shape, shard) in enumerate(zip(shapes, result.shards, strict=True))
        if shard is not None
    ]
    violations = shard_violations(layer, placed)
    if violations:
        raise CheckError("; ".join(map(str, violations)))
    gains = [float(shape.servers) for shape in shapes] if values is None else values
    value = sum(gains[int(name)] for name, _, _ in placed)
    counted = placing_bound(layer, free, shapes, gains)
    if abs(value - result.value) > EXACT * max(1.0, value) or value > counted * (1 + EXACT):
        text = f"jobs of value {value} are placed, the solver has {result.value}, {counted} is possible by counting"
        raise CheckError(text)
    if result.bound >= counted * (1 - EXACT):
        return replace(result, argument=Argument.SERVER_COUNTS)
    return replace(result, status=Status.FEASIBLE)


@dataclass(eq=False)
class ExactPlacer:
    """Servers for all waiting jobs that may start, by the exact program (`simulate.cluster.events.JointPlacer`).

    Attributes:
        layer: the switches.
        classes: of the jobs.
        seed: of the heuristics and of the solver.
        stop: ends a question early when the whole run ends; its answer is unproven.
        most_nodes: of one question; an answer cut short is still a placement that was checked.
        proven, unproven: questions whose answer is proven to be the best, and those whose answer is not.
    """

    layer: OpticalLayer
    classes: Sequence[JobClass]
    seed: int
    stop: Stop
    most_nodes: int = MOST_NODES
    window: int = MOST_JOBS
    by_size: bool = False
    proven: int = 0
    unproven: int = 0

    def __post_init__(self) -> None:
        planes = self.layer.planes
        self._shapes = [any_shape(job_class.servers, job_class.interfaces or planes) for job_class in self.classes]

    def together(self, free: Bools, classes: Sequence[int], values: Sequence[int]) -> tuple[Ints | None, ...]:
        """Return servers for each waiting job that may start, or None; see `JointPlacer`."""
        limits = ShardLimits(seed=self.seed, stop=self.stop, most_nodes=self.most_nodes)
        result = place(self.layer, free, [self._shapes[index] for index in classes], values, limits)
        if result.status is Status.OPTIMAL:
            self.proven += 1
        else:
            self.unproven += 1
        return tuple(
            None if shard is None else np.sort(np.array(shard.servers, dtype=np.int64)) for shard in result.shards
        )

    def place(self, free: Bools, servers: int, job_class: int) -> Ints | None:
        """Return the servers of one job alone, or None."""
        return None if int(np.count_nonzero(free)) < servers else self.together(free, [job_class], [servers])[0]

    def fits(self, free: Bools, servers: int, job_class: int) -> bool:
        """Return whether one job alone gets servers on what is free."""
        return self.place(free, servers, job_class) is not None

    def note(self, fabric: str) -> str:
        """Say how many placements are proven."""
        text = f"{fabric}: {self.proven} placements of waiting jobs are proven to be the best"
        if self.unproven:
            return f"{text}, {self.unproven} are not: the search was cut short, or only its word says so"
        return f"{text}, all that were made"


# Jobs that arrive.


def run_on_fabric(
    problem: SharedCluster,
    classes: tuple[JobClass, ...],
    jobs: JobTable,
    stop: Stop,
    progress: Progress,
    index: int,
    scheduling: Scheduling,
) -> tuple[FabricRun, str]:
    """Simulate the jobs on a fabric; also a note on its placements, empty where none are proven.

    The seed of the problem draws servers and paths.
    """
    fabric, seed = rated(problem, problem.fabrics[index]), problem.search.seed
    assert fabric.server_gbps is not None
    partitioned = fabric.kind == PARTITIONED
    group = server_groups(problem.layer) if partitioned else np.zeros(problem.servers, dtype=np.int64)
    work: RunningWork
    if partitioned:
        work = WorkAlone(jobs)
    else:
        links = shared_links(problem.servers, fabric, fabric.server_gbps, seed)
        direct = [problem.direct_gbps(job_class) for job_class in classes]
        work = WorkShared(jobs, classes, fabric, links, direct, problem.contention)
    if not partitioned or fabric.placement in ACROSS_GROUPS:
        scheduling = replace(scheduling, defragment=False)
    placer: Placer
    if fabric.placement == "exact":
        placer = ExactPlacer(problem.layer, classes, seed, stop)
    elif fabric.placement == "spread":
        placer = SpreadPlacer(problem.layer, classes, seed)
    else:
        placer = PLACERS[fabric.placement](group, seed)
    free = np.ones(problem.servers, dtype=bool)
    cluster = ClusterState(
        jobs,
        classes,
        free,
        placer,
        work,
        scheduling,
        switching_s=problem.layer.switching_time_s if partitioned else 0.0,
        look_ahead=partitioned and problem.look_ahead,
    )

    def reason() -> StopReason | None:
        progress(f"{fabric.name}: jobs started", len(cluster.record.job), len(jobs))
        return stop.reason()

    stays, finished, _ = simulate(cluster, reason)
    note = placer.note(fabric.name) if isinstance(placer, ExactPlacer) else ""
    return FabricRun(fabric, finished, stays), note


def best_of(goal: Goal, jobs: JobTable, runs: Mapping[str, FabricRun]) -> str:
    """Return the method of least objective among the whole runs, ties by completion time; else the first."""
    complete = {name: run for name, run in runs.items() if run.whole}

    def rank(name: str) -> tuple[float, ...]:
        return tuple(objective_of(ranked, complete[name], jobs).value for ranked in (goal, "mean-completion-time"))

    return min(complete, key=rank) if complete else next(iter(runs))


Runs = Sequence[tuple[FabricRun, str]]


def solve_arrivals(
    problem: SharedCluster, given: tuple[TracedJob, ...] | DrawnJobs, stop: Stop, progress: Progress, keep: Keep
) -> ClusterSearch:
    """Simulate the jobs on every fabric."""
    class_plans, classes, notes = planned_classes(problem, stop)
    raise_any(rate_errors(problem, classes))
    jobs = job_table(given, classes, problem.servers, problem.search.seed)
    run_on = partial(run_on_fabric, problem, classes, jobs, stop, progress)

    def concluded(name: str, runs: Runs) -> ClusterSearch:
        complete = all(run.whole for run, _ in runs) and len(runs) == len(problem.fabrics)
        return ClusterSearch(
            plan=SharedClusterPlan(class_plans, tuple(run.schedule() for run, _ in runs)),
            stopped_by=StopReason.CONVERGED if complete else stop.reason() or StopReason.TIME,
            method=name,
            notes=(*notes, *_shortcomings(problem, runs)),
        )

    def on_incumbent(name: str, runs: Runs) -> None:
        if runs[0][0].finished.any():
            so_far = tuple(runs)
            keep(lambda: concluded(name, so_far))

    name, runs = _runs(problem, stop, run_on, partial(best_of, problem.goal, jobs), on_incumbent)
    if not runs or not runs[0][0].finished.any():
        raise LimitError("the limit came before any job had ended on the first fabric")
    return concluded(name, runs)


def _runs(
    problem: SharedCluster,
    stop: Stop,
    run_on: Callable[[int, Scheduling], tuple[FabricRun, str]],
    best: Callable[[Mapping[str, FabricRun]], str],
    on_incumbent: Callable[[str, Runs], None],
) -> tuple[str, Runs]:
    """Return the way of scheduling, and the runs of the first fabric and of all on which a job ended."""
    method = problem.search.method
    settings = {method: SCHEDULING_METHODS[method].applied(problem.scheduling)}
    first: dict[str, tuple[FabricRun, str]] = {}
    if method == BEST or (method == AS_DECLARED and problem.scheduling.open):
        names = [name for name in SCHEDULING_METHODS if name != BEST and outside(name, problem) is None]
        settings = {name: SCHEDULING_METHODS[name].applied(problem.scheduling) for name in names}
        for name, scheduling in settings.items():
            first[name] = run_on(0, scheduling)
            method = best({name: run for name, (run, _) in first.items()})
            on_incumbent(method, [first[method]])
            if stop.reason() is not None:
                break
    runs = [first[method]] if first else []
    for index in range(len(runs), len(problem.fabrics)):
        if stop.reason() is not None and runs:
            break
        run = run_on(index, settings[method])
        if runs and not run[0].finished.any():  # cut before it says anything
            break
        runs.append(run)
        on_incumbent(method, runs)
    return method, runs


def _shortcomings(problem: SharedCluster, runs: Runs) -> Iterator[str]:
    if len(runs) < len(problem.fabrics):
        missing = ", ".join(fabric.name for fabric in problem.fabrics[len(runs) :])
        yield f"not simulated, as the run was stopped: {missing}"
    for run, _ in runs:
        if not run.whole:
            ended = f"{int(run.finished.sum())} of {len(run.finished)} jobs have ended; the figures are of these"
            yield f"{run.fabric.name}: simulated until {run.until_s:.6g} s, {ended}"
    yield from (note for _, note in runs if note)


def planned_classes(
    problem: SharedCluster, stop: Stop
) -> tuple[tuple[ClassPlan, ...], tuple[JobClass, ...], tuple[str, ...]]:
    """Return the plans of the classes, the classes with their times and bytes, and notes on them.

    Raises:
        CheckError: a plan is rejected (a bug of ours).
    """
    plans: list[ClassPlan] = []
    classes: list[JobClass] = []
    notes: list[str] = []
    for job_class in problem.classes:
        job = job_class.plan
        if job is None:
            classes.append(job_class)
            continue
        seconds = stop.remaining_s()
        options = SolveOptions(time_limit_s=seconds, objective_only=True, timing=Timing(stop.within(seconds), seconds))
        solution = solve(job, options)
        if not solution.check.ok:
            raise CheckError(f"the plan of class {job_class.name} is wrong: {'; '.join(solution.check.violations)}")
        sharing = solution.figures.cluster.link_sharing
        other = None if sharing is job.cluster.link_sharing else sharing
        plans.append(ClassPlan(ShardPlan.of(solution.plan), (), other))
        lower = bounds_of_plan(job)
        classes.append(replace(timed_class(job_class, plans[-1]), lower_bounds=lower))
        text = f"class {job_class.name}: {classes[-1].iteration_ms[0]:.6g} ms an iteration, planned from {job.name}"
        notes.append(f"{text}; no plan takes under {lower[0]:.6g} ms")
    return tuple(plans), tuple(classes), tuple(notes)


def rate_errors(problem: SharedCluster, classes: tuple[JobClass, ...]) -> list[Problem]:
    """Return the times in which the bytes cannot be sent at the rates of the fabrics, now that all have one."""
    fabrics = [rated(problem, fabric) for fabric in problem.fabrics]
    return [
        Problem(
            "shorter than sending the bytes of an iteration takes",
            path=f"classes[{index}].{key}",
            value=f"{time:g}",
            allowed=f"at least {least:g}",
        )
        for index, job_class in enumerate(classes)
        for key, time, least in too_short(job_class, problem.direct_gbps(job_class), fabrics)
    ]


# Jobs at once.


def solve_at_once(
    problem: SharedCluster, jobs: JobsAtOnce, stop: Stop, progress: Progress, keep: Keep
) -> ClusterSearch:
    """Plan every class, and run the drawn jobs together on every fabric; the stop ends it after the run at work.

    Raises:
        InputError: a fabric that is not for this cluster, classes too uneven to run together, or iteration times in
            which the bytes cannot be sent.
        InfeasibleError: a class has no plan.
        LimitError: the time limit came before the first draw was simulated.
    """
    flows = problem.contention == "flows"
    steps = len(problem.classes) * (len(problem.fabrics) if flows else 1)
    total, done = steps + len(jobs.loads) * jobs.repetitions, 0

    def tell(what: str) -> None:
        nonlocal done
        progress(what, done, total)
        done += 1

    notes: tuple[str, ...] = ()
    if flows:
        plans, classes = _planned_flows(problem, stop, tell), problem.classes
        times = times_of(problem, plans, classes)
        _refuse_uneven(problem, times)
    else:
        for job_class in problem.classes:
            tell(f"{job_class.name}: times and bytes")
        plans, classes, notes = planned_classes(problem, stop)
        raise_any(rate_errors(problem, classes))
        times = times_of(problem, plans, classes)

    def concluded(draws: tuple[DrawnRun, ...], reason: StopReason) -> ClusterSearch:
        plan = SharedClusterPlan(plans, draws=len(draws))
        remember(problem, plan, times, draws)
        return ClusterSearch(plan=plan, stopped_by=reason, method=problem.search.method, notes=notes)

    draws: list[DrawnRun] = []
    for load, repetition in draws_of(problem):
        if stop.reason() is not None:
            break
        tell(f"{load} jobs, draw {repetition + 1} of {jobs.repetitions}")
        draw = draw_jobs(jobs, problem.classes, problem.servers, load, repetition, problem.search.seed)
        run = drawn_run(load, repetition, draw, times, lambda: stop.reason() is not None)
        if run is None:
            break
        draws.append(run)
        keep(partial(_kept, concluded, tuple(draws), stop))
    reason = stop.reason()
    if not draws:
        raise LimitError("the time limit was reached before any jobs were run together")
    return concluded(tuple(draws), reason or StopReason.BUDGET)


def _kept(
    concluded: Callable[[tuple[DrawnRun, ...], StopReason], ClusterSearch], draws: tuple[DrawnRun, ...], stop: Stop
) -> ClusterSearch:
    return concluded(draws, stop.reason() or StopReason.TIME)


def _planned_flows(problem: SharedCluster, stop: Stop, tell: Callable[[str], None]) -> tuple[ClassPlan, ...]:
    """Return the plan of every class that names a job, for every fabric.

    A shard gets the co-optimised plan. A shared fabric gets the best strategy for a job that has it to itself on
    servers drawn as those of the jobs are.

    Raises:
        InfeasibleError: no plan satisfies the constraints.
        InputError: a fabric does not exist for the cluster.
        CheckError: the checker rejects the plan of a shard (a bug of ours).
    """
    plans = []
    for index, job_class in enumerate(problem.classes):
        if job_class.plan is None:
            continue
        job, search = job_class.plan, problem.search
        budget = default_budget(job.cluster, job.workload) if search.budget is None else search.budget
        tell(f"{job_class.name}: plan of a shard")
        result = run_method(search.method, job.cluster, job.workload, budget=budget, seed=search.seed, stop=stop)
        rejected = [f"{job_class.name}: {text}" for text in check_plan(job.cluster, job.workload, result.plan)]
        if rejected:
            raise CheckError("\n".join(rejected))
        start, strategies = fabric_job(job.cluster, job.workload, [result.plan.strategy]), []
        for number, fabric in enumerate(problem.fabrics):
            if fabric.kind == PARTITIONED:
                continue
            tell(f"{job_class.name}: strategy on {fabric.name}")
            seed = search.seed * 1_000_003 + 900 + number
            network = class_network(problem, index, fabric)
            best = search_strategy(start, network, proposals=budget, seed=seed, stop=stop).strategy
            strategies.append(best)
        shards = any(fabric.kind == PARTITIONED for fabric in problem.fabrics)
        plans.append(ClassPlan(ShardPlan.of(result.plan) if shards else None, tuple(strategies)))
    return tuple(plans)


def _refuse_uneven(problem: SharedCluster, times: Times) -> None:
    """Refuse jobs of which one would begin again for ever while another does its first iteration."""
    if all(fabric.kind == PARTITIONED for fabric in problem.fabrics):
        return
    rows = [times.alone_ms(i, f) for i in range(len(problem.classes)) for f in range(len(problem.fabrics))]
    if max(rows) > MOST_UNEVEN * min((time for time in rows if time > 0), default=0.0) > 0:
        text = f"{min(rows):.3g} to {max(rows):.3g} ms"
        allowed = f"iteration times within a factor of {MOST_UNEVEN}"
        raise InputError([Problem("classes too uneven to run together", path="classes", value=text, allowed=allowed)])


# From a search to a result.


def assemble(problem: SharedCluster, search: ClusterSearch, effort: Effort) -> Result[Any, Any]:
    """Return the result of a search, not checked yet; its bound is what the checker derives.

    Raises:
        CheckError: the objective is better than the bound (a bug of ours).
    """
    figures = SharedClusterFigures(problem, search.plan)
    objective = figures.objective
    if figures.at_once:
        bound = at_once_bound(figures)
        verdict = settle(objective.value, (bound,), Tolerance.EVENTS, rounding=Tolerance.EVENTS, conclusive=False)
    else:
        run, bounded = figures.runs[0], replace(problem, classes=bounded_classes(figures.classes))
        bound = shared_bound(bounded, run.fabric, figures.jobs, run.finished)
        mean_s = max(float(np.mean(finished_times(run, figures.jobs)[2])), np.spacing(1.0))
        rounding = float(4 * np.spacing(run.until_s) / mean_s * abs(objective.value))
        verdict = settle(objective.value, (bound,), Tolerance.ROUNDING, absolute=rounding, conclusive=run.whole)
    return concluded(problem, search, objective, verdict, problem.search.seed)


def bounded_classes(classes: Sequence[JobClass]) -> tuple[JobClass, ...]:
    """Return the classes, the planned ones with what no plan beats."""
    return tuple(
        job_class if job_class.plan is None else replace(job_class, lower_bounds=bounds_of_plan(job_class.plan))
        for job_class in classes
    )


def at_once_bound(figures: SharedClusterFigures) -> Bound:
    """Return the mean of the bounds of the classes on the first fabric, over the jobs of the largest load."""
    problem = figures.problem
    fullest = max(run.load for run in figures.draws)
    used = {index for run in figures.draws if run.load == fullest for index in run.classes}
    least = {index: _least_ms(figures, index) for index in sorted(used)}
    rows = [least[index] for run in figures.draws if run.load == fullest for index in run.classes]
    assert problem.at_once is not None
    return Bound(float(np.mean(rows)), Argument.CLASS_BOUNDS)


def _least_ms(figures: SharedClusterFigures, index: int) -> float:
    """Return what no plan of a class beats alone on the first fabric, ms."""
    problem, job_class = figures.problem, figures.classes[index]
    fabric, job = figures.fabrics[0], job_class.plan
    if problem.contention != "flows":
        if job is not None:
            return least_alone_ms(problem, fabric, bounded_classes([job_class])[0])
        return float(FormulaTimes(problem, figures.classes).times_alone(index, 0).min())
    if job is None:
        return min(job_class.iteration_ms)
    bounds = instance_bounds if fabric.kind == PARTITIONED else compute_bounds
    return max(bound.value for bound in bounds(job.cluster, job.workload))


def _simulated(problem: SharedCluster, effort: Effort) -> ClusterSearch:
    """Run the jobs on every fabric; those that arrive on the first alone where only the objective is wanted."""
    if isinstance(problem.jobs, JobsAtOnce):
        return solve_at_once(problem, problem.jobs, effort.stop, effort.tell, effort.keep)
    first = replace(problem, fabrics=problem.fabrics[:1]) if effort.options.objective_only else problem
    return solve_arrivals(first, problem.jobs, effort.stop, effort.tell, effort.keep)


ARRIVAL_METHODS = table(
    *(Method(name, line.summary, _simulated, partial(outside, name)) for name, line in SCHEDULING_METHODS.items())
)


def _with_flows(name: str, problem: SharedCluster) -> Problem | None:
    """Ways to plan a class differ where its flows are simulated."""
    if problem.contention == "flows":
        return None
    text = "classes whose contention follows a formula are planned one way only"
    return Problem(text, path="search.method", value=repr(name), allowed="auto, or contention: flows")


AT_ONCE_METHODS = table(
    Method("auto", "plans by the usual method for jobs", _simulated),
    *(Method(name, f"plans: {line.summary}", _simulated, partial(_with_flows, name)) for name, line in METHODS.items()),
)


def from_format_2(
    problem: SharedCluster, document: Mapping[str, Any]
) -> tuple[SharedClusterPlan, tuple[Certificate, ...]]:
    """Return the plan of a solution file of format 2.

    Raises:
        ValueError: a class is planned: its plan did not stand in such files.
    """
    planned = [row.name for row in problem.classes if row.plan is not None]
    if planned:
        raise ValueError(f"files of format 2 do not hold the plan of class {planned[0]}; solve it again")
    if problem.at_once is not None:
        return SharedClusterPlan(draws=len(document["draws"])), ()
    schedules = []
    for index, run in enumerate(document["runs"]):
        stays = [row for row in document["stays"] if row[0] == index]
        job = np.array([row[1] for row in stays], dtype=np.int64)
        unfinished = np.intersect1d(np.array(run["unfinished"], dtype=np.int64), job)
        columns = [np.array([row[column] for row in stays], dtype=np.float64) for column in (2, 4, 5)]
        cut_s = float(columns[2].max()) if len(unfinished) else None
        schedules.append(FabricSchedule(job, columns[0], columns[1], tuple(row[6] for row in stays), unfinished, cut_s))
    return SharedClusterPlan((), tuple(schedules)), ()


PARTS = 16
"""The first stay of so many is written to measure how long all take."""


def _excerpt(result: Result[Any, SharedClusterPlan]) -> tuple[Any, int]:
    plan = result.plan
    parts = tuple(_first(schedule, len(schedule) // PARTS) for schedule in plan.schedules)
    return replace(result, plan=replace(plan, schedules=parts)), PARTS


def _first(schedule: FabricSchedule, count: int) -> FabricSchedule:
    return FabricSchedule(
        schedule.job[:count], schedule.start_s[:count], schedule.end_s[:count], schedule.servers[:count]
    )


SOLVER = Solver(
    methods=lambda problem: AT_ONCE_METHODS if problem.at_once else ARRIVAL_METHODS,
    assemble=assemble,
    tables=lambda _: (("jobs that arrive", ARRIVAL_METHODS), ("jobs at once", AT_ONCE_METHODS)),
    excerpt=_excerpt,
)
