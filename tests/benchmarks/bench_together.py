"""Jobs together: 27 jobs of 16 servers on 432, planned and simulated on shards and on three shared fabrics."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from tests.benchmarks.figures import Figure, best_of
from tests.support.paths import INSTANCES
from topoopt.core.shared_cluster import SharedCluster
from topoopt.kinds.files import read_instance
from topoopt.kinds.pipeline import solve
from topoopt.kinds.shared_cluster.figures import FlowTimes, fabric_options
from topoopt.simulate.cluster_rates import simulate_together
from topoopt.simulate.fabrics import FABRICS
from topoopt.workloads.cluster_draws import draw_jobs

INSTANCE = INSTANCES / "shared" / "mix-432.yaml"
FAT_TREE = 1
"""Its place among the fabrics of the instance."""


def together_figures() -> list[Figure]:
    """Seconds of the whole experiment at full load, and of one simulation on the cost-equivalent fat-tree."""
    problem = read_instance(INSTANCE)
    if not isinstance(problem, SharedCluster) or problem.at_once is None:
        raise AssertionError("the instance of the benchmark is of another kind")
    given = replace(problem.at_once, loads=(27,), repetitions=1)
    full = replace(problem, jobs=given)
    solve(replace(full, jobs=replace(given, loads=(1,)), search=replace(full.search, budget=1)))  # compiles
    began = time.perf_counter()
    solution = solve(full)
    whole = time.perf_counter() - began
    if not solution.check.ok:
        raise AssertionError(solution.check.violations)

    draw = draw_jobs(given, full.classes, full.servers, 27, 0, full.search.seed)
    fabric = full.fabrics[FAT_TREE]
    times = FlowTimes(full, solution.plan.classes)
    rows = zip(draw[0], draw[1], strict=True)
    jobs = [(times.graph(index, FAT_TREE), servers) for index, servers in rows]

    def run(model: str) -> list[float]:
        options = fabric_options(fabric, draw[3])
        times = simulate_together(jobs, full.cluster, FABRICS[fabric.kind].build, options, model)
        return [float(time_ms) for time_ms in times]

    if not np.array_equal(run("fluid"), solution.figures.draws[0].times_ms[FAT_TREE]):
        raise AssertionError("the same draw took another time")
    return [
        Figure("27 jobs on 432 servers, four fabrics: planned, run together, checked", whole, "s", 120.0),
        Figure("27 jobs on the fat-tree, max-min fair, one draw", best_of(lambda: run("fluid"), 3), "s", 5.0),
        Figure("27 jobs on the fat-tree, rounds, one draw", best_of(lambda: run("rounds"), 3), "s", 1.0),
    ]
