"""ASTRA-sim 2: a design that is a product of blocks as analytical network yml, any other graph as ns-3 text."""

from __future__ import annotations

from typing import Any

from topoopt.formats.astrasim.graph import GRAPH_NOTES, graph_export
from topoopt.formats.astrasim.hierarchy import HIERARCHY_NOTES, hierarchy_export
from topoopt.formats.exporter import Export, Exporter, ExportOptions


def build(solution: Any, options: ExportOptions) -> Export:
    """Network and system files."""
    if solution.kind == "hierarchical-bandwidth":
        return hierarchy_export(solution, options)
    return graph_export(solution, options)


EXPORTER = Exporter(
    kinds=("co-optimisation", "routing", "topology", "hierarchical-bandwidth"),
    makes="hierarchical: network.yml, system.json; others: topology.txt (ns-3), logical_topology.json, system.json",
    limits=(*HIERARCHY_NOTES, *GRAPH_NOTES),
    folder=True,
    build=build,
)
