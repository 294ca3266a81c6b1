"""Solution files of allocation problems: the same bytes for the same solution, read back as files of unknown origin."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from topoopt.core.allocation_solution import AllocationSolution, DestinationRate, PriceCertificate, TransferRate
from topoopt.files.atomic import write_text_atomically
from topoopt.files.checked_file import read_checked
from topoopt.files.faults import Fault
from topoopt.files.solution_head import head_document, head_of, provenance_document, provenance_of
from topoopt.files.solution_text import solution_text
from topoopt.kinds.allocation.solution_schema import AllocationSolutionFile
from topoopt.kinds.network.solution_file import LIMITS, topology_document, topology_faults, topology_of_file

ROWS = ("transfers", "servers", "certificates")
"""Keys with one line of text for each row."""


def allocation_solution_document(solution: AllocationSolution) -> dict[str, Any]:
    """Plain data of a solution; the long tables come last."""
    return {
        **head_document(solution, asked={"goal": solution.goal, "surplus": solution.surplus}),
        **provenance_document(solution),
        "topology": topology_document(solution.topology),
        "capacity_gbps": solution.capacity_gbps.tolist(),
        "link_gbps": solution.link_gbps.tolist(),
        "transfers": [
            {
                "name": row.name,
                "source": row.source,
                "destination": row.destination,
                "rate_gbps": row.rate_gbps,
                "route_gbps": list(row.route_gbps),
                "completion_time_s": row.completion_time_s,
                "limited_by": list(row.limited_by),
            }
            for row in solution.transfers
        ],
        "servers": [
            [row.server, row.destination, row.own_gbps, row.forwarded_gbps, [list(hop) for hop in row.next_hops]]
            for row in solution.servers
        ],
        "certificates": [
            {
                "transfers": proof.transfers.tolist(),
                "prices": [list(row) for row in zip(proof.shared.tolist(), proof.price.tolist(), strict=True)],
                "multipliers": [
                    list(row) for row in zip(proof.valued.tolist(), proof.multiplier.tolist(), strict=True)
                ],
            }
            for proof in solution.certificates
        ],
    }


def allocation_solution_to_json(solution: AllocationSolution) -> str:
    """JSON text, one line for each top-level key and each row of the long tables.

    Raises:
        TopooptError: a number is NaN or infinite (a bug of what made the solution).
    """
    return solution_text(allocation_solution_document(solution), rows=ROWS)


def write_allocation_solution(solution: AllocationSolution, path: str | os.PathLike[str]) -> None:
    """Write a solution file, whole or not at all.

    Raises:
        TopooptError: a number is NaN or infinite; WriteError: the file cannot be written.
    """
    write_text_atomically(path, allocation_solution_to_json(solution))


def _faults(file: AllocationSolutionFile) -> list[Fault]:
    """What the schema cannot state: indices in range, tables of fitting length."""
    n, m = file.topology.servers, len(file.topology.arcs)
    faults = topology_faults(file.topology)
    for key in ("capacity_gbps", "link_gbps"):
        count = len(getattr(file, key))
        if count != m:
            faults.append(Fault((key,), "wrong number of rates", str(count), f"{m}, one for each arc"))
    if any(rate <= 0 for rate in file.capacity_gbps):
        faults.append(Fault(("capacity_gbps",), "a capacity of 0", allowed="more than 0"))
    for index, row in enumerate(file.transfers):
        if max(row.source, row.destination) >= n:
            faults.append(Fault(("transfers", index), "no such server", row.name, f"0 to {n - 1}"))
    for index, (server, destination, _, _, hops) in enumerate(file.servers):
        if max(server, destination, *(hop for hop, _ in hops)) >= n:
            faults.append(Fault(("servers", index), "no such server", allowed=f"0 to {n - 1}"))
    for index, proof in enumerate(file.certificates):
        who = [*proof.transfers, *(t for t, _ in proof.multipliers)]
        if any(t >= len(file.transfers) for t in who) or any(r >= m + 2 * n for r, _ in proof.prices):
            faults.append(Fault(("certificates", index), "an index that does not exist"))
    return faults


def read_allocation_solution(path: str | os.PathLike[str]) -> AllocationSolution:
    """Read a solution file (JSON) of an allocation problem; whether it is right is for the checker to say.

    Raises:
        InputError: everything wrong with the file.
    """
    file = read_checked(path, AllocationSolutionFile, _faults, LIMITS)
    return AllocationSolution(
        **head_of(file),
        **provenance_of(file),
        goal=file.goal,
        surplus=file.surplus,
        topology=topology_of_file(file.topology),
        capacity_gbps=np.array(file.capacity_gbps, dtype=np.float64),
        transfers=tuple(
            TransferRate(
                row.name,
                row.source,
                row.destination,
                row.rate_gbps,
                tuple(row.route_gbps),
                row.completion_time_s,
                tuple(row.limited_by),
            )
            for row in file.transfers
        ),
        link_gbps=np.array(file.link_gbps, dtype=np.float64),
        servers=tuple(DestinationRate(*row[:4], tuple(row[4])) for row in file.servers),
        certificates=tuple(
            PriceCertificate(
                np.array(proof.transfers, dtype=np.int64),
                np.array([r for r, _ in proof.prices], dtype=np.int64),
                np.array([price for _, price in proof.prices], dtype=np.float64),
                np.array([t for t, _ in proof.multipliers], dtype=np.int64),
                np.array([value for _, value in proof.multipliers], dtype=np.float64),
            )
            for proof in file.certificates
        ),
    )
