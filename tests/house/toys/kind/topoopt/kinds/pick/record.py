"""The kind `pick`."""

from __future__ import annotations

from topoopt.core.pick import PickProblem, PickSolution
from topoopt.kinds.pick.files import SOLUTION_FILE, PickFile, read_pick
from topoopt.verify.pick.check import check_pick

from topoopt.kinds.kind import Kind, Pages, Solver


def _solver() -> Solver:
    from topoopt.kinds.pick.solve import SOLVER

    return SOLVER


def _pages() -> Pages:
    return Pages(
        report=lambda solution: f"<!doctype html><p>{sorted(solution.picked)}</p>",
        figures=lambda _, solution: {"picked": list(solution.picked)},
        show=lambda console, solution, _: console.print(f"picked {sorted(solution.picked)}"),
    )


RECORDS = (
    Kind(
        name="pick",
        summary="some of a list of numbers with the largest sum",
        problem=PickProblem,
        solution=PickSolution,
        schema=PickFile,
        read=read_pick,
        read_solution=SOLUTION_FILE.read,
        write_solution=SOLUTION_FILE.write,
        document=SOLUTION_FILE.document,
        check=check_pick,
        solver=_solver,
        pages=_pages,
        maximise=lambda _: True,
    ),
)
