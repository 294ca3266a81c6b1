"""The cluster: servers with optical interfaces, and what one interface and one server can do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from topoopt.core.units import bytes_per_ms


class LinkDirection(StrEnum):
    """How one interface is patched.

    `bidirectional`: a link is a fibre pair, full duplex, and takes one interface at both ends, so arcs come in
    opposite pairs. `unidirectional`: the transmit and the receive side of an interface may go to different servers,
    so each server has `degree` outgoing and `degree` incoming arcs.
    """

    BIDIRECTIONAL = "bidirectional"
    UNIDIRECTIONAL = "unidirectional"


class LocalAllReduce(StrEnum):
    """Time model of the AllReduce inside a server, before its network phase.

    `ring`: 2 (g-1)/g * bytes / rate. `flexnet`: floor(2 * bytes / g) / rate, the formula of the reference search,
    smaller by (g-1) for g GPUs; only for comparison with it.
    """

    RING = "ring"
    FLEXNET = "flexnet"


class LinkSharing(StrEnum):
    """How links are shared by what asks for them at the same time, in the time models that serve segments.

    `fair`: flows take turns of one segment. `fifo`: each request is served whole, in order of arrival, be it a segment
    or what a member of a ring sends in a round. `transfers-first`: two classes of traffic; segments of transfers go
    before what AllReduces send.
    """

    FAIR = "fair"
    FIFO = "fifo"
    TRANSFERS_FIRST = "transfers-first"


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
    """

    servers: int
    gpus_per_server: int
    degree: int
    link_gbps: float
    links: LinkDirection = LinkDirection.BIDIRECTIONAL
    hop_latency_us: float = 1.0
    ring_round_latency_us: float = 2.1
    intra_server_gbps: float = 2400.0
    local_allreduce: LocalAllReduce = LocalAllReduce.RING
    gpu_memory_bytes: int | None = None
    link_sharing: LinkSharing = LinkSharing.FIFO

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
        if self.local_allreduce is LocalAllReduce.FLEXNET:
            return float(int(2.0 * payload_bytes / g)) / rate
        return 2.0 * (g - 1) / g * payload_bytes / rate
