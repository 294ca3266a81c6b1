"""The cluster: servers with interfaces, the optical switches above them, and the settings of its hosts.

Interface j of every server is patched to plane j. A plane has as many optical switches as its ports require; a circuit
joins two ports of one switch, so servers of different switches of a plane cannot be joined in that plane. Arrays are
never changed once they are in one of these types: what is derived from them is kept.

Rates of hosts are whole bit/s, so that what is written into a host is what was compared. Links join either through a
switch that all hosts share (one subnet a switch) or two hosts directly (one subnet a cable); nothing here depends on
which.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from annotated_types import Len

from topoopt.core.arrays import Int32s, bytes_per_ms
from topoopt.core.data import STRICT, Label, Shown


class LinkDirection(StrEnum):
    """How one interface is patched.

    `bidirectional`: a link is a fibre pair, full duplex, and takes one interface at both ends, so arcs come in
    opposite pairs. `unidirectional`: the transmit and the receive side of an interface may go to different servers,
    so each server has `degree` outgoing and `degree` incoming arcs.
    """

    BIDIRECTIONAL = "bidirectional"
    UNIDIRECTIONAL = "unidirectional"


LocalAllReduce = Literal["ring", "flexnet"]
"""Time model of the AllReduce inside a server, before its network phase.

`ring`: 2 (g-1)/g * bytes / rate. `flexnet`: floor(2 * bytes / g) / rate, the formula of the reference search,
smaller by (g-1) for g GPUs; only for comparison with it."""


class LinkSharing(StrEnum):
    """How links are shared by what asks for them at the same time, in the time models that serve segments.

    `fair`: flows take turns of one segment. `fifo`: each request is served whole, in order of arrival, be it a segment
    or what a member of a ring sends in a round. `transfers-first`: two classes of traffic; segments of transfers go
    before what AllReduces send.
    """

    FAIR = "fair"
    FIFO = "fifo"
    TRANSFERS_FIRST = "transfers-first"


class ComputeOrder(StrEnum):
    """In which order a server computes what is ready, in the time models that serve segments.

    `arrival`: in the order in which tasks became ready. `longest-path-first`: of the tasks that are ready when the
    server is free, the one with the longest path of compute to the end of the iteration (list scheduling by critical
    path: Hu, 1961).
    """

    ARRIVAL = "arrival"
    LONGEST_PATH_FIRST = "longest-path-first"


@dataclass(frozen=True)
class Cluster:
    """n servers of g GPUs with d optical interfaces each (TopoOpt, NSDI'23, section 3).

    Attributes:
        servers: n.
        gpus_per_server: g; a server computes as one device whose operator times already account for its g GPUs.
        degree: d, optical interfaces per server.
        link_gbps: B, rate of one interface per direction, Gbit/s.
        links: how interfaces are patched.
        hop_latency_us: latency of one hop, microseconds.
        ring_round_latency_us: fixed cost of one AllReduce ring round over direct links, microseconds (measured in
            packet simulation: 2.1 to 2.4).
        intra_server_gbps: rate between the GPUs of a server, Gbit/s.
        local_allreduce: time model of the AllReduce inside a server.
        gpu_memory_bytes: memory of one GPU; None: memory is not checked.
        link_sharing: how flows share a link.
        compute_order: in which order a server computes.
    """

    servers: int
    gpus_per_server: int
    degree: int
    link_gbps: float
    links: LinkDirection = LinkDirection.BIDIRECTIONAL
    hop_latency_us: float = 1.0
    ring_round_latency_us: float = 2.1
    intra_server_gbps: float = 2400.0
    local_allreduce: LocalAllReduce = "ring"
    gpu_memory_bytes: int | None = None
    link_sharing: LinkSharing = LinkSharing.FIFO
    compute_order: ComputeOrder = ComputeOrder.ARRIVAL

    @property
    def link_bytes_per_ms(self) -> float:
        """Rate of one interface, bytes per millisecond."""
        return bytes_per_ms(self.link_gbps)

    @property
    def server_memory_bytes(self) -> int | None:
        """Memory of all GPUs of a server, bytes."""
        return None if self.gpu_memory_bytes is None else self.gpu_memory_bytes * self.gpus_per_server

    def local_allreduce_ms(self, payload_bytes: float) -> float:
        """Time of the AllReduce among the GPUs of one server, ms."""
        g = self.gpus_per_server
        if g <= 1:
            return 0.0
        rate = bytes_per_ms(self.intra_server_gbps)
        if self.local_allreduce == "flexnet":
            return float(int(2.0 * payload_bytes / g)) / rate
        return 2.0 * (g - 1) / g * payload_bytes / rate


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
        return int(self.switch_of.shape[0])

    @property
    def servers(self) -> int:
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


def shape_issues(shape: ShardShape, *, paired: bool = False) -> list[str]:
    """What makes a shape impossible on any layer with enough planes; empty when it is sound.

    Every interface sends to one rank and is sent to by one at most, never by its own; of switches that join ports in
    pairs, the rank it sends to sends back.
    """
    arcs = shape.arcs
    if arcs.ndim != 2 or not arcs.shape[1]:
        return ["a shape has one server at least"]
    ranks = np.arange(shape.servers)
    issues = []
    for interface, row in enumerate(arcs):
        if row.min() < -1 or row.max() >= shape.servers:
            issues.append(f"interface {interface} sends to a rank outside 0 to {shape.servers - 1}")
            continue
        used = row >= 0
        if (row == ranks).any():
            issues.append(f"interface {interface} of rank {int(np.argmax(row == ranks))} sends to itself")
        if len(np.unique(row[used])) < used.sum():
            issues.append(f"two ranks send to one rank on interface {interface}")
        elif paired and (row[row[used]] != ranks[used]).any():
            issues.append(f"interface {interface} has one-way circuits, and switches join ports in pairs")
    return issues


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
    if shape_issues(shape, paired=layer.paired):
        return False
    switch = layer.switch_of[planes[:, None], servers[None, :]]
    there = np.take_along_axis(switch, np.maximum(shape.arcs, 0), axis=1)
    return bool(((shape.arcs < 0) | (switch == there)).all())


DEFAULT_QUEUE_BPS = 12_000
"""Least a class of traffic is given: 1500 bytes a second, below which Open vSwitch rounds up."""


@dataclass(frozen=True)
class HostLink:
    """A network interface.

    Attributes:
        interface: its name on the host.
        bridge: Open vSwitch bridge that holds it and its address.
        address: IPv4 address and prefix length, `10.1.0.1/24`.
        rate_bps: in each direction.
    """

    interface: str
    bridge: str
    address: str
    rate_bps: int


@dataclass(frozen=True)
class Host:
    """A server: its name, the IPv4 address that is reached over all its links, and those."""

    name: str
    address: str
    links: tuple[HostLink, ...]


@dataclass(frozen=True)
class LinkRate:
    """Part of one link of a host for the traffic to one destination.

    Attributes:
        source, link: index of the host, and of the link among its links.
        destination: host, by index.
        next_host, next_link: where the link leads: the destination itself, or a host that forwards.
        rate_bps: guaranteed; 0: a route without a guarantee.
    """

    source: int
    link: int
    destination: int
    next_host: int
    next_link: int
    rate_bps: int


@dataclass(frozen=True)
class HostRates:
    """Rates of all hosts, ascending by source, link and destination.

    Attributes:
        name: of the solution.
        hosts, rates: see there.
        notes: what was assumed, for people.
    """

    name: str
    hosts: tuple[Host, ...]
    rates: tuple[LinkRate, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def forwards(self) -> bool:
        """Whether some host passes traffic of others on."""
        return any(rate.next_host != rate.destination for rate in self.rates)


@dataclass(frozen=True)
class LinkSetting:
    """A link of a host."""

    __pydantic_config__ = STRICT

    interface: Label | None = None
    """of the network; default: the link of the solution"""
    bridge: Label | None = None
    """of Open vSwitch; default: br- and the interface"""
    address: Label | None = None
    """IPv4 and prefix length, 10.1.0.1/24"""


@dataclass(frozen=True)
class HostSetting:
    """A host."""

    __pydantic_config__ = STRICT

    server: Label
    """its name in the solution"""
    name: Label | None = None
    """of the host and its scripts; default: server"""
    address: Label | None = None
    """IPv4, reached over all its links"""
    links: Annotated[tuple[LinkSetting, ...], Len(0, 64)] = ()
    """all of them, in the order of the solution"""
