"""Plans whose pods forward: circuits between any pods, routes over them, and every box of the proofs, once more."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from topoopt.core.dag_topology import DagTopologyProblem, Pair
from topoopt.core.dag_topology_solution import DagTopologySolution, PairCircuits, Route
from topoopt.core.proofs import Argument
from topoopt.verify.dag_topology.follow_routes import follow_routes
from topoopt.verify.dag_topology.route_box import RouteBox
from topoopt.verify.dag_topology.route_boxes import RouteBoxes
from topoopt.verify.dag_topology.tree import SLACK_ROUNDING, TreeWalk
from topoopt.verify.laws.bounds import check_stated
from topoopt.verify.laws.findings import ViolationLog, as_int


def check_plans(findings: ViolationLog, problem: DagTopologyProblem, solution: DagTopologySolution) -> None:
    """The circuits and routes of the plan, and of the fastest one where it is another."""
    if solution.fastest is not None:
        findings.add("circuits", "`fastest` has no routes: where pods forward `fastest_forwarded` stands in its place")
    _check_plan(findings, problem, "circuits", solution.circuits, solution.routes)
    if solution.fastest_forwarded is not None:
        other = solution.fastest_forwarded
        _check_plan(findings, problem, "circuits of the fastest plan", other.circuits, other.routes)


def _check_plan(
    findings: ViolationLog,
    problem: DagTopologyProblem,
    name: str,
    circuits: Sequence[PairCircuits],
    routes: Sequence[Route],
) -> None:
    pairs = [(each.one, each.other) for each in circuits]
    if pairs != sorted(set(pairs)) or any(not 0 <= one < other < problem.pods for one, other in pairs):
        findings.add("circuits", f"{name}: not each pair of pods once, in ascending order")
        return
    if any(as_int(each.count) is None or each.count < 1 for each in circuits):
        findings.add("circuits", f"{name}: not a whole number of at least 1 for each pair")
        return
    used = [0] * problem.pods
    for each in circuits:
        used[each.one] += each.count
        used[each.other] += each.count
    over = [
        f"{name}: {used[pod]} at pod {pod}, of {most}" for pod, most in enumerate(problem.ports) if used[pod] > most
    ]
    findings.add_each("ports", range(len(over)), over.__getitem__)
    _check_routes(findings, problem, name, set(pairs), routes)


def _check_routes(
    findings: ViolationLog, problem: DagTopologyProblem, name: str, joined: set[Pair], routes: Sequence[Route]
) -> None:
    """Every direction has a way over circuits: the one stated, or the circuits of its own pair."""
    wrong = []
    if [(route[0], route[-1]) for route in routes] != sorted({(route[0], route[-1]) for route in routes}):
        wrong.append("not in ascending order, one for each source and target")
    ways: dict[Pair, Route] = {ends: ends for ends in problem.directions}
    for route in routes:
        ends = (route[0], route[-1])
        if ends not in ways:
            wrong.append(f"{list(route)}: nothing is transferred there")
        elif not 2 < len(route) <= problem.max_hops + 1:
            wrong.append(f"{list(route)}: {len(route) - 1} circuits, allowed are 2 to {problem.max_hops}")
        elif len(set(route)) < len(route):
            wrong.append(f"{list(route)}: a pod twice")
        ways[ends] = route
    for ends, way in ways.items():
        gaps = [arc for arc in itertools.pairwise(way) if (min(arc), max(arc)) not in joined]
        if gaps:
            wrong.append(f"from {ends[0]} to {ends[1]}: no circuit between pods {gaps[0][0]} and {gaps[0][1]}")
    texts = [f"{name}: {text}" for text in wrong]
    findings.add_each("routes", range(len(texts)), texts.__getitem__)


def follow_plan(
    problem: DagTopologyProblem, circuits: Sequence[PairCircuits], routes: Sequence[Route]
) -> tuple[list[float], list[float]]:
    """(start, end) of all steps over a plan."""
    return follow_routes(problem, {(each.one, each.other): each.count for each in circuits}, routes)


def fastest_of(problem: DagTopologyProblem, solution: DagTopologySolution) -> float:
    """What the fastest plan of the file takes."""
    plan = solution if solution.fastest_forwarded is None else solution.fastest_forwarded
    return max(follow_plan(problem, plan.circuits, plan.routes)[1])


def check_route_trees(
    findings: ViolationLog, problem: DagTopologyProblem, solution: DagTopologySolution, events: int
) -> None:
    """Both trees of boxes.

    Raises:
        BeyondDepthError: they take more than so many events.
    """
    proof, bound = solution.proof, solution.bound
    if proof.paths or proof.means:
        findings.add("bound", "means of paths prove nothing where pods forward")
    boxes = RouteBoxes(problem, bound.value)
    # A box asks for every route of its directions beside every step.
    walk = TreeWalk(len(solution.steps) + sum(map(len, boxes.routes)), events)

    def none(_: int, __: RouteBox) -> bool:
        return False

    def takes(box: RouteBox) -> float:
        return max(follow_routes(problem, boxes.counts(box), boxes.chosen(box))[1])

    def makespan_bound() -> float:
        walk(boxes, proof.makespan_tree, lambda box: box.point and takes(box) >= boxes.late, none)
        return bound.value

    check_stated(findings, bound, {Argument.ROUTE_BRANCHING: makespan_bound}, solution.objective.value)
    later = RouteBoxes(
        problem, fastest_of(problem, solution) * (1 + problem.slack_percent / 100) * (1 + SLACK_ROUNDING)
    )

    def enough(box: RouteBox) -> bool:
        return later.circuits(box) >= proof.circuits_bound or (box.point and takes(box) >= later.late)

    try:
        walk(later, proof.circuits_tree, enough, none)
    except ValueError as error:
        findings.add("bound", f"fewer than {proof.circuits_bound} circuits are not excluded: {error}")
