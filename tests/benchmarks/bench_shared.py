"""Shared clusters: 27 jobs on 432 servers, ten thousand arrivals on 4096, all fabrics simulated and checked."""

from __future__ import annotations

import time
from dataclasses import replace

from tests.benchmarks.figures import Figure, best_of
from tests.support.paths import INSTANCES
from topoopt.core.shared_cluster import SharedCluster
from topoopt.kinds.files import read_instance
from topoopt.kinds.pipeline import solve

SHIPPED = INSTANCES / "shared"


def shared_figures() -> list[Figure]:
    """Seconds of a whole solve; of the large one on each fabric alone, then on all with the check."""
    small, large = (read_instance(SHIPPED / f"{name}.yaml") for name in ("published-mix-432", "arrivals-4096"))
    assert isinstance(small, SharedCluster)
    assert isinstance(large, SharedCluster)
    seconds = best_of(lambda: solve(small), repeats=3)
    figures = [Figure("27 jobs on 432 servers, four fabrics", seconds, "s", 120.0)]
    hashed = replace(large.fabrics[2], name="oversubscribed-fat-tree-hashed", paths="hashed")
    for fabric in (*large.fabrics, hashed):
        began = time.perf_counter()
        solve(replace(large, fabrics=(fabric,)))
        figures.append(Figure(f"10 000 arrivals, 4096 servers: {fabric.name}", time.perf_counter() - began, "s", 600.0))
    began = time.perf_counter()
    solve(large)
    figures.append(Figure("10 000 arrivals, 4096 servers: four fabrics", time.perf_counter() - began, "s", 600.0))
    return figures
