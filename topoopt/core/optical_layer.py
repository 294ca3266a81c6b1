"""The optical switches above a cluster, and the shards they cut out of it for jobs (TopoOpt, NSDI'23, sections 3, 5).

Interface j of every server is patched to plane j. A plane has as many optical switches as its ports require; a circuit
joins two ports of one switch, so servers of different switches of a plane cannot be joined in that plane. Arrays are
never changed once they are in one of these types: what is derived from them is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Int32s
from topoopt.core.shown import Shown


@dataclass(frozen=True, eq=False, repr=False)
class OpticalLayer(Shown):
    """Which optical switch each interface of each server is patched to.

    Attributes:
        switch_of: int32[d, n], index within its plane of the switch of interface j of server i.
        switch_ports: ports of one switch; an interface takes one (transmit and receive fibre together).
        switching_time_s: time to set circuits of a switch, during which the circuits concerned are dark, seconds.
        paired: a switch joins its ports in pairs, each circuit carrying both directions; else transmit and receive
            fibre of a port are switched apart, and a switch realises any partial permutation of its ports.
    """

    switch_of: Int32s
    switch_ports: int
    switching_time_s: float
    paired: bool = False

    @property
    def planes(self) -> int:
        """d, the interfaces of a server."""
        return int(self.switch_of.shape[0])

    @property
    def servers(self) -> int:
        """n."""
        return int(self.switch_of.shape[1])


@dataclass(frozen=True, eq=False, repr=False)
class ShardShape(Shown):
    """The topology a job wants, by rank of its servers.

    Attributes:
        arcs: int32[d, k], rank that interface j of rank r sends to; -1: the interface is not used.
    """

    arcs: Int32s

    @property
    def servers(self) -> int:
        """k, servers of the job."""
        return int(self.arcs.shape[1])

    @property
    def interfaces(self) -> int:
        """d, rows of `arcs`, used or not."""
        return int(self.arcs.shape[0])


@dataclass(frozen=True, repr=False)
class Shard(Shown):
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
    return staggered_layer(servers, planes, switch_ports, switching_time_s, shift=0)


def staggered_layer(
    servers: int, planes: int, switch_ports: int, switching_time_s: float, shift: int | None = None
) -> OpticalLayer:
    """The blocks of plane j begin j * shift servers earlier than those of plane 0, wrapped round the end.

    Servers at a border of blocks in one plane stand inside a block of others. A job that uses fewer interfaces than
    there are planes can then straddle borders; a job that needs all planes to join all its servers sees smaller
    blocks: those common to all planes.

    Args:
        servers, planes, switch_ports: n, d, ports of one switch.
        switching_time_s: see `OpticalLayer`.
        shift: servers from plane to plane; None: ports // planes, at least 1, which spreads the borders evenly.

    Raises:
        ValueError: a count is below 1, or the shift below 0.
    """
    if min(servers, planes, switch_ports) < 1:
        raise ValueError("servers, planes and switch ports are at least 1")
    step = max(switch_ports // planes, 1) if shift is None else shift
    if step < 0:
        raise ValueError("a shift is not negative")
    places = (np.arange(servers) + step * np.arange(planes)[:, None]) % servers
    return OpticalLayer((places // switch_ports).astype(np.int32), switch_ports, switching_time_s)


def shape_faults(shape: ShardShape, *, paired: bool = False) -> list[str]:
    """What makes a shape impossible on any layer with enough planes; empty when it is sound.

    Every interface sends to one rank and is sent to by one at most, never by its own; of switches that join ports in
    pairs, the rank it sends to sends back.
    """
    arcs = shape.arcs
    if arcs.ndim != 2 or not arcs.shape[1]:
        return ["a shape has one server at least"]
    ranks = np.arange(shape.servers)
    faults = []
    for interface, row in enumerate(arcs):
        if row.min() < -1 or row.max() >= shape.servers:
            faults.append(f"interface {interface} sends to a rank outside 0 to {shape.servers - 1}")
            continue
        used = row >= 0
        if (row == ranks).any():
            faults.append(f"interface {interface} of rank {int(np.argmax(row == ranks))} sends to itself")
        if len(np.unique(row[used])) < used.sum():
            faults.append(f"two ranks send to one rank on interface {interface}")
        elif paired and (row[row[used]] != ranks[used]).any():
            faults.append(f"interface {interface} has one-way circuits, and switches join ports in pairs")
    return faults


def realisable(layer: OpticalLayer, shape: ShardShape, shard: Shard) -> bool:
    """Whether the switches can set all circuits of a shape on a shard, its servers being its own."""
    k, d = shape.servers, shape.interfaces
    servers, planes = np.array(shard.servers, dtype=np.int64), np.array(shard.planes, dtype=np.int64)
    if len(servers) != k or len(planes) != d or len(set(shard.servers)) != k or len(set(shard.planes)) != d:
        return False
    if (
        servers.min() < 0
        or servers.max() >= layer.servers
        or (d and (planes.min() < 0 or planes.max() >= layer.planes))
    ):
        return False
    if shape_faults(shape, paired=layer.paired):
        return False
    switch = layer.switch_of[planes[:, None], servers[None, :]]
    there = np.take_along_axis(switch, np.maximum(shape.arcs, 0), axis=1)
    return bool(((shape.arcs < 0) | (switch == there)).all())
