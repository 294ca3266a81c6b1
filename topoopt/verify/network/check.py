"""The checker of network solutions: links, flow, certificate and every figure, without a solver.

Every law and every formula comes from core and verify, which share no code with what is checked; the multipliers that
the two-layer formula is evaluated with are handed in, since it holds for any.
"""

from __future__ import annotations

from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.network import (
    NetworkProblem,
    RoutingMode,
    RoutingProblem,
    TwoLayerMultipliers,
)
from topoopt.core.network_solution import NetworkSolution
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.bounds import check_claim, check_stated
from topoopt.verify.laws.findings import CheckFindings, ViolationLog, check_identity, check_status, differs
from topoopt.verify.laws.flows import check_hops
from topoopt.verify.network.arguments import (
    claims_of,
    every_formula,
    less_of,
    of_routing,
    of_topology,
)
from topoopt.verify.network.laws import check_links
from topoopt.verify.network.robustness import check_robustness
from topoopt.verify.network.routings import proven_bound, thetas_of

RELATIVE = Tolerance.ROUNDING.relative
"""Rounding forgiven in recomputed figures."""


def check_network(
    problem: NetworkProblem, solution: NetworkSolution, multipliers: TwoLayerMultipliers | None = None
) -> CheckFindings:
    """All laws the links and the flow break, all figures that are wrong, and every bound the solution beats.

    Never raises, whatever stands in the solution; the instance is taken as valid. The verdict stored in the solution is
    not looked at. The bound is derived again by its argument (`topoopt.verify.network.arguments`); a claimed one is
    held against the value alone.

    Args:
        multipliers: what a two-layer bound is evaluated with; a solution that claims one is rejected without.
    """
    findings = ViolationLog()
    findings.guard("identity", "the identity", lambda: _check_identity(findings, problem, solution))
    findings.guard("topology", "the topology", lambda: check_links(findings, problem, solution.topology))
    findings.guard("flow", "the flow", lambda: _check_flow(findings, problem, solution))
    findings.guard("certificate", "the certificate", lambda: _check_certificate(findings, problem, solution))
    findings.guard("bound", "the bound", lambda: _check_bound(findings, problem, solution, multipliers))
    findings.guard("robustness", "the robustness", lambda: check_robustness(findings, problem, solution))
    return findings.findings()


def _check_identity(findings: ViolationLog, problem: NetworkProblem, solution: NetworkSolution) -> None:
    routing = problem.routing if problem.several else RoutingMode.ADAPTED
    check_identity(findings, problem, solution, ("routing", solution.mode, routing))
    findings.hold("rate", ("link_gbps", solution.link_gbps, problem.link_gbps))


def _check_flow(findings: ViolationLog, problem: NetworkProblem, solution: NetworkSolution) -> None:
    thetas, wrong = thetas_of(solution.topology, problem.demands, solution.network.routing)
    for message in wrong:
        findings.add("flow", message)
    name, unit, price = _objective(problem)
    stated, value = solution.objective.value, max(thetas)
    if price:
        value += price * _hops(solution) / float(problem.demand.sum())
    findings.hold(
        "objective", ("the objective", solution.objective.name, name), ("its unit", solution.objective.unit, unit)
    )
    if differs(stated, value, RELATIVE):
        findings.add(name, f"the solution states {name} {stated!r}, the routing has {value!r}")
    limit = problem.max_hops if isinstance(problem, RoutingProblem) else None
    # A flow is made of simple paths and circles, and no simple path is longer than n - 1 hops.
    if limit is not None and limit < solution.topology.servers - 1:
        for message in check_hops(solution.topology, solution.flow, limit):
            findings.add("max-hops", message)


def _hops(solution: NetworkSolution) -> float:
    """Demand times hops: what all sources send over all arcs."""
    sent = float(solution.flow.flow.sum())
    return sent * solution.topology.servers if solution.flow.turned else sent


def _objective(problem: NetworkProblem) -> tuple[str, str, float]:
    """Name and unit of the objective, and the price of a hop."""
    price = problem.hop_price if isinstance(problem, RoutingProblem) else 0.0
    if price:
        return "completion-time", "time of a unit of demand on a link", price
    return ("worst-theta" if problem.several else "theta"), "link capacity", 0.0


def _check_certificate(findings: ViolationLog, problem: NetworkProblem, solution: NetworkSolution) -> None:
    limit = problem.max_hops if isinstance(problem, RoutingProblem) else None
    name, _, price = _objective(problem)
    try:
        proven = proven_bound(solution.topology, problem.demands, solution.network.routing, limit, price)
    except (InputError, InfeasibleError) as error:
        findings.add("certificate", f"the certificate proves nothing: {error}")
        return
    if differs(solution.network.routing_bound, min(proven, solution.objective.value), RELATIVE):
        findings.add(
            "certificate",
            f"the lengths prove {name} >= {proven!r} on this topology, not {solution.network.routing_bound!r}",
        )
    if not solution.objective.value >= proven * (1 - RELATIVE):
        findings.add("bound", f"{name} {solution.objective.value!r} is below what the lengths prove, {proven!r}")


def _check_bound(
    findings: ViolationLog, problem: NetworkProblem, solution: NetworkSolution, multipliers: TwoLayerMultipliers | None
) -> None:
    theta, bound = solution.objective.value, solution.bound.value
    if not 0 <= bound <= theta * (1 + RELATIVE):
        findings.add("bound", f"theta {theta!r} is below its bound {bound!r}")
    check_status(findings, solution, Tolerance.LINEAR_PROGRAM)
    check_claim(findings, solution, claims_of(problem))
    if isinstance(problem, RoutingProblem):
        check_stated(findings, solution.bound, of_routing(problem, solution), theta)
        return
    known = every_formula(problem)
    derivations = of_topology(problem, solution, known, multipliers)
    check_stated(findings, solution.bound, derivations, theta, less=less_of(solution.bound.argument))
    for formula in known:
        if not theta >= formula.value * (1 - RELATIVE):
            text = f"theta {theta!r} is below the {formula.proved_by} of every topology, {formula.value!r}"
            findings.add("bound", text)
