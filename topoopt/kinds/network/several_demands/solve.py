"""The one straight line from a set of demand matrices to a checked topology and routing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solvers.network.robust_topology import robust_topologies
from solvers.network.routing import route
from solvers.network.routing.common import route_in_common
from solvers.stop import Stop
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.robust_network import (
    AdaptedRouting,
    CommonRouting,
    RobustMode,
    RobustProblem,
    RobustSolution,
    StepTopologies,
)
from topoopt.core.solution import Bound, CheckResult, Objective
from topoopt.core.topology import Topology
from topoopt.core.verdict import Status, StopReason, Tolerance, capped, settle
from topoopt.core.versions import versions
from topoopt.kinds.network.several_demands.steps import step_topologies
from topoopt.verify.laws.certificates import certified_theta_bound
from topoopt.verify.network.bounds import quick_bound
from topoopt.verify.network.robust_check import single
from topoopt.verify.network.robust_routing import adapted_bound, adapted_thetas, common_bound, common_thetas

POOL = 6
"""Topologies that get a common routing."""

BY_LENGTHS = "lengths of the arcs for the worst matrix (linear-programming duality)"
BY_PRICES = "prices of the arcs in every matrix (linear-programming duality)"


def solve_robust(
    problem: RobustProblem, *, stop: Stop | None = None, steps: bool = True, delays: tuple[float, ...] = ()
) -> RobustSolution:
    """Find the topology if it is not given, route, bound, check, and compare with links set anew for every matrix.

    Args:
        stop: ends the search; the routing of what was found is finished all the same.
        steps: whether to compare.
        delays: of a reconfiguration, in steps, at which sequences of topologies are compared.

    Raises:
        InputError: too large for a common routing.
        InfeasibleError: servers with demand that nothing joins.
        LimitError: the time was up before anything was found.
    """
    stop = stop or Stop()
    formula = max((quick_bound(single(problem, k)) for k in range(len(problem.demands))), key=lambda b: b.value)
    topology, routing = _network(problem, formula.value, stop)
    adapted = _adapted(topology, problem)
    compared = None
    if steps:
        changing, _ = adapted_thetas(topology, problem.demands, adapted)
        fixed = changing if routing is None else common_thetas(topology, problem.demands, routing)[0]
        compared = step_topologies(problem, topology, fixed, changing, delays, stop)
    return _assembled(problem, topology, adapted, routing or adapted, formula, compared, stop)


def _network(problem: RobustProblem, goal: float, stop: Stop) -> tuple[Topology, CommonRouting | None]:
    """The topology given or the best one found, with its common routing where that is what counts."""
    common = problem.routing is RobustMode.COMMON
    if problem.topology is not None:
        found = [problem.topology]
    else:
        pool = robust_topologies(
            problem.servers,
            problem.degree,
            problem.links,
            problem.demands,
            seed=problem.seed,
            goal=goal,
            keep=POOL if common else 1,
            stop=stop,
        )
        found = [each.topology for each in pool]
    if not common:
        return found[0], None
    best: tuple[float, Topology, CommonRouting] | None = None
    for topology in found:
        if best is not None and stop.reason() is not None:
            break
        routing = route_in_common(topology, problem.demands, stop=_unhurried(stop))
        worst = max(common_thetas(topology, problem.demands, routing)[0])
        if best is None or worst < best[0]:
            best = (worst, topology, routing)
    assert best is not None
    return best[1], best[2]


def _unhurried(stop: Stop) -> Stop:
    """The same interrupt without the deadline: a topology without a routing is no answer."""
    return replace(stop, deadline=None)


def _adapted(topology: Topology, problem: RobustProblem) -> AdaptedRouting:
    found = [route(topology, demand) for demand in problem.demands]
    return AdaptedRouting(tuple(each.flow for each in found), tuple(each.certificate for each in found))


def _assembled(
    problem: RobustProblem,
    topology: Topology,
    adapted: AdaptedRouting,
    routing: CommonRouting | AdaptedRouting,
    formula: Bound,
    compared: StepTopologies | None,
    stop: Stop,
) -> RobustSolution:
    """Every figure comes from the checker's own evaluation."""
    violations: list[str] = []
    # A common routing is one of the adapted ones, so that what bounds those bounds it as well.
    routing_bound = Bound(adapted_bound(topology, problem.demands, adapted), BY_LENGTHS)
    if isinstance(routing, CommonRouting):
        theta, wrong = common_thetas(topology, problem.demands, routing)
        violations += wrong
        try:
            by_prices = Bound(common_bound(topology, problem.demands, routing.prices), BY_PRICES)
            if by_prices.value >= routing_bound.value:
                routing_bound = by_prices
            else:
                routing = replace(routing, prices=_worst_lengths(topology, problem, adapted))
        except (InputError, InfeasibleError) as error:
            violations.append(f"the prices prove nothing: {error}")
    else:
        theta, wrong = adapted_thetas(topology, problem.demands, routing)
        violations += wrong
    worst = max(theta)
    routing_bound = replace(routing_bound, value=capped(routing_bound.value, worst))
    proven = formula if problem.topology is None else routing_bound
    bound, known = settle(worst, proven.value, Tolerance.LINEAR_PROGRAM)
    sent = np.bincount(topology.arcs[:, 0], topology.multiplicity, problem.servers)
    received = np.bincount(topology.arcs[:, 1], topology.multiplicity, problem.servers)
    if problem.topology is None and max(sent.max(), received.max()) > problem.degree:
        violations.append(f"a server has more links than its degree {problem.degree}")
    return RobustSolution(
        name=problem.name,
        objective=Objective("worst-theta", worst, ""),
        mode=problem.routing,
        topology=topology,
        routing=routing,
        theta=theta,
        routing_bound=routing_bound.value,
        bound=replace(proven, value=bound),
        steps=compared,
        status=Status.UNKNOWN if violations else known,
        stopped_by=StopReason.ERROR if violations else stop.reason() or StopReason.CONVERGED,
        check=CheckResult(not violations, tuple(violations)),
        step_ms=problem.step_ms,
        seed=problem.seed,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=problem.notes,
    )


def _worst_lengths(topology: Topology, problem: RobustProblem, adapted: AdaptedRouting) -> NDArray[np.float64]:
    """The proof of the worst matrix as prices of all: 0 in every other one."""
    proofs = [proof.lengths for proof in adapted.certificates]
    pairs = zip(problem.demands, proofs, strict=True)
    values = [certified_theta_bound(topology, demand, lengths).value for demand, lengths in pairs]
    prices = np.zeros((len(proofs), len(topology.arcs)))
    worst = int(np.argmax(values))
    prices[worst] = proofs[worst]
    return prices
