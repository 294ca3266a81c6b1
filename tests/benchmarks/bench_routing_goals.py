"""Processor time to a routing proven within 0.01 or 0.1 %, by `auto`, and by generators on circulants."""

from __future__ import annotations

import time

import numpy as np

from solvers.network.routing import route
from solvers.network.symmetric import route_circulant
from tests.benchmarks.bench_routing import demand_of, random_regular
from tests.benchmarks.figures import Figure

CASES = (
    (128, 1e-4, 0.8),
    (256, 1e-4, 2.0),
    (512, 1e-4, 3.0),
    (1024, 1e-4, 6.0),
    (2048, 1e-3, 15.0),
    (4096, 1e-3, 90.0),
)
"""Servers, gap asked for, seconds."""

LIMIT_S = 120.0


def routing_goal_figures() -> list[Figure]:
    """Uniform and skewed demand on random regular networks of degree 4; both on a circulant of 4096 servers."""
    for kind in ("uniform", "balanced skew"):
        route(random_regular(8, 2, 0), demand_of(8, kind), method="softmin", accuracy=1e-4)
    route_circulant([1, 5], demand_of(16, "uniform")[0])
    figures = []
    for n, accuracy, goal in CASES:
        for kind in ("uniform", "balanced skew"):
            topology, demand = random_regular(n, 4, 1), demand_of(n, kind)
            began = time.process_time()
            result = route(topology, demand, accuracy=accuracy, time_limit_s=LIMIT_S)
            seconds = time.process_time() - began
            name = f"routing, n = {n}, {kind}, {result.method}"
            figures.append(Figure(f"{name}: processor time", seconds, "s", goal))
            figures.append(Figure(f"{name}: proven gap", result.gap * 100, "%", accuracy * 100))
    n = 4096
    for kind in ("uniform", "skewed"):
        weight = np.ones(n) if kind == "uniform" else np.random.default_rng(1).lognormal(0, 1.5, n)
        weight[0] = 0.0
        began = time.process_time()
        circulant = route_circulant([1, 17, 257, 1025], weight)
        name = f"circulant, n = {n}, {kind}"
        figures.append(Figure(f"{name}: processor time", time.process_time() - began, "s", 0.2))
        figures.append(Figure(f"{name}: proven gap", (1 - circulant.bound / circulant.theta) * 100, "%", 0.01))
    return figures
