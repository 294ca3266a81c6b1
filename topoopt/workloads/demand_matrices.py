"""Demand matrices by name, for studies of topology and routing without a model.

All are float64[n, n] with zero diagonal and mean 1 over the n (n - 1) ordered pairs, in units of one link's capacity;
the same seed gives the same matrix. `skew` and `balanced-skew` follow the lognormal demands usual in studies of
reconfigurable networks; balanced means that every server sends and receives the same total (Sinkhorn scaling).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem

LOGNORMAL_SIGMA = 1.5
"""Standard deviation of the logarithm of a skewed demand."""

UNIFORM_SHARE = 0.05
"""Part of the traffic that sparse and hotspot demand spread over all pairs."""

HEAVY_TARGETS = 3
"""Servers that get the rest of a server's sparse demand."""

HOT_SHARE = 0.1
"""Part of the servers that are hot spots (one at least)."""

SINKHORN_SWEEPS = 2000


def uniform(n: int, rng: np.random.Generator) -> Floats:
    """Every pair alike (all-to-all)."""
    return _scaled(np.ones((n, n)))


def skew(n: int, rng: np.random.Generator) -> Floats:
    """Independent lognormal demands."""
    return _scaled(rng.lognormal(0.0, LOGNORMAL_SIGMA, (n, n)))


def balanced_skew(n: int, rng: np.random.Generator) -> Floats:
    """`skew`, scaled until all rows and columns have the same sum."""
    matrix = rng.lognormal(0.0, LOGNORMAL_SIGMA, (n, n))
    np.fill_diagonal(matrix, 0.0)
    for _ in range(SINKHORN_SWEEPS):
        matrix /= matrix.sum(axis=1, keepdims=True)
        columns = matrix.sum(axis=0, keepdims=True)
        matrix /= columns
        if np.abs(columns - 1.0).max() < 1e-14:
            break
    return _scaled(matrix)


def sparse(n: int, rng: np.random.Generator) -> Floats:
    """5 % of each server's traffic goes to all others alike, the rest to three random servers alike."""
    matrix = np.full((n, n), UNIFORM_SHARE / (n - 1))
    heavy = min(HEAVY_TARGETS, n - 1)
    for server in range(n):
        targets = rng.choice(n - 1, size=heavy, replace=False)
        matrix[server, targets + (targets >= server)] += (1.0 - UNIFORM_SHARE) / heavy
    return _scaled(matrix)


def hotspot(n: int, rng: np.random.Generator) -> Floats:
    """5 % of the traffic over all pairs alike, the rest to and from a tenth of the servers, half and half."""
    matrix = np.full((n, n), UNIFORM_SHARE / (n * (n - 1)))
    hot = rng.choice(n, size=max(1, round(HOT_SHARE * n)), replace=False)
    half = (1.0 - UNIFORM_SHARE) / 2.0 / (len(hot) * (n - 1))
    matrix[hot] += half
    matrix[:, hot] += half
    return _scaled(matrix)


DEMAND_FAMILIES: Mapping[str, Callable[[int, np.random.Generator], Floats]] = {
    "uniform": uniform,
    "skew": skew,
    "balanced-skew": balanced_skew,
    "sparse": sparse,
    "hotspot": hotspot,
}


def demand_matrix(family: str, servers: int, *, seed: int = 0) -> Floats:
    """Matrix of a family of `DEMAND_FAMILIES`.

    Raises:
        InputError: unknown family, fewer than two servers, or a negative seed.
    """
    problems = []
    if family not in DEMAND_FAMILIES:
        problems.append(
            Problem("unknown demand family", path="demand.family", value=family, allowed=", ".join(DEMAND_FAMILIES))
        )
    if servers < 2:
        problems.append(Problem("demand needs two servers", path="servers", value=str(servers), allowed=">= 2"))
    if seed < 0:
        problems.append(Problem("seed is negative", path="demand.seed", value=str(seed), allowed=">= 0"))
    if problems:
        raise InputError(problems)
    return DEMAND_FAMILIES[family](servers, np.random.default_rng(seed))


def _scaled(matrix: Floats) -> Floats:
    n = len(matrix)
    np.fill_diagonal(matrix, 0.0)
    return np.asarray(matrix * (n * (n - 1) / matrix.sum()), dtype=np.float64)
