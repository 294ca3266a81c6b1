"""The methods for shared clusters: ways of scheduling, or of jobs at once ways to plan a class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from solvers.job.methods import METHODS
from topoopt.core.errors import Problem
from topoopt.core.shared_cluster import Contention, SharedCluster
from topoopt.core.shared_cluster_jobs import JobsAtOnce
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.kinds.kind import Effort, Method, Solver, table
from topoopt.kinds.shared_cluster.arrivals import outside, solve_arrivals
from topoopt.kinds.shared_cluster.at_once import solve_at_once
from topoopt.kinds.shared_cluster.methods import SCHEDULING_METHODS


def _simulated(problem: SharedCluster, effort: Effort) -> SharedClusterSolution:
    """The jobs on every fabric; those that arrive on the first alone where nothing but the objective is asked for.

    Raises:
        InputError: iteration times in which the bytes cannot be sent, a fabric that is not for this cluster.
        InfeasibleError: a class has no plan.
        LimitError: the limit came before any job had ended on the first fabric, or the first draw was simulated.
    """
    if isinstance(problem.jobs, JobsAtOnce):
        return solve_at_once(problem, problem.jobs, effort.stop, effort.tell, effort.keep)
    first = replace(problem, fabrics=problem.fabrics[:1]) if effort.options.objective_only else problem
    return solve_arrivals(first, problem.jobs, effort.stop, effort.tell, effort.keep)


def _assembled(problem: SharedCluster, found: SharedClusterSolution, effort: Effort) -> SharedClusterSolution:
    return found


ARRIVAL_METHODS = table(
    *(Method(name, line.summary, _simulated, partial(outside, name)) for name, line in SCHEDULING_METHODS.items())
)


def _with_flows(name: str, problem: SharedCluster) -> Problem | None:
    """Ways to plan a class differ where its flows are simulated."""
    if problem.contention is Contention.FLOWS:
        return None
    text = "classes whose contention follows a formula are planned one way only"
    return Problem(text, path="search.method", value=repr(name), allowed="auto, or contention: flows")


AT_ONCE_METHODS = table(
    Method("auto", "plans by the usual method for jobs", _simulated),
    *(Method(name, f"plans: {line.summary}", _simulated, partial(_with_flows, name)) for name, line in METHODS.items()),
)


def methods_of(problem: SharedCluster) -> Mapping[str, Method]:
    """The methods for an instance."""
    return AT_ONCE_METHODS if problem.at_once else ARRIVAL_METHODS


PARTS = 16
"""The first stay of so many is written to measure how long all take."""


def _excerpt(solution: SharedClusterSolution) -> tuple[SharedClusterSolution, int]:
    runs = tuple(replace(run, stays=run.stays.first(len(run.stays) // PARTS)) for run in solution.runs)
    return replace(solution, runs=runs), PARTS


SOLVER = Solver(
    methods_of,
    _assembled,
    lambda _: (("jobs that arrive", ARRIVAL_METHODS), ("jobs at once", AT_ONCE_METHODS)),
    excerpt=_excerpt,
)
