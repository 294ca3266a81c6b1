"""Plans of kind `topology`, of topologies whose links may not be given to optical switches yet."""

from __future__ import annotations

from solvers.network.constructions.assemble import switched
from topoopt.core.network import RoutingPlan, TopologyPlan
from topoopt.core.topology import Topology


def topology_plan(topology: Topology, routing: RoutingPlan) -> TopologyPlan:
    """Return the plan of a topology and a routing over its arcs.

    Raises
    ------
    InputError
        A server has more arcs than interfaces.
    """
    lit = topology if (topology.switches >= 0).any() else switched(topology)
    return TopologyPlan(flows=routing.flows, split=routing.split, circuits=lit.switches, origin=lit.origin)
