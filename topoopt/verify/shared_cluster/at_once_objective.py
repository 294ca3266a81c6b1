"""Objective and bound of jobs at once, recomputed from the times."""

from __future__ import annotations

import math
from functools import partial

from topoopt.core.proofs import Argument
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.core.verdict import Status, Tolerance
from topoopt.verify.laws.bounds import check_claim, check_stated
from topoopt.verify.laws.findings import ViolationLog, differs

RELATIVE = Tolerance.ROUNDING.relative


def _mean_ms(solution: SharedClusterSolution, load: int) -> float:
    """Of the times on the first fabric of all draws of a load."""
    times = [time for run in solution.draws if run.load == load for time in run.times_ms[0]]
    return math.fsum(times) / len(times)


def check_at_once_objective(findings: ViolationLog, solution: SharedClusterSolution) -> None:
    """The mean at the largest load, and the mean of the bounds of the classes of these jobs."""
    largest = max(run.load for run in solution.draws)
    value = _mean_ms(solution, largest)
    named = (solution.objective.name, solution.objective.unit) == ("mean_iteration_time", "ms")
    if not named or differs(solution.objective.value, value, RELATIVE):
        findings.add("objective", f"{solution.objective.value} ms stated, {value} ms from the times")
    bounds = [solution.plans[index].bound for run in solution.draws if run.load == largest for index in run.classes]
    mean = math.fsum(bound.value for bound in bounds) / len(bounds)
    check_stated(findings, solution.bound, {Argument.CLASS_BOUNDS: partial(float, mean)}, value)
    check_claim(findings, solution, ())
    if solution.status is Status.OPTIMAL:
        findings.add("status", "called optimal, where only the largest load has a bound")
