"""Layered Moore bound: with d links a server reaches at most d + ... + d^k others within k hops.

Let C_k be the largest demand of pairs with at most min(n - 1, d + ... + d^k) in a row and in a column. The demand
farther than k hops is |D| - C_k at least, so

    sum D dist >= sum_{k >= 0} (|D| - C_k),    theta >= that / (n d),

as all traffic uses n d links of capacity 1 in all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.verify.network.topology_bounds.checks import checked
from topoopt.verify.network.topology_bounds.matching import matching_dual, matching_prices


@dataclass(frozen=True, eq=False)
class LayeredCertificate:
    """Prices of rows and columns for the layers 1, 2, ... that do not reach all servers: float64[layers, n] each."""

    alpha: Floats
    beta: Floats


def layer_counts(n: int, d: int) -> tuple[int, ...]:
    """d, d + d^2, ...: most servers within k hops, as long as that is not all n - 1 others."""
    counts = []
    within, at = 0, 1
    while within + at * d < n - 1:
        at *= d
        within += at
        counts.append(within)
    return tuple(counts)


def evaluate_layered(n: int, d: int, demand: Floats, certificate: LayeredCertificate) -> float:
    """Bound on theta from any prices, not negative.

    Raises:
        InputError: bad demand, or prices of the wrong shape, negative or not finite.
    """
    counts = layer_counts(n, d)
    shape = (len(counts), n)
    prices = np.concatenate((certificate.alpha.ravel(), certificate.beta.ravel()))
    faults = {
        "prices have the wrong shape": certificate.alpha.shape != shape or certificate.beta.shape != shape,
        "prices must be finite and not negative": not np.isfinite(prices).all() or bool((prices < 0).any()),
    }
    demand = checked(n, d, demand, faults)
    total = float(demand.sum())
    hops = total + sum(
        max(0.0, total - matching_dual(demand, count, certificate.alpha[k], certificate.beta[k]))
        for k, count in enumerate(counts)
    )
    return hops / (n * d)


def layered_bound(n: int, d: int, demand: Floats, *, sweeps: int = 600) -> tuple[float, LayeredCertificate]:
    """The layered bound, its b-matchings solved to about five digits."""
    demand = checked(n, d, demand)
    prices = [matching_prices(demand, count, sweeps=sweeps) for count in layer_counts(n, d)]
    certificate = LayeredCertificate(
        np.array([p[0] for p in prices]).reshape(-1, n), np.array([p[1] for p in prices]).reshape(-1, n)
    )
    return evaluate_layered(n, d, demand, certificate), certificate
