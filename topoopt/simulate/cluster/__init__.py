"""Simulation of a cluster that many jobs share, event by event: arrivals, starts, moves, ends.

`engine` is the event loop over a `state`, `placers` choose servers, `backfill`, `defragment` and `jointly` decide who
else may start, `work` says how fast running jobs advance, `loads` are those of their links,
`objective` sums up.
"""

from topoopt.simulate.cluster.engine import ClusterRun, simulate

__all__ = ["ClusterRun", "simulate"]
