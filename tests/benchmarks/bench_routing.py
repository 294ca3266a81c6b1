"""Time to a proven routing, beside HiGHS on the same linear program; circulants of a million servers."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from solvers.network.assembly import assemble
from solvers.network.flows import RoutingResult
from solvers.network.routing import route
from solvers.network.symmetric import route_circulant
from tests.benchmarks.figures import Figure
from topoopt.core.cluster import LinkDirection
from topoopt.core.topology import Topology

# servers, demand, gap asked for, seconds, and whether HiGHS (IPX) solves the same program beside it
CASES = (
    (64, "uniform", 5e-3, 0.4, True),
    (128, "uniform", 5e-3, 1.0, True),
    (128, "balanced skew", 5e-3, 1.0, True),
    (512, "uniform", 1e-2, 20.0, False),
    (512, "balanced skew", 1e-2, 20.0, False),
    (1024, "uniform", 1e-2, 120.0, False),
)


def random_regular(n: int, degree: int, seed: int) -> Topology:
    """Union of `degree` random permutations without fixed points (parallel links where they agree)."""
    rng = np.random.default_rng(seed)
    parts = []
    here = np.arange(n)
    for _ in range(degree):
        to = rng.permutation(n)
        while (to == here).any():
            to = rng.permutation(n)
        parts.append(np.column_stack((here, to)))
    return assemble(n, degree, LinkDirection.UNIDIRECTIONAL, parts, "random permutations")


def demand_of(n: int, kind: str) -> NDArray[np.float64]:
    """Mean 1; `balanced skew` is lognormal(1.5), rows and columns scaled to the same sums."""
    matrix = np.ones((n, n)) if kind == "uniform" else np.random.default_rng(1).lognormal(0, 1.5, (n, n))
    np.fill_diagonal(matrix, 0)
    for _ in range(0 if kind == "uniform" else 200):
        matrix /= matrix.sum(axis=1, keepdims=True)
        matrix /= matrix.sum(axis=0, keepdims=True)
    return matrix * (n * (n - 1) / matrix.sum())


def _timed(
    topology: Topology, demand: NDArray[np.float64], method: str, accuracy: float
) -> tuple[float, RoutingResult]:
    began = time.perf_counter()
    result = route(topology, demand, method=method, accuracy=accuracy, time_limit_s=180.0)
    return time.perf_counter() - began, result


def routing_figures() -> list[Figure]:
    """Wall time to the gap asked for, and the gap proven, per case; then circulants."""
    warm = random_regular(8, 2, 0)
    for method in ("pdlp", "frank-wolfe", "ipx"):
        route(warm, demand_of(8, "uniform"), method=method, accuracy=1e-2)
    route_circulant([1, 5], demand_of(16, "uniform")[0])
    figures = []
    for n, kind, accuracy, goal, beside in CASES:
        topology, demand = random_regular(n, 4, 1), demand_of(n, kind)
        seconds, result = _timed(topology, demand, "auto", accuracy)
        plain = _timed(topology, demand, "ipx", 1e-6)[0] if beside else None
        name = f"routing, n = {n}, {kind}, {result.method}"
        figures.append(Figure(f"{name}: time", seconds, "s", goal, plain))
        figures.append(Figure(f"{name}: proven gap", result.gap * 100, "%", accuracy * 100))
    n = 10**6
    weight = np.ones(n)
    weight[0] = 0
    began = time.perf_counter()
    circulant = route_circulant([1, 32, 1000, 31623], weight)
    figures.append(Figure("circulant optimum, n = 10^6, d = 4", time.perf_counter() - began, "s", 5.0))
    gap = (1 - circulant.bound / circulant.theta) * 100
    figures.append(Figure("circulant, n = 10^6: proven gap", gap, "%", 1e-6))
    return figures
