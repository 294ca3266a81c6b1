"""The kind `hierarchical-bandwidth`."""

from __future__ import annotations

from topoopt.kinds.hierarchy.read import read_hierarchical
from topoopt.kinds.hierarchy.schema import HierarchicalFile
from topoopt.kinds.kind import Kind, KindFiles, at_any_depth, at_first_use, called_later

RECORDS = (
    Kind(
        name="hierarchical-bandwidth",
        files=KindFiles(HierarchicalFile, read_hierarchical, "topoopt.kinds.hierarchy.solution_file"),
        check=at_any_depth(called_later("topoopt.verify.hierarchy.check", "check_hierarchical")),
        solver=at_first_use("topoopt.kinds.hierarchy.solve", "SOLVER"),
        pages=at_first_use("topoopt.kinds.hierarchy.show", "PAGES"),
    ),
)
