"""Solutions in the formats of other tools: one module a target, one line in the table."""

from __future__ import annotations

from topoopt.export.astrasim import ASTRASIM
from topoopt.export.base import Exporter
from topoopt.export.chakra import CHAKRA
from topoopt.export.graphml import GRAPHML
from topoopt.export.ovs import OVS

EXPORTERS: dict[str, Exporter] = {
    "astrasim": ASTRASIM,
    "chakra": CHAKRA,
    "graphml": GRAPHML,
    "ovs": OVS,
}
"""Writer of each target."""
