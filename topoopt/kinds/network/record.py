"""The kinds `routing` and `topology`."""

from __future__ import annotations

from dataclasses import replace

from topoopt.core.errors import Problem
from topoopt.core.network import RoutingProblem
from topoopt.files.solution_format import LIMITS
from topoopt.kinds.kind import Kind, KindFiles, at_any_depth, at_first_use, no_problems
from topoopt.kinds.network.check import check_solution
from topoopt.kinds.network.read import read_routing, read_topology
from topoopt.kinds.network.schema import RoutingFile, TopologyFile
from topoopt.kinds.network.solution_file import SOLUTION_FILE


def _problems(problem: RoutingProblem) -> list[Problem]:
    """Routes that no solution file holds: a number for each source and link, unless one source stands for all."""
    topology, most = problem.topology, LIMITS.json_nodes
    if topology.servers * len(topology.arcs) <= most or _alike(problem):
        return []
    value = f"{topology.servers} servers, {len(topology.arcs)} links in one direction"
    allowed = f"{most} at most if multiplied, or links and demand that look the same from every server"
    return [Problem("more routes than a solution file holds", path="topology", value=value, allowed=allowed)]


def _alike(problem: RoutingProblem) -> bool:
    from solvers.network.routing.circulant import circulant_classes, shift_invariant  # compiled, and rarely needed

    free = problem.max_hops is None and not problem.hop_price
    return free and circulant_classes(problem.topology) is not None and all(map(shift_invariant, problem.demands))


ROUTING = Kind(
    name="routing",
    files=KindFiles(RoutingFile, read_routing, SOLUTION_FILE),
    check=at_any_depth(check_solution),
    problems=_problems,
    solver=at_first_use("topoopt.kinds.network.solve", "SOLVER"),
    pages=at_first_use("topoopt.kinds.network.show", "PAGES"),
    explain=at_first_use("topoopt.kinds.network.explain_document", "explain"),
    evaluate=at_first_use("topoopt.kinds.network.evaluate", "given_routing"),
)

TOPOLOGY = replace(
    ROUTING,
    name="topology",
    problems=no_problems,
    takes_jobs=True,
    files=KindFiles(TopologyFile, read_topology, SOLUTION_FILE),
    evaluate=at_first_use("topoopt.kinds.network.evaluate", "given_links"),
)

RECORDS = (ROUTING, TOPOLOGY)
