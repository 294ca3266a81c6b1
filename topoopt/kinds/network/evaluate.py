"""Demands on a topology given by hand, routed anew with a certificate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solvers.network.exact.space import open_space
from topoopt.core.errors import InputError, Problem
from topoopt.core.network import RoutingProblem, TopologyProblem, single
from topoopt.core.network_solution import FoundNetwork, NetworkSolution
from topoopt.core.topology import Topology
from topoopt.kinds.kind import Effort
from topoopt.kinds.network.heuristics import routed_topology
from topoopt.kinds.network.methods import routed, worst_bound, worst_routing

BY_HAND = "given"


def given_routing(
    problem: RoutingProblem, effort: Effort, solution: NetworkSolution | None, *, topology: Topology | None = None
) -> tuple[RoutingProblem, FoundNetwork]:
    """The demand of a problem over another topology: the problem this makes, and its routing.

    Raises:
        InputError: no topology, or one of other servers. InfeasibleError: some demand cannot be routed over it.
    """
    asked = replace(problem, topology=_given(problem.topology.servers, solution, topology), sha256="")
    found = worst_routing(asked, effort) if asked.several else routed(asked, effort, "auto")
    return asked, replace(found, method=BY_HAND)


def given_links(
    problem: TopologyProblem, effort: Effort, solution: NetworkSolution | None, *, topology: Topology | None = None
) -> tuple[TopologyProblem, FoundNetwork]:
    """The demand of a problem over links given by hand, bounded over all topologies.

    Raises:
        InputError: no topology, one of other servers, or one that breaks a constraint of the problem.
    """
    given = _given(problem.servers, solution, topology)
    spaces = [open_space(single(problem, k)) for k in range(len(problem.demands))]
    for space in spaces:
        broken = space.broken(given.adjacency())
        if broken is not None:
            raise InputError([Problem(f"the topology breaks a constraint: {broken}", path="topology")])
    if given.rates is not None:
        text = "the topology has rates of its own"
        raise InputError([Problem(text, path="topology", allowed="links that all have one rate")])
    units = np.repeat(given.arcs, given.multiplicity, axis=0)
    patched = Topology.of_arcs(
        problem.servers, units, degree=problem.degree, links=problem.links, origin=given.origin or BY_HAND
    )
    if not problem.several:
        return problem, routed_topology(spaces[0], patched, BY_HAND, effort.stop)
    over = RoutingProblem(problem.name, patched, problem.demand, search=problem.search, routing=problem.routing)
    return problem, replace(worst_routing(over, effort), bounds=(worst_bound(problem),), method=BY_HAND)


def _given(servers: int, solution: NetworkSolution | None, topology: Topology | None) -> Topology:
    given = topology if topology is not None or solution is None else solution.topology
    if given is None:
        raise InputError([Problem("no topology", path="topology", allowed="a topology, or a solution that has one")])
    if given.servers != servers:
        text, value = "another number of servers", str(given.servers)
        raise InputError([Problem(text, path="topology.servers", value=value, allowed=str(servers))])
    return given
