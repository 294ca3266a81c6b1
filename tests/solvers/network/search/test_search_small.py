"""Search on clusters small enough for linear programs: where one server binds, the bound is met."""

from __future__ import annotations

import pytest

from solvers.network.search import search_topology
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import TopologyProblem
from topoopt.core.proofs import Argument
from topoopt.verify.network.bounds import topology_bounds
from topoopt.workloads.demands import demand_matrix


@pytest.mark.parametrize(
    ("family", "servers", "degree"), [("skew", 8, 2), ("skew", 8, 3), ("skew", 10, 2), ("hotspot", 9, 2)]
)
def test_the_node_cut_is_met(family: str, servers: int, degree: int) -> None:
    """The busiest server's interfaces are the bottleneck, and the search finds links that keep it the only one."""
    demand = demand_matrix(family, servers, seed=1)
    bound = max(topology_bounds(servers, degree, demand), key=lambda bound: bound.value)
    assert bound.argument is Argument.NODE_CUT
    assert bound.value == pytest.approx(max(demand.sum(axis=0).max(), demand.sum(axis=1).max()) / degree)
    problem = TopologyProblem("small", servers, degree, LinkDirection.UNIDIRECTIONAL, demand)
    found = search_topology(problem, seed=0, goal=bound.value)
    assert found.routing.theta == pytest.approx(bound.value, rel=1e-6)
