"""Every topology of a few servers, to be looked at one by one.

Only networks to which no allowed link can be added are listed: one more link neither lowers what fits, nor lengthens a
path, nor gives a kept link up.
"""

from __future__ import annotations

import numpy as np

from solvers.network.exact.all_networks_kernels import maximal_tables
from solvers.network.exact.routed import Counts
from solvers.network.exact.space import Space
from topoopt.core.errors import InputError, Problem

MOST_SERVERS = 5
MOST_NETWORKS = 400_000


def maximal_networks(space: Space) -> Counts:
    """int64[k, n, n]: all link counts within the degrees to which no allowed link can be added.

    Raises:
        InputError: there are more than `MOST_NETWORKS`.
    """
    n = space.problem.servers
    tails, heads = np.nonzero(np.triu(space.allowed) if space.bidirectional else space.allowed)
    found = np.empty((MOST_NETWORKS, n, n), dtype=np.int8)
    degree = space.problem.degree
    number = maximal_tables(n, degree, space.most_links, space.bidirectional, tails, heads, found)
    if number > MOST_NETWORKS:
        raise InputError([Problem("too many topologies to be listed", allowed=f"<= {MOST_NETWORKS}")])
    return found[:number].astype(np.int64)
