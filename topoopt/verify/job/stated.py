"""Figures of a solution that the strategy alone decides, without a simulation, and what it says of its search."""

from __future__ import annotations

from itertools import pairwise

from topoopt.core.job import CoOptimisation
from topoopt.core.job_solution import JobSolution
from topoopt.core.verdict import Tolerance
from topoopt.verify.job.parts import Parts
from topoopt.verify.job.traffic import GRADIENT_BYTES
from topoopt.verify.laws.findings import ViolationLog, as_float, as_int, differs

TIME_MODEL, OBJECTIVE, UNIT = "rounds", "iteration_time", "ms"
"""What all figures of a job are in."""


def check_units(findings: ViolationLog, solution: JobSolution) -> None:
    """Objective, unit and time model are those that the figures are computed in."""
    rows = (
        ("objective.name", solution.objective.name, OBJECTIVE),
        ("objective.unit", solution.objective.unit, UNIT),
        ("evaluation.time_model", solution.evaluation.time_model, TIME_MODEL),
    )
    for name, stated, due in rows:
        if stated != due:
            findings.add("unit", f"{name} is {stated!r}, figures of a job are in {due!r}")


def check_operators(
    findings: ViolationLog, instance: CoOptimisation, solution: JobSolution, parts: tuple[Parts, ...]
) -> None:
    """The strategy in words: a row an operator, each as the plan and the workload have it."""
    operators, rows = instance.workload.operators, solution.operators
    if len(rows) != len(operators):
        findings.add("operators", f"{len(rows)} rows for {len(operators)} operators")
        return
    for operator, row, own in zip(operators, rows, parts, strict=True):
        ways = own.split
        label = f"x{ways.sample_ways}"
        label += f" ch{ways.channel_ways}" if ways.channel_ways > 1 else ""
        label += f" red{ways.reduce_ways}" if ways.reduce_ways > 1 else ""
        for name, due in (
            ("name", operator.name),
            ("kind", operator.kind),
            ("split", label),
            ("servers", tuple(own.server.tolist())),
            ("forward_ms", ways.forward_ms),
            ("backward_ms", ways.backward_ms),
            ("weight_bytes", GRADIENT_BYTES * sum(operator.weight_elements)),
            ("memory_bytes", ways.server_memory_bytes),
        ):
            stated = getattr(row, name)
            if stated != due:
                findings.add("operators", f"{name} of {operator.name} is {stated!r}, the plan has {due!r}")


def check_history(findings: ViolationLog, instance: CoOptimisation, solution: JobSolution) -> None:
    """Progress of the search: it only falls, and ends with the plan; a robust design may end above it.

    The plans of the way are not in the solution, so their times cannot be computed again.
    """
    points, value = solution.convergence, as_float(solution.objective.value)
    findings.leave_out("first plan, progress of the search", "plans that the search passed are not in the solution")
    made = [as_int(point.proposals) for point in points]
    best = [as_float(point.best_ms) for point in points]
    if any(number is None or number < 0 for number in made) or sorted(made, key=lambda x: x or 0) != made:
        findings.add("convergence", "the proposals of the search are not in ascending order")
    if any(not after < before for before, after in pairwise(best)):
        findings.add("convergence", "the search notes a time that is no better than the one before")
    robust = instance.search.robust is not None or solution.method == "robust"
    if not best:
        findings.add("convergence", "the search notes no time at all")
    elif differs(best[-1], value, Tolerance.EVENTS.relative) and not (robust and value > best[-1]):
        findings.add("convergence", f"the search ends at {best[-1]!r} ms, the plan takes {value!r}")
    if solution.initial_ms is None:
        if instance.cluster.gpu_memory_bytes is None:
            findings.add("convergence", "no time of the first plan, which no limit of memory rules out")
        return
    first = as_float(solution.initial_ms)
    if best and not first >= best[0] * (1 - Tolerance.EVENTS.relative):
        findings.add("convergence", f"the first plan takes {first!r} ms, the search begins at {best[0]!r}")
