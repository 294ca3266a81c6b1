"""Products of blocks for the analytical backend of ASTRA-sim: bandwidth per NPU in GB/s becomes GiB/s of one link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topoopt.core.hierarchy import Dimension
from topoopt.export.astrasim_system import algorithms, system_document
from topoopt.export.base import NOTES_FILE, Export, ExportOptions, decimal_text, json_bytes, notes_bytes
from topoopt.formats.astrasim import BLOCKS, AnalyticalNetwork, link_gib_per_s

LATENCY_NS = 500.0
"""Where no latency is given: the kind has none."""

HIERARCHY_NOTES = (
    "network.yml: bandwidth is GiB/s of one link (1 GB/s of an NPU = 0.9313 GiB/s, over its links in the dimension)",
    "network.yml: prices, constraints and the catalogue of speeds cannot be expressed",
    "network.yml: a group smaller than the cluster runs as one ring unless the trace names involved_dim",
)
_NAMES = {ours: theirs for theirs, ours in BLOCKS.items()}


def analytical_network(
    dimensions: Sequence[Dimension], bandwidth_gbytes_per_s: Sequence[float], latency_ns: float, ring_queues: int = 1
) -> AnalyticalNetwork:
    """Network yml of a design, innermost dimension first."""
    blocks = tuple(_NAMES[one.block.value] for one in dimensions)
    rows = zip(blocks, dimensions, bandwidth_gbytes_per_s, strict=True)
    return AnalyticalNetwork(
        blocks,
        tuple(one.size for one in dimensions),
        tuple(link_gib_per_s(block, one.size, value, ring_queues) for block, one, value in rows),
        (latency_ns,) * len(blocks),
    )


def network_text(network: AnalyticalNetwork) -> str:
    """The yml; numbers read back as they are."""

    def row(key: str, values: Sequence[object]) -> str:
        texts = [decimal_text(value) if isinstance(value, float) else str(value) for value in values]
        return f"{key}: [ {', '.join(texts)} ]\n"

    return (
        row("topology", network.topology)
        + row("npus_count", network.npus_count)
        + row("bandwidth", network.bandwidth_gib_per_s)
        + row("latency", network.latency_ns)
    )


def network_export(
    dimensions: Sequence[Dimension], bandwidth_gbytes_per_s: Sequence[float], options: ExportOptions
) -> Export:
    """Folder for the analytical backend."""
    latency_ns = LATENCY_NS if options.hop_latency_us is None else options.hop_latency_us * 1000.0
    network = analytical_network(dimensions, bandwidth_gbytes_per_s, latency_ns, options.ring_queues)
    queues = options.ring_queues
    notes = (
        f"latency {latency_ns:g} ns in every dimension, {'given' if options.hop_latency_us is not None else 'assumed'}",
        f"a ring link has {'half ' if queues == 2 else ''}the bandwidth of its NPU: run with num-queues-per-dim {queues}",
        *HIERARCHY_NOTES,
    )
    chosen = [algorithms(one.block.value, one.size) for one in dimensions]
    title = f"{len(dimensions)} dimensions for the analytical backend of ASTRA-sim"
    files = (
        ("network.yml", network_text(network).encode()),
        ("system.json", json_bytes(system_document(chosen))),
        (NOTES_FILE, notes_bytes(title, notes)),
    )
    return Export(files, network, notes)


def hierarchy_export(solution: Any, options: ExportOptions) -> Export:
    """Folder of a solution of kind `hierarchical-bandwidth`."""
    return network_export(solution.network.dimensions, solution.bandwidth_gbytes_per_s, options)
