"""The kind `hierarchical-bandwidth`."""

from __future__ import annotations

from topoopt.core.hierarchy import HierarchicalProblem
from topoopt.kinds.hierarchy.read import read_hierarchical
from topoopt.kinds.hierarchy.schema import HierarchicalFile
from topoopt.kinds.hierarchy.solution_file import SOLUTION_FILE
from topoopt.kinds.kind import Kind, at_first_use
from topoopt.verify.hierarchy.check import check_hierarchical

RECORDS = (
    Kind(
        name="hierarchical-bandwidth",
        summary="bandwidth of every dimension of a hierarchical network",
        problem=HierarchicalProblem,
        schema=HierarchicalFile,
        read=read_hierarchical,
        solution_file=SOLUTION_FILE,
        check=check_hierarchical,
        solver=at_first_use("topoopt.kinds.hierarchy.solve", "SOLVER"),
        pages=at_first_use("topoopt.kinds.hierarchy.show", "PAGES"),
    ),
)
