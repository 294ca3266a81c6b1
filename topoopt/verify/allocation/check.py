"""The checker of bandwidth allocations: rates, links, what every server sends, bound and fairness, without a solver.

Checked: every stated figure against the rates of the routes; capacities of links and servers; limits and guarantees of
transfers; conservation of every transfer at every server; the bound, evaluated in exact arithmetic; and, for solutions
called optimal, that rates are max-min fair: by bottlenecks where every transfer has one route, by prices where routes
are chosen (see `allocation_fairness`). What cannot be derived again from the file is not believed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from topoopt.core.allocation import AllocationGoal, AllocationProblem, Surplus
from topoopt.core.allocation_solution import AllocationSolution
from topoopt.core.arrays import Floats
from topoopt.core.verdict import Status, StopReason, Tolerance
from topoopt.verify.allocation.bounds import allocation_bound, base_and_gain
from topoopt.verify.allocation.fairness import check_bottlenecks, check_certificates
from topoopt.verify.allocation.tables import check_limits, check_servers, loads_of
from topoopt.verify.laws.bounds import check_claim, check_stated
from topoopt.verify.laws.findings import CheckFindings, ViolationLog, check_identity, check_status, differs
from topoopt.verify.laws.topology import same_topology

RELATIVE = Tolerance.ROUNDING.relative
"""Rounding forgiven in recomputed figures and capacities."""

GUARANTEE_RELATIVE = Tolerance.LINEAR_PROGRAM.relative
"""Part of a guarantee that may be missing: linear programs are solved to about this much."""

BITS = 8e-9
"""Gbit of a byte."""


def check_allocation(problem: AllocationProblem, solution: AllocationSolution) -> CheckFindings:
    """All laws the rates break and all figures that are wrong.

    Never raises, whatever stands in the solution; the instance is taken as valid. The verdict stored in the solution is
    not looked at.
    """
    findings = ViolationLog()
    steps: tuple[tuple[str, str, Callable[[ViolationLog, AllocationProblem, AllocationSolution], None]], ...] = (
        ("identity", "the identity", _check_identity),
        ("rates", "the rates", _check_rates),
        ("capacity", "the loads", _check_loads),
        ("limits", "what limits the rates", check_limits),
        ("servers", "the rates of the servers", check_servers),
        ("objective", "the objective", _check_objective),
        ("bound", "the bound", _check_bound),
    )
    for code, what, step in steps:
        findings.guard(code, what, lambda step=step: step(findings, problem, solution))  # type: ignore[misc]
    fair = problem.goal is not AllocationGoal.MIN_GUARANTEE or problem.surplus is Surplus.MAX_MIN
    if solution.status is Status.OPTIMAL and fair:
        check = check_bottlenecks if problem.single_route else check_certificates
        findings.guard("max-min", "the fairness", lambda: check(findings, problem, solution))
    return findings.findings()


def _check_identity(findings: ViolationLog, problem: AllocationProblem, solution: AllocationSolution) -> None:
    rows = (("goal", solution.goal, problem.goal.value), ("surplus", solution.surplus, problem.surplus.value))
    check_identity(findings, problem, solution, *rows)
    same_topology(findings, solution.topology, problem.topology)
    if not np.array_equal(solution.capacity_gbps, problem.capacity_gbps):
        findings.add("topology", "the solution has other capacities than the instance")


def _check_rates(findings: ViolationLog, problem: AllocationProblem, solution: AllocationSolution) -> None:
    if len(solution.transfers) != len(problem.transfers):
        raise ValueError(f"{len(solution.transfers)} transfers, the instance has {len(problem.transfers)}")
    for transfer, got in zip(problem.transfers, solution.transfers, strict=True):
        own = (transfer.name, transfer.source, transfer.destination)
        if (got.name, got.source, got.destination) != own:
            findings.add("transfer", f"{got.name} {got.source} -> {got.destination} stands where {own} is due")
        if len(got.route_gbps) != len(transfer.routes):
            findings.add("rates", f"{transfer.name}: {len(got.route_gbps)} routes, it has {len(transfer.routes)}")
        if any(not (np.isfinite(rate) and rate >= 0) for rate in got.route_gbps):
            findings.add("rates", f"{transfer.name}: a rate that is negative or not finite")
        if not got.rate_gbps <= transfer.max_gbps * (1 + RELATIVE):
            findings.add("limit", f"{transfer.name}: {got.rate_gbps!r} Gbit/s, at most {transfer.max_gbps!r}")
        if not got.rate_gbps >= transfer.min_gbps * (1 - GUARANTEE_RELATIVE):
            findings.add("guarantee", f"{transfer.name}: {got.rate_gbps!r} Gbit/s, {transfer.min_gbps!r} guaranteed")
        size, time = transfer.size_bytes, got.completion_time_s
        due = None if size is None or got.rate_gbps <= 0 else size * BITS / got.rate_gbps
        if (time is None) != (due is None) or (time is not None and due is not None and differs(time, due)):
            findings.add("completion-time", f"{transfer.name}: states {time!r} s, its rate gives {due!r}")


def _check_loads(findings: ViolationLog, problem: AllocationProblem, solution: AllocationSolution) -> None:
    shared, load = problem.shared_gbps(), loads_of(problem, solution)
    findings.add_each(
        "capacity",
        np.flatnonzero(~(load <= shared * (1 + RELATIVE))),
        lambda r: f"{problem.shared_name(r)} carries {load.item(r)!r} Gbit/s, at most {shared.item(r)!r}",
    )


def objective_of(problem: AllocationProblem, rates: Floats) -> tuple[str, float, str]:
    """Name, value and unit of the objective of rates float64[T]."""
    if problem.goal is AllocationGoal.COMPLETION_TIME:
        sizes = np.array([transfer.size_bytes or 0.0 for transfer in problem.transfers])
        return "completion_time", float((sizes * BITS / rates).max()), "s"
    if problem.goal is AllocationGoal.MIN_GUARANTEE and problem.surplus is Surplus.SUM:
        weights = np.array([transfer.weight for transfer in problem.transfers])
        return "weighted_total_rate", float(weights @ rates), "Gbit/s"
    base, gain = base_and_gain(problem)
    names = {AllocationGoal.MAX_MIN: "min_rate", AllocationGoal.WEIGHTED: "min_weighted_rate"}
    level = float(((rates - base) / gain).min())
    # A guarantee may be missed by rounding, and what is above it is never negative.
    floor = 0.0 if problem.goal is AllocationGoal.MIN_GUARANTEE else -np.inf
    return names.get(problem.goal, "min_surplus"), max(level, floor), "Gbit/s"


def _check_objective(findings: ViolationLog, problem: AllocationProblem, solution: AllocationSolution) -> None:
    name, value, unit = objective_of(problem, solution.rates_gbps)
    stated = solution.objective
    if (stated.name, stated.unit) != (name, unit):
        findings.add("objective", f"the objective is {stated.name!r} in {stated.unit}, {name!r} in {unit} expected")
    if differs(stated.value, value, RELATIVE, RELATIVE * float(problem.capacity_gbps.max()) if unit != "s" else 0.0):
        findings.add("objective", f"the solution states {name} {stated.value!r}, the rates have {value!r}")


def _check_bound(findings: ViolationLog, problem: AllocationProblem, solution: AllocationSolution) -> None:
    proven = allocation_bound(problem, solution.certificates)
    value = solution.objective.value
    least = problem.goal is AllocationGoal.COMPLETION_TIME
    noise = 0.0 if least else RELATIVE * float(problem.capacity_gbps.max())
    derivations = {proven.argument: partial(float, proven.value)}
    check_stated(findings, solution.bound, derivations, value, maximise=not least, absolute=noise)
    check_claim(findings, solution, (), maximise=not least)
    beaten = value < proven.value * (1 - RELATIVE) if least else value > proven.value * (1 + RELATIVE) + noise
    if beaten or not np.isfinite(value):
        findings.add("bound", f"{solution.objective.name} {value!r} is better than its bound {proven.value!r}")
    whole = solution.stopped_by is StopReason.CONVERGED  # else only the first of several levels may be at its bound
    tolerance = Tolerance.LINEAR_PROGRAM
    check_status(findings, solution, tolerance, maximise=not least, absolute=noise, conclusive=whole)
