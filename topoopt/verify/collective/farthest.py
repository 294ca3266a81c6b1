"""How far ranks are from each other: Bellman and Ford from many at once, in float64 (counts of hops are exact)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.leaving import end_if_left
from topoopt.core.rated_network import RatedNetwork
from topoopt.verify.collective.bounds import ProofError


def farthest(network: RatedNetwork, lengths: Sequence[float], sources: Sequence[int], *, relaying: bool) -> float:
    """Largest distance from one of some ranks to any other rank.

    Args:
        lengths: not negative, one for each arc.
        relaying: whether ways may lead through other ranks.

    Raises:
        ProofError: a rank out of reach.
    """
    far = _distances(network, np.array(lengths, dtype=np.float64), np.array(sources), relaying)[network.ranks]
    if not np.isfinite(far).all():
        raise ProofError("a rank out of reach")
    return float(far.max())


def _distances(network: RatedNetwork, lengths: Floats, sources: np.ndarray, relaying: bool) -> Floats:
    """float64[V, sources]: from each source; infinite where there is no way."""
    order = np.argsort(network.arcs[:, 1], kind="stable")
    tails, heads = network.arcs[order].T
    reached, first = np.unique(heads, return_index=True)
    far = np.full((network.nodes, len(sources)), np.inf)
    far[sources, np.arange(len(sources))] = 0.0
    # Over these links and from these sources nothing is passed on.
    ends_here = (not relaying) & ~network.is_switch[tails][:, None] & (tails[:, None] != sources)
    while True:
        end_if_left()
        over = far[tails] + lengths[order][:, None]
        over[ends_here] = np.inf
        less = np.minimum(far[reached], np.minimum.reduceat(over, first, axis=0))
        if np.array_equal(less, far[reached]):
            return far
        far[reached] = less
