"""The kind `placement`: operators of a graph on devices."""

from __future__ import annotations

from topoopt.core.data import called_later
from topoopt.core.placement import PlacementPlan
from topoopt.files.results import ResultFormat
from topoopt.kinds.kind import Kind, KindFiles, at_first_use, pages_of
from topoopt.kinds.placement.read import PlacementInstance, resolve

SOLUTION_FILE = ResultFormat("placement", PlacementPlan, resolve)

RECORDS = (
    Kind(
        name="placement",
        files=KindFiles(PlacementInstance, resolve, "topoopt.kinds.placement"),
        check=called_later("topoopt.verify.placement.check", "check"),
        solver=at_first_use("topoopt.kinds.placement.methods", "SOLVER"),
        figures_class=at_first_use("topoopt.kinds.placement.figures", "PlacementFigures"),
        pages=pages_of(at_first_use("topoopt.kinds.placement.page", "page")),
        format_2=at_first_use("topoopt.kinds.placement.methods", "from_format_2"),
        takes_budget=True,
    ),
)
