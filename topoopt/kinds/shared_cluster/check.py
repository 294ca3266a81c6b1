"""The checker of shared clusters, with the prices it asks for."""

from __future__ import annotations

from topoopt.core.shared_cluster import SharedCluster
from topoopt.core.shared_cluster_solution import SharedClusterSolution
from topoopt.costs.default_book import default_price_book
from topoopt.verify.laws.findings import CheckDepth, CheckFindings
from topoopt.verify.shared_cluster.check import check_shared_cluster


def check_cluster(problem: SharedCluster, solution: SharedClusterSolution, depth: CheckDepth) -> CheckFindings:
    """What is wrong with a solution; rates of equal cost follow from the shipped prices: no others are taken."""
    return check_shared_cluster(problem, solution, default_price_book())
