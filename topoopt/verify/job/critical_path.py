"""The critical path of an iteration: a chain of steps that adds up to the iteration time, compute as long as stated."""

from __future__ import annotations

from topoopt.core.job import CoOptimisation
from topoopt.core.job_solution import Evaluation, JobSolution, Span
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.findings import ViolationLog, as_float, differs

RELATIVE = Tolerance.EVENTS.relative
"""Rounding forgiven in times that a simulator adds up over many events."""

TERMS = {
    "forward": "compute_ms",
    "backward": "compute_ms",
    "transfer": "model_parallel_ms",
    "allreduce": "allreduce_ms",
}
"""Term of the breakdown that a step of each kind counts for."""


def check_critical_path(findings: ViolationLog, instance: CoOptimisation, solution: JobSolution) -> None:
    """Steps one after another, the last of which ends the iteration, and whose lengths are the breakdown."""
    evaluation: Evaluation = solution.evaluation
    total = as_float(evaluation.iteration_time_ms)
    slack = RELATIVE * total
    added = added_up(findings, evaluation.critical_path, slack)
    if added is None:
        return
    reached, spent = added
    if differs(reached, total, RELATIVE):
        findings.add("critical-path", f"the critical path ends at {reached!r} ms, the iteration at {total!r}")
    for name, value in spent.items():
        stated = as_float(getattr(evaluation.breakdown, name))
        if not abs(stated - value) <= slack:
            findings.add("breakdown", f"{name} is {stated!r}, the steps of the critical path take {value!r}")
    _check_compute(findings, instance, solution)


def added_up(findings: ViolationLog, path: tuple[Span, ...], slack: float) -> tuple[float, dict[str, float]] | None:
    """Where a chain of steps ends, ms, and what it spends on each term; None if it is no chain."""
    spent = dict.fromkeys(TERMS.values(), 0.0)
    reached = 0.0
    for step in path:
        start, end = as_float(step.start_ms), as_float(step.end_ms)
        if step.kind not in TERMS or not reached - slack <= start <= end + slack:
            findings.add("critical-path", f"{step.kind} {step.label} from {start!r} to {end!r} ms follows {reached!r}")
            return None
        reached = end
        spent[TERMS[step.kind]] += end - start
    return reached, spent


def _check_compute(findings: ViolationLog, instance: CoOptimisation, solution: JobSolution) -> None:
    """Every compute step lasts as long as the workload says of the split that was chosen."""
    chosen = zip(instance.workload.operators, solution.plan.strategy.placements, strict=True)
    splits = {operator.name: operator.splits[placement.split] for operator, placement in chosen}
    slack = RELATIVE * as_float(solution.evaluation.iteration_time_ms)
    for step in solution.evaluation.critical_path:
        if TERMS[step.kind] != "compute_ms":
            continue
        lasts = as_float(step.end_ms) - as_float(step.start_ms)
        due = splits[step.label].forward_ms if step.kind == "forward" else splits[step.label].backward_ms
        if not abs(lasts - due) <= slack:
            findings.add("critical-path", f"{step.kind} of {step.label} takes {lasts!r} ms, the workload says {due!r}")
