"""The kind `hierarchical-bandwidth`: bandwidths of the dimensions of a hierarchical network."""

from __future__ import annotations

from topoopt.core.data import called_later
from topoopt.core.hierarchy import HierarchicalPlan
from topoopt.files.results import ResultFormat
from topoopt.kinds.hierarchy.read import HierarchicalInstance, resolve
from topoopt.kinds.kind import Kind, KindFiles, at_first_use, pages_of

SOLUTION_FILE = ResultFormat("hierarchical-bandwidth", HierarchicalPlan, resolve)

RECORDS = (
    Kind(
        name="hierarchical-bandwidth",
        files=KindFiles(HierarchicalInstance, resolve, "topoopt.kinds.hierarchy"),
        check=called_later("topoopt.verify.hierarchy", "check"),
        solver=at_first_use("topoopt.kinds.hierarchy.methods", "SOLVER"),
        figures_class=at_first_use("topoopt.kinds.hierarchy.page", "HierarchicalFigures"),
        pages=pages_of(at_first_use("topoopt.kinds.hierarchy.page", "page")),
        format_2=at_first_use("topoopt.kinds.hierarchy.methods", "from_format_2"),
    ),
)
