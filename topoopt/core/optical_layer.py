"""The optical switches above a cluster, and the shards they cut out of it for jobs (TopoOpt, NSDI'23, sections 3, 5).

Interface j of every server is patched to plane j. A plane has as many optical switches as its ports require; a circuit
joins two ports of one switch, so servers of different switches of a plane cannot be joined in that plane.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class OpticalLayer:
    """Which optical switch each interface of each server is patched to.

    Attributes:
        switch_of: int32[d, n], index within its plane of the switch of interface j of server i.
        switch_ports: ports of one switch; an interface takes one (transmit and receive fibre together).
        switching_time_s: time to set circuits of a switch, during which the circuits concerned are dark, seconds.
    """

    switch_of: NDArray[np.int32]
    switch_ports: int
    switching_time_s: float

    @property
    def planes(self) -> int:
        """d, the interfaces of a server."""
        return int(self.switch_of.shape[0])

    @property
    def servers(self) -> int:
        """n."""
        return int(self.switch_of.shape[1])


@dataclass(frozen=True, eq=False)
class ShardShape:
    """The topology a job wants, by rank of its servers.

    Attributes:
        arcs: int32[d, k], rank that interface j of rank r sends to; -1: the interface is not used.
    """

    arcs: NDArray[np.int32]

    @property
    def servers(self) -> int:
        """k, servers of the job."""
        return int(self.arcs.shape[1])


@dataclass(frozen=True)
class Shard:
    """Servers and planes a job is given.

    It is realisable on a layer when for every interface j in use and rank r, the servers of r and of arcs[j][r] are
    patched to the same switch of plane `planes[j]`.

    Attributes:
        servers: of each rank, distinct.
        planes: of each interface of the shape, distinct.
    """

    servers: tuple[int, ...]
    planes: tuple[int, ...]


def block_layer(servers: int, planes: int, switch_ports: int, switching_time_s: float) -> OpticalLayer:
    """Every plane has ceil(n / ports) switches, filled with consecutive servers in the same order.

    Raises:
        ValueError: a count is below 1.
    """
    if min(servers, planes, switch_ports) < 1:
        raise ValueError("servers, planes and switch ports are at least 1")
    row = np.arange(servers, dtype=np.int32) // np.int32(switch_ports)
    return OpticalLayer(np.tile(row, (planes, 1)), switch_ports, switching_time_s)
