"""From a set of demand matrices to one topology and its routing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from solvers.network.robust_topology import robust_topologies
from solvers.network.routing import route
from solvers.network.routing.common import route_in_common
from solvers.stop import Stop
from topoopt.core.optical_devices import OPTICAL_DEVICES
from topoopt.core.robust_network import (
    AdaptedRouting,
    CommonRouting,
    RobustMode,
    RobustProblem,
    RobustSolution,
    StepTopologies,
)
from topoopt.core.solution import UNCHECKED, Bound, Objective
from topoopt.core.topology import Topology
from topoopt.core.verdict import StopReason, Tolerance, capped, settle
from topoopt.core.versions import versions
from topoopt.kinds.kind import Effort, Method, Solver, table
from topoopt.kinds.network.several_demands.steps import step_topologies
from topoopt.kinds.pipeline import judged
from topoopt.verify.laws.certificates import certified_theta_bound
from topoopt.verify.network.bounds import quick_bound
from topoopt.verify.network.robust_check import single
from topoopt.verify.network.robust_routing import adapted_bound, adapted_thetas, common_bound, common_thetas

POOL = 6
"""Topologies that get a common routing."""

BY_LENGTHS = "lengths of the arcs for the worst matrix (linear-programming duality)"
BY_PRICES = "prices of the arcs in every matrix (linear-programming duality)"


@dataclass(frozen=True, eq=False)
class FoundNetwork:
    """A topology with its routings.

    Attributes:
        topology: given or found.
        adapted: a routing for each matrix.
        common: one for all; None where each matrix has its own.
        formula: bound over all topologies.
        compared: with links set anew for every matrix; None: not asked for.
        stopped_by: why the search ended.
    """

    topology: Topology
    adapted: AdaptedRouting
    common: CommonRouting | None
    formula: Bound
    compared: StepTopologies | None
    stopped_by: StopReason


def find(problem: RobustProblem, stop: Stop, *, steps: bool = True, delays: tuple[float, ...] = ()) -> FoundNetwork:
    """Find the topology if it is not given, route, and compare with links set anew for every matrix.

    Args:
        stop: ends the search; the routing of what was found is finished all the same.
        steps: whether to compare.
        delays: of a reconfiguration, in steps, at which sequences of topologies are compared.

    Raises:
        InputError: too large for a common routing.
        InfeasibleError: servers with demand that nothing joins.
        LimitError: the time was up before anything was found.
    """
    formula = max((quick_bound(single(problem, k)) for k in range(len(problem.demands))), key=lambda b: b.value)
    topology, routing = _network(problem, formula.value, stop)
    adapted = _adapted(topology, problem)
    compared = None
    if steps:
        changing, _ = adapted_thetas(topology, problem.demands, adapted)
        fixed = changing if routing is None else common_thetas(topology, problem.demands, routing)[0]
        compared = step_topologies(problem, topology, fixed, changing, delays, stop)
    return FoundNetwork(topology, adapted, routing, formula, compared, stop.reason() or StopReason.CONVERGED)


def solve_robust(
    problem: RobustProblem, *, stop: Stop | None = None, steps: bool = True, delays: tuple[float, ...] = ()
) -> RobustSolution:
    """Find and check; arguments and errors as of `find`."""
    stop = stop or Stop()
    found = find(problem, stop, steps=steps, delays=delays)
    solution: RobustSolution = judged(problem, found, Effort(problem.search, stop))
    return solution


def device_delays(problem: RobustProblem) -> tuple[float, ...]:
    """Reconfiguration delays of all devices, in steps; none where no length of a step is given."""
    if problem.step_ms is None:
        return ()
    return tuple(sorted(device.delay_ms / problem.step_ms for device in OPTICAL_DEVICES.values()))


def _found(problem: RobustProblem, effort: Effort) -> FoundNetwork:
    return find(problem, effort.stop, steps=not effort.options.objective_only, delays=device_delays(problem))


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
            seed=problem.search.seed,
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


def assemble(problem: RobustProblem, found: FoundNetwork, effort: Effort) -> RobustSolution:
    """The solution that a topology with its routings amounts to."""
    topology, demands, routing = found.topology, problem.demands, found.common or found.adapted
    # A common routing is one of the adapted ones, so that what bounds those bounds it as well.
    routing_bound = Bound(adapted_bound(topology, demands, found.adapted), BY_LENGTHS)
    if isinstance(routing, CommonRouting):
        theta, _ = common_thetas(topology, demands, routing)
        by_prices = Bound(common_bound(topology, demands, routing.prices), BY_PRICES)
        if by_prices.value >= routing_bound.value:
            routing_bound = by_prices
        else:
            routing = replace(routing, prices=_worst_lengths(topology, problem, found.adapted))
    else:
        theta, _ = adapted_thetas(topology, demands, routing)
    worst = max(theta)
    routing_bound = replace(routing_bound, value=capped(routing_bound.value, worst))
    proven = found.formula if problem.topology is None else routing_bound
    bound, status = settle(worst, proven.value, Tolerance.LINEAR_PROGRAM)
    return RobustSolution(
        name=problem.name,
        objective=Objective("worst-theta", worst, ""),
        mode=problem.routing,
        topology=topology,
        routing=routing,
        theta=theta,
        routing_bound=routing_bound.value,
        bound=replace(proven, value=bound),
        steps=found.compared,
        status=status,
        stopped_by=found.stopped_by,
        check=UNCHECKED,
        step_ms=problem.step_ms,
        seed=effort.search.seed,
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


METHODS = table(Method("auto", "seeds and annealing; a common routing by linear program", _found))

SOLVER = Solver(methods=lambda _: METHODS, assemble=assemble)
