"""The kinds `routing` and `topology`."""

from __future__ import annotations

from dataclasses import replace

from topoopt.kinds.kind import Kind, KindFiles, at_any_depth, at_first_use, called_later
from topoopt.kinds.network.read import read_routing, read_topology
from topoopt.kinds.network.schema import RoutingFile, TopologyFile
from topoopt.kinds.network.sizes import routing_problems, topology_problems

ROUTING = Kind(
    name="routing",
    files=KindFiles(RoutingFile, read_routing, "topoopt.kinds.network.solution_file"),
    check=at_any_depth(called_later("topoopt.kinds.network.check", "check_solution")),
    problems=routing_problems,
    solver=at_first_use("topoopt.kinds.network.solve", "SOLVER"),
    pages=at_first_use("topoopt.kinds.network.show", "PAGES"),
    explain=at_first_use("topoopt.kinds.network.explain_document", "explain"),
    evaluate=at_first_use("topoopt.kinds.network.evaluate", "given_routing"),
)

TOPOLOGY = replace(
    ROUTING,
    name="topology",
    problems=topology_problems,
    takes_budget=True,
    takes_jobs=True,
    files=KindFiles(TopologyFile, read_topology, "topoopt.kinds.network.solution_file"),
    evaluate=at_first_use("topoopt.kinds.network.evaluate", "given_links"),
)

RECORDS = (ROUTING, TOPOLOGY)
