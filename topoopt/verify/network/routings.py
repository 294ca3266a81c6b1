"""Check the routing of one or several demands, and what bounds it, without a solver."""

from __future__ import annotations

import math

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.network import AdaptedRouting, CommonRouting
from topoopt.core.topology import Topology
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.certificates import certified_theta_bound
from topoopt.verify.laws.flows import check_flow

Demands = Floats

_UNIT = 2.0**-52


def common_thetas(
    topology: Topology, demands: Demands, routing: CommonRouting
) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """theta of every matrix, and what is wrong with the routing (pairs left out, parts lost, negative parts)."""
    n, arcs, pairs, split = topology.servers, topology.arcs, routing.pairs, routing.split
    if split.shape != (len(pairs), len(arcs)) or not np.isfinite(split).all():
        return (math.inf,) * len(demands), (f"parts of shape {split.shape} do not fit, or are not finite",)
    wrong = []
    if (split < 0).any():
        wrong.append("a part is negative")
    served = np.zeros((n, n), dtype=bool)
    served[pairs[:, 0], pairs[:, 1]] = True
    missing = np.argwhere((demands.max(axis=0) > 0) & ~served)
    wrong += [f"no routing for {i} -> {j}" for i, j in missing[:5]]
    if int(served.sum()) != len(pairs):
        wrong.append("a pair is routed twice")
    for (s, t), row in zip(pairs.tolist(), split, strict=True):
        stays = np.bincount(arcs[:, 1], row, n) - np.bincount(arcs[:, 0], row, n)
        stays[s] += 1.0
        stays[t] -= 1.0
        if np.abs(stays).max() > Tolerance.ROUNDING.relative:
            wrong.append(f"traffic {s} -> {t} is lost on its way")
    amounts = demands[:, pairs[:, 0], pairs[:, 1]]
    if routing.amounts.shape != amounts.shape or (routing.amounts != amounts).any():
        wrong.append("the amounts of the pairs are not those of the demands")
    loads = amounts @ split / topology.capacity
    return tuple(float(value) for value in loads.max(axis=1, initial=0.0)), tuple(wrong[:10])


def common_bound(topology: Topology, demands: Demands, prices: Floats) -> float:
    """What `prices` (float64[k, m]) prove of every common routing, less a margin for rounding.

    Raises:
        InputError: prices that are negative, not finite, all 0 or of another shape.
        InfeasibleError: demand between servers that no path joins.
    """
    n, arcs = topology.servers, topology.arcs
    fits = prices.shape == (len(demands), len(arcs))
    if not fits or not np.isfinite(prices).all() or (prices < 0).any() or not prices.any():
        raise InputError("certificate: prices must fit the matrices and arcs, be finite, not negative, not all 0")
    pairs = np.argwhere(demands.max(axis=0) > 0)
    lengths = demands[:, pairs[:, 0], pairs[:, 1]].T @ prices
    distance = np.full((len(pairs), n), math.inf)
    distance[np.arange(len(pairs)), pairs[:, 0]] = 0.0
    for _ in range(n - 1):
        before = distance.copy()
        for a, (tail, head) in enumerate(arcs.tolist()):
            np.minimum(distance[:, head], distance[:, tail] + lengths[:, a], out=distance[:, head])
        if np.array_equal(before, distance):
            break
    ends = distance[np.arange(len(pairs)), pairs[:, 1]]
    if not np.isfinite(ends).all():
        raise InfeasibleError("demand between servers that no path joins")
    price = float((prices @ topology.capacity).sum())
    terms = len(demands) + n + len(pairs) + prices.size + 8
    return float(ends.sum()) / price * (1.0 - 2.0 * terms * _UNIT)


def thetas_of(
    topology: Topology, demands: Demands, routing: AdaptedRouting | CommonRouting
) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """theta of every demand, and what is wrong with the routing."""
    if isinstance(routing, CommonRouting):
        return common_thetas(topology, demands, routing)
    if len(routing.flows) != len(demands):
        return (math.inf,) * len(demands), (f"{len(routing.flows)} flows for {len(demands)} demands",)
    checks = [check_flow(topology, demand, flow) for demand, flow in zip(demands, routing.flows, strict=True)]
    names = [f"demand {k}: " for k in range(len(checks))] if len(checks) > 1 else [""]
    wrong = [name + text for name, check in zip(names, checks, strict=True) for text in check.violations]
    return tuple(check.theta for check in checks), tuple(wrong)


def proven_bound(
    topology: Topology,
    demands: Demands,
    routing: AdaptedRouting | CommonRouting,
    max_hops: int | None,
    hop_price: float,
) -> float:
    """What stands in a routing proves of the largest objective of all demands on this topology.

    Lengths for one of the demands bound a common routing as well.

    Raises:
        InputError, InfeasibleError: lengths or prices that prove nothing.
    """
    if isinstance(routing, CommonRouting):
        return common_bound(topology, demands, routing.prices)
    parts = zip(demands, routing.flows, routing.certificates, strict=True)
    return max(
        certified_theta_bound(topology, demand, proof.lengths, max_hops=max_hops, hop_price=hop_price, dims=flow.dims)
        for demand, flow, proof in parts
    )
