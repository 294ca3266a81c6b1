"""Small topology problems, and a result of an exact method, checked."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from solvers.network.space import ExactLimits, TopologyResult
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import TopologyProblem
from topoopt.core.proofs import Argument
from topoopt.verify.laws.routing import certified_theta_bound, check_flow

ONE_WAY, PAIRS = LinkDirection.UNIDIRECTIONAL, LinkDirection.BIDIRECTIONAL

LIMITS = ExactLimits()


def uniform(n: int) -> NDArray[np.float64]:
    """One unit between every ordered pair."""
    return np.ones((n, n)) - np.eye(n)


def skewed(n: int, seed: int, *, balanced: bool = False) -> NDArray[np.float64]:
    """Lognormal demand, all positive; balanced: rows and columns of sum 1."""
    demand = np.random.default_rng(seed).lognormal(0.0, 1.5, (n, n))
    np.fill_diagonal(demand, 0.0)
    for _ in range(200 if balanced else 0):
        demand /= demand.sum(axis=1, keepdims=True)
        demand /= demand.sum(axis=0, keepdims=True)
    return demand


def problem(n: int, d: int, demand: NDArray[np.float64] | None = None, **options: object) -> TopologyProblem:
    """Directed links and uniform demand unless said otherwise."""
    values: dict[str, object] = {"links": ONE_WAY, "demand": uniform(n) if demand is None else demand}
    return TopologyProblem("test", n, d, **{**values, **options})  # type: ignore[arg-type]


def check(given_problem: TopologyProblem, result: TopologyResult) -> NDArray[np.int64]:
    """Verify a result by the checker: degrees, deliveries, theta, lengths; returns its link counts."""
    topology, demand = result.plan.topology, given_problem.demand
    counts = topology.adjacency()
    assert counts.sum(axis=1).max() <= given_problem.degree
    assert counts.sum(axis=0).max() <= given_problem.degree
    checked = check_flow(topology, demand, result.plan.flows[0])
    assert checked.violations == ()
    assert result.theta == pytest.approx(checked.theta, rel=1e-12)
    (proof,) = (proof for proof in result.certificates if proof.argument is Argument.ARC_LENGTHS)
    assert certified_theta_bound(topology, demand, proof["lengths"]) <= result.theta * (1 + 1e-9)
    assert result.bound.value <= result.theta
    return counts
