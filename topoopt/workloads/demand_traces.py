"""Demand that changes from step to step: all-to-all traffic of mixture-of-experts layers with hot experts.

A server holds some experts and routes its tokens to all of them. How popular an expert is follows a law (Zipf or
Dirichlet), drawn anew for every step, so that the hot servers move. A token goes to its expert and comes back, hence a
step's matrix is symmetric: what i sends to j is what its tokens ask of j's experts plus what j's tokens ask of i's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem

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
    if problems:
        raise InputError(problems)
    rng = np.random.default_rng(seed)
    matrices = np.empty((settings.steps, servers, servers))
    for k in range(settings.steps):
        common = _popularity(servers, settings, rng)
        own = np.array([_popularity(servers, settings, rng) for _ in range(servers)])
        asked = (1.0 - settings.affinity) * common + settings.affinity * own
        matrices[k] = asked + asked.T
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
