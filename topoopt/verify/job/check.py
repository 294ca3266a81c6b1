"""Checking a solution: its plan, every figure it states, and that it does not beat a proven bound."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from math import isfinite

import numpy as np

from topoopt.core.job import CoOptimisation
from topoopt.core.job_solution import JobSolution
from topoopt.core.proofs import Bound
from topoopt.core.solution import Decides
from topoopt.core.verdict import Tolerance
from topoopt.verify.job.critical_path import check_critical_path
from topoopt.verify.job.fabrics.baselines import check_baselines
from topoopt.verify.job.instance_bounds import compute_bounds, instance_bounds
from topoopt.verify.job.joint_bound import check_joint
from topoopt.verify.job.plan import Inspection, PlanFigures, figures_of, inspect_plan
from topoopt.verify.job.plan_bounds import bounds_of
from topoopt.verify.job.prices import book_at_hand, check_prices
from topoopt.verify.job.simulation.budget import EventBudget
from topoopt.verify.job.simulation.iteration import check_iteration
from topoopt.verify.job.stated import check_history, check_operators, check_units
from topoopt.verify.job.strategy_certificate import strategy_bound
from topoopt.verify.job.traffic import BYTES_PER_MS_OF_ONE_GBPS, Traffic
from topoopt.verify.laws.bounds import check_claim, check_stated
from topoopt.verify.laws.findings import (
    BRIEF,
    CheckDepth,
    CheckFindings,
    ViolationLog,
    as_float,
    check_identity,
    check_status,
    differs,
    float_array,
    int_array,
)
from topoopt.verify.laws.schedules import check_choice

ROUNDING = Tolerance.ROUNDING.relative
"""Forgiven when a value is held against a bound, and sums of the same sizes against each other."""
SIMULATED_RELATIVE = Tolerance.EVENTS.relative
"""Rounding forgiven in sums a simulator makes over many events."""


def check_solution(
    instance: CoOptimisation, solution: JobSolution, depth: CheckDepth = BRIEF, bounds: tuple[Bound, ...] | None = None
) -> CheckFindings:
    """All laws the plan breaks, all figures of the solution that are wrong, and every bound it beats.

    Never raises, whatever stands in the solution; the instance is taken as valid. The verdict stored in the solution
    itself is not looked at. `bounds` saves working out `instance_bounds` of this instance again.
    """
    findings, side = ViolationLog(), Decides.NOTHING
    instance = _as_shared(instance, solution)
    cluster, workload = instance.cluster, instance.workload
    findings.guard("identity", "the identity of the solution", lambda: _check_identity(findings, instance, solution))
    findings.guard("objective", "the objective", lambda: _check_time(findings, solution))
    findings.guard("critical-path", "the critical path", lambda: check_critical_path(findings, instance, solution))
    findings.guard("unit", "the units", lambda: check_units(findings, solution))
    findings.guard("convergence", "the convergence", lambda: check_history(findings, instance, solution), side)
    budget, book = EventBudget.of(depth), book_at_hand(solution, depth.book)
    seen, broken = Inspection(), sum(findings.counts.values())

    def plan() -> None:
        nonlocal seen
        seen = inspect_plan(findings, cluster, workload, solution.plan)

    findings.guard("plan-shape", "the plan", plan)
    choice = partial(check_choice, findings, instance.search.allreduce, solution.plan)
    findings.guard("allreduce", "what AllReduces run on", choice)
    sound, lawful = findings.clean, sum(findings.counts.values()) == broken
    parts, traffic = seen.parts, seen.traffic
    if parts is not None:
        findings.guard("operators", "the operators", lambda: check_operators(findings, instance, solution, parts))
    if parts is not None and traffic is not None and lawful:
        iteration = partial(check_iteration, findings, instance, solution, seen, budget)
        findings.guard("iteration-time", "the iteration", iteration)
    figures = figures_of(cluster, seen)
    seen.hops = None  # millions, looked at no more
    if figures is not None and traffic is not None:
        findings.guard("demand", "the demand", lambda: _check_demand(findings, solution, figures, traffic))
        findings.guard("link-bytes", "the link loads", lambda: _check_links(findings, instance, solution, figures))
    proven = instance_bounds(cluster, workload) if bounds is None else bounds

    def certified() -> None:
        nonlocal proven
        proven += _certified(findings, instance, solution)

    findings.guard("certificate", "the certificate", certified)
    tighter = proven
    if parts is not None and traffic is not None:
        on_rings = not solution.plan.schedules
        tighter += bounds_of(cluster, workload, parts, traffic, seen.links if sound else None, on_rings=on_rings)
    findings.guard("bound", "the bound", lambda: _check_bounds(findings, solution, proven, tighter))
    findings.guard("joint", "the joint bound", lambda: check_joint(findings, instance, solution))
    findings.guard("baseline", "the baselines", lambda: _check_baselines(findings, instance, solution), side)
    baselines = partial(check_baselines, findings, instance, solution, book, budget)
    findings.guard("baseline", "the baselines", baselines, side)
    findings.guard("prices", "the prices", lambda: check_prices(findings, instance, solution, book), side)
    return findings.findings()


def _as_shared(instance: CoOptimisation, solution: JobSolution) -> CoOptimisation:
    """The problem with links shared as the solution states, if its plan may have them so; else as is allowed first."""
    allowed = instance.sharings
    stated = getattr(solution.cluster, "link_sharing", None)
    sharing = stated if stated in allowed else allowed[0]
    return replace(instance, cluster=replace(instance.cluster, link_sharing=sharing))


def _check_identity(findings: ViolationLog, instance: CoOptimisation, solution: JobSolution) -> None:
    check_identity(
        findings,
        instance,
        solution,
        ("workload", solution.workload_name, instance.workload.name),
        ("number of samples", solution.samples, instance.workload.samples),
    )
    names = [field.name for field in fields(instance.cluster)]
    own, given = solution.cluster, instance.cluster
    findings.hold("cluster", *((f"cluster.{name}", getattr(own, name), getattr(given, name)) for name in names))


def _check_time(findings: ViolationLog, solution: JobSolution) -> None:
    total = as_float(solution.objective.value)
    if not (isfinite(total) and total >= 0):
        findings.add("objective", f"the iteration takes {solution.objective.value!r} ms")


def _check_demand(findings: ViolationLog, solution: JobSolution, figures: PlanFigures, traffic: Traffic) -> None:
    n = len(figures.model_parallel_bytes)
    stated = float_array(solution.demand.model_parallel_bytes, 2)
    if stated is None or stated.shape != (n, n):
        findings.add("demand", f"model_parallel_bytes must be numbers [{n}, {n}]")
    else:
        given, due = stated.ravel(), figures.model_parallel_bytes.ravel()
        pairs = np.flatnonzero(given != due)
        # A size rounded down from a fraction may come out one byte off.
        agree = np.abs(given[pairs] - due[pairs]) <= ROUNDING * due[pairs] + traffic.inexact.ravel()[pairs]
        findings.add_each(
            "demand",
            pairs[~agree],
            lambda k: f"demand {k // n} -> {k % n} is {given.item(k)!r} bytes, {due.item(k)!r} expected",
        )
    groups: dict[tuple[int, ...], float] = {}
    for group in solution.demand.allreduce:
        members = tuple(sorted(group.members))
        if members in groups:
            findings.add("demand-groups", f"group {list(members)} is listed more than once")
        groups[members] = as_float(group.payload_bytes)
    for members in sorted({*groups, *figures.allreduce_bytes}):
        value, payload = groups.get(members, 0.0), figures.allreduce_bytes.get(members, 0)
        if differs(value, payload):
            findings.add("demand-groups", f"group {list(members)} reduces {value!r} bytes, {payload} expected")


def _check_links(findings: ViolationLog, instance: CoOptimisation, solution: JobSolution, figures: PlanFigures) -> None:
    """Bytes, in the arc order of the topology; no link is busy for longer than the iteration."""
    n = instance.cluster.servers
    topology = solution.plan.topology
    arcs, multiplicity = int_array(topology.arcs, 2), int_array(topology.multiplicity, 1)
    stated = float_array(solution.evaluation.link_bytes, 1)
    if arcs is None or multiplicity is None or arcs.shape != (len(multiplicity), 2):
        return  # reported with the topology
    if stated is None or len(stated) != len(arcs):
        findings.add("link-bytes", f"link_bytes must be numbers [{len(arcs)}], one per arc")
        return
    if ((arcs < 0) | (arcs >= n)).any() or (multiplicity < 1).any():
        return  # reported with the topology
    tail, head = arcs[:, 0], arcs[:, 1]
    expected = figures.link_bytes[tail, head]
    # Every transfer or AllReduce may be rounded to whole bytes once per link.
    agree = np.abs(stated - expected) <= SIMULATED_RELATIVE * expected + figures.link_messages[tail, head]
    findings.add_each(
        "link-bytes",
        np.flatnonzero(~agree),
        lambda m: f"link {tail[m]} -> {head[m]} carries {stated.item(m)!r} bytes, {expected.item(m)!r} expected",
    )
    total = as_float(solution.objective.value)
    busy = stated / (multiplicity * instance.cluster.link_gbps * BYTES_PER_MS_OF_ONE_GBPS)
    findings.add_each(
        "link-utilisation",
        np.flatnonzero(~(busy <= total * (1 + SIMULATED_RELATIVE))),
        lambda m: f"link {tail[m]} -> {head[m]} is busy for {busy.item(m)!r} ms, the iteration takes {total!r}",
    )


def _check_bounds(
    findings: ViolationLog, solution: JobSolution, proven: tuple[Bound, ...], tighter: tuple[Bound, ...]
) -> None:
    """A value better than a bound is an error; so is a bound better than its proof."""
    value, stated = as_float(solution.objective.value), as_float(solution.bound.value)
    for bound in tighter:
        if not value >= bound.value * (1 - ROUNDING):
            findings.add("bound", f"the objective {value!r} beats the lower bound {bound.value!r} ({bound.proved_by})")
    initial = None if solution.initial_ms is None else as_float(solution.initial_ms)
    for bound in proven:
        if initial is not None and not initial >= bound.value * (1 - ROUNDING):
            findings.add("bound", f"the first plan's {initial!r} beats the lower bound {bound.value!r}")
    derivations = {bound.argument: partial(float, bound.value) for bound in proven}
    check_stated(findings, solution.bound, derivations, value, code="bound-claim")
    check_claim(findings, solution, ())
    if not 0 <= stated <= value * (1 + ROUNDING):
        findings.add("gap", f"the bound {stated!r} is not between 0 and the objective {value!r}")
    expected = (value - stated) / value if value > 0 else 0.0
    if differs(as_float(solution.gap), expected, absolute=1e-12):
        findings.add("gap", f"the gap is {solution.gap!r}, {expected!r} expected")
    check_status(findings, solution, Tolerance.ROUNDING)


def _certified(findings: ViolationLog, instance: CoOptimisation, solution: JobSolution) -> tuple[Bound, ...]:
    """What the proof that comes with the solution proves; nothing if there is none."""
    if solution.certificate is None:
        return ()
    try:
        return (strategy_bound(instance.cluster, instance.workload, solution.certificate),)
    except ValueError as error:
        findings.add("certificate", str(error))
        return ()


def _check_baselines(findings: ViolationLog, instance: CoOptimisation, solution: JobSolution) -> None:
    """Other fabrics have other bandwidths, so only bounds on compute bind them."""
    bounds = compute_bounds(instance.cluster, instance.workload)
    for baseline in solution.baselines:
        value = as_float(baseline.iteration_time_ms)
        if not isfinite(value):
            findings.add("baseline", f"{baseline.fabric} takes {baseline.iteration_time_ms!r} ms")
        for bound in bounds:
            if value < bound.value * (1 - ROUNDING):
                findings.add("baseline", f"{baseline.fabric}'s {value!r} ms beat the bound {bound.value!r}")
