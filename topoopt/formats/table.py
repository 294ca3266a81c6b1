"""Formats of other tools: a folder a format, a line for each that is written or read, and for each table of fields."""

from __future__ import annotations

from collections.abc import Mapping

from topoopt.core.process import PlugIns
from topoopt.files.reader_fields import FieldTable
from topoopt.formats.exporter import Exporter
from topoopt.formats.importer import Importer

EXPORTERS: Mapping[str, Exporter] = PlugIns(
    {
        "astrasim": "topoopt.formats.astrasim:EXPORTER",
        "astrasim-collective": "topoopt.formats.chakra.write:COLLECTIVE_EXPORTER",
        "chakra": "topoopt.formats.chakra.write:EXPORTER",
        "dag": "topoopt.formats.dag_topology:EXPORTER",
        "flexnet-taskgraph": "topoopt.formats.flexnet.write:EXPORTER",
        "graphml": "topoopt.formats.graphml:EXPORTER",
        "kubernetes": "topoopt.formats.schedulers:KUBERNETES",
        "linux-forwarding": "topoopt.formats.linux_forwarding:EXPORTER",
        "megatron": "topoopt.formats.megatron:EXPORTER",
        "msccl": "topoopt.formats.msccl.write:EXPORTER",
        "mscclpp": "topoopt.formats.mscclpp.write:EXPORTER",
        "nccl-topology": "topoopt.formats.nccl:EXPORTER",
        "nccl-tuner": "topoopt.formats.tuner:NCCL_EXPORTER",
        "netbox-cables": "topoopt.formats.cables:EXPORTER",
        "ovs": "topoopt.formats.ovs:EXPORTER",
        "patch-list": "topoopt.formats.patch_list:EXPORTER",
        "rccl-tuner": "topoopt.formats.tuner:RCCL_EXPORTER",
        "repetita": "topoopt.formats.repetita:EXPORTER",
        "slurm": "topoopt.formats.schedulers:SLURM",
        "sonic-ocs": "topoopt.formats.sonic_ocs:EXPORTER",
        "trace": "topoopt.formats.trace:EXPORTER",
    },
    "topoopt.exporters",
)
"""The targets of `topoopt export`."""


IMPORTERS: Mapping[str, Importer] = PlugIns(
    {
        "flexnet": "topoopt.formats.flexnet.importer:IMPORTER",
        "chakra": "topoopt.formats.chakra.importer:IMPORTER",
        "astrasim-network": "topoopt.formats.astrasim:IMPORTER",
        "libra": "topoopt.formats.libra:IMPORTER",
        "dnn-partitioning": "topoopt.formats.dnn_partitioning:IMPORTER",
        "msccl": "topoopt.formats.schedules.importer:MSCCL",
        "mscclpp": "topoopt.formats.schedules.importer:MSCCLPP",
        "astrasim-collective": "topoopt.formats.schedules.importer:ASTRASIM",
        "infragraph": "topoopt.formats.infragraph:IMPORTER",
        "nccl-topology": "topoopt.formats.nccl_topology:IMPORTER",
        "repetita": "topoopt.formats.repetita:IMPORTER",
        "sccl": "topoopt.formats.sccl:IMPORTER",
        "sndlib": "topoopt.formats.sndlib:IMPORTER",
        "teccl": "topoopt.formats.teccl:IMPORTER",
        "topology-zoo": "topoopt.formats.topology_zoo:IMPORTER",
    },
    "topoopt.importers",
)
"""The formats of `topoopt import`."""


READERS: Mapping[str, FieldTable] = PlugIns(
    {
        "ASTRA-sim: analytical network": "topoopt.formats.astrasim:FIELDS",
        "ASTRA-sim: custom collective (Chakra)": "topoopt.formats.chakra.stream:COLLECTIVE_FIELDS",
        "Calibration: measured runs": "topoopt.analyses.calibrate:FIELDS",
        "Cables: NetBox, SONiC, LLDP": "topoopt.formats.cables:FIELDS",
        "Chakra: traces of a job": "topoopt.formats.chakra.stream:FIELDS",
        "Chakra: process groups": "topoopt.formats.chakra.read:GROUP_FIELDS",
        "Demand: table of pairs": "topoopt.files.demand_files:FIELDS",
        "dnn-partitioning: graph": "topoopt.formats.dnn_partitioning:FIELDS",
        "dnn-partitioning: split of an expert": "topoopt.formats.dnn_partitioning:SPLIT_FIELDS",
        "FlexNet: measured profile": "topoopt.files.job_document:FIELDS",
        "FlexNet: task graph": "topoopt.formats.flexnet:FIELDS",
        "ForestColl: trees": "topoopt.formats.forestcoll:FIELDS",
        "Hugging Face: config.json": "topoopt.kinds.llm_training.huggingface:TABLE",
        "InfraGraph: infrastructure": "topoopt.formats.infragraph:FIELDS",
        "LIBRA: communicator": "topoopt.formats.libra:COMMUNICATOR_FIELDS",
        "LIBRA: cost model": "topoopt.formats.libra:COST_FIELDS",
        "LIBRA: network": "topoopt.formats.libra:NETWORK_FIELDS",
        "LIBRA: workload": "topoopt.formats.libra:WORKLOAD_FIELDS",
        "MSCCL: algorithm": "topoopt.formats.msccl:FIELDS",
        "MSCCL++: execution plan": "topoopt.formats.mscclpp:FIELDS",
        "NCCL: measured times": "topoopt.formats.tuner:FIELDS",
        "NCCL: topology": "topoopt.formats.nccl_topology:FIELDS",
        "Network: GraphML": "topoopt.files.graph_files:GRAPHML_TABLE",
        "Network: node-link JSON": "topoopt.files.graph_files:NODE_LINK_TABLE",
        "Network: table of links": "topoopt.files.graph_files:COLUMNS_TABLE",
        "Network: nodes and links that carry demand": "topoopt.files.graph_files:LINKS_TABLE",
        "Network: nodes and links of collectives": "topoopt.files.graph_files:RATES_TABLE",
        "ns-3: topology text": "topoopt.formats.ns3:FIELDS",
        "REPETITA: network and demands": "topoopt.formats.repetita:FIELDS",
        "SCCL: algorithm, imported": "topoopt.formats.sccl:ALGORITHM_FIELDS",
        "SCCL: algorithm, audited": "topoopt.formats.sccl:FIELDS",
        "SCCL: topology": "topoopt.formats.sccl:TOPOLOGY_FIELDS",
        "SNDlib: network": "topoopt.formats.sndlib:FIELDS",
        "SONiC: cross-connects": "topoopt.formats.sonic_ocs:FIELDS",
        "Shared cluster: trace of jobs": "topoopt.kinds.shared_cluster.trace:FIELDS",
        "TE-CCL: input": "topoopt.formats.teccl:INPUT_FIELDS",
        "Topology Zoo: network": "topoopt.formats.topology_zoo:FIELDS",
        "TE-CCL: schedule": "topoopt.formats.teccl:FIELDS",
    }
)
"""What becomes of every field of the files of others: used, noted or refused."""
