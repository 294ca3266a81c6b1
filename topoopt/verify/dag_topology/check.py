"""The checker of kind `dag-topology`: the job followed over its circuits, and every box of the proofs, once more."""

from __future__ import annotations

from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.dag_topology_solution import DagTopologySolution
from topoopt.core.proofs import Argument
from topoopt.core.solution import Decides
from topoopt.core.verdict import Tolerance
from topoopt.verify.dag_topology.boxes import Box, Boxes
from topoopt.verify.dag_topology.follow import follow, without_transfers
from topoopt.verify.dag_topology.means import Means
from topoopt.verify.dag_topology.padding import padding
from topoopt.verify.dag_topology.tree import SLACK_ROUNDING, BeyondDepthError, TreeWalk
from topoopt.verify.laws.bounds import check_claim, check_stated
from topoopt.verify.laws.findings import (
    CheckDepth,
    CheckFindings,
    ViolationLog,
    as_int,
    check_identity,
    check_status,
    differs,
)

RELATIVE = Tolerance.EVENTS.relative
WHOLE = 1e-7
"""What a number of circuits must be above the whole one before it: rounding of sums."""


def check_dag_topology(problem: DagTopologyProblem, solution: DagTopologySolution, depth: CheckDepth) -> CheckFindings:
    """All laws the circuits break, all figures that are wrong, and bounds that are beaten or not proven.

    Never raises, whatever stands in the solution; the instance is taken as valid.
    """
    findings = ViolationLog()
    findings.guard("identity", "the identity", lambda: _check_identity(findings, problem, solution))
    findings.guard("circuits", "the circuits", lambda: _check_circuits(findings, problem, solution))
    if findings.clean:
        findings.guard("steps", "the steps", lambda: _check_steps(findings, problem, solution))
    if findings.clean:
        findings.guard("bound", "the bounds", lambda: _check_bounds(findings, problem, solution, depth))
    return findings.findings()


def _check_identity(findings: ViolationLog, problem: DagTopologyProblem, solution: DagTopologySolution) -> None:
    names = ("pods", "ports", "slack_percent")
    rows = ((name, getattr(solution, name), getattr(problem, name)) for name in names)
    check_identity(findings, problem, solution, *rows)
    objective = solution.objective
    findings.hold("identity", ("objective", objective.name, "makespan"), ("unit", objective.unit, problem.time_unit))


def _check_circuits(findings: ViolationLog, problem: DagTopologyProblem, solution: DagTopologySolution) -> None:
    joined = tuple((each.one, each.other) for each in solution.circuits)
    if joined != problem.pairs:
        findings.add("circuits", "not once every pair that something is transferred between, in ascending order")
        return
    plans = {"circuits": [each.count for each in solution.circuits]}
    if solution.fastest is not None:
        plans["circuits of the fastest plan"] = list(solution.fastest)
    for name, counts in plans.items():
        wrong = [count for count in counts if as_int(count) is None or count < 1]
        if wrong or len(counts) != len(joined):
            findings.add("circuits", f"{name}: not a whole number of at least 1 for each pair")
            continue
        used = [0] * problem.pods
        for pair, count in zip(joined, counts, strict=True):
            for pod in pair:
                used[pod] += count
        over = [f"{name}: {used[k]} at pod {k}, of {most}" for k, most in enumerate(problem.ports) if used[k] > most]
        findings.add_each("ports", range(len(over)), over.__getitem__)


def _check_steps(findings: ViolationLog, problem: DagTopologyProblem, solution: DagTopologySolution) -> None:
    start, end = follow(problem, [each.count for each in solution.circuits])
    makespan = max(end)
    alone = without_transfers(problem)
    if differs(solution.compute_time, alone, RELATIVE):
        findings.add("compute_time", f"the solution states {solution.compute_time!r}, tasks alone take {alone!r}")
    if differs(solution.objective.value, makespan, RELATIVE):
        findings.add("objective", f"the solution states {solution.objective.value!r}, the job takes {makespan!r}")
    ends = [(m.source, m.target) for m in problem.transfers] + [(-1, -1)] * len(problem.tasks)
    stated = [(each.name, (each.source, each.target)) for each in solution.steps]
    if stated != list(zip(problem.names, ends, strict=True)):
        findings.add("steps", "not the steps of the instance, transfers first")
        return
    noise = RELATIVE * makespan
    wrong = [
        k
        for k, each in enumerate(solution.steps)
        if not (abs(each.start - start[k]) <= noise and abs(each.end - end[k]) <= noise)
    ]
    findings.add_each("steps", wrong, lambda k: f"{problem.names[k]!r} runs from {start[k]!r} to {end[k]!r}")
    fastest = max(follow(problem, solution.fastest_circuits)[1])
    if makespan > fastest * (1 + problem.slack_percent / 100) * (1 + RELATIVE):
        findings.add("slack", f"the job takes {makespan!r}, the fastest plan {fastest!r}")


def _check_bounds(
    findings: ViolationLog, problem: DagTopologyProblem, solution: DagTopologySolution, depth: CheckDepth
) -> None:
    value, proof, bound = solution.objective.value, solution.proof, solution.bound
    check_claim(findings, solution, ())
    check_status(findings, solution, Tolerance.EVENTS)
    if not 0 <= bound.value <= value * (1 + RELATIVE):
        findings.add("bound", f"a makespan of {value!r} and a bound of {bound.value!r}")
    total = solution.circuits_total
    if not 0 <= proof.circuits_bound <= total:
        findings.add("bound", f"{total} circuits are fewer than the {proof.circuits_bound} said to be needed")
    trees = {"makespan_tree": proof.makespan_tree, "circuits_tree": proof.circuits_tree}
    needless = list(padding(trees, proof.paths, proof.means))
    if needless:
        findings.add_each("bound", range(len(needless)), needless.__getitem__)
        return
    try:
        _check_trees(findings, problem, solution, depth.events)
    except BeyondDepthError as error:
        findings.leave_out("bound, proof.circuits_bound", str(error), Decides.BOUND)


def _check_trees(
    findings: ViolationLog, problem: DagTopologyProblem, solution: DagTopologySolution, events: int
) -> None:
    """Both trees of boxes.

    Raises:
        BeyondDepthError: they take more than so many events.
    """
    proof, bound = solution.proof, solution.bound
    means = Means(problem, proof.paths, proof.means)
    boxes = Boxes(problem, bound.value)
    walk = TreeWalk(len(solution.steps), events)

    def late(box: Box) -> bool:
        return box.point and max(follow(problem, box.least)[1]) >= boxes.late

    def makespan_bound() -> float:
        walk(boxes, proof.makespan_tree, late, lambda number, box: means.makespan(number, box) >= boxes.late)
        return bound.value

    check_stated(findings, bound, {Argument.CIRCUIT_BRANCHING: makespan_bound}, solution.objective.value)
    limit = max(follow(problem, solution.fastest_circuits)[1]) * (1 + problem.slack_percent / 100)
    later = Boxes(problem, limit * (1 + SLACK_ROUNDING))

    def enough(box: Box) -> bool:
        return sum(box.least) >= proof.circuits_bound or (
            box.point and max(follow(problem, box.least)[1]) >= later.late
        )

    def needed(number: int, box: Box) -> bool:
        at_least = means.circuits(number, box, later.late)
        return at_least > proof.circuits_bound - 1 + WHOLE or means.makespan(number, box) >= later.late

    try:
        walk(later, proof.circuits_tree, enough, needed)
    except ValueError as error:
        findings.add("bound", f"fewer than {proof.circuits_bound} circuits are not excluded: {error}")
