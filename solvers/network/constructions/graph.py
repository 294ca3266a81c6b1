"""A topology as the compiled routing loops see it: arcs in rows by tail, capacities, hops of all pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt import native
from topoopt.core.arrays import Floats, Int32s, Ints
from topoopt.core.errors import InfeasibleError
from topoopt.core.topology import Topology


@dataclass(frozen=True, eq=False)
class ArcGraph:
    """Arcs in the order of `Topology.arcs`.

    Attributes:
        ptr: int64[n+1]; arcs of server u are ptr[u]..ptr[u+1].
        tail, head: int64[m].
        inverse_capacity: float64[m], 1 / parallel links.
        hops_to: int32[n, n]; hops_to[t, v] is the fewest hops from v to t.
    """

    ptr: Ints
    tail: Ints
    head: Ints
    inverse_capacity: Floats
    hops_to: Int32s

    @property
    def servers(self) -> int:
        """n."""
        return len(self.ptr) - 1


def arc_graph(topology: Topology) -> ArcGraph:
    """Compile a topology.

    Raises:
        InfeasibleError: some server cannot reach another one.
    """
    n = topology.servers
    tail = topology.arcs[:, 0].astype(np.int64)
    head = topology.arcs[:, 1].astype(np.int64)
    # Hops towards t are hops from t over reversed arcs.
    by_head = np.argsort(head, kind="stable")
    hops_to = native.graph.hop_distances(row_ptr(head, n), np.ascontiguousarray(tail[by_head]), n).astype(np.int32)
    if (hops_to < 0).any():
        t, s = np.argwhere(hops_to < 0)[0]
        raise InfeasibleError(f"no route from server {s} to server {t}: the topology is not connected")
    return ArcGraph(row_ptr(tail, n), tail, head, 1.0 / topology.multiplicity.astype(np.float64), hops_to)


def row_ptr(keys: Ints, n: int) -> Ints:
    """int64[n+1]: where the entries of each key begin once they are sorted."""
    return np.concatenate(([0], np.cumsum(np.bincount(keys, minlength=n)))).astype(np.int64)
