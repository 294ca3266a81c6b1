"""The kind `allocation`: rates of transfers that share links."""

from __future__ import annotations

from topoopt.core.allocation import AllocationPlan, problem_errors
from topoopt.core.data import called_later
from topoopt.core.errors import Problem
from topoopt.files.results import ResultFormat
from topoopt.kinds.allocation.read import AllocationInstance, resolve
from topoopt.kinds.kind import Kind, KindFiles, at_first_use, pages_of

SOLUTION_FILE = ResultFormat("allocation", AllocationPlan, resolve)

RECORDS = (
    Kind(
        name="allocation",
        files=KindFiles(AllocationInstance, resolve, "topoopt.kinds.allocation"),
        check=called_later("topoopt.verify.allocation", "CHECKER"),
        solver=at_first_use("topoopt.kinds.allocation.methods", "SOLVER"),
        figures_class=at_first_use("topoopt.kinds.allocation.page", "AllocationFigures"),
        pages=pages_of(at_first_use("topoopt.kinds.allocation.page", "page")),
        format_2=at_first_use("topoopt.kinds.allocation.methods", "from_format_2"),
        explain=at_first_use("topoopt.kinds.allocation.methods", "explain"),
        maximise=lambda problem: bool(problem.maximise),
        problems=lambda problem: [Problem(text, path="problem") for text in problem_errors(problem)],
    ),
)
