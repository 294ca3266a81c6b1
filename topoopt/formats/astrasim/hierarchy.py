"""Products of blocks for the analytical backend of ASTRA-sim: bandwidth per NPU in GB/s becomes GiB/s of one link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topoopt.core.result import Result
from topoopt.formats.astrasim.content import BLOCKS, AnalyticalNetwork, link_gib_per_s
from topoopt.formats.astrasim.system import algorithms, system_document
from topoopt.formats.exporter import NOTES_FILE, Export, ExportOptions, decimal_text, json_bytes, notes_bytes

LATENCY_NS = 500.0
"""Where no latency is given: the kind has none."""

HIERARCHY_NOTES = (
    "network.yml: bandwidth is GiB/s of one link (1 GB/s of an NPU = 0.9313 GiB/s, over its links in the dimension)",
    "network.yml: prices, constraints and the catalogue of speeds cannot be expressed",
    "network.yml: a group smaller than the cluster runs as one ring unless the trace names involved_dim",
)
_NAMES = {ours: theirs for theirs, ours in BLOCKS.items()}


def analytical_network(
    blocks: Sequence[str],
    sizes: Sequence[int],
    bandwidth_gbytes_per_s: Sequence[float],
    latency_ns: float,
    ring_queues: int = 1,
) -> AnalyticalNetwork:
    """Network yml of a design, innermost dimension first; blocks as in instances."""
    named = tuple(_NAMES[block] for block in blocks)
    rows = zip(named, sizes, bandwidth_gbytes_per_s, strict=True)
    links = tuple(link_gib_per_s(block, size, value, ring_queues) for block, size, value in rows)
    return AnalyticalNetwork(named, tuple(sizes), links, (latency_ns,) * len(named))


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


def hierarchy_export(result: Result[Any, Any], options: ExportOptions) -> Export:
    """Folder for the analytical backend."""
    latency_ns = LATENCY_NS if options.hop_latency_us is None else options.hop_latency_us * 1000.0
    queues = options.ring_queues
    dimensions = result.figures.dimensions
    blocks, sizes = [row.block.value for row in dimensions], [row.size for row in dimensions]
    network = analytical_network(blocks, sizes, result.plan.bandwidth_gbytes_per_s, latency_ns, queues)
    share = "half " if queues == 2 else ""
    notes = (
        f"latency {latency_ns:g} ns in every dimension, {'assumed' if options.hop_latency_us is None else 'as given'}",
        f"a ring link has {share}the bandwidth of its NPU: run with num-queues-per-dim {queues}",
        *HIERARCHY_NOTES,
    )
    chosen = [algorithms(block, size) for block, size in zip(blocks, sizes, strict=True)]
    files = (
        ("network.yml", network_text(network).encode()),
        ("system.json", json_bytes(system_document(chosen))),
        (NOTES_FILE, notes_bytes(f"{result.name} for the analytical backend of ASTRA-sim", notes)),
    )
    return Export(files, network, notes)
