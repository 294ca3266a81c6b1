"""Formats of other tools: a folder a format, a line for each that is written or read, and for each table of fields."""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.core.process import PlugIns
from topoopt.files.reader_fields import FieldTable
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
    },
    "topoopt.exporters",
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
    },
    "topoopt.importers",
)
"""The formats of `topoopt import`."""


READERS: Mapping[str, FieldTable] = PlugIns(
    {
        "ASTRA-sim: analytical network": "topoopt.formats.astrasim.read:FIELDS",
        "ASTRA-sim: custom collective (Chakra)": "topoopt.formats.chakra.fields:COLLECTIVE_FIELDS",
        "Calibration: measured runs": "topoopt.analyses.calibrate.runs:FIELDS",
        "Chakra: traces of a job": "topoopt.formats.chakra.fields:FIELDS",
        "Chakra: process groups": "topoopt.formats.chakra.groups:FIELDS",
        "Demand: table of pairs": "topoopt.files.demand_files:FIELDS",
        "dnn-partitioning: graph": "topoopt.formats.dnn_partitioning.read:FIELDS",
        "dnn-partitioning: split of an expert": "topoopt.formats.dnn_partitioning.read:SPLIT_FIELDS",
        "FlexNet: measured profile": "topoopt.files.job_document:FIELDS",
        "FlexNet: task graph": "topoopt.formats.flexnet.read_taskgraph:FIELDS",
        "ForestColl: trees": "topoopt.formats.forestcoll.read:FIELDS",
        "Hugging Face: config.json": "topoopt.kinds.llm_training.huggingface:TABLE",
        "LIBRA: communicator": "topoopt.formats.libra.read:COMMUNICATOR_FIELDS",
        "LIBRA: cost model": "topoopt.formats.libra.read:COST_FIELDS",
        "LIBRA: network": "topoopt.formats.libra.read:NETWORK_FIELDS",
        "LIBRA: workload": "topoopt.formats.libra.read:WORKLOAD_FIELDS",
        "MSCCL: algorithm": "topoopt.formats.msccl.algorithm:FIELDS",
        "MSCCL++: execution plan": "topoopt.formats.mscclpp.plan:FIELDS",
        "Network: GraphML": "topoopt.files.graph_files:GRAPHML_TABLE",
        "Network: node-link JSON": "topoopt.files.graph_files:NODE_LINK_TABLE",
        "Network: table of links": "topoopt.files.graph_files:COLUMNS_TABLE",
        "Network: nodes and links that carry demand": "topoopt.files.graph_files:LINKS_TABLE",
        "Network: nodes and links of collectives": "topoopt.files.graph_files:RATES_TABLE",
        "SCCL: algorithm, imported": "topoopt.formats.sccl.importer:ALGORITHM_FIELDS",
        "SCCL: algorithm, audited": "topoopt.formats.sccl.read:FIELDS",
        "SCCL: topology": "topoopt.formats.sccl.importer:TOPOLOGY_FIELDS",
        "Shared cluster: trace of jobs": "topoopt.kinds.shared_cluster.trace:FIELDS",
        "TE-CCL: input": "topoopt.formats.teccl.importer:FIELDS",
        "TE-CCL: schedule": "topoopt.formats.teccl.read:FIELDS",
    }
)
"""What becomes of every field of the files of others: used, noted or refused."""
