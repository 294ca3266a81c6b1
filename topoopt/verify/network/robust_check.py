"""The checker of solutions of kind `robust-network`: links, routing, figures and bounds, without a solver.

The comparison with links set anew for every matrix is held against the bounds only: its networks are not stored.
"""

from __future__ import annotations

from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.robust_network import CommonRouting, RobustProblem, RobustSolution
from topoopt.core.verdict import Status, Tolerance, meets
from topoopt.verify.laws.findings import Findings, Violation, differs
from topoopt.verify.network.bounds import quick_bound
from topoopt.verify.network.laws import check_links
from topoopt.verify.network.robust_routing import adapted_bound, adapted_thetas, common_bound, common_thetas

RELATIVE = Tolerance.ROUNDING.relative
"""Rounding forgiven in recomputed figures."""

FORMULA_RELATIVE = Tolerance.FORMULA.relative
"""Part by which formulas found by iteration may differ on another machine."""


def check_robust(problem: RobustProblem, solution: RobustSolution) -> tuple[Violation, ...]:
    """All laws that links and routing break, all figures that are wrong, every bound that is not proven.

    Never raises, whatever stands in the solution; the instance is taken as valid. The verdict stored in the solution is
    not looked at.
    """
    findings = Findings()
    findings.guard("identity", "the identity", lambda: _check_identity(findings, problem, solution))
    findings.guard("topology", "the topology", lambda: _check_links(findings, problem, solution))
    findings.guard("routing", "the routing", lambda: _check_routing(findings, problem, solution))
    findings.guard("bound", "the bound", lambda: _check_bound(findings, problem, solution))
    findings.guard("steps", "the comparison", lambda: _check_steps(findings, problem, solution))
    return findings.violations()


def _check_identity(findings: Findings, problem: RobustProblem, solution: RobustSolution) -> None:
    for code, name, value, expected in (
        ("identity", "name", solution.name, problem.name),
        ("identity", "routing", solution.mode, problem.routing),
        ("identity", "step_ms", solution.step_ms, problem.step_ms),
        ("instance-sha256", "instance_sha256", solution.instance_sha256, problem.sha256),
    ):
        if value != expected:
            findings.add(code, f"the solution has {name} {value!r}, the instance {expected!r}")


def single(problem: RobustProblem, matrix: int) -> TopologyProblem:
    """The topology problem of one matrix: any network for all of them is one for it."""
    return TopologyProblem(problem.name, problem.servers, problem.degree, problem.links, problem.demands[matrix])


def _check_links(findings: Findings, problem: RobustProblem, solution: RobustSolution) -> None:
    if problem.topology is None:
        check_links(findings, single(problem, 0), solution.topology)
    else:
        given = RoutingProblem(problem.name, problem.topology, problem.demands[0])
        check_links(findings, given, solution.topology)


def _check_routing(findings: Findings, problem: RobustProblem, solution: RobustSolution) -> None:
    topology, demands, routing = solution.topology, problem.demands, solution.routing
    if isinstance(routing, CommonRouting):
        theta, wrong = common_thetas(topology, demands, routing)
    else:
        theta, wrong = adapted_thetas(topology, demands, routing)
    for message in wrong:
        findings.add("routing", message)
    if len(theta) != len(solution.theta):
        findings.add("theta", f"the solution states {len(solution.theta)} theta, there are {len(theta)} matrices")
        return
    pairs = list(zip(solution.theta, theta, strict=True))
    findings.add_each(
        "theta",
        [k for k, (stated, found) in enumerate(pairs) if differs(stated, found, RELATIVE)],
        lambda k: f"the solution states theta {pairs[k][0]!r} of matrix {k}, the routing has {pairs[k][1]!r}",
    )


def _check_bound(findings: Findings, problem: RobustProblem, solution: RobustSolution) -> None:
    worst, bound, routing = solution.worst, solution.bound.value, solution.routing
    try:
        if isinstance(routing, CommonRouting):
            proven = common_bound(solution.topology, problem.demands, routing.prices)
        else:
            proven = adapted_bound(solution.topology, problem.demands, routing)
    except (InputError, InfeasibleError) as error:
        findings.add("certificate", f"the certificate proves nothing: {error}")
        return
    if not solution.routing_bound <= proven * (1 + RELATIVE):
        findings.add("certificate", f"{proven!r} is proven of this topology, not {solution.routing_bound!r}")
    if not worst >= proven * (1 - RELATIVE):
        findings.add("bound", f"the worst theta {worst!r} is below what is proven of this topology, {proven!r}")
    limit = proven * (1 + RELATIVE)
    if problem.topology is None:
        formula = max((quick_bound(single(problem, k)) for k in range(len(problem.demands))), key=lambda one: one.value)
        limit = formula.value * (1 + FORMULA_RELATIVE)
        if not worst >= formula.value * (1 - RELATIVE):
            text = f"the worst theta {worst!r} is below the {formula.proved_by} of every topology, {formula.value!r}"
            findings.add("bound", text)
    if not 0 <= bound <= limit:
        findings.add("bound", f"the solution states a bound of {bound!r}, no more than {limit!r} is proven")
    if solution.status is Status.OPTIMAL and not meets(worst, bound, Tolerance.LINEAR_PROGRAM):
        findings.add("status", f"called optimal with worst theta {worst!r} and bound {bound!r}")


def _check_steps(findings: Findings, problem: RobustProblem, solution: RobustSolution) -> None:
    steps = solution.steps
    if steps is None or len(steps.theta) != len(problem.demands):
        if steps is not None:
            findings.add("steps", f"{len(steps.theta)} theta for {len(problem.demands)} matrices")
        return
    for k, (own, rerouted) in enumerate(zip(steps.theta, steps.rerouted, strict=True)):
        formula = None if problem.topology is not None else quick_bound(single(problem, k)).value
        for name, value in (("on links of its own", own), ("rerouted", rerouted)):
            if formula is not None and not value >= formula * (1 - RELATIVE):
                findings.add("steps", f"theta {value!r} of matrix {k} {name} is below the bound {formula!r}")
