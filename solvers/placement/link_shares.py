"""Static rates over the physical links of the servers."""

from __future__ import annotations

import numpy as np

from formulations.placement.link_packing import build_arrays, shares
from solvers.backends import SOLVERS, SolverLimits
from topoopt.core.arrays import Floats
from topoopt.core.placement import Server
from topoopt.core.placement_solution import LinkShare

PACK_S = 1.0
"""Limit of the search for few splits."""

TINY_GBPS = 1e-9
SAFE = 1e-9
"""Part of the scale given up so that rounding leaves the second program feasible."""


def pack_links(servers: tuple[Server, ...], rate: Floats) -> tuple[Floats, list[LinkShare]]:
    """(rates that the links can carry, their shares): the rates are scaled down together if they do not fit.

    Args:
        rate: float64[servers, servers], Gbit/s.
    """
    most = max(len(server.links) for server in servers)
    links = [[link.gbps for link in server.links] for server in servers]
    capacity = np.array([row + [0.0] * (most - len(row)) for row in links])
    if not (rate > 0).any():
        return rate, []
    if most == 1:
        return rate, [LinkShare(int(s), int(t), 0, float(rate[s, t])) for s, t in np.argwhere(rate > 0)]
    table = shares(rate, capacity)
    full = SOLVERS["highs"](build_arrays(rate, capacity), SolverLimits(time_s=PACK_S))
    if full.x is None:
        raise RuntimeError(f"no split over links: {full.message}")
    values, scale = full.x[: len(table)], float(full.x[len(table)])
    scale *= 1 - SAFE if scale < 1 else 1
    few = SOLVERS["highs"](build_arrays(rate, capacity, scale), SolverLimits(time_s=PACK_S))
    if few.x is not None:
        values = few.x[: len(table)]
    split: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for (s, t, link), gbps in zip(table, values.tolist(), strict=True):
        if gbps > TINY_GBPS * rate[s, t]:
            split.setdefault((s, t), []).append((link, gbps))
    packed = np.zeros_like(rate)
    for (s, t), parts in split.items():
        packed[s, t] = sum(gbps for _, gbps in parts)
    # a solver's rows hold up to its tolerance only: scale what a link would carry too much
    over = max(1.0, *(_load(split, end, capacity) for end in (0, 1)))
    packed = np.minimum(packed / over, rate)
    result = []
    for (s, t), parts in split.items():
        total = sum(gbps for _, gbps in parts)
        result += [LinkShare(s, t, link, gbps * float(packed[s, t]) / total) for link, gbps in parts]
    return packed, result


def _load(split: dict[tuple[int, int], list[tuple[int, float]]], end: int, capacity: Floats) -> float:
    """Largest load of a link, as a part of its rate."""
    sums = np.zeros_like(capacity)
    for pair, parts in split.items():
        for link, gbps in parts:
            sums[pair[end], link] += gbps
    return float((sums[capacity > 0] / capacity[capacity > 0]).max())
