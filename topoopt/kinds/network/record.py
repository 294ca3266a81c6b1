"""The kinds `routing` and `topology`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.network_solution import NetworkSolution
from topoopt.kinds.kind import Effort, Explanation, Kind, Pages, Question, Solver
from topoopt.kinds.network.check import check_solution
from topoopt.kinds.network.read import read_routing, read_topology
from topoopt.kinds.network.schema import RoutingFile, TopologyFile
from topoopt.kinds.network.solution_file import SOLUTION_FILE


def _solver() -> Solver:
    from topoopt.kinds.network.solve import SOLVER

    return SOLVER


def _pages() -> Pages:
    from topoopt.kinds.network.show import PAGES

    return PAGES


def _explain(
    problem: RoutingProblem | TopologyProblem | None, solution: NetworkSolution, question: Question
) -> Explanation:
    from topoopt.kinds.network.explain_document import explain

    return explain(problem, solution, question)


def _evaluate_routing(
    problem: RoutingProblem, effort: Effort, solution: NetworkSolution | None, **given: Any
) -> tuple[RoutingProblem, Any]:
    from topoopt.kinds.network.evaluate import given_routing

    return given_routing(problem, effort, solution, **given)


def _evaluate_links(
    problem: TopologyProblem, effort: Effort, solution: NetworkSolution | None, **given: Any
) -> tuple[TopologyProblem, Any]:
    from topoopt.kinds.network.evaluate import given_links

    return given_links(problem, effort, solution, **given)


ROUTING = Kind(
    name="routing",
    summary="least largest utilisation of the links of a given topology",
    problem=RoutingProblem,
    solution=NetworkSolution,
    schema=RoutingFile,
    read=read_routing,
    read_solution=SOLUTION_FILE.read,
    write_solution=SOLUTION_FILE.write,
    document=SOLUTION_FILE.document,
    check=check_solution,
    solver=_solver,
    pages=_pages,
    explain=_explain,
    evaluate=_evaluate_routing,
)

TOPOLOGY = replace(
    ROUTING,
    name="topology",
    summary="the links as well, so that their largest utilisation is least",
    problem=TopologyProblem,
    schema=TopologyFile,
    read=read_topology,
    evaluate=_evaluate_links,
)

RECORDS = (ROUTING, TOPOLOGY)
