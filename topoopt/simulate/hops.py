"""Hop distances of topologies."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Int32s
from topoopt.core.topology import Topology
from topoopt.native import graph


def hop_matrix(topology: Topology) -> Int32s:
    """int32[n, n]: hops from i to j over the arcs; -1 where there is no path."""
    n, arcs = topology.servers, topology.arcs
    first = np.concatenate(([0], np.cumsum(np.bincount(arcs[:, 0], minlength=n)))).astype(np.int64)
    head = arcs[np.argsort(arcs[:, 0], kind="stable"), 1].astype(np.int32)
    return graph.hop_distances(first, head, n).astype(np.int32)
