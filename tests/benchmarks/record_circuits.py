"""Parallel switches: how many demands are proven, gaps and processor time, on five families of demand."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import numpy as np

from tests.benchmarks.figures import Figure
from tests.benchmarks.records import Record
from topoopt.core.arrays import Floats
from topoopt.core.regional_circuits import ParallelCircuitsProblem
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve

PROVEN = 3e-6
SWITCHES, DELAYS = (1, 2, 4), (0.01, 0.1)


def shifts(servers: int, weights: tuple[float, ...]) -> Floats:
    """A sum of rotations."""
    demand, rows = np.zeros((servers, servers)), np.arange(servers)
    for k, weight in enumerate(weights, 1):
        demand[rows, (rows + k) % servers] += weight
    return demand


def flows(servers: int, seed: int) -> Floats:
    """Few flows a server, 70 % of the load in a quarter of them, with noise."""
    rng, count = np.random.default_rng(seed), min(16, servers // 2 + 1)
    large = max(1, count // 4)
    demand: Floats = np.zeros((servers, servers))
    for k in range(count):
        demand[np.arange(servers), rng.permutation(servers)] += 0.7 / large if k < large else 0.3 / (count - large)
    demand[demand > 0] += rng.normal(0, 0.003, int((demand > 0).sum()))
    return np.maximum(demand, 0)


def dense(servers: int, seed: int) -> Floats:
    """Every pair, uniform."""
    demand = np.random.default_rng(seed).random((servers, servers))
    np.fill_diagonal(demand, 0)
    return np.asarray(demand / demand.sum(axis=1).max())


def skewed(servers: int, seed: int) -> Floats:
    """Every pair, lognormal, columns unequal."""
    rng = np.random.default_rng(seed)
    demand = rng.lognormal(0, 1.0, (servers, servers)) * rng.lognormal(0, 0.3, servers)[None, :]
    np.fill_diagonal(demand, 0)
    return np.asarray(demand / demand.sum(axis=1, keepdims=True))


def training(servers: int) -> Floats:
    """Rings of groups of four, a pipeline between groups, rings across."""
    rng = np.random.default_rng(1)
    demand: Floats = np.zeros((servers, servers))
    for i in range(servers):
        group, rank = divmod(i, 4)
        demand[i, 4 * group + (rank + 1) % 4] += 0.6
        if i + 4 < servers:
            demand[[i, i + 4], [i + 4, i]] += 0.1
        demand[i, (i + servers // 2) % servers] += 0.15 + 0.05 * rng.random()
    return demand


def demands(servers: int) -> Iterator[Floats]:
    """All families, two draws of the random ones up to 8 servers; nothing from a server to itself."""
    seeds = (1, 2) if servers <= 8 else (1,)
    yield shifts(servers, (0.6, 0.3, 0.1))
    for seed in seeds:
        for family in (flows, dense, skewed):
            demand = family(servers, seed)
            np.fill_diagonal(demand, 0.0)
            yield demand
    yield training(servers)


def solved(servers: int, switches: tuple[int, ...], delays: tuple[float, ...]) -> tuple[list[float], list[float]]:
    """Gaps and processor seconds of all cases."""
    gaps, seconds = [], []
    for demand in demands(servers):
        for count in switches:
            for delay in delays:
                began = time.process_time()
                result = solve(ParallelCircuitsProblem("case", servers, count, delay, True, demand), SolveOptions())
                seconds.append(time.process_time() - began)
                assert result.check.ok, result.check.violations
                gaps.append(result.gap)
    return gaps, seconds


def of_four() -> list[Figure]:
    """48 demands of 4 servers."""
    gaps, seconds = solved(4, SWITCHES, DELAYS)
    missed = sum(gap > PROVEN for gap in gaps)
    return [
        Figure("parallel switches, 4 servers: not proven, of 48", missed, "cases", 1.0),
        Figure("parallel switches, 4 servers: longest", max(seconds), "s", 30.0),
    ]


def of_eight() -> list[Figure]:
    """48 demands of 8 servers."""
    gaps, seconds = solved(8, SWITCHES, DELAYS)
    return [
        Figure("parallel switches, 8 servers: gap, median of 48", 100 * statistics.median(gaps), "%", 0.3),
        Figure("parallel switches, 8 servers: gap, worst of 48", 100 * max(gaps), "%", 6.0),
        Figure("parallel switches, 8 servers: mean time", statistics.fmean(seconds), "s", 3.0),
    ]


def of_sixty_four() -> list[Figure]:
    """10 demands of 64 servers."""
    gaps, seconds = solved(64, (1, 4), (0.01,))
    return [
        Figure("parallel switches, 64 servers: gap, worst of 10", 100 * max(gaps), "%", 5.0),
        Figure("parallel switches, 64 servers: longest", max(seconds), "s", 30.0),
    ]


COMMAND = "topoopt solve (kind parallel-circuits, demands of tests/benchmarks/record_circuits.py)"

CIRCUITS = (
    Record("circuits-4", COMMAND, of_four),
    Record("circuits-8", COMMAND, of_eight),
    Record("circuits-64", COMMAND, of_sixty_four),
)
"""Rows of `python -m tests.benchmarks records`."""
