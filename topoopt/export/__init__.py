"""Solutions in the formats of other tools: one module a target, one line in the table."""

from __future__ import annotations

from topoopt.export.astrasim import ASTRASIM
from topoopt.export.base import Exporter
from topoopt.export.chakra import CHAKRA
from topoopt.export.flexnet_taskgraph import FLEXNET_TASKGRAPH
from topoopt.export.graphml import GRAPHML
from topoopt.export.linux_forwarding import LINUX_FORWARDING
from topoopt.export.msccl import MSCCL
from topoopt.export.nccl_topology import NCCL_TOPOLOGY
from topoopt.export.ovs import OVS
from topoopt.export.patch_list import PATCH_LIST

EXPORTERS: dict[str, Exporter] = {
    "astrasim": ASTRASIM,
    "chakra": CHAKRA,
    "flexnet-taskgraph": FLEXNET_TASKGRAPH,
    "graphml": GRAPHML,
    "linux-forwarding": LINUX_FORWARDING,
    "msccl": MSCCL,
    "nccl-topology": NCCL_TOPOLOGY,
    "ovs": OVS,
    "patch-list": PATCH_LIST,
}
"""Writer of each target."""
