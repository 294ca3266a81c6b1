"""What a robust topology claims: theta after the worst failure of a link, proven by a routing for each and lengths."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.network import NetworkProblem, RoutingProblem, SourceFlow, TopologyProblem
from topoopt.core.network_solution import LinkFailure, NetworkSolution, Robustness
from topoopt.core.proofs import Argument
from topoopt.core.topology import Topology
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.bounds import check_stated
from topoopt.verify.laws.certificates import certified_theta_bound
from topoopt.verify.laws.findings import ViolationLog, differs
from topoopt.verify.laws.flows import check_flow
from topoopt.verify.network.arguments import less_of, of_failed_link

RELATIVE = Tolerance.ROUNDING.relative
OPTIMAL = Tolerance.LINEAR_PROGRAM.relative


def check_robustness(findings: ViolationLog, problem: NetworkProblem, solution: NetworkSolution) -> None:
    """What is stated of failures of single links, and the routings and lengths that prove it."""
    found = solution.network.robustness
    if found is None:
        if problem.search.robust is not None:
            findings.add("robustness", "the instance asks for a robust topology, the solution says nothing of failures")
        return
    if isinstance(problem, RoutingProblem) or problem.several:
        findings.add("robustness", "no robust design of a given topology, or for several demands")
        return
    theta = solution.objective.value
    proven = of_failed_link(problem)
    best = max(bound() for bound in proven.values())
    for name, low in (("theta without failure", theta), ("what is proven", best), ("its bound", found.bound.value)):
        if not found.worst_theta >= low * (1 - RELATIVE):
            findings.add("robustness", f"theta {found.worst_theta!r} after the worst failure is below {name}, {low!r}")
    less = less_of(found.bound.argument)
    check_stated(findings, found.bound, proven, found.worst_theta, code="robustness", less=less)
    claimed = found.claimed_bound
    if claimed is not None and not (
        claimed.argument is Argument.TOPOLOGY_ENUMERATION
        and found.bound.value < claimed.value <= found.worst_theta * (1 + RELATIVE)
    ):
        findings.add("robustness", f"{claimed.value!r} cannot be claimed by {claimed.argument}")
    within = found.within_percent
    most = found.nominal_theta * (1 + (within or 0) / 100)
    if within is not None and not theta <= most + Tolerance.LINEAR_PROGRAM.of(most):
        findings.add("robustness", f"theta {theta!r} is more than {within} % above {found.nominal_theta!r}")
    goal = problem.search.robust
    if (None if goal is None else goal.within_percent) != within:
        findings.add("robustness", f"within_percent is {within!r}, the instance has another")
    if (solution.topology.arcs == found.worst_link).all(axis=1).sum() != 1:
        findings.add("robustness", f"the worst link {found.worst_link} is not there")
    if found.nominal_worst_theta is not None and not found.nominal_worst_theta >= found.nominal_theta * (1 - RELATIVE):
        findings.add("robustness", f"{found.nominal_theta!r} without failure falls to {found.nominal_worst_theta!r}")
    if not found.nominal_theta >= solution.bound.value * (1 - RELATIVE):
        findings.add(
            "robustness", f"theta {found.nominal_theta!r} without failure is below the bound of all topologies"
        )
    why = "of the topology of least theta, which is not in the file"
    findings.leave_out("robustness.nominal_theta and nominal_worst_theta", why)
    _check_failures(findings, problem, solution, found)


def _check_failures(
    findings: ViolationLog, problem: TopologyProblem, solution: NetworkSolution, found: Robustness
) -> None:
    """Each failure has a routing of no more than `worst_theta`, and the worst one none of less."""
    topology = solution.topology
    if not found.failures or found.lengths is None:
        findings.leave_out("robustness.worst_theta", "too many links for a routing after each failure in the file")
        return
    tail, head = topology.arcs[:, 0], topology.arcs[:, 1]
    both = topology.links is LinkDirection.BIDIRECTIONAL
    due = topology.arcs[tail < head] if both else topology.arcs
    if [each.link for each in found.failures] != [tuple(link) for link in due.tolist()]:
        findings.add("robustness", "not one failure for each link, in order")
        return
    values = {}
    for each in found.failures:
        left = _left(topology, each)
        theta, wrong = _theta(topology, left, problem, each)
        values[each.link] = theta
        for message in wrong:
            findings.add("robustness", f"link {each.link}: {message}")
    worst = max(values.values())
    if differs(found.worst_theta, worst, RELATIVE) or values[found.worst_link] < worst * (1 - OPTIMAL):
        findings.add(
            "robustness", f"theta {found.worst_theta!r} of link {found.worst_link}, the routings have {worst!r}"
        )
        return
    place = [each.link for each in found.failures].index(found.worst_link)
    left = _left(topology, found.failures[place])
    kept = left > 0
    try:
        proven = certified_theta_bound(_part(topology, left), problem.demand, found.lengths[kept])
    except (InputError, InfeasibleError) as error:
        findings.add("robustness", f"the lengths prove nothing: {error}")
        return
    if proven < worst * (1 - OPTIMAL):
        text = f"a routing of {worst!r} is known, the lengths prove {proven!r}: it may be less"
        findings.leave_out("robustness.worst_theta to its last digits", text)


def _left(topology: Topology, failure: LinkFailure) -> Ints:
    """int64[m], links of each arc that are not dark."""
    left = topology.multiplicity.astype(np.int64)
    ends = [failure.link, failure.link[::-1]] if topology.links is LinkDirection.BIDIRECTIONAL else [failure.link]
    for end in ends:
        left[(topology.arcs == end).all(axis=1)] -= 1
    return left


def _part(topology: Topology, left: Ints) -> Topology:
    """The arcs that are not dark."""
    kept = left > 0
    dark = np.full_like(topology.switches, -1)
    count = left[kept].astype(np.int32)
    return Topology(topology.servers, topology.degree, topology.links, topology.arcs[kept], count, dark)


def _theta(
    topology: Topology, left: Ints, problem: TopologyProblem, failure: LinkFailure
) -> tuple[float, tuple[str, ...]]:
    """theta of a routing after a failure, and what is wrong with it."""
    kept = left > 0
    if failure.flow.shape != (topology.servers, len(left)) or failure.flow[:, ~kept].any():
        return np.inf, ("a flow of the wrong size, or over the dark link",)
    found = check_flow(_part(topology, left), problem.demand, SourceFlow(failure.flow[:, kept]))
    return found.theta, found.violations
