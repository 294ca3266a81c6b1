"""The kinds `routing` and `topology`."""

from __future__ import annotations

from dataclasses import replace

from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.kinds.kind import Kind, at_first_use
from topoopt.kinds.network.check import check_solution
from topoopt.kinds.network.read import read_routing, read_topology
from topoopt.kinds.network.schema import RoutingFile, TopologyFile
from topoopt.kinds.network.solution_file import SOLUTION_FILE

ROUTING = Kind(
    name="routing",
    summary="least largest utilisation of the links of a given topology",
    problem=RoutingProblem,
    schema=RoutingFile,
    read=read_routing,
    solution_file=SOLUTION_FILE,
    check=check_solution,
    solver=at_first_use("topoopt.kinds.network.solve", "SOLVER"),
    pages=at_first_use("topoopt.kinds.network.show", "PAGES"),
    explain=at_first_use("topoopt.kinds.network.explain_document", "explain"),
    evaluate=at_first_use("topoopt.kinds.network.evaluate", "given_routing"),
)

TOPOLOGY = replace(
    ROUTING,
    name="topology",
    summary="the links as well, so that their largest utilisation is least",
    problem=TopologyProblem,
    schema=TopologyFile,
    read=read_topology,
    evaluate=at_first_use("topoopt.kinds.network.evaluate", "given_links"),
)

RECORDS = (ROUTING, TOPOLOGY)
