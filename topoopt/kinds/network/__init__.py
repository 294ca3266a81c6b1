"""The kinds `routing` and `topology`: a demand routed over given links, or over links that are chosen for it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from topoopt.core.network import NetworkProblem, RoutingPlan, TopologyPlan, TopologyProblem
from topoopt.core.proofs import Argument
from topoopt.files.results import ResultFormat
from topoopt.kinds.kind import Kind, KindFiles, at_first_use, pages_of
from topoopt.kinds.network.read import (
    RoutingInstance,
    TopologyInstance,
    read_routing,
    read_topology,
    routing_problems,
    topology_problems,
)

if TYPE_CHECKING:
    from topoopt.core.result import Result
    from topoopt.verify.checker import CheckDepth, CheckFindings

ROUTING_FILE = ResultFormat("routing", RoutingPlan, read_routing)
TOPOLOGY_FILE = ResultFormat("topology", TopologyPlan, read_topology)


def check(problem: NetworkProblem, result: Result[Any, Any], depth: CheckDepth) -> CheckFindings:
    """Check a result; multipliers that its bound rests on are searched again, which may take seconds."""
    from topoopt.verify.network.checker import check_network

    if result.bound.argument is Argument.TWO_LAYER and isinstance(problem, TopologyProblem):
        from topoopt.kinds.network.search import multipliers_of  # loads a search

        multipliers = multipliers_of(problem, result.bound)
        if multipliers is not None:
            result = replace(result, certificates=(*result.certificates, multipliers.certificate()))
    return check_network(problem, result, depth)


ROUTING = Kind(
    name="routing",
    files=KindFiles(RoutingInstance, read_routing, "topoopt.kinds.network", "ROUTING_FILE"),
    check=check,
    problems=routing_problems,
    solver=at_first_use("topoopt.kinds.network.methods", "SOLVER"),
    figures_class=at_first_use("topoopt.kinds.network.figures", "NetworkFigures"),
    pages=pages_of(at_first_use("topoopt.kinds.network.page", "page")),
    format_2=at_first_use("topoopt.kinds.network.methods", "from_format_2"),
    explain=at_first_use("topoopt.kinds.network.explain", "explain"),
    evaluate=at_first_use("topoopt.kinds.network.methods", "given_routing"),
)

TOPOLOGY = replace(
    ROUTING,
    name="topology",
    problems=topology_problems,
    takes_budget=True,
    takes_jobs=True,
    files=KindFiles(TopologyInstance, read_topology, "topoopt.kinds.network", "TOPOLOGY_FILE"),
    evaluate=at_first_use("topoopt.kinds.network.methods", "given_links"),
)

RECORDS = (ROUTING, TOPOLOGY)
