"""Solving kind `pick`: sorting is exact."""

from __future__ import annotations

from topoopt.core.pick import PickProblem, PickSolution

from topoopt.core.proofs import Argument, Bound
from topoopt.core.solution import UNCHECKED, Objective
from topoopt.core.verdict import Status, StopReason
from topoopt.core.versions import versions
from topoopt.kinds.kind import Effort, Method, Solver, table


def largest(problem: PickProblem, effort: Effort) -> tuple[int, ...]:
    """The places of the largest numbers."""
    order = sorted(range(len(problem.values)), key=lambda place: -problem.values[place])
    return tuple(sorted(order[: problem.count]))


def assemble(problem: PickProblem, picked: tuple[int, ...], effort: Effort) -> PickSolution:
    """The solution of some places."""
    total = sum(problem.values[place] for place in picked)
    return PickSolution(
        name=problem.name,
        status=Status.OPTIMAL,
        stopped_by=StopReason.CONVERGED,
        objective=Objective("sum", total, ""),
        bound=Bound(total, Argument.SORTING),
        check=UNCHECKED,
        seed=effort.search.seed,
        method=effort.search.method,
        instance_sha256=problem.sha256,
        versions=versions(),
        picked=picked,
    )


METHODS = table(Method("auto", "the largest", largest))
SOLVER = Solver(methods=lambda _: METHODS, assemble=assemble, tables=lambda _: (("", METHODS),))
