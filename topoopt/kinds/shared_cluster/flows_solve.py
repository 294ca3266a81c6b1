"""The one straight line from a shared-load instance to a checked solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from solvers.job.methods import METHODS
from solvers.stop import Stop, stop_on_signals
from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.core.job import FabricChoice
from topoopt.core.search_settings import SearchSettings
from topoopt.core.shared_load import SHARDS, SharedLoadProblem
from topoopt.core.shared_load_solution import ClassPlan, SharedLoadSolution, Together
from topoopt.core.solution import UNCHECKED, Bound, Objective
from topoopt.core.verdict import StopReason, Tolerance, settle
from topoopt.core.versions import versions
from topoopt.kinds.shared_cluster.flows_draw import Draw, draw_jobs
from topoopt.kinds.shared_cluster.flows_plans import Planned, fabric_options, plan_class
from topoopt.kinds.shared_cluster.flows_statistics import load_statistics, mean
from topoopt.simulate.cluster.together import TOGETHER_MODELS, PlacedJob, simulate_together
from topoopt.simulate.fabrics import FABRICS
from topoopt.simulate.fabrics.chosen import choice_problems
from topoopt.verify.shared_cluster.shared_load import check_shared_load

Progress = Callable[[str, int, int], None]
"""Called with (what is begun, steps done, steps in all)."""

MOST_UNEVEN = 100_000
"""Iterations of one job during one of another: about a minute of simulation."""


def search_problems(problem: SharedLoadProblem, search: SearchSettings) -> list[Problem]:
    """Names of fabrics, method and time model that do not exist."""
    shared = [(place, each) for place, each in enumerate(problem.fabrics) if each.fabric != SHARDS]
    problems = [
        replace(found, path=f"fabrics[{shared[int(where[0])][0]}].{where[1]}")
        for where, found in choice_problems([each for _, each in shared])
    ]
    for path, value, table in (
        ("search.method", search.method, ("auto", *METHODS)),
        ("time_model", problem.time_model, tuple(TOGETHER_MODELS)),
    ):
        if value not in table:
            problems.append(Problem("no such name", path=path, value=repr(value), allowed=", ".join(table)))
    return problems


def solve_shared_load(
    problem: SharedLoadProblem,
    *,
    seed: int | None = None,
    time_limit_s: float | None = None,
    method: str | None = None,
    progress: Progress | None = None,
) -> SharedLoadSolution:
    """Plan every class for every fabric, run the drawn jobs together, sum up and check.

    Arguments left out are taken from the instance. Ctrl-C and the time limit end it after the run at work; the draws
    simulated so far are kept.

    Raises:
        InputError: a fabric, method or time model does not exist, or a fabric not for this cluster.
        InfeasibleError: a class has no plan.
        LimitError: the time limit came before the first draw was simulated.
        KeyboardInterrupt: so did Ctrl-C.
    """
    search = problem.search.but(seed=seed, time_limit_s=time_limit_s, method=method)
    problems = search_problems(problem, search)
    if problems:
        raise InputError(problems)
    problem = replace(problem, search=search)
    total = len(problem.classes) * len(problem.fabrics) + len(problem.loads) * problem.repetitions
    done = 0

    def tell(what: str) -> None:
        nonlocal done
        if progress is not None:
            progress(what, done, total)
        done += 1

    with stop_on_signals(search.time_limit_s) as stop:
        planned: list[list[Planned]] = []
        rejected: list[str] = []
        for index in range(len(problem.classes)):
            plans, violations = plan_class(problem, index, search, stop, tell)
            planned.append(plans)
            rejected += violations
        _refuse_uneven(problem, planned)
        runs = _runs(problem, planned, stop, tell)
        reason = stop.reason()
    if not runs:
        if reason is StopReason.INTERRUPTED:
            raise KeyboardInterrupt
        raise LimitError("the time limit was reached before any jobs were run together")
    return _assemble(problem, planned, runs, rejected, reason)


def _refuse_uneven(problem: SharedLoadProblem, planned: Sequence[Sequence[Planned]]) -> None:
    """Refuse jobs of which one would begin again for ever while another does its first iteration.

    Raises:
        InputError: iteration times alone are more than `MOST_UNEVEN` apart.
    """
    if all(choice.fabric == SHARDS for choice in problem.fabrics):
        return
    alone = [each.plan.alone_ms for plans in planned for each in plans]
    if max(alone) > MOST_UNEVEN * min((time for time in alone if time > 0), default=0.0) > 0:
        text = f"{min(alone):.3g} to {max(alone):.3g} ms"
        allowed = f"iteration times within a factor of {MOST_UNEVEN}"
        raise InputError([Problem("classes too uneven to run together", path="classes", value=text, allowed=allowed)])


def _runs(
    problem: SharedLoadProblem, planned: Sequence[Sequence[Planned]], stop: Stop, tell: Callable[[str], None]
) -> list[Together]:
    """All draws, the loads in turn, so that an early end leaves as many of each."""
    runs: list[Together] = []
    for repetition in range(problem.repetitions):
        for load in problem.loads:
            if stop.reason() is not None:
                return runs
            tell(f"{load} jobs, draw {repetition + 1} of {problem.repetitions}")
            draw = draw_jobs(problem, load, repetition, problem.search.seed)
            times = []
            for place, choice in enumerate(problem.fabrics):
                if stop.reason() is not None:
                    return runs
                times.append(_times(problem, planned, draw, place, choice))
            runs.append(Together(load, repetition, draw.classes, draw.servers, tuple(times)))
    return runs


def _times(
    problem: SharedLoadProblem,
    planned: Sequence[Sequence[Planned]],
    draw: Draw,
    place: int,
    choice: FabricChoice,
) -> tuple[float, ...]:
    """First iteration of each job of a draw on one fabric, ms."""
    if choice.fabric == SHARDS:
        return tuple(
            _sampled(problem.classes[index].times_ms, sample) or planned[index][place].plan.alone_ms
            for index, sample in zip(draw.classes, draw.sample, strict=True)
        )
    jobs = []
    for index, servers in zip(draw.classes, draw.servers, strict=True):
        graph = planned[index][place].graph
        if graph is None:
            raise ValueError("a class without a job on a fabric that jobs share")
        jobs.append(PlacedJob(graph, servers))
    options = fabric_options(choice, draw.routes_seed)
    first = simulate_together(jobs, problem.cluster, FABRICS[choice.fabric].build, options, problem.time_model)
    return tuple(float(time) for time in first)


def _sampled(times_ms: Sequence[float], sample: float) -> float | None:
    """One of the given times."""
    return times_ms[min(int(sample * len(times_ms)), len(times_ms) - 1)] if times_ms else None


def _described(problem: SharedLoadProblem, choice: FabricChoice) -> str:
    cluster = problem.cluster
    if choice.fabric == SHARDS:
        return (
            f"every job on a topology of its own, {cluster.degree} interfaces of {cluster.link_gbps:g} Gbit/s a server"
        )
    return FABRICS[choice.fabric].describe(cluster, fabric_options(choice, 0))


def _assemble(
    problem: SharedLoadProblem,
    planned: Sequence[Sequence[Planned]],
    runs: Sequence[Together],
    rejected: Sequence[str],
    reason: StopReason | None,
) -> SharedLoadSolution:
    names = [choice.name for choice in problem.fabrics]
    class_names = tuple(one.name for one in problem.classes)
    plans: tuple[ClassPlan, ...] = tuple(
        planned[index][place].plan for place in range(len(names)) for index in range(len(class_names))
    )
    statistics = load_statistics(names, class_names, plans, runs)
    fullest = max(run.load for run in runs)
    bounds = [plans[index].bound_ms for run in runs if run.load == fullest for index in run.classes]
    value = next(row.mean_ms for row in statistics if row.load == fullest and row.fabric == names[0])
    bound, status = settle(value, mean(bounds), Tolerance.EVENTS, rounding=Tolerance.EVENTS, conclusive=False)
    solution = SharedLoadSolution(
        name=problem.name,
        status=status,
        stopped_by=reason or StopReason.BUDGET,
        objective=Objective("mean_iteration_time", value, "ms"),
        bound=Bound(bound, "bounds of the classes"),
        check=UNCHECKED,
        seed=problem.search.seed,
        method=problem.search.method,
        servers=problem.cluster.servers,
        time_model=problem.time_model,
        placement=problem.placement.value,
        rank_order=problem.rank_order.value,
        fabrics=tuple((choice.name, _described(problem, choice)) for choice in problem.fabrics),
        class_names=class_names,
        plans=plans,
        runs=tuple(runs),
        statistics=statistics,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=problem.notes,
    )
    return solution.judged((*rejected, *check_shared_load(problem, solution)))
