"""The proofs in a hierarchical solution, evaluated again: bound, prices of bandwidth, front of time and cost."""

from __future__ import annotations

import itertools

from topoopt.core.hierarchy import Design, HierarchicalProblem
from topoopt.core.hierarchy_solution import HierarchicalSolution, ParetoPoint
from topoopt.core.proofs import Argument
from topoopt.core.verdict import StopReason, Tolerance
from topoopt.verify.hierarchy.arguments import CLAIMS, has_catalogue, of_designs, of_point
from topoopt.verify.hierarchy.bounds import CertificateError, marginal_ns
from topoopt.verify.hierarchy.laws import RELATIVE, broken_laws, differs_by
from topoopt.verify.hierarchy.times import fleet_time_ns, network_cost_usd
from topoopt.verify.laws.bounds import check_claim, check_stated
from topoopt.verify.laws.findings import ViolationLog, check_status


def check_bound(findings: ViolationLog, problem: HierarchicalProblem, solution: HierarchicalSolution) -> None:
    """The bound by its argument, the status, and a claim beside it."""
    value, bound = solution.objective.value, solution.bound.value
    if not bound <= value * (1 + RELATIVE):
        findings.add("bound", f"the objective {value!r} is below its bound {bound!r}")
    discrete = has_catalogue(problem.designs[solution.design])
    tolerance = Tolerance.LINEAR_PROGRAM if discrete else Tolerance.TANGENTS
    check_status(findings, solution, tolerance)
    if len({(proof.design, proof.too_slow) for proof in solution.proofs}) < len(solution.proofs):
        findings.add("proof", "two proofs of one design")
    derivations = of_designs(problem, solution.proofs, value)
    check_stated(findings, solution.bound, derivations, value)
    try:
        proven = derivations[Argument.BANDWIDTH_PRICES]()
    except CertificateError as error:
        findings.add("proof", f"the proofs prove nothing: {error}")
    else:
        if not value >= proven * (1 - RELATIVE):
            findings.add("bound", f"the objective {value!r} is below what the proofs prove, {proven!r}")
    check_claim(findings, solution, CLAIMS if any(map(has_catalogue, problem.designs)) else ())


def check_marginals(findings: ViolationLog, problem: HierarchicalProblem, solution: HierarchicalSolution) -> None:
    stated = solution.marginal_ns
    proof = next((one for one in solution.proofs if one.design == solution.design and not one.too_slow), None)
    if stated is None or proof is None or has_catalogue(problem.designs[solution.design]):
        if (stated is None) != (proof is None or has_catalogue(problem.designs[solution.design])):
            findings.add("marginal", "prices of bandwidth belong to a proof of the design, where any speed may be set")
        return
    design = problem.designs[solution.design]
    expected = marginal_ns(problem, design, proof.certificate, solution.bandwidth_gbytes_per_s)
    if len(stated) != len(expected) or any(differs_by(a, b, 1e-6) for a, b in zip(stated, expected, strict=True)):
        findings.add("marginal", f"one more GB/s is worth {expected} ns at the margin, not {list(stated)}")


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
    derivations = of_point(problem, design, point.limit_ns, point.cost_usd, point.certificate)
    check_stated(findings, point.cost_bound, derivations, point.cost_usd, code="pareto")
    if not point.cost_bound.value <= point.cost_usd * (1 + RELATIVE):
        findings.add("pareto", f"{where} is cheaper than its bound {point.cost_bound.value!r}")
    claimed = point.claimed_bound
    if claimed is not None and not (
        claimed.argument in CLAIMS
        and has_catalogue(design)
        and point.cost_bound.value < claimed.value <= point.cost_usd * (1 + RELATIVE)
    ):
        findings.add("pareto", f"{where}: {claimed.value!r} cannot be claimed by {claimed.argument}")
