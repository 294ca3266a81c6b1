"""The kind `placement`."""

from __future__ import annotations

from topoopt.kinds.kind import Kind, KindFiles, at_any_depth, at_first_use
from topoopt.kinds.placement.read import read_placement
from topoopt.kinds.placement.schema import PlacementFile
from topoopt.kinds.placement.solution_file import SOLUTION_FILE
from topoopt.verify.placement.check import check_placement

RECORDS = (
    Kind(
        name="placement",
        files=KindFiles(PlacementFile, read_placement, SOLUTION_FILE),
        check=at_any_depth(check_placement),
        solver=at_first_use("topoopt.kinds.placement.solve", "SOLVER"),
        pages=at_first_use("topoopt.kinds.placement.show", "PAGES"),
        takes_budget=True,
    ),
)
