"""Analytical networks of ASTRA-sim 2: a product of building blocks, bandwidth of a link in GiB/s, latency in ns.

ASTRA-sim calls its unit GB/s and multiplies by 2^30; here 1 GB/s is 10^9 bytes/s, and bandwidth is per NPU and
dimension. A ring link carries what an NPU sends with one queue per dimension (collectives run clockwise only) and half
of it with two; a fully connected NPU has a link to each of its n - 1 neighbours; a switch port is one link.
"""

from __future__ import annotations

from dataclasses import dataclass

GIB_PER_GB = 1e9 / 2**30
BLOCKS = {"Ring": "ring", "FullyConnected": "fully-connected", "Switch": "switch"}
"""Name of each block there, and in instances of the kind `hierarchical-bandwidth`."""


@dataclass(frozen=True)
class AnalyticalNetwork:
    """A network yml, one entry a dimension, innermost first.

    Attributes:
        topology: building blocks, keys of `BLOCKS`.
        npus_count: sizes, at least 2.
        bandwidth_gib_per_s: of one link and direction.
        latency_ns: of one link.
    """

    topology: tuple[str, ...]
    npus_count: tuple[int, ...]
    bandwidth_gib_per_s: tuple[float, ...]
    latency_ns: tuple[float, ...]


def links_per_npu(block: str, size: int, ring_queues: int = 1) -> int:
    """Links that share the bandwidth of one NPU in a dimension (of a ring: queues in use, 1 or 2)."""
    return {"Ring": ring_queues, "FullyConnected": size - 1}.get(block, 1)


def link_gib_per_s(block: str, size: int, npu_gbytes_per_s: float, ring_queues: int = 1) -> float:
    """Bandwidth of a link as ASTRA-sim counts it, from that of an NPU in 10^9 bytes/s."""
    return npu_gbytes_per_s * GIB_PER_GB / links_per_npu(block, size, ring_queues)


def npu_gbytes_per_s(block: str, size: int, link_gib: float, ring_queues: int = 1) -> float:
    """Inverse of `link_gib_per_s`."""
    return link_gib * links_per_npu(block, size, ring_queues) / GIB_PER_GB
