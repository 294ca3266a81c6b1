"""From a topology with a routing to the solution it amounts to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solvers.network.constructions.switches import assign_switches
from topoopt.core.network import RoutingProblem
from topoopt.core.network_solution import NetworkSolution
from topoopt.core.solution import UNCHECKED, Objective
from topoopt.core.topology import Topology
from topoopt.core.verdict import Tolerance, capped, settle
from topoopt.core.versions import versions
from topoopt.kinds.kind import Effort, Method, Solver
from topoopt.kinds.network.methods import ROUTING_METHODS, TOPOLOGY_METHODS
from topoopt.kinds.network.outcome import NetworkProblem, Outcome
from topoopt.simulate.hops import hop_matrix
from topoopt.verify.laws.findings import Violation
from topoopt.verify.network.check import check_network


def largest_utilisation(topology: Topology, flow: NDArray[np.float64]) -> float:
    """theta of a flow float64[n, m]."""
    return float((flow.sum(axis=0) / topology.multiplicity).max())


def assemble(problem: NetworkProblem, outcome: Outcome, effort: Effort) -> NetworkSolution:
    """The solution an outcome amounts to, all figures recomputed."""
    topology = outcome.topology
    if not isinstance(problem, RoutingProblem) and not (topology.switches >= 0).any():
        switches = assign_switches(topology.servers, topology.degree, topology.arcs, topology.multiplicity)
        topology = replace(topology, switches=switches)
    objective = _objective(problem, topology, outcome.flow.flow)
    value = objective.value
    bound, status = settle(value, outcome.bound.value, Tolerance.LINEAR_PROGRAM)
    diameter, mean_hops = _hops(topology)
    return NetworkSolution(
        name=problem.name,
        kind=problem.kind,
        status=status,
        stopped_by=outcome.stopped_by,
        objective=objective,
        bound=replace(outcome.bound, value=bound),
        routing_bound=capped(outcome.routing_bound, value),
        check=UNCHECKED,
        seed=effort.search.seed,
        method=outcome.method,
        topology=topology,
        flow=outcome.flow,
        certificate=outcome.certificate,
        diameter=diameter,
        mean_hops=mean_hops,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=(*problem.notes, *outcome.notes),
        enumeration=outcome.enumeration,
        link_gbps=problem.link_gbps,
        robustness=outcome.robustness,
    )


def _objective(problem: NetworkProblem, topology: Topology, flow: NDArray[np.float64]) -> Objective:
    """theta, or the completion time where hops have a price."""
    theta = largest_utilisation(topology, flow)
    if not isinstance(problem, RoutingProblem) or problem.hop_price == 0.0:
        return Objective("theta", theta, "link capacity")
    hops = float(flow.sum()) / float(problem.demand.sum())
    return Objective("completion-time", theta + problem.hop_price * hops, "time of a unit of demand on a link")


def _hops(topology: Topology) -> tuple[int | None, float | None]:
    """Diameter and mean hops, None where some server cannot reach another."""
    hops = hop_matrix(topology)
    n = topology.servers
    if (hops < 0).any():
        return None, None
    return int(hops.max()), float(hops.sum() / (n * (n - 1)))


def methods_of(problem: NetworkProblem) -> Mapping[str, Method]:
    """The methods for a problem."""
    return ROUTING_METHODS if isinstance(problem, RoutingProblem) else TOPOLOGY_METHODS


def _checked(problem: NetworkProblem, outcome: Outcome, solution: NetworkSolution) -> Iterable[Violation]:
    return check_network(problem, solution, outcome.multipliers)


SOLVER = Solver(methods_of, assemble, _checked)
