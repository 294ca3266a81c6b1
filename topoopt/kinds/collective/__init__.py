"""The kind `collective`: schedules of one collective on one network."""

from __future__ import annotations

from topoopt.core.collective import CollectivePlan
from topoopt.core.data import called_later
from topoopt.files.results import ResultFormat
from topoopt.kinds.collective.read import CollectiveInstance, resolve
from topoopt.kinds.kind import Kind, KindFiles, at_first_use, pages_of

SOLUTION_FILE = ResultFormat("collective", CollectivePlan, resolve)

RECORDS = (
    Kind(
        name="collective",
        files=KindFiles(CollectiveInstance, resolve, "topoopt.kinds.collective"),
        check=called_later("topoopt.verify.collective", "CHECKER"),
        solver=at_first_use("topoopt.kinds.collective.methods", "SOLVER"),
        figures_class=at_first_use("topoopt.kinds.collective.figures", "CollectiveFigures"),
        pages=pages_of(at_first_use("topoopt.kinds.collective.page", "page")),
        format_2=at_first_use("topoopt.kinds.collective.methods", "from_format_2"),
        explain=at_first_use("topoopt.kinds.collective.explain", "explain"),
        maximise=lambda problem: problem.objective == "throughput",
    ),
)
