"""Cases by the number of links between two servers, where prices of relay blocks prove more than for all topologies.

The case of least theta is split in two, fewer links i -> j or more, until there are as many cases as asked for. Pairs
of more demand than a link carries come first, by whether a second link joins them: the prices of all else depend on
that. Then those that the best links around servers hold half the time, heaviest first. Prices of a case are sought
anew: from those of the case above they prove less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from solvers.network.search.relay_blocks import relay_prices
from solvers.network.search.two_layer import TwoLayerDuals
from solvers.stop import Stop
from topoopt.core.arrays import Floats
from topoopt.core.network import MOST_RELAY_CASES, LinkCounts, RelayCases, RelayPrices

ITERATIONS = 1500
"""Of the ascent in a case."""


CASES_SERVERS = 20
"""Up to here a case takes about half a second; of more servers it takes several, and few cases prove little."""

_PROPOSALS = 400_000


def cases_of(n: int, proposals: int | None) -> int:
    """Cases where a search proposes so many swaps: about as much time as it takes itself; one by default."""
    return 1 if proposals is None or n > CASES_SERVERS else max(1, min(proposals // _PROPOSALS, MOST_RELAY_CASES))


Shown = Callable[[RelayPrices, LinkCounts], bool]
"""Whether prices can be shown to prove their theta of topologies with these counts."""


@dataclass(eq=False)
class _Case:
    counts: LinkCounts
    prices: RelayPrices
    used: Floats
    split: tuple[int, int, int] = (0, 0, 0)
    parts: tuple[_Case, ...] = ()


def relay_cases(
    d: int,
    demand: Floats,
    duals: TwoLayerDuals,
    root: RelayPrices,
    used: Floats,
    further: float,
    cases: int,
    *,
    shown: Shown | None = None,
    stop: Stop | None = None,
    iterations: int = ITERATIONS,
) -> RelayCases | None:
    """So many cases at most with prices of each; None where that is one.

    Args:
        d, demand, duals, further, stop: as of `relay_prices`.
        root: what is proven of all topologies.
        used: float64[d, n, n], by the ascent that led to it.
        cases: at most.
        shown: whether prices can be shown again for topologies with these counts.
        iterations: of the ascent in a case.
    """
    tree = _Case(LinkCounts.any(len(demand), d), root, used)
    leaves = [tree]
    while len(leaves) < cases and (stop is None or stop.reason() is None):
        worst = min(leaves, key=lambda case: case.prices.theta)
        split = _split(worst, demand)
        if split is None:
            break
        parts = []
        for counts in worst.counts.split(*split):
            seen = np.zeros_like(used)
            again = partial(_shown, shown, counts)
            prices = relay_prices(
                d, demand, duals, worst.prices.theta, further, iterations,
                shown=again, stop=stop, counts=counts, used=seen,
            )  # fmt: skip
            if prices is None and not again(worst.prices):
                break
            parts.append(_Case(counts, prices or worst.prices, seen))
        if len(parts) < 2:
            break
        worst.split, worst.parts = split, tuple(parts)
        leaves.remove(worst)
        leaves += parts
    if len(leaves) == 1:
        return None
    nodes = list(_nodes(tree))
    return RelayCases(np.array([node.split for node in nodes]), tuple(node.prices for node in nodes if not node.parts))


def _shown(shown: Shown | None, counts: LinkCounts, prices: RelayPrices) -> bool:
    return shown is None or shown(prices, counts)


def _split(case: _Case, demand: Floats) -> tuple[int, int, int] | None:
    """The links that divide a case: i, j and their number; None where nothing is left to divide."""
    theta, (least, most) = case.prices.theta, case.counts
    second = np.where((least < 2) & (most >= 2) & (demand > theta), demand, 0.0)
    if len(case.used) > 1 and second.max() > 0.0:
        i, j = np.unravel_index(second.argmax(), second.shape)
        return int(i), int(j), 2
    beside = np.arange(len(case.used))[:, None, None]
    part = np.clip(case.used, 0.0, 1.0)
    worth = np.minimum(part, 1.0 - part) * np.clip(demand - beside * theta, 0.0, theta)
    worth[(least > beside) | (most <= beside)] = 0.0
    if worth.max() <= 0.0:
        return None
    count, i, j = np.unravel_index(worth.argmax(), worth.shape)
    return int(i), int(j), int(count) + 1


def _nodes(case: _Case) -> list[_Case]:
    """A case and all below it, each before its parts."""
    return [case, *(node for part in case.parts for node in _nodes(part))]
