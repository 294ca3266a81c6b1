"""Files of msr-fiddle/dnn-partitioning (Tarnawski et al., NeurIPS 2020): operator graphs and splits of human experts.
Operator graphs of msr-fiddle/dnn-partitioning as instances.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.core.arrays import bytes_per_ms
from topoopt.core.errors import InputError, Problem
from topoopt.files.codec import MAX_BYTES, MAX_MS
from topoopt.files.documents import Document, load_document
from topoopt.files.issues import Issue, value_text
from topoopt.files.reader_fields import FieldTable, notes_of
from topoopt.formats.table import (
    Imported,
    Importer,
    NameOption,
    imported_placement,
    name_of,
    require_choice,
    require_positive,
)

FIELDS: FieldTable = {
    "maxSizePerFPGA": ("used", "bytes of memory of an accelerator"),
    "maxFPGAs": ("used", "accelerators, unless --devices says how many"),
    "maxCPUs": ("used", "size of the CPU pool, unless --no-cpu leaves it out"),
    "nodes[].id": ("used", "name of the operator"),
    "nodes[].name": ("noted", "operators are named by their ids"),
    "nodes[].layerId": ("noted", "layer of the operator"),
    "nodes[].cpuLatency": ("used", "ms on a CPU"),
    "nodes[].fpgaLatency": ("used", "ms on an accelerator"),
    "nodes[].supportedOnFpga": ("used", "whether accelerators take it"),
    "nodes[].isBackwardNode": ("used", "whether it is of the backward pass"),
    "nodes[].colorClass": ("used", "operators that stay together"),
    "nodes[].size": ("used", "bytes of memory; without it none, which is noted"),
    "edges[].sourceId": ("used", "producer"),
    "edges[].destId": ("used", "consumer"),
    "edges[].cost": ("used", "ms of a transfer"),
    "edges[].size": ("used", "bytes, which say whether costs are ms of a link of 2 GiB/s or of one of 2 TiB/s"),
}
SPLIT_FIELDS: FieldTable = {
    "cpus[].nodes[]": ("used", "operators on the CPU pool"),
    "fpgas[].nodes[]": ("used", "operators on each accelerator"),
    "cpus[].load": ("noted", "what the expert reached, which is computed again"),
    "fpgas[].load": ("noted", "what the expert reached"),
    "maxLoad": ("noted", "what the expert reached"),
}
LINK_GBPS = 2 * 1024**3 * 8 / 1e9
"""2 GiB/s, the link of all graphs but the layer graphs for throughput."""

SECONDS = 1000.0
"""The layer graphs for throughput: costs in seconds."""

MAX_NODES = 20_000
HOST = "host"


def _number(entry: Mapping[str, Any], key: str, path: tuple[str | int, ...], most: float, issues: list[Issue]) -> float:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        text = "missing" if key not in entry else "not a number in range"
        issues.append(Issue((*path, key), text, value_text(value) if key in entry else None, f"a number 0 to {most:g}"))
        return 0.0
    return float(value)


def _entries(data: Mapping[str, Any], key: str, issues: list[Issue]) -> list[Mapping[str, Any]]:
    rows = data.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        issues.append(Issue((key,), "missing" if key not in data else "not a list of mappings"))
        return []
    if len(rows) > 10 * MAX_NODES:
        issues.append(Issue((key,), "too many", str(len(rows)), f"at most {10 * MAX_NODES}"))
        return []
    return rows


def _flag(entry: Mapping[str, Any], key: str, path: tuple[str | int, ...], issues: list[Issue]) -> bool:
    value = entry.get(key)
    if value not in (0, 1):
        issues.append(Issue((*path, key), "not a truth value", value_text(value), "true, false, 0 or 1"))
    return value in (1, True)


def _operators(rows: Sequence[Mapping[str, Any]], *, cpu: bool, issues: list[Issue]) -> dict[object, dict[str, Any]]:
    by_id: dict[object, dict[str, Any]] = {}
    for index, row in enumerate(rows):
        path = ("nodes", index)
        number = row.get("id")
        if isinstance(number, bool) or not isinstance(number, int | str):
            issues.append(Issue((*path, "id"), "not an id", value_text(number), "a whole number or text"))
            continue
        if number in by_id:
            issues.append(Issue((*path, "id"), "the id of another node", value_text(number), "each id once"))
        times: dict[str, float | None] = {"fpga": _number(row, "fpgaLatency", path, MAX_MS, issues)}
        if not _flag(row, "supportedOnFpga", path, issues):
            times["fpga"] = None
        if cpu:
            times["cpu"] = _number(row, "cpuLatency", path, MAX_MS, issues)
        operator: dict[str, Any] = {
            "name": str(number),
            "times_ms": times,
            "memory_bytes": round(_number(row, "size", path, MAX_BYTES, issues)) if "size" in row else None,
        }
        if row.get("colorClass") is not None:
            operator["colocation"] = str(row["colorClass"])
        if _flag(row, "isBackwardNode", path, issues):
            operator["backward"] = True
        by_id[number] = operator
    return by_id


def _tensors(
    rows: Sequence[Mapping[str, Any]], operators: Mapping[object, dict[str, Any]], issues: list[Issue]
) -> tuple[dict[object, list[object]], dict[object, float], dict[object, float]]:
    """Consumers, cost and stated size by producer."""
    consumers: dict[object, list[object]] = {}
    costs: dict[object, float] = {}
    sizes: dict[object, float] = {}
    for index, row in enumerate(rows):
        path = ("edges", index)
        ends = row.get("sourceId"), row.get("destId")
        for key, end in zip(("sourceId", "destId"), ends, strict=True):
            if not isinstance(end, int | str) or end not in operators:
                issues.append(Issue((*path, key), "no node of that id", value_text(end)))
        cost = _number(row, "cost", path, MAX_MS, issues)
        if not all(isinstance(end, int | str) for end in ends):
            continue
        source, target = ends
        if abs(costs.setdefault(source, cost) - cost) > 1e-6:
            text = f"another cost than the other edges of node {value_text(source)}"
            issues.append(Issue((*path, "cost"), text, f"{cost:g}", f"{costs[source]:g}"))
        if target not in consumers.setdefault(source, []):
            consumers[source].append(target)
        if "size" in row and (size := _number(row, "size", path, MAX_BYTES, issues)):
            sizes.setdefault(source, size)
    return consumers, costs, sizes


def _rate_gbps(costs: Mapping[object, float], sizes: Mapping[object, float]) -> float:
    """The link of the file: 2 GiB/s, or a thousand times that, whichever the sizes say of most tensors."""
    ratios = sorted(sizes[key] / costs[key] for key in sizes if costs.get(key))
    if not ratios:
        return LINK_GBPS
    middle = ratios[len(ratios) // 2] / bytes_per_ms(LINK_GBPS)
    return LINK_GBPS * (SECONDS if middle > math.sqrt(SECONDS) else 1.0)


def placement_document(
    path: str | os.PathLike[str],
    *,
    objective: str,
    name: str,
    comm_scale: float = 1.0,
    devices: int | None = None,
    cpu: bool = True,
    sharing: str = "none",
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """An instance document of a graph file, and what of the file is not used.

    Args:
        path: the file.
        objective: `throughput` or `latency`.
        name: of the instance.
        comm_scale: factor on all transfer times.
        devices: accelerators; None: as the file says.
        cpu: whether the CPU pool of the file is used.
        sharing: of objective latency; the costs of the file know no contention.

    Raises:
        InputError: everything wrong with the file.
    """
    document = load_document(path)
    data = document.data if isinstance(document.data, dict) else {}
    issues: list[Issue] = []
    memory = _number(data, "maxSizePerFPGA", (), MAX_BYTES, issues)
    count = round(_number(data, "maxFPGAs", (), 1024, issues)) if devices is None else devices
    cpus = round(_number(data, "maxCPUs", (), 1024, issues)) if cpu else 0
    operators = _operators(_entries(data, "nodes", issues), cpu=cpus > 0, issues=issues)
    consumers, costs, sizes = _tensors(_entries(data, "edges", issues), operators, issues)
    notes = notes_of(document, FIELDS, issues)
    without = [operator["name"] for operator in operators.values() if operator["memory_bytes"] is None]
    if without:
        notes = (*notes, f"{len(without)} nodes state no size and take no memory, the first {without[0][:40]}")
    gbps = _rate_gbps(costs, sizes)
    per_ms = bytes_per_ms(gbps)
    names = {number: operator["name"] for number, operator in operators.items()}
    link = [{"name": "eth0", "gbps": gbps / comm_scale}]
    accelerator = {"class": "fpga", "memory_bytes": math.floor(memory)}
    servers: list[dict[str, Any]] = [
        {"name": f"server{i}", "links": link, "devices": [{"name": f"fpga{i}", **accelerator}]} for i in range(count)
    ]
    if cpus:
        pool = [{"name": f"cpu{i}", "class": "cpu", "host": True} for i in range(cpus)]
        servers.append({"name": HOST, "links": link, "devices": pool})
    made = {
        "schema_version": 1,
        "kind": "placement",
        "name": name,
        "objective": objective,
        **({"latency": {"sharing": sharing}} if objective == "latency" else {}),
        "servers": servers,
        "operators": [{**entry, "memory_bytes": entry["memory_bytes"] or 0} for entry in operators.values()],
        "tensors": [
            {
                "producer": names[source],
                "consumers": [names[target] for target in targets],
                "size_bytes": round(costs[source] * per_ms),
            }
            for source, targets in consumers.items()
        ],
    }
    return made, notes


def read_expert_split(path: str | os.PathLike[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Device of every operator a split file names, by operator name: `cpu0`, ..., `fpga0`, ...; what is not used.

    Raises:
        InputError: everything wrong with the file.
    """
    document: Document = load_document(path)
    data = document.data if isinstance(document.data, dict) else {}
    issues: list[Issue] = []
    by_name: dict[str, str] = {}
    for key, prefix in (("cpus", "cpu"), ("fpgas", "fpga")):
        for index, entry in enumerate(_entries(data, key, issues)):
            nodes = entry.get("nodes")
            if not isinstance(nodes, list):
                issues.append(Issue((key, index, "nodes"), "missing" if nodes is None else "not a list"))
                continue
            for position, node in enumerate(nodes):
                if str(node) in by_name:
                    where = (key, index, "nodes", position)
                    issues.append(Issue(where, "a node placed twice", value_text(node), "each node once"))
                by_name[str(node)] = f"{prefix}{index}"
    notes = notes_of(document, SPLIT_FIELDS, issues)
    if not by_name:
        raise InputError([Problem("no node is placed", file=os.fspath(path))])
    return by_name, notes


OBJECTIVES = ("throughput", "latency")
SHARING = ("none", "fair", "fifo", "static")


def import_graph(
    file: Annotated[Path, typer.Argument(help="Graph (JSON) of msr-fiddle/dnn-partitioning.")],
    objective: Annotated[str, typer.Option(help="throughput or latency.")],
    comm_scale: Annotated[float, typer.Option(help="Factor on all transfer times.")] = 1.0,
    devices: Annotated[int | None, typer.Option(min=1, max=1024, help="Accelerators; default: of the file.")] = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="Whether the CPU pool of the file is there.")] = True,
    sharing: Annotated[
        str,
        typer.Option(help="Objective latency, how transfers of a server share its links: none, fair, fifo or static."),
    ] = "none",
    name: NameOption = None,
) -> Imported:
    """An operator graph of Tarnawski et al. (NeurIPS 2020), to be placed."""
    require_choice("--objective", objective, OBJECTIVES)
    require_choice("--sharing", sharing, SHARING)
    require_positive("--comm-scale", comm_scale)
    document, notes = placement_document(
        file,
        objective=objective,
        name=name or name_of(file),
        comm_scale=comm_scale,
        devices=devices,
        cpu=cpu,
        sharing=sharing,
    )
    return imported_placement(document, notes)


IMPORTER: Importer = import_graph
