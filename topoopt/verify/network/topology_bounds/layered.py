"""Layered Moore bound: with d links a server reaches at most c_k = d + ... + d^k others within k hops.

With fibre pairs one link leads back, so that c_k = d + d (d - 1) + ... . Let C_k be the largest demand of pairs with at
most c_k in a row and in a column. The demand farther than k hops is |D| - C_k at least, so

    sum D dist >= sum_{k >= 0} (|D| - C_k),    theta >= that / m,

as all traffic uses m <= n d links of capacity 1 in all (an even number of arcs where links are fibre pairs). The rows
alone, or the columns alone, say as much with the c_k largest entries of each in place of C_k.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import LayerPrices
from topoopt.verify.network.topology_bounds.checks import checked
from topoopt.verify.network.topology_bounds.matching import matching_dual, matching_prices


def layer_counts(n: int, d: int, links: LinkDirection = LinkDirection.UNIDIRECTIONAL) -> tuple[int, ...]:
    """c_1, c_2, ...: most servers within k hops, as long as that is not all n - 1 others."""
    counts = []
    within, layer = 0, d
    while layer > 0 and within + layer < n - 1:
        within += layer
        counts.append(within)
        layer *= d if links is LinkDirection.UNIDIRECTIONAL else d - 1
    return tuple(counts)


def most_arcs(n: int, d: int, links: LinkDirection) -> int:
    """Arcs that n servers of degree d have at most; fibre pairs have two each."""
    return n * d if links is LinkDirection.UNIDIRECTIONAL else n * d // 2 * 2


def _by_rows(demand: Floats, counts: tuple[int, ...]) -> float:
    """Least sum D dist where every row has its largest entries nearest."""
    ascending = np.sort(demand, axis=1)
    return float(demand.sum()) + sum(float(ascending[:, : -count or None].sum()) for count in counts)


def evaluate_layered(
    n: int,
    d: int,
    demand: Floats,
    certificate: LayerPrices,
    links: LinkDirection = LinkDirection.UNIDIRECTIONAL,
    left: float = 1.0,
) -> float:
    """Bound on theta from any prices, not negative.

    Args:
        left: part that counts of what the prices prove.

    Raises:
        InputError: bad demand, or prices of the wrong shape, negative or not finite.
    """
    counts = layer_counts(n, d, links)
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
    return max(left * hops, _by_rows(demand, counts), _by_rows(demand.T, counts)) / max(1, most_arcs(n, d, links))


def layered_bound(
    n: int,
    d: int,
    demand: Floats,
    links: LinkDirection = LinkDirection.UNIDIRECTIONAL,
    *,
    sweeps: int = 600,
    left: float = 1.0,
) -> tuple[float, LayerPrices]:
    """The layered bound, its b-matchings solved to about five digits; `left`: part of what they prove that counts."""
    demand = checked(n, d, demand)
    prices = [matching_prices(demand, count, sweeps=sweeps) for count in layer_counts(n, d, links)]
    certificate = LayerPrices(
        np.array([p[0] for p in prices]).reshape(-1, n), np.array([p[1] for p in prices]).reshape(-1, n)
    )
    return evaluate_layered(n, d, demand, certificate, links, left), certificate
