"""The independent checker: violations of plans and solutions, and lower bounds that no plan can beat.

Shares no code with what it checks: it rebuilds everything from the plain fields of `topoopt.core`.
"""

from topoopt.verify.findings import Violation
from topoopt.verify.instance_bounds import best_bound, compute_bounds, instance_bounds
from topoopt.verify.plan import PlanFigures, check_plan, plan_figures
from topoopt.verify.plan_bounds import plan_bounds
from topoopt.verify.solution import check_solution

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
