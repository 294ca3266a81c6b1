"""Demand matrices by name and traces of them serve studies of topology and routing without a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import Problem, raise_any

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
    raise_any(problems)
    return DEMAND_FAMILIES[family](servers, np.random.default_rng(seed))


def _scaled(matrix: Floats) -> Floats:
    n = len(matrix)
    np.fill_diagonal(matrix, 0.0)
    return np.asarray(matrix * (n * (n - 1) / matrix.sum()), dtype=np.float64)


LAWS = ("zipf", "dirichlet")


@dataclass(frozen=True)
class HotExperts:
    """Settings of the generator.

    Attributes:
        steps: matrices.
        experts_per_server: experts on each server.
        law: `zipf`: popularity 1 / rank^skew, ranks drawn at random; `dirichlet`: a draw with all concentrations `skew`
            (small: few hot experts).
        skew: above 0.
        affinity: part of a server's tokens that follow a popularity of their own (same law), 0 to 1.
    """

    steps: int
    experts_per_server: int = 1
    law: str = "zipf"
    skew: float = 1.0
    affinity: float = 0.0


def hot_experts(servers: int, settings: HotExperts, *, seed: int = 0) -> Floats:
    """float64[steps, n, n]: zero diagonals, mean 1 over steps and ordered pairs; same seed, same matrices.

    Raises:
        InputError: fewer than two servers, no step, an unknown law, a number out of range.
    """
    problems = [
        Problem(message, path=path, value=str(value), allowed=allowed)
        for wrong, message, path, value, allowed in (
            (servers < 2, "demand needs two servers", "servers", servers, ">= 2"),
            (settings.steps < 1, "no step", "steps", settings.steps, ">= 1"),
            (settings.experts_per_server < 1, "no expert", "experts_per_server", settings.experts_per_server, ">= 1"),
            (settings.law not in LAWS, "unknown law", "law", settings.law, ", ".join(LAWS)),
            (not 0 < settings.skew <= 1e3, "out of range", "skew", settings.skew, "above 0, at most 1000"),
            (not 0 <= settings.affinity <= 1, "out of range", "affinity", settings.affinity, "0 to 1"),
            (seed < 0, "seed is negative", "seed", seed, ">= 0"),
        )
        if wrong
    ]
    raise_any(problems)
    rng = np.random.default_rng(seed)
    matrices = np.empty((settings.steps, servers, servers))
    for k in range(settings.steps):
        common = _popularity(servers, settings, rng)
        own = np.array([_popularity(servers, settings, rng) for _ in range(servers)])
        local = (1.0 - settings.affinity) * common + settings.affinity * own
        matrices[k] = local + local.T
        np.fill_diagonal(matrices[k], 0.0)
    return np.asarray(matrices * (servers * (servers - 1) * settings.steps / matrices.sum()))


def _popularity(servers: int, settings: HotExperts, rng: np.random.Generator) -> Floats:
    """float64[n]: part of the tokens that ask for the experts of each server."""
    experts = servers * settings.experts_per_server
    if settings.law == "zipf":
        weight = (1.0 + rng.permutation(experts)) ** -settings.skew
    else:
        # A draw of tiny concentrations can be all zeros in floating point; a floor far below any share avoids that.
        weight = np.maximum(rng.gamma(settings.skew, size=experts), 1e-12)
    return np.asarray((weight / weight.sum()).reshape(servers, settings.experts_per_server).sum(axis=1))
