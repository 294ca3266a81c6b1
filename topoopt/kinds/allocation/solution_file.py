"""Solution files of allocation problems."""

from __future__ import annotations

from topoopt.core.allocation_solution import AllocationSolution
from topoopt.files.faults import Fault
from topoopt.files.solution_format import SolutionFormat
from topoopt.files.topology_part import topology_faults
from topoopt.kinds.allocation.solution_schema import AllocationSolutionFile


def _faults(file: AllocationSolutionFile) -> list[Fault]:
    """What the schema cannot state: indices in range, tables of fitting length."""
    n, m = file.topology.servers, len(file.topology.arcs)
    faults = topology_faults(file.topology)
    if len(file.capacity_gbps) != m:
        count = str(len(file.capacity_gbps))
        faults.append(Fault(("capacity_gbps",), "wrong number of rates", count, f"{m}, one for each arc"))
    if (file.capacity_gbps <= 0).any():
        faults.append(Fault(("capacity_gbps",), "a capacity of 0", allowed="more than 0"))
    for index, transfer in enumerate(file.transfers):
        if max(transfer.source, transfer.destination) >= n:
            faults.append(Fault(("transfers", index), "no such server", transfer.name, f"0 to {n - 1}"))
    for index, row in enumerate(file.servers):
        if max(row.server, row.destination, *(hop for hop, _ in row.next_hops)) >= n:
            faults.append(Fault(("servers", index), "no such server", allowed=f"0 to {n - 1}"))
    for index, proof in enumerate(file.certificates):
        who = [*proof.transfers.tolist(), *(t for t, _ in proof.multipliers)]
        if any(t >= len(file.transfers) for t in who) or any(r >= m + 2 * n for r, _ in proof.prices):
            faults.append(Fault(("certificates", index), "an index that does not exist"))
    return faults


SOLUTION_FILE: SolutionFormat[AllocationSolution] = SolutionFormat(
    AllocationSolutionFile, _faults, rows=("transfers", "servers", "certificates")
)
