"""Why the theta of a network solution is what it is, and what would change it: dual prices, checked by re-solving."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.network import NetworkProblem, RoutingProblem, TopologyProblem
from topoopt.core.network_solution import NetworkSolution
from topoopt.kinds.network.check import check_solution
from topoopt.kinds.network.explain_bottleneck import Bottleneck, averaged, find_bottleneck
from topoopt.kinds.network.explain_degree import DegreeGain, degree_gain
from topoopt.kinds.network.explain_gains import (
    SAME,
    ExplainEffort,
    Gain,
    LinkGains,
    best_links,
    more_capacity,
    routed_again,
)
from topoopt.verify.laws.certificates import certified_theta_bound
from topoopt.verify.laws.flows import PASSING, check_flow

DIGITS = 9
"""Significant digits of the demand that a flow still tells (it delivers every entry to 1e-9 of it)."""

ROUNDS = 6
"""Most prices looked at for one bottleneck."""

GBPS = 100
"""Gbit/s added to the bottleneck by default, where the rate of a link is known."""


@dataclass(frozen=True)
class Payment:
    """A demand that pays for the bottleneck.

    Attributes:
        source, target, demand: the pair.
        price: least price of a path between them; demand times price, summed over all pairs, is the bound on theta.
    """

    source: int
    target: int
    demand: float
    price: float


@dataclass(frozen=True, eq=False)
class NetworkExplanation:
    """What `topoopt explain` says of a network solution.

    Attributes:
        solution: what is explained.
        theta: of the best routing known, that of the solution or of a better one found on the way.
        demand: float64[n, n].
        bottleneck: what limits it.
        payments: demands that cross the bottleneck, those that pay most first.
        links: positions for one more link.
        everywhere: more capacity on all links of the bottleneck.
        single: more capacity on its dearest link alone; None where that is all of it.
        degree: one more interface per server; None for kind `routing`.
        late: whether the time limit left anything unchecked.
        notes: what was assumed.
    """

    solution: NetworkSolution
    theta: float
    demand: Floats
    bottleneck: Bottleneck
    payments: tuple[Payment, ...]
    links: LinkGains
    everywhere: Gain
    single: Gain | None
    degree: DegreeGain | None
    late: bool
    notes: tuple[str, ...]


def demand_from_flow(solution: NetworkSolution) -> Floats:
    """float64[n, n]: what each source's flow leaves at each server, which is the demand that was routed.

    Raises:
        CheckError: a flow that leaves less than nothing somewhere, or nothing anywhere.
    """
    stays = solution.flow.staying(solution.topology)
    dust = PASSING * solution.flow.passing(solution.topology)
    if (stays < -dust).any() or not (stays > dust).any():
        raise CheckError("the flow of the solution is no routing: what arrives at a server and does not stay is lost")
    kept = np.where(stays > dust, stays, 0.0)
    rounded = [float(f"{value:.{DIGITS - 1}e}") for value in kept.ravel().tolist()]
    return np.array(rounded).reshape(stays.shape)


def explain_network(
    solution: NetworkSolution,
    instance: NetworkProblem | None = None,
    *,
    added: Fraction | None = None,
    checks: int = 8,
    stop: Stop | None = None,
) -> NetworkExplanation:
    """Explain a solution of kind `routing` or `topology`.

    Args:
        instance: what was solved. Without it the demand is read off the flow, and constraints other than the degree
            (hop limits, forbidden and kept links) are taken as absent.
        added: capacity to add to the bottleneck, in units of a link; None: 100 Gbit/s where the rate is known, else 1.
        checks: positions for one more link to route again at most.
        stop: of everything that is routed again.

    Raises:
        InputError: an instance of another kind, a hop limit, or another objective.
        CheckError: the solution does not hold.
    """
    if solution.flow.by_hop is not None or solution.objective.name != "theta":
        text = "hop limits and prices of hops are not explained: link prices are read for paths of any length"
        raise InputError([Problem(text, path="solution", value=solution.objective.name, allowed="theta, hops free")])
    effort = ExplainEffort(stop or Stop(), checks)
    demand = _demand(solution, instance)
    topology = solution.topology
    base = RoutingProblem(
        name=solution.name,
        topology=topology,
        demand=demand,
        max_hops=instance.max_hops if isinstance(instance, RoutingProblem) else None,
    )
    theta, lengths = solution.theta, solution.certificate.lengths
    if theta - solution.network.routing_bound > 1e-6 * theta:
        sharper = routed_again(base, effort)
        if sharper is not None:
            theta = min(theta, sharper.theta)
            if sharper.network.routing_bound > solution.network.routing_bound:
                lengths = sharper.certificate.lengths
    if added is None:
        added = Fraction(1) if solution.link_gbps is None else _parts(GBPS / solution.link_gbps)
    bottleneck, everywhere = _whole_bottleneck(base, lengths, theta, added, effort)
    single = None
    if len(bottleneck.arcs) > 1:
        single = more_capacity(base, bottleneck, bottleneck.arcs[:1], added, effort)
    links = best_links(base, bottleneck, effort, _allowed(topology.servers, instance, solution))
    degree = None
    if solution.kind == "topology":
        problem = instance if isinstance(instance, TopologyProblem) else _bare_problem(solution, demand)
        degree = degree_gain(problem, topology, solution.certificate, effort)
    return NetworkExplanation(
        solution=solution,
        theta=theta,
        demand=demand,
        bottleneck=bottleneck,
        payments=_payments(demand, bottleneck),
        links=links,
        everywhere=everywhere,
        single=single,
        degree=degree,
        late=effort.late,
        notes=_notes(solution, instance),
    )


def _whole_bottleneck(
    problem: RoutingProblem, lengths: Floats, theta: float, added: Fraction, effort: ExplainEffort
) -> tuple[Bottleneck, Gain]:
    """The bottleneck, and what more capacity on all of it gains.

    Prices are often not unique, and those at hand may leave out links that are just as tight: then more capacity gains
    nothing, and the prices of the changed network, which prove the same bound, name the others.
    """
    topology = problem.topology
    for _ in range(ROUNDS):
        bottleneck = find_bottleneck(topology, problem.demand, lengths)
        everywhere = more_capacity(problem, bottleneck, bottleneck.arcs, added, effort)
        if everywhere.lengths is None or everywhere.theta is None or everywhere.theta < theta * (1 - SAME):
            break
        lengths = averaged(topology, bottleneck.lengths, everywhere.lengths)
    return bottleneck, everywhere


def _parts(amount: float) -> Fraction:
    """A capacity as a fraction of whole parts of a link, at least one part."""
    return max(Fraction(amount).limit_denominator(1000), Fraction(1, 1000))


def _demand(solution: NetworkSolution, instance: NetworkProblem | None) -> Floats:
    if instance is not None:
        if instance.kind != solution.kind:
            text = f"the solution is one of kind {solution.kind}"
            raise InputError([Problem(text, path="--instance", value=instance.kind, allowed=solution.kind)])
        violations = check_solution(instance, solution).violations
        if violations:
            text = "\n".join(f"{violation.code}: {violation.message}" for violation in violations)
            raise CheckError(f"the checker rejects the solution:\n{text}")
        return instance.demand
    demand = demand_from_flow(solution)
    found = check_flow(solution.topology, demand, solution.flow, tolerance=1e-8)
    proven = certified_theta_bound(solution.topology, demand, solution.certificate.lengths)
    stated = solution.objective.value
    if not found.ok or not math.isclose(found.theta, stated, rel_tol=1e-9):
        text = "; ".join(found.violations) or f"theta is {found.theta!r}, the solution states {stated!r}"
        raise CheckError(f"the solution does not hold: {text}")
    if solution.network.routing_bound > proven * (1 + 1e-8):
        text = repr(solution.network.routing_bound)
        raise CheckError(f"the lengths prove theta >= {proven!r}, the solution states {text}")
    return demand


def _allowed(n: int, instance: NetworkProblem | None, solution: NetworkSolution) -> Bools:
    """bool[n, n]: pairs that may get one more link."""
    allowed = ~np.eye(n, dtype=np.bool_)
    if isinstance(instance, TopologyProblem):
        for tail, head in instance.forbidden:
            allowed[tail, head] = False
        if not instance.parallel_links:
            allowed[solution.topology.arcs[:, 0], solution.topology.arcs[:, 1]] = False
    return allowed


def _bare_problem(solution: NetworkSolution, demand: Floats) -> TopologyProblem:
    topology = solution.topology
    problem = TopologyProblem(solution.name, topology.servers, topology.degree, topology.links, demand)
    return replace(problem, search=replace(problem.search, seed=solution.seed))


def _payments(demand: Floats, bottleneck: Bottleneck) -> tuple[Payment, ...]:
    asked = (demand > 0) & (bottleneck.distance > 0)
    paid = np.where(asked, demand, 0.0) * np.where(asked, bottleneck.distance, 0.0)
    order = np.argsort(-paid, axis=None, kind="stable")[: int(asked.sum())]
    n = len(demand)
    return tuple(
        Payment(int(k) // n, int(k) % n, float(demand.flat[k]), float(bottleneck.distance.flat[k])) for k in order
    )


def _notes(solution: NetworkSolution, instance: NetworkProblem | None) -> tuple[str, ...]:
    if instance is not None:
        return ()
    notes = [f"demand read off the flow, to {DIGITS} digits; --instance FILE takes it from the instance"]
    if solution.kind == "topology":
        notes.append("constraints beside the degree are not in the solution file: taken as absent")
    return tuple(notes)
