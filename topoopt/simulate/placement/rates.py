"""Static rates of pairs of servers: uniform ones, and rates within links."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.simulate.placement.arrays import PlacementArrays


def uniform_rates(a: PlacementArrays) -> Floats:
    """float64[S, S]: every server the same part of its links for each other one that has devices."""
    used = np.zeros(len(a.network), dtype=np.bool_)
    used[a.server] = True
    others = max(1, int(used.sum()) - 1)
    pairs = used[:, None] & used[None, :] & ~np.eye(len(used), dtype=np.bool_)
    rates: Floats = np.where(pairs, np.minimum.outer(a.network, a.network) / others, 0.0)
    return rates


def within_links(a: PlacementArrays, rates: Floats) -> Floats:
    """The rates, scaled down where rounding put a server above its links."""
    links = np.maximum(a.network, 1e-300)
    scaled = rates / np.maximum(np.cumsum(rates, axis=1)[:, -1:] / links[:, None], 1.0)
    limited: Floats = scaled / np.maximum(np.cumsum(scaled, axis=0)[-1:] / links, 1.0)
    return limited
