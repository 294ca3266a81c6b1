"""From a topology with a routing to the solution it amounts to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from solvers.network.constructions.assemble import switched
from topoopt.core.network import CommonRouting, NetworkProblem, RoutingProblem, SourceFlow
from topoopt.core.network_solution import FoundNetwork, NetworkSolution, RoutedNetwork
from topoopt.core.proofs import Argument
from topoopt.core.solution import UNCHECKED, Objective
from topoopt.core.verdict import Tolerance, capped, settle
from topoopt.core.versions import versions
from topoopt.kinds.kind import Effort, Method, MethodTables, Solver
from topoopt.kinds.network.methods import (
    ROUTING_METHODS,
    TOPOLOGY_METHODS,
    WORST_ROUTING_METHODS,
    WORST_TOPOLOGY_METHODS,
)
from topoopt.kinds.network.models import models_of
from topoopt.verify.laws.findings import CheckFindings
from topoopt.verify.network.check import check_network


def assemble(problem: NetworkProblem, found: FoundNetwork, effort: Effort) -> NetworkSolution:
    """The solution that what was found amounts to, all figures recomputed."""
    network = found.network
    topology = network.topology
    if not isinstance(problem, RoutingProblem) and not (topology.switches >= 0).any():
        topology = switched(topology)
    objective = _objective(problem, network)
    value = objective.value
    verdict = settle(value, found.bounds, Tolerance.LINEAR_PROGRAM)
    argument = verdict.bound.argument
    return NetworkSolution(
        name=problem.name,
        kind=problem.kind,
        status=verdict.status,
        stopped_by=found.stopped_by,
        objective=objective,
        bound=verdict.bound,
        claimed_bound=verdict.claimed_bound,
        check=UNCHECKED,
        seed=effort.search.seed,
        method=found.method,
        network=replace(
            network,
            topology=topology,
            layer_prices=network.layer_prices if argument is Argument.LAYERED_MOORE else None,
            relay_prices=network.relay_prices if argument is Argument.RELAY_BLOCKS else None,
            relay_cases=network.relay_cases if argument is Argument.RELAY_CASES else None,
            routing_bound=capped(network.routing_bound, value),
        ),
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=(*problem.notes, *found.notes),
        link_gbps=problem.link_gbps,
    )


def _objective(problem: NetworkProblem, network: RoutedNetwork) -> Objective:
    """theta, the largest of several demands, or the completion time where hops have a price."""
    thetas = network.thetas
    if problem.several:
        return Objective("worst-theta", max(thetas), "link capacity")
    if not isinstance(problem, RoutingProblem) or problem.hop_price == 0.0:
        return Objective("theta", thetas[0], "link capacity")
    hops = float(network.flows[0].load(network.topology).sum()) / float(problem.demand.sum())
    return Objective("completion-time", thetas[0] + problem.hop_price * hops, "time of a unit of demand on a link")


def methods_of(problem: NetworkProblem) -> Mapping[str, Method]:
    """The methods for a problem."""
    if isinstance(problem, RoutingProblem):
        return WORST_ROUTING_METHODS if problem.several else ROUTING_METHODS
    return WORST_TOPOLOGY_METHODS if problem.several else TOPOLOGY_METHODS


def _checked(problem: NetworkProblem, found: FoundNetwork, solution: NetworkSolution) -> CheckFindings:
    return check_network(problem, solution, found.multipliers)


def method_tables(kind: str) -> MethodTables:
    """For one demand, and for several."""
    one, several = (
        (ROUTING_METHODS, WORST_ROUTING_METHODS) if kind == "routing" else (TOPOLOGY_METHODS, WORST_TOPOLOGY_METHODS)
    )
    return (("one demand", one), ("several demands", several))


PARTS = 16
"""One row of so many is written to measure how long all take."""


def _excerpt(solution: NetworkSolution) -> tuple[NetworkSolution, int]:
    routing = solution.network.routing
    if isinstance(routing, CommonRouting) or len(routing.flows[0].flow) < PARTS:
        return solution, 1
    rows = len(routing.flows[0].flow) // PARTS
    flows = tuple(
        SourceFlow(each.flow[:rows], None if each.by_hop is None else each.by_hop[:, :rows]) for each in routing.flows
    )
    return replace(solution, network=replace(solution.network, routing=replace(routing, flows=flows))), PARTS


SOLVER = Solver(methods_of, assemble, method_tables, _checked, models=models_of, excerpt=_excerpt)
