"""The kind `collective`."""

from __future__ import annotations

from topoopt.core.collective import CollectiveObjective
from topoopt.kinds.collective.read import read_collective
from topoopt.kinds.collective.schema import CollectiveFile
from topoopt.kinds.kind import Kind, KindFiles, at_any_depth, at_first_use, called_later

RECORDS = (
    Kind(
        name="collective",
        files=KindFiles(CollectiveFile, read_collective, "topoopt.kinds.collective.solution_file"),
        check=at_any_depth(called_later("topoopt.verify.collective.check", "check_collective")),
        solver=at_first_use("topoopt.kinds.collective.solve", "SOLVER"),
        explain=at_first_use("topoopt.kinds.collective.explain", "explain"),
        pages=at_first_use("topoopt.kinds.collective.show", "PAGES"),
        maximise=lambda problem: problem.objective is CollectiveObjective.THROUGHPUT,
    ),
)
