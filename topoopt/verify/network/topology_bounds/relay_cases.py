"""Bound on theta by relay blocks in cases: fewer links i -> j than a count, or as many and more.

One of the two holds for every topology, so that the least theta proven in the cases holds for all. In a case no link
beside so many as there are at most counts, and those that are there in any case are chosen around both of their ends.
"""

from __future__ import annotations

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError
from topoopt.core.relay_cases import MOST_CASES, LinkCounts, RelayCases
from topoopt.verify.network.topology_bounds.relay_blocks import evaluate_relay


def evaluate_cases(n: int, d: int, demand: Floats, certificate: RelayCases) -> float:
    """The least theta proven in any case; 0 where one is not.

    Raises:
        InputError: bad demand or prices, or cases that are no tree or more than MOST_CASES.
    """
    splits, prices = certificate.splits.tolist(), certificate.prices
    leaves = sum(i == j for i, j, _ in splits)
    if leaves != len(prices) or len(splits) != 2 * leaves - 1 or leaves > MOST_CASES:
        raise InputError(f"cases: {len(splits)} nodes and {len(prices)} sets of prices, at most {MOST_CASES}")
    if any(not (0 <= i < n and 0 <= j < n and 0 <= count <= d) for i, j, count in splits):
        raise InputError(f"cases: splits by links of {n} servers of degree {d}")
    left = [LinkCounts.any(n, d)]
    proven, given = float("inf"), iter(prices)
    for i, j, count in splits:
        if not left:
            raise InputError("cases: nodes that belong to no other")
        counts = left.pop()
        if i != j:
            left.extend(reversed(counts.split(i, j, count)))
        else:
            proven = min(proven, evaluate_relay(n, d, demand, next(given), counts))
    return proven
