"""The one straight line from the jobs of a shared cluster to a checked solution."""

from __future__ import annotations

from dataclasses import replace

from solvers.job.methods import METHODS
from solvers.stop import stop_on_signals
from topoopt.core.errors import InputError, Problem
from topoopt.core.shared_cluster import SharedCluster
from topoopt.core.shared_cluster_jobs import JobsAtOnce
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.kinds.shared_cluster.arrivals import scheduling_problems, solve_arrivals
from topoopt.kinds.shared_cluster.at_once import problems_at_once, solve_at_once
from topoopt.kinds.shared_cluster.fabric_run import Progress
from topoopt.kinds.shared_cluster.methods import SCHEDULING_METHODS
from topoopt.verify.shared_cluster.check import check_shared_cluster


def _quiet(text: str, done: int, total: int) -> None:
    """No progress is shown."""


def search_problems(problem: SharedCluster, method: str) -> list[Problem]:
    """What is wrong with the method and with what only the simulator knows: fabrics, time model."""
    return (problems_at_once if problem.at_once else scheduling_problems)(problem, method)


def methods_of(problem: SharedCluster) -> tuple[str, ...]:
    """Methods for an instance: ways of scheduling, or of jobs at once ways to plan a class."""
    if problem.at_once:
        return ("auto", *METHODS)
    return tuple(method for method in SCHEDULING_METHODS if not search_problems(problem, method))


def solve_shared_cluster(
    problem: SharedCluster,
    *,
    seed: int | None = None,
    time_limit_s: float | None = None,
    method: str | None = None,
    progress: Progress = _quiet,
) -> SharedClusterSolution:
    """Simulate the jobs on every fabric, sum up, bound and check; arguments left out are taken from the instance.

    The time limit and Ctrl-C end the simulation; what was simulated until then is kept. `progress` is told what is
    begun, and how many steps of how many are done.

    Raises:
        InputError: unknown method, fabric or time model, or iteration times in which the bytes cannot be sent.
        InfeasibleError: a class has no plan.
        LimitError: the limit came before any job had ended on the first fabric, or the first draw was simulated.
        KeyboardInterrupt: so did Ctrl-C.
    """
    search = problem.search.but(seed=seed, time_limit_s=time_limit_s, method=method)
    problems = search_problems(problem, search.method)
    if problems:
        raise InputError(problems)
    problem = replace(problem, search=search)
    with stop_on_signals(search.time_limit_s) as stop:
        if isinstance(problem.jobs, JobsAtOnce):
            solution, rejected = solve_at_once(problem, problem.jobs, stop, progress)
        else:
            solution, rejected = solve_arrivals(problem, problem.jobs, stop, progress), []
        progress("checking", 1, 1)
        return solution.judged((*rejected, *check_shared_cluster(problem, solution)))
