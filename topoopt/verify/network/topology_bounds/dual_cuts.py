"""Dual cuts: the routing dual of one topology bounds lambda = 1/theta of every topology.

For lengths l on the links of a topology, W its shortest paths and tot = sum D W, any topology X' has

    lambda(X') <= sum_ab W_ab X'_ab / tot.

Proof: give every arc ab of X' the length W_ab. By the triangle inequality of W no distance falls below W, so
sum D dist >= tot, and lambda <= sum l x / sum D dist. The lengths need not be optimal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.network import LengthCertificate
from topoopt.core.topology import Topology
from topoopt.verify.network.topology_bounds.checks import checked
from topoopt.verify.network.topology_bounds.matching import matching_prices


@dataclass(frozen=True, eq=False)
class DualCut:
    """float64[n, n]: lambda(X) <= sum coefficient_ab X_ab, X the number of links of each ordered pair."""

    coefficient: Floats


def dual_cut(topology: Topology, demand: Floats, certificate: LengthCertificate) -> DualCut:
    """The cut of a topology's link lengths.

    Raises:
        InputError: bad demand, lengths negative or not finite, servers no path joins, no demand at a distance.
    """
    n = topology.servers
    lengths = certificate.lengths
    faults = {
        "lengths do not fit the arcs": lengths.shape != (len(topology.arcs),),
        "lengths must be finite and not negative": not np.isfinite(lengths).all() or bool((lengths < 0).any()),
    }
    demand = checked(n, topology.degree, demand, faults)
    distance = np.full((n, n), np.inf)
    np.minimum.at(distance, (topology.arcs[:, 0], topology.arcs[:, 1]), lengths)
    np.fill_diagonal(distance, 0.0)
    for k in range(n):
        np.minimum(distance, distance[:, k, None] + distance[None, k, :], out=distance)
    if not np.isfinite(distance).all():
        raise InputError([Problem("the topology does not connect all servers, so it gives no cut", path="topology")])
    total = float((demand * distance).sum())
    if total <= 0:
        raise InputError([Problem("no demand has a positive distance, so the lengths prove nothing", path="lengths")])
    return DualCut(distance / total)


def cut_value(topology: Topology, cut: DualCut) -> float:
    """Upper bound on lambda of a topology."""
    return float((cut.coefficient[topology.arcs[:, 0], topology.arcs[:, 1]] * topology.multiplicity).sum())


def evaluate_cut_mixture(n: int, d: int, cuts: tuple[DualCut, ...], weights: Floats) -> float:
    """Bound on theta over every topology: lambda <= max over degree-constrained link counts of a mixture of cuts.

    The largest value is at most d (sum alpha + sum beta) for prices with alpha_a + beta_b >= mixture_ab (parallel links
    are allowed, so no pair has a price of its own). The prices are repaired to satisfy that, so any mixture is valid.

    Raises:
        InputError: weights of the wrong number, negative, or all zero.
    """
    total = float(weights.sum()) if len(weights) else 0.0
    if len(weights) != len(cuts) or (weights < 0).any() or not total > 0:
        raise InputError([Problem("one weight per cut, not negative, some positive", path="weights")])
    mixture = sum((w / total * cut.coefficient for w, cut in zip(weights, cuts, strict=True)), np.zeros((n, n)))
    # d y is a point of the polytope with pair limit d; prices of the unlimited one come from count 1 and pair limit 1
    alpha, beta = matching_prices(mixture, 1) if n > 2 else (np.zeros(n), np.zeros(n))
    short = mixture - alpha[:, None] - beta[None, :]
    np.fill_diagonal(short, -np.inf)
    alpha = alpha + np.maximum(short.max(axis=1), 0.0)
    return 1.0 / (d * float(alpha.sum() + beta.sum()))
