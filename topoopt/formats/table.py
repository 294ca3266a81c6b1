"""Formats of other tools: a folder a format, a line for each that is written, a line for each that is read."""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.core.plugins import PlugIns
from topoopt.formats.exporter import Exporter
from topoopt.formats.importer import Importer

EXPORTERS: Mapping[str, Exporter] = PlugIns(
    {
        "astrasim": "topoopt.formats.astrasim.write:EXPORTER",
        "astrasim-collective": "topoopt.formats.chakra.collective_write:EXPORTER",
        "chakra": "topoopt.formats.chakra.write:EXPORTER",
        "dag": "topoopt.formats.dag_topology.write:EXPORTER",
        "flexnet-taskgraph": "topoopt.formats.flexnet.write:EXPORTER",
        "graphml": "topoopt.formats.graphml.write:EXPORTER",
        "linux-forwarding": "topoopt.formats.linux_forwarding.write:EXPORTER",
        "megatron": "topoopt.formats.megatron.write:EXPORTER",
        "msccl": "topoopt.formats.msccl.write:EXPORTER",
        "mscclpp": "topoopt.formats.mscclpp.write:EXPORTER",
        "nccl-topology": "topoopt.formats.nccl.write:EXPORTER",
        "ovs": "topoopt.formats.ovs.write:EXPORTER",
        "patch-list": "topoopt.formats.patch_list.write:EXPORTER",
    }
)
"""The targets of `topoopt export`."""


IMPORTERS: Mapping[str, Importer] = PlugIns(
    {
        "flexnet-profile": "topoopt.formats.flexnet.import_profile:IMPORTER",
        "flexnet-taskgraph": "topoopt.formats.flexnet.import_taskgraph:IMPORTER",
        "chakra": "topoopt.formats.chakra.importer:IMPORTER",
        "astrasim-network": "topoopt.formats.astrasim.importer:IMPORTER",
        "libra": "topoopt.formats.libra.importer:IMPORTER",
        "dnn-partitioning": "topoopt.formats.dnn_partitioning.importer:IMPORTER",
        "msccl": "topoopt.formats.schedules.importer:MSCCL",
        "mscclpp": "topoopt.formats.schedules.importer:MSCCLPP",
        "astrasim-collective": "topoopt.formats.schedules.importer:ASTRASIM",
        "sccl": "topoopt.formats.sccl.importer:IMPORTER",
        "teccl": "topoopt.formats.teccl.importer:IMPORTER",
    }
)
"""The formats of `topoopt import`."""
