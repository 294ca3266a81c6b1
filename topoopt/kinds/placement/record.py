"""The kind `placement`."""

from __future__ import annotations

from topoopt.kinds.kind import Kind, KindFiles, at_any_depth, at_first_use, called_later
from topoopt.kinds.placement.read import read_placement
from topoopt.kinds.placement.schema import PlacementFile

RECORDS = (
    Kind(
        name="placement",
        files=KindFiles(PlacementFile, read_placement, "topoopt.kinds.placement.solution_file"),
        check=at_any_depth(called_later("topoopt.verify.placement.check", "check_placement")),
        solver=at_first_use("topoopt.kinds.placement.solve", "SOLVER"),
        pages=at_first_use("topoopt.kinds.placement.show", "PAGES"),
        takes_budget=True,
    ),
)
