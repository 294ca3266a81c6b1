"""Formats of other tools: a folder a format, a line for each that is written, a line for each that is read.

Modules are loaded on first use. That of a target has the constant `EXPORTER`, that of a source the function `IMPORTER`.
"""

from __future__ import annotations

import importlib
from typing import NamedTuple

from topoopt.formats.exporter import Exporter
from topoopt.formats.importer import Importer


class Source(NamedTuple):
    """A format that instances are made of: its module, and what it is, for those who choose."""

    module: str
    summary: str


EXPORTERS: dict[str, str] = {
    "astrasim": "topoopt.formats.astrasim.write",
    "chakra": "topoopt.formats.chakra.write",
    "flexnet-taskgraph": "topoopt.formats.flexnet.write",
    "graphml": "topoopt.formats.graphml.write",
    "linux-forwarding": "topoopt.formats.linux_forwarding.write",
    "msccl": "topoopt.formats.msccl.write",
    "nccl-topology": "topoopt.formats.nccl.write",
    "ovs": "topoopt.formats.ovs.write",
    "patch-list": "topoopt.formats.patch_list.write",
}
"""Module of each target of `topoopt export`."""

IMPORTERS: dict[str, Source] = {
    "flexnet-profile": Source(
        "topoopt.formats.flexnet.import_profile",
        "A model with measured operator times; sizes the profile tells are taken from it.",
    ),
    "flexnet-taskgraph": Source(
        "topoopt.formats.flexnet.import_taskgraph",
        "A job whose strategy is already chosen: every operator keeps its split and servers, the network is searched.",
    ),
    "chakra": Source(
        "topoopt.formats.chakra.importer",
        "Chakra execution traces, one file a rank: traffic, collectives and compute of a job.",
    ),
    "astrasim-network": Source(
        "topoopt.formats.astrasim.importer",
        "A network of ASTRA-sim as an instance that divides its bandwidth anew; import chakra --network adds a job.",
    ),
    "libra": Source(
        "topoopt.formats.libra.importer",
        "A workload on a hierarchical network, in the files of LIBRA.",
    ),
    "dnn-partitioning": Source(
        "topoopt.formats.dnn_partitioning.importer",
        "An operator graph of Tarnawski et al. (NeurIPS 2020), to be placed.",
    ),
}
"""Module of each format of `topoopt import`."""


def find_exporter(target: str) -> Exporter:
    """The writer of a target in the table."""
    exporter: Exporter = importlib.import_module(EXPORTERS[target]).EXPORTER
    return exporter


def find_importer(source: str) -> Importer:
    """The reader of a format in the table."""
    importer: Importer = importlib.import_module(IMPORTERS[source].module).IMPORTER
    return importer
