"""Two-layer bound: what lies within two hops must be links and concatenations of links.

With y_ij = 1 for a link and z_ij = 1 for hop distance exactly 2, all else is 3 hops away or more, so
sum D dist >= 3 |D| - V + sum_{k >= 3} (|D| - C_k), V = max sum D (2 y + z), C_k as in the layered bound.

Certificate: for 0 <= w <= D, 0 <= u_ikj <= w_ij, v = w - u (i, k, j distinct) and T_d the sum of the d largest,

    V <= sum (D - w) + BM(C, d),    C_ab = D_ab + w_ab + T_d over j of u_abj + T_d over i of v_iab,

since z <= 1 - y, z_ij <= sum_k y_ik y_kj, and a server has at most d links each way. The b-matching BM is replaced by
its dual for any alpha, beta. The formula is evaluated in float64 from w, u, alpha, beta; no solver is trusted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Floats
from topoopt.core.network import LayerPrices, TwoLayerMultipliers
from topoopt.verify.network.topology_bounds.checks import checked
from topoopt.verify.network.topology_bounds.layered import layer_counts
from topoopt.verify.network.topology_bounds.matching import matching_dual, matching_prices


@dataclass(frozen=True, eq=False)
class TwoLayerCertificate:
    """Multipliers of the formula.

    Attributes:
        weight: float64[n, n], w.
        first_link: float32[n, n, n], u[i, k, j], the part of w[i, j] charged to the first link of i -> k -> j.
        alpha, beta: float64[n].
        layers: prices of the layers 3, 4, ...
    """

    weight: Floats
    first_link: NDArray[np.float32]
    alpha: Floats
    beta: Floats
    layers: LayerPrices


def evaluate_two_layer(n: int, d: int, demand: Floats, certificate: TwoLayerCertificate) -> float:
    """Bound on theta from any multipliers; w and u are first clipped into the ranges the proof needs.

    Raises:
        InputError: bad demand, or multipliers of the wrong shape, negative prices, or not finite.
    """
    layers = certificate.layers
    counts = layer_counts(n, d)[2:]
    prices = (certificate.alpha, certificate.beta, layers.alpha, layers.beta)
    shape = (len(counts), n)
    faults = {
        "weight has the wrong shape": certificate.weight.shape != (n, n),
        "first_link has the wrong shape": certificate.first_link.shape != (n, n, n),
        "prices have the wrong shape": prices[0].shape != (n,)
        or prices[1].shape != (n,)
        or layers.alpha.shape != shape
        or layers.beta.shape != shape,
        "prices must be finite and not negative": any(not np.isfinite(p).all() or bool((p < 0).any()) for p in prices),
        "multipliers must be finite": not np.isfinite(certificate.weight).all()
        or not np.isfinite(certificate.first_link).all(),
    }
    demand = checked(n, d, demand, faults)
    total = float(demand.sum())
    weight = np.clip(certificate.weight, 0.0, demand)
    worth = pair_worth(d, demand, weight, certificate.first_link)
    within_two = float((demand - weight).sum()) + matching_dual(worth, d, certificate.alpha, certificate.beta)
    hops = 3.0 * total - within_two
    for k, count in enumerate(counts):
        hops += max(0.0, total - matching_dual(demand, count, layers.alpha[k], layers.beta[k]))
    return hops / (n * d)


def pair_worth(d: int, demand: Floats, weight: Floats, first_link: NDArray[np.float32]) -> Floats:
    """float64[n, n]: C of the formula, one server k at a time to save memory."""
    n = len(demand)
    worth = demand + weight
    top = max(0, n - d)
    for k in range(n):
        first = np.clip(first_link[:, k, :].astype(np.float64), 0.0, weight)  # [i, j]
        second = weight - first
        for part in (first, second):  # i, k, j distinct
            np.fill_diagonal(part, 0.0)
            part[k, :] = 0.0
            part[:, k] = 0.0
        worth[:, k] += np.partition(first, top, axis=1)[:, top:].sum(axis=1) if d < n else first.sum(axis=1)
        worth[k, :] += np.partition(second, top, axis=0)[top:].sum(axis=0) if d < n else second.sum(axis=0)
    return worth


def two_layer_from(
    n: int, d: int, demand: Floats, multipliers: TwoLayerMultipliers
) -> tuple[float, TwoLayerCertificate]:
    """Bound from multipliers w, u found elsewhere (a compiled search): prices are added, then the formula decides."""
    weight, first_link = np.clip(multipliers.weight, 0.0, demand), multipliers.first_link
    alpha, beta = matching_prices(pair_worth(d, demand, weight, first_link), d)
    prices = [matching_prices(demand, count) for count in layer_counts(n, d)[2:]]
    layers = LayerPrices(
        np.array([p[0] for p in prices]).reshape(-1, n), np.array([p[1] for p in prices]).reshape(-1, n)
    )
    certificate = TwoLayerCertificate(weight, first_link, alpha, beta, layers)
    return evaluate_two_layer(n, d, demand, certificate), certificate
