"""Demands and networks on which lengths of links converge slowly: gap proven within 5 s, 0.1 % asked for.

Few pairs carry most of the demand, or many paths tie.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from solvers.network.assembly import assemble
from solvers.network.routing import route
from tests.benchmarks.bench_routing import demand_of, random_regular
from tests.benchmarks.figures import Figure
from topoopt.core.arrays import Floats
from topoopt.core.cluster import LinkDirection
from topoopt.core.topology import Topology

N = 128
ACCURACY = 1e-3
LIMIT_S = 5.0


def _steps(n: int, heads: list[Callable[[int], int]], name: str) -> Topology:
    parts = [np.array([(v, head(v)) for v in range(n)]) for head in heads]
    return assemble(n, len(heads), LinkDirection.UNIDIRECTIONAL, parts, name)


def torus(rows: int, columns: int) -> Topology:
    """A torus in two dimensions, links both ways."""

    def to(v: int, down: int, right: int) -> int:
        return (v // columns + down) % rows * columns + (v + right) % columns

    ways = ((0, 1), (0, -1), (1, 0), (-1, 0))
    return _steps(rows * columns, [lambda v, w=way: to(v, *w) for way in ways], "torus")  # type: ignore[misc]


def hypercube(bits: int) -> Topology:
    """Servers of one bit apart joined both ways."""
    return _steps(1 << bits, [lambda v, b=bit: v ^ (1 << b) for bit in range(bits)], "hypercube")  # type: ignore[misc]


def _clear(matrix: Floats) -> Floats:
    np.fill_diagonal(matrix, 0.0)
    return matrix


def permutation(n: int) -> Floats:
    """Everybody sends to one other."""
    order = np.random.default_rng(1).permutation(n)
    matrix = np.zeros((n, n))
    matrix[order, np.roll(order, 1)] = 1.0
    return matrix


def lognormal(n: int) -> Floats:
    """Lognormal(2), rows and columns as they come."""
    return _clear(np.random.default_rng(1).lognormal(0.0, 2.0, (n, n)))


def sparse(n: int) -> Floats:
    """Everybody sends to three others, at random."""
    rng = np.random.default_rng(1)
    matrix = np.zeros((n, n))
    for v in range(n):
        others = rng.choice(n - 1, 3, replace=False)
        matrix[v, others + (others >= v)] = 1.0
    return matrix


def hot(n: int) -> Floats:
    """Four servers send and get ten times as much."""
    matrix = np.ones((n, n))
    matrix[:4] *= 10.0
    matrix[:, :4] *= 10.0
    return _clear(matrix)


def hard_routing_figures() -> list[Figure]:
    """Processor time and gap proven of each family by `auto`, with a limit of 5 s by the clock."""
    skew = demand_of(N, "balanced skew")
    families: dict[str, tuple[Topology, Floats]] = {
        "random regular, permutation": (random_regular(N, 4, 1), permutation(N)),
        "random regular, lognormal": (random_regular(N, 4, 1), lognormal(N)),
        "random regular, sparse": (random_regular(N, 4, 1), sparse(N)),
        "random regular, hot servers": (random_regular(N, 4, 1), hot(N)),
        "torus, skew": (torus(8, 16), skew),
        "torus, permutation": (torus(8, 16), permutation(N)),
        "hypercube, skew": (hypercube(7), skew),
        "hypercube, permutation": (hypercube(7), permutation(N)),
        "random regular, skew": (random_regular(N, 4, 1), skew),
    }
    for demand in (demand_of(8, "uniform"), permutation(8)):
        route(random_regular(8, 2, 0), demand, method="softmin", accuracy=1e-4)
    figures = []
    for name, (topology, demand) in families.items():
        began = time.process_time()
        result = route(topology, demand, accuracy=ACCURACY, time_limit_s=LIMIT_S)
        seconds = time.process_time() - began
        title = f"routing, n = {N}, {name}, {result.method}"
        figures.append(Figure(f"{title}: processor time", seconds, "s", LIMIT_S))
        figures.append(Figure(f"{title}: proven gap", result.gap * 100, "%", ACCURACY * 100))
    return figures
