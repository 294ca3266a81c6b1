"""The kind `allocation`."""

from __future__ import annotations

from topoopt.core.allocation import AllocationGoal, AllocationProblem
from topoopt.core.allocation_rules import problem_faults
from topoopt.core.errors import Problem
from topoopt.kinds.allocation.read import read_allocation
from topoopt.kinds.allocation.schema import AllocationFile
from topoopt.kinds.kind import Kind, KindFiles, at_any_depth, at_first_use, called_later


def _problems(problem: AllocationProblem) -> list[Problem]:
    return [Problem(fault, path="problem") for fault in problem_faults(problem)]


RECORDS = (
    Kind(
        name="allocation",
        files=KindFiles(AllocationFile, read_allocation, "topoopt.kinds.allocation.solution_file"),
        check=at_any_depth(called_later("topoopt.verify.allocation.check", "check_allocation")),
        solver=at_first_use("topoopt.kinds.allocation.solve", "SOLVER"),
        pages=at_first_use("topoopt.kinds.allocation.show", "PAGES"),
        problems=_problems,
        explain=at_first_use("topoopt.kinds.allocation.explain", "explain"),
        maximise=lambda problem: problem.goal is not AllocationGoal.COMPLETION_TIME,
    ),
)
