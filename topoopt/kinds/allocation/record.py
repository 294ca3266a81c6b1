"""The kind `allocation`."""

from __future__ import annotations

from topoopt.core.allocation import AllocationGoal, AllocationProblem
from topoopt.core.allocation_rules import problem_faults
from topoopt.core.allocation_solution import AllocationSolution
from topoopt.core.errors import Problem
from topoopt.kinds.allocation.read import read_allocation
from topoopt.kinds.allocation.schema import AllocationFile
from topoopt.kinds.allocation.solution_file import SOLUTION_FILE
from topoopt.kinds.kind import Explanation, Kind, Pages, Question, Solver
from topoopt.verify.allocation.check import check_allocation


def _solver() -> Solver:
    from topoopt.kinds.allocation.solve import SOLVER

    return SOLVER


def _pages() -> Pages:
    from topoopt.kinds.allocation.show import PAGES

    return PAGES


def _explain(problem: AllocationProblem | None, solution: AllocationSolution, question: Question) -> Explanation:
    from topoopt.kinds.allocation.explain import explain

    return explain(problem, solution, question)


def _problems(problem: AllocationProblem) -> list[Problem]:
    return [Problem(fault, path="problem") for fault in problem_faults(problem)]


RECORDS = (
    Kind(
        name="allocation",
        summary="rates of transfers on given routes",
        problem=AllocationProblem,
        solution=AllocationSolution,
        schema=AllocationFile,
        read=read_allocation,
        read_solution=SOLUTION_FILE.read,
        write_solution=SOLUTION_FILE.write,
        document=SOLUTION_FILE.document,
        check=check_allocation,
        solver=_solver,
        pages=_pages,
        problems=_problems,
        explain=_explain,
        maximise=lambda problem: problem.goal is not AllocationGoal.COMPLETION_TIME,
    ),
)
