"""The proofs in a hierarchical solution, evaluated again: bound, prices of bandwidth, front of time and cost."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from topoopt.core.hierarchy import Design, HierarchicalObjective, HierarchicalProblem
from topoopt.core.hierarchy_solution import BandwidthCertificate, HierarchicalSolution, ParetoPoint
from topoopt.core.verdict import Status, StopReason, Tolerance, meets
from topoopt.verify.hierarchy.bounds import CertificateError, certified_bound, marginal_ns
from topoopt.verify.hierarchy.formula import formula_bound
from topoopt.verify.hierarchy.laws import RELATIVE, broken_laws, differs_by
from topoopt.verify.hierarchy.times import fleet_time_ns, network_cost_usd
from topoopt.verify.laws.findings import ViolationLog

MAX_ENUMERATED = 100_000
"""Combinations of speeds up to which all are tried."""


def check_bound(findings: ViolationLog, problem: HierarchicalProblem, solution: HierarchicalSolution) -> None:
    value, bound = solution.objective.value, solution.bound.value
    discrete = _discrete(problem.designs[solution.design])
    if not bound <= value * (1 + RELATIVE):
        findings.add("bound", f"the objective {value!r} is below its bound {bound!r}")
    tolerance = Tolerance.LINEAR_PROGRAM if discrete else Tolerance.TANGENTS
    if solution.status is Status.OPTIMAL and not meets(value, bound, tolerance):
        findings.add("status", f"called optimal with objective {value!r} and bound {bound!r}")
    if len({(proof.design, proof.too_slow) for proof in solution.proofs}) < len(solution.proofs):
        findings.add("proof", "two proofs of one design")
    proven = [formula_bound(problem, design) for design in problem.designs]
    for proof in solution.proofs:
        if not 0 <= proof.design < len(proven):
            findings.add("proof", f"a proof of design {proof.design}, which does not exist")
            continue
        try:
            own = _proven(problem, problem.designs[proof.design], proof.certificate, proof.too_slow, value)
        except CertificateError as error:
            findings.add("proof", f"the proof of design {proof.design} proves nothing: {error}")
            continue
        proven[proof.design] = max(proven[proof.design], own)
    for place, design in enumerate(problem.designs):
        own = proven[place]
        if _discrete(design):
            own = max(own, _by_speeds(problem, design, bound))
        if not bound <= own * (1 + RELATIVE):
            findings.add("bound", f"design {place}: {own!r} is proven, not {bound!r}")


def _discrete(design: Design) -> bool:
    """Whether some speeds come from a catalogue."""
    return any(one.speeds_gbytes_per_s for one in design.network.dimensions)


def check_marginals(findings: ViolationLog, problem: HierarchicalProblem, solution: HierarchicalSolution) -> None:
    stated = solution.marginal_ns
    proof = next((one for one in solution.proofs if one.design == solution.design and not one.too_slow), None)
    if stated is None or proof is None or _discrete(problem.designs[solution.design]):
        if (stated is None) != (proof is None or _discrete(problem.designs[solution.design])):
            findings.add("marginal", "prices of bandwidth belong to a proof of the design, where any speed may be set")
        return
    design = problem.designs[solution.design]
    expected = marginal_ns(problem, design, proof.certificate, solution.bandwidth_gbytes_per_s)
    if len(stated) != len(expected) or any(differs_by(a, b, 1e-6) for a, b in zip(stated, expected, strict=True)):
        findings.add("marginal", f"one more GB/s is worth {expected} ns at the margin, not {list(stated)}")


def _proven(
    problem: HierarchicalProblem, design: Design, certificate: BandwidthCertificate, too_slow: bool, best: float
) -> float:
    if not too_slow:
        return certified_bound(problem, design, certificate, best)
    limit = problem.time_limit_ns
    if problem.objective is not HierarchicalObjective.COST or limit is None:
        raise CertificateError("there is no time limit")
    as_time = replace(problem, objective=HierarchicalObjective.TIME, time_limit_ns=None)
    return math.inf if certified_bound(as_time, design, certificate, math.inf) > limit else -math.inf


def _by_speeds(problem: HierarchicalProblem, design: Design, bound: float) -> float:
    """The least objective over all combinations of speeds where they can be tried, else branch and bound's word."""
    options = [one.speeds_gbytes_per_s for one in design.network.dimensions]
    if not all(options) or math.prod(len(one) for one in options) > MAX_ENUMERATED:
        return bound
    least = math.inf
    for bandwidth in itertools.product(*options):
        cost = network_cost_usd(design.network, bandwidth)
        if problem.cost_cap_usd is not None and (cost is None or cost > problem.cost_cap_usd * (1 + RELATIVE)):
            continue
        if broken_laws(design.network, bandwidth):
            continue
        if problem.objective is HierarchicalObjective.COST and (cost is None or cost >= least):
            continue
        time = fleet_time_ns(design, problem.fleet, bandwidth)
        if problem.objective is HierarchicalObjective.COST:
            if time <= (problem.time_limit_ns or math.inf) * (1 + RELATIVE):
                least = cost or 0.0
        else:
            least = min(least, time if problem.objective is HierarchicalObjective.TIME else time * (cost or 0.0))
    return least


def check_front(
    findings: ViolationLog, problem: HierarchicalProblem, design: Design, solution: HierarchicalSolution
) -> None:
    count, most = len(solution.pareto), problem.pareto_points
    if count > most or (most and not count and solution.stopped_by is StopReason.CONVERGED):
        findings.add("pareto", f"{count} points, up to {most} are asked for")
    for before, after in itertools.pairwise(solution.pareto):
        if not (before.limit_ns < after.limit_ns and before.cost_usd > after.cost_usd):
            findings.add("pareto", f"the points at {before.limit_ns!r} and {after.limit_ns!r} ns are not in order")
    for point in solution.pareto:
        _point(findings, problem, design, point)


def _point(findings: ViolationLog, problem: HierarchicalProblem, design: Design, point: ParetoPoint) -> None:
    where = f"the point at {point.limit_ns!r} ns"
    for text in broken_laws(design.network, point.bandwidth_gbytes_per_s):
        findings.add("pareto", f"{where}: {text}")
    time = fleet_time_ns(design, problem.fleet, point.bandwidth_gbytes_per_s)
    cost = network_cost_usd(design.network, point.bandwidth_gbytes_per_s)
    if cost is None or differs_by(point.time_ns, time) or differs_by(point.cost_usd, cost):
        findings.add("pareto", f"{where} takes {time!r} ns and {cost!r} USD")
    if not time <= point.limit_ns * (1 + RELATIVE):
        findings.add("pareto", f"{where} takes longer, {time!r} ns")
    if not point.cost_bound_usd <= point.cost_usd * (1 + RELATIVE):
        findings.add("pareto", f"{where} is cheaper than its bound {point.cost_bound_usd!r}")
    cheapest = replace(problem, objective=HierarchicalObjective.COST, time_limit_ns=point.limit_ns)
    if point.certificate is None:
        least = _by_speeds(cheapest, design, point.cost_bound_usd) if _discrete(design) else -math.inf
        if not point.cost_bound_usd <= least * (1 + RELATIVE):
            findings.add("pareto", f"{where}: nothing proves the cost of {point.cost_bound_usd!r}")
        return
    try:
        proven = certified_bound(cheapest, design, point.certificate, point.cost_usd)
    except CertificateError as error:
        findings.add("pareto", f"{where}: its certificate proves nothing: {error}")
        return
    if differs_by(point.cost_bound_usd, min(proven, point.cost_usd)):
        findings.add("pareto", f"{where}: a cost of {proven!r} is proven, not {point.cost_bound_usd!r}")
