"""The fewest links whose failure leaves some server without a path to another (max-flow min-cut)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from topoopt.core.arrays import Bools
from topoopt.core.cluster import LinkDirection
from topoopt.core.failures import LinkEnds
from topoopt.core.topology import Topology

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def fewest_links(topology: Topology) -> tuple[LinkEnds, ...]:
    """A least set of links, parallel ones repeated, without which the topology is not (strongly) connected."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_flow

    n, arcs = topology.servers, topology.arcs
    capacity = csr_matrix((topology.multiplicity.astype(np.int32), (arcs[:, 0], arcs[:, 1])), shape=(n, n))
    best: tuple[int, Bools] | None = None
    paired = topology.links is LinkDirection.BIDIRECTIONAL
    # Any cut separates server 0 from some other server, one way or the other.
    for other in range(1, topology.hosts):
        for source, sink in ((0, other),) if paired else ((0, other), (other, 0)):
            found = maximum_flow(capacity, source, sink)
            if best is None or found.flow_value < best[0]:
                best = (int(found.flow_value), _senders(capacity, found.flow, source))
    if best is None:
        return ()
    inside = best[1]
    crossing = inside[arcs[:, 0]] & ~inside[arcs[:, 1]]
    links = [
        ((min(t, h), max(t, h)) if paired else (t, h))
        for (t, h), times in zip(arcs[crossing].tolist(), topology.multiplicity[crossing].tolist(), strict=True)
        for _ in range(times)
    ]
    return tuple(sorted(links))


def _senders(capacity: csr_matrix, flow: csr_matrix, source: int) -> Bools:
    """bool[n]: the side of the source in the cut of a maximum flow."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    room = csr_array(capacity - flow)
    room.data = np.where(room.data > 0, room.data, 0)
    room.eliminate_zeros()
    inside = np.zeros(capacity.shape[0], dtype=np.bool_)
    inside[breadth_first_order(room, source, return_predecessors=False)] = True
    return inside
