"""The independent checker: violations of plans and solutions, and lower bounds that no plan can beat.

Shares no code with what it checks: it rebuilds everything from the plain fields of `topoopt.core`.
"""

from topoopt.verify.job.instance_bounds import best_bound, compute_bounds, instance_bounds
from topoopt.verify.job.plan import PlanFigures, check_plan, plan_figures
from topoopt.verify.job.plan_bounds import plan_bounds
from topoopt.verify.job.solution import check_solution
from topoopt.verify.laws.findings import Violation

__all__ = [
    "PlanFigures",
    "Violation",
    "best_bound",
    "check_plan",
    "check_solution",
    "compute_bounds",
    "instance_bounds",
    "plan_bounds",
    "plan_figures",
]
