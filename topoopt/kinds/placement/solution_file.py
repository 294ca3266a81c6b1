"""Solution files of placement problems: the same bytes for the same solution, read back as files of unknown origin."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoopt.core.placement import (
    Communication,
    Device,
    Latency,
    Link,
    RateAllocation,
    Schedule,
    Server,
    Sharing,
    StageShape,
    Throughput,
)
from topoopt.core.placement_solution import CompactResult, DeviceLoad, LinkShare, PlacementSolution, Transfer
from topoopt.core.units import MIB
from topoopt.files.atomic import write_text_atomically
from topoopt.files.checked_file import read_checked
from topoopt.files.documents import Limits
from topoopt.files.faults import Fault
from topoopt.files.solution_head import (
    bound_document,
    bound_of,
    head_document,
    head_of,
    provenance_document,
    provenance_of,
)
from topoopt.files.solution_text import solution_text
from topoopt.kinds.placement.solution_schema import PlacementSolutionFile, SolutionDeviceFile

LIMITS = Limits(json_bytes=256 * MIB, json_nodes=16_000_000)

LONG_TABLES = ("servers", "devices", "rates_gbps", "link_shares", "operators", "transfers")
"""Keys whose entries stand one on a line."""


def _settings(settings: Throughput | Latency, kind: type) -> dict[str, Any] | None:
    if not isinstance(settings, kind):
        return None
    return {key: value.value if hasattr(value, "value") else value for key, value in asdict(settings).items()}


def _device(device: Device, load: DeviceLoad, classes: tuple[str, ...]) -> dict[str, Any]:
    return {
        "name": device.name,
        "server": device.server,
        "class": classes[device.class_index],
        "memory_bytes": device.memory_bytes,
        "host": device.host,
        "forward_ms": float(load.forward_ms),
        "backward_ms": float(load.backward_ms),
        "forward_communication_ms": float(load.forward_communication_ms),
        "backward_communication_ms": float(load.backward_communication_ms),
        "used_memory_bytes": int(load.memory_bytes),
        "operators": int(load.operators),
    }


def _list(array: NDArray[Any] | None) -> list[Any] | None:
    return None if array is None else array.tolist()


def placement_solution_document(solution: PlacementSolution) -> dict[str, Any]:
    """Plain data of a solution; the long tables come last."""
    compact = solution.compact
    return {
        **head_document(solution),
        "throughput": _settings(solution.settings, Throughput),
        "latency": _settings(solution.settings, Latency),
        "compact": None
        if compact is None
        else {
            "operators": compact.operators,
            "value_ms": compact.value_ms,
            "bound": None if compact.bound is None else bound_document(compact.bound),
        },
        **provenance_document(solution),
        "classes": list(solution.classes),
        "servers": [
            {
                "name": server.name,
                "links": [{"name": link.name, "gbps": link.gbps} for link in server.links],
                "intra_gbps": server.intra_gbps,
            }
            for server in solution.servers
        ],
        "devices": [
            _device(device, load, solution.classes)
            for device, load in zip(solution.devices, solution.loads, strict=True)
        ],
        "rates_gbps": _list(solution.rates_gbps),
        "link_shares": [[share.source, share.target, share.link, float(share.gbps)] for share in solution.link_shares],
        "operators": [[name, int(d)] for name, d in zip(solution.operators, solution.device, strict=True)],
        "stage": _list(solution.stage),
        "start_ms": _list(solution.start_ms),
        "end_ms": _list(solution.end_ms),
        "transfers": [[t.tensor, t.target, float(t.start_ms), float(t.end_ms)] for t in solution.transfers],
    }


def placement_solution_to_json(solution: PlacementSolution) -> str:
    """JSON text, one line for each top-level key and each row of the long tables.

    Raises:
        TopooptError: a number is NaN or infinite (a bug of what made the solution).
    """
    return solution_text(placement_solution_document(solution), rows=LONG_TABLES)


def write_placement_solution(solution: PlacementSolution, path: str | os.PathLike[str]) -> None:
    """Write a solution file, whole or not at all.

    Raises:
        TopooptError: a number is NaN or infinite; WriteError: the file cannot be written.
    """
    write_text_atomically(path, placement_solution_to_json(solution))


def _faults(file: PlacementSolutionFile) -> list[Fault]:
    """What the schema cannot state: indices in range, tables of fitting length."""
    n, servers, devices = len(file.operators), len(file.servers), len(file.devices)
    faults = []
    if (file.throughput is None) == (file.latency is None):
        faults.append(Fault((), "one of throughput and latency is null, the other is not"))
    for i, device in enumerate(file.devices):
        if device.server >= servers:
            faults.append(Fault(("devices", i, "server"), "no such server", str(device.server), f"0 to {servers - 1}"))
        if device.device_class not in file.classes:
            faults.append(Fault(("devices", i, "class"), "no such class", device.device_class, ", ".join(file.classes)))
    targets = [(("operators", i), row[1]) for i, row in enumerate(file.operators)]
    targets += [(("transfers", i), row[1]) for i, row in enumerate(file.transfers)]
    faults += [
        Fault(path, "no such device", str(target), f"0 to {devices - 1}")
        for path, target in targets
        if target >= devices
    ]
    for key, table in (("stage", file.stage), ("start_ms", file.start_ms), ("end_ms", file.end_ms)):
        if table is not None and len(table) != n:
            faults.append(Fault((key,), "wrong number of entries", str(len(table)), f"{n}, one for each operator"))
    rates = file.rates_gbps
    if rates is not None and (len(rates) != servers or any(len(row) != servers for row in rates)):
        faults.append(Fault(("rates_gbps",), "wrong size", allowed=f"{servers} rows of {servers}"))
    for i, (source, target, link, _) in enumerate(file.link_shares):
        if max(source, target) >= servers or link >= len(file.servers[source].links):
            faults.append(Fault(("link_shares", i), "no such server or link", f"{source}, {target}, {link}"))
    return faults


def _read_settings(file: PlacementSolutionFile) -> Throughput | Latency:
    if file.throughput is not None:
        options = file.throughput
        return Throughput(
            Schedule(options.schedule),
            Communication(options.communication),
            StageShape(options.stages),
            options.stages_per_device,
        )
    assert file.latency is not None
    return Latency(Sharing(file.latency.sharing), RateAllocation(file.latency.rates))


def _load(entry: SolutionDeviceFile) -> DeviceLoad:
    return DeviceLoad(
        entry.forward_ms,
        entry.backward_ms,
        entry.forward_communication_ms,
        entry.backward_communication_ms,
        entry.used_memory_bytes,
        entry.operators,
    )


def _array(values: list[Any] | None, kind: Any) -> NDArray[Any] | None:
    return None if values is None else np.array(values, dtype=kind)


def read_placement_solution(path: str | os.PathLike[str]) -> PlacementSolution:
    """Read a solution file (JSON) of a placement problem; whether it is right is for the checker to say.

    Raises:
        InputError: everything wrong with the file.
    """
    file = read_checked(path, PlacementSolutionFile, _faults, LIMITS)
    compact = file.compact
    known = PlacementSolution(
        **head_of(file),
        **provenance_of(file),
        settings=_read_settings(file),
        servers=tuple(
            Server(entry.name, tuple(Link(link.name, link.gbps) for link in entry.links), entry.intra_gbps)
            for entry in file.servers
        ),
        devices=tuple(
            Device(entry.name, entry.server, file.classes.index(entry.device_class), entry.memory_bytes, entry.host)
            for entry in file.devices
        ),
        classes=tuple(file.classes),
        operators=tuple(name for name, _ in file.operators),
        device=np.array([device for _, device in file.operators], dtype=np.int32),
        loads=tuple(_load(entry) for entry in file.devices),
    )
    return replace(
        known,
        stage=_array(file.stage, np.int32),
        start_ms=_array(file.start_ms, np.float64),
        end_ms=_array(file.end_ms, np.float64),
        transfers=tuple(Transfer(*row) for row in file.transfers),
        rates_gbps=_array(file.rates_gbps, np.float64),
        link_shares=tuple(LinkShare(*row) for row in file.link_shares),
        compact=None
        if compact is None
        else CompactResult(
            compact.operators, compact.value_ms, None if compact.bound is None else bound_of(compact.bound)
        ),
    )
