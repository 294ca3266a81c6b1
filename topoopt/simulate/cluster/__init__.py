"""Simulation of a cluster that many jobs share, event by event: arrivals, starts, moves, ends.

`engine` is the event loop over a `state`, `placers` choose servers, `backfill`, `defragment` and `jointly` decide who
else may start, `work` says how fast running jobs advance, `loads` and `rates` share the links, `metrics` sums up.
"""

from topoopt.simulate.cluster.engine import ClusterRun, simulate
from topoopt.simulate.cluster.metrics import load_objective, load_statistics, metrics_of, objective_of

__all__ = ["ClusterRun", "load_objective", "load_statistics", "metrics_of", "objective_of", "simulate"]
