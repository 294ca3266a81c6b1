"""The kind `shared-cluster`: many jobs on one cluster, which arrive and wait, or run at once."""

from __future__ import annotations

from typing import Any

from topoopt.core.errors import Problem
from topoopt.core.shared_cluster import SharedCluster, SharedClusterPlan
from topoopt.files.results import ResultFormat
from topoopt.kinds.kind import Kind, KindFiles, at_first_use, pages_of
from topoopt.kinds.shared_cluster.read import SharedClusterInstance, resolve
from topoopt.verify.checker import CheckDepth, CheckFindings

SOLUTION_FILE = ResultFormat("shared-cluster", SharedClusterPlan, resolve)


def _errors(problem: SharedCluster) -> list[Problem]:
    if not problem.at_once:
        return []
    from topoopt.kinds.shared_cluster.figures import fabric_errors

    return fabric_errors(problem)


def _check(problem: SharedCluster, result: Any, depth: CheckDepth) -> CheckFindings:
    """Check a result; rates of equal cost follow from the shipped prices: no others are taken."""
    from topoopt.costs import default_price_book
    from topoopt.verify.shared_cluster.checker import check_shared_cluster

    return check_shared_cluster(problem, result, depth, default_price_book())


RECORDS = (
    Kind(
        name="shared-cluster",
        files=KindFiles(SharedClusterInstance, resolve, "topoopt.kinds.shared_cluster"),
        check=_check,
        problems=_errors,
        solver=at_first_use("topoopt.kinds.shared_cluster.methods", "SOLVER"),
        figures_class=at_first_use("topoopt.kinds.shared_cluster.figures", "SharedClusterFigures"),
        pages=pages_of(
            at_first_use("topoopt.kinds.shared_cluster.page", "page"),
            at_first_use("topoopt.kinds.shared_cluster.page", "statistics_table"),
        ),
        format_2=at_first_use("topoopt.kinds.shared_cluster.methods", "from_format_2"),
    ),
)
