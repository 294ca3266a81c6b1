"""The kind `shared-cluster`."""

from __future__ import annotations

from topoopt.core.errors import Problem
from topoopt.core.shared_cluster import SharedCluster
from topoopt.kinds.kind import Kind, KindFiles, at_first_use, called_later
from topoopt.kinds.shared_cluster.read import read_shared_cluster
from topoopt.kinds.shared_cluster.schema import SharedClusterFile


def _problems(problem: SharedCluster) -> list[Problem]:
    if not problem.at_once:
        return []
    from topoopt.kinds.shared_cluster.at_once import problems_at_once

    return problems_at_once(problem)


RECORDS = (
    Kind(
        name="shared-cluster",
        files=KindFiles(
            SharedClusterFile,
            read_shared_cluster,
            "topoopt.kinds.shared_cluster.solution_file",
        ),
        check=called_later("topoopt.kinds.shared_cluster.check", "check_cluster"),
        problems=_problems,
        solver=at_first_use("topoopt.kinds.shared_cluster.solve", "SOLVER"),
        pages=at_first_use("topoopt.kinds.shared_cluster.show", "PAGES"),
    ),
)
