"""Every topology of a few servers, to be looked at one by one.

Only networks to which no allowed link can be added are listed: one more link neither lowers what fits, nor lengthens a
path, nor gives a kept link up.
"""

from __future__ import annotations

import numpy as np

from solvers.network.exact.routed import Counts
from solvers.network.exact.space import Space
from topoopt.core.errors import InputError, Problem
from topoopt.native import exact

MOST_SERVERS = 5
MOST_NETWORKS = 400_000


def maximal_networks(space: Space) -> Counts:
    """int64[k, n, n]: all link counts within the degrees to which no allowed link can be added.

    Raises:
        InputError: there are more than `MOST_NETWORKS`.
    """
    n = space.problem.servers
    tails, heads = np.argwhere(np.triu(space.allowed) if space.bidirectional else space.allowed).T.copy()
    degree = space.problem.degree
    found = exact.maximal_networks(n, degree, space.most_links, space.bidirectional, tails, heads, MOST_NETWORKS)
    if len(found) > MOST_NETWORKS:
        raise InputError([Problem("too many topologies to be listed", allowed=f"<= {MOST_NETWORKS}")])
    return found.reshape(-1, n, n)
