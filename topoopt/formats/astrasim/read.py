"""ASTRA-sim's analytical network yml: four lists of one entry a dimension."""

from __future__ import annotations

import math
import os
from typing import Any

from topoopt.core.errors import InputError
from topoopt.files.documents import load_document
from topoopt.files.faults import Fault, nearest_text, value_text
from topoopt.files.reader_fields import FieldTable
from topoopt.formats.astrasim.content import BLOCKS, AnalyticalNetwork, npu_gbytes_per_s
from topoopt.formats.astrasim.read_ns3 import text_topology_problems

FIELDS: FieldTable = {
    "topology[]": ("used", "blocks, innermost first: Ring, FullyConnected, Switch"),
    "npus_count[]": ("used", "NPUs of each dimension"),
    "bandwidth[]": ("used", "GiB/s of a link; instances divide the sum over the dimensions anew"),
    "latency[]": ("noted", "nanoseconds of a link; instances of this kind have none"),
}
KEYS = tuple(key.removesuffix("[]") for key in FIELDS)
MAX_DIMENSIONS = 12
MAX_NPUS = 2**24


def read_network(path: str | os.PathLike[str]) -> AnalyticalNetwork:
    """Read a network yml.

    Raises:
        InputError: everything wrong with the file.
    """
    foreign = text_topology_problems(path)
    if foreign:
        raise InputError(foreign)
    document = load_document(path)
    data = document.data
    if not isinstance(data, dict) or not set(KEYS) & set(data):
        allowed = f"an analytical network of ASTRA-sim: {', '.join(KEYS)}"
        document.refuse([Fault((), "not such a network", value_text(data), allowed)])
        raise AssertionError("refuse returned with a fault")
    document.refuse(_faults(data))
    return AnalyticalNetwork(
        tuple(data["topology"]),
        tuple(data["npus_count"]),
        tuple(float(value) for value in data["bandwidth"]),
        tuple(float(value) for value in data["latency"]),
    )


def _faults(data: dict[str, Any]) -> list[Fault]:
    faults = [Fault((key,), "unknown key", None, nearest_text(key, KEYS)) for key in data if key not in KEYS]
    faults += [Fault((key,), "missing", None, "a list, one entry a dimension") for key in KEYS if key not in data]
    lengths = {}
    for key in (key for key in KEYS if key in data):
        listed = data[key]
        if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_DIMENSIONS:
            faults.append(
                Fault((key,), "not a list of dimensions", value_text(listed), f"1 to {MAX_DIMENSIONS} entries")
            )
            continue
        lengths[key] = len(listed)
        faults += [_entry_fault(key, place, value) for place, value in enumerate(listed) if not _good(key, value)]
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{key} {length}" for key, length in lengths.items())
        faults.append(Fault((), "lists of different length", shown, "one entry a dimension in each"))
    sizes = data.get("npus_count")
    if not faults and isinstance(sizes, list) and math.prod(sizes) > MAX_NPUS:
        faults.append(Fault(("npus_count",), "too many NPUs", str(math.prod(sizes)), f"at most {MAX_NPUS}"))
    return faults


def _good(key: str, value: object) -> bool:
    if key == "topology":
        return isinstance(value, str) and value in BLOCKS
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if key == "npus_count":
        return isinstance(value, int) and 2 <= value <= MAX_NPUS
    return 0 < value <= 1e9 if key == "bandwidth" else 0 <= value <= 1e12


def _entry_fault(key: str, place: int, value: object) -> Fault:
    allowed = {
        "topology": nearest_text(value, BLOCKS),
        "npus_count": f"a whole number 2 to {MAX_NPUS}",
        "bandwidth": "a positive number of GiB/s",
        "latency": "a number of nanoseconds, not negative",
    }[key]
    return Fault((key, place), "not usable", value_text(value), allowed)


def dimension_documents(network: AnalyticalNetwork) -> list[dict[str, Any]]:
    """Dimensions as they stand in an instance of kind `hierarchical-bandwidth`."""
    return [
        {"name": f"dim{place}", "block": BLOCKS[block], "size": size}
        for place, (block, size) in enumerate(zip(network.topology, network.npus_count, strict=True), 1)
    ]


def npu_bandwidths(network: AnalyticalNetwork, ring_queues: int = 1) -> tuple[float, ...]:
    """GB/s (10^9 bytes/s) per NPU in every dimension."""
    rows = zip(network.topology, network.npus_count, network.bandwidth_gib_per_s, strict=True)
    return tuple(npu_gbytes_per_s(block, size, link, ring_queues) for block, size, link in rows)
