"""The critical path of an iteration: a chain of steps that ends with it, compute as long as the workload says."""

from __future__ import annotations

from topoopt.core.job import CoOptimisation
from topoopt.core.job_solution import JobSolution
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.findings import ViolationLog, as_float, differs

RELATIVE = Tolerance.EVENTS.relative
"""Rounding forgiven in times that a simulator adds up over many events."""

COMPUTE = frozenset({"forward", "backward"})
KINDS = COMPUTE | {"transfer", "allreduce"}


def check_critical_path(findings: ViolationLog, instance: CoOptimisation, solution: JobSolution) -> None:
    """Steps one after another, the last of which ends the iteration."""
    path, total = solution.evaluation.critical_path, as_float(solution.objective.value)
    slack, reached = RELATIVE * total, 0.0
    for step in path:
        start, end = as_float(step.start_ms), as_float(step.end_ms)
        if step.kind not in KINDS or not reached - slack <= start <= end + slack:
            findings.add("critical-path", f"{step.kind} {step.label} from {start!r} to {end!r} ms follows {reached!r}")
            return
        reached = end
    if differs(reached, total, RELATIVE):
        findings.add("critical-path", f"the critical path ends at {reached!r} ms, the iteration at {total!r}")
    _check_compute(findings, instance, solution)


def _check_compute(findings: ViolationLog, instance: CoOptimisation, solution: JobSolution) -> None:
    """Every compute step lasts as long as the workload says of the split that was chosen."""
    chosen = zip(instance.workload.operators, solution.plan.strategy.placements, strict=True)
    splits = {operator.name: operator.splits[placement.split] for operator, placement in chosen}
    slack = RELATIVE * as_float(solution.objective.value)
    for step in solution.evaluation.critical_path:
        if step.kind not in COMPUTE:
            continue
        lasts = as_float(step.end_ms) - as_float(step.start_ms)
        due = splits[step.label].forward_ms if step.kind == "forward" else splits[step.label].backward_ms
        if not abs(lasts - due) <= slack:
            findings.add("critical-path", f"{step.kind} of {step.label} takes {lasts!r} ms, the workload says {due!r}")
