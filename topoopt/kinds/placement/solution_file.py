"""Solution files of placement problems."""

from __future__ import annotations

from topoopt.core.placement_solution import PlacementSolution
from topoopt.files.faults import Fault
from topoopt.files.solution_format import SolutionFormat
from topoopt.kinds.placement.solution_schema import PlacementSolutionFile


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
    targets += [(("transfers", i), transfer.target) for i, transfer in enumerate(file.transfers)]
    faults += [
        Fault(path, "no such device", str(target), f"0 to {devices - 1}")
        for path, target in targets
        if target >= devices
    ]
    for key, table in (("stage", file.stage), ("start_ms", file.start_ms), ("end_ms", file.end_ms)):
        if table is not None and len(table) != n:
            faults.append(Fault((key,), "wrong number of entries", str(len(table)), f"{n}, one for each operator"))
    for i, share in enumerate(file.link_shares):
        if max(share.source, share.target) >= servers or share.link >= len(file.servers[share.source].links):
            got = f"{share.source}, {share.target}, {share.link}"
            faults.append(Fault(("link_shares", i), "no such server or link", got))
    return faults


SOLUTION_FILE: SolutionFormat[PlacementSolution] = SolutionFormat(
    PlacementSolutionFile, _faults, rows=("servers", "devices", "link_shares", "operators", "transfers")
)
