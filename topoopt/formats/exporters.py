"""Solutions in the formats of other tools: one module a target, one line in the table."""

from __future__ import annotations

from topoopt.formats.astrasim.write import ASTRASIM
from topoopt.formats.chakra.write import CHAKRA
from topoopt.formats.exporter import Exporter
from topoopt.formats.flexnet.write import FLEXNET_TASKGRAPH
from topoopt.formats.graphml.write import GRAPHML
from topoopt.formats.linux_forwarding.write import LINUX_FORWARDING
from topoopt.formats.msccl.write import MSCCL
from topoopt.formats.nccl.write import NCCL_TOPOLOGY
from topoopt.formats.ovs.write import OVS
from topoopt.formats.patch_list.write import PATCH_LIST

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
