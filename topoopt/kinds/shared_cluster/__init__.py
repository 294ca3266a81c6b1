"""Shared clusters without files or command line, from a problem to a checked solution.

A problem is a `topoopt.core.shared_cluster.SharedCluster`; `solve_shared_cluster` simulates its jobs on every fabric,
and `topoopt.verify.shared_cluster.check.check_shared_cluster` judges a solution. `methods` holds the literal table.
"""

from topoopt.kinds.shared_cluster.methods import SCHEDULING_METHODS
from topoopt.kinds.shared_cluster.solve import search_problems, solve_shared_cluster

__all__ = ["SCHEDULING_METHODS", "search_problems", "solve_shared_cluster"]
