"""Solution files of network problems: the same bytes for the same solution, read back as files of unknown origin."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoopt.core.cluster import LinkDirection
from topoopt.core.network import EnumerationProof, LengthCertificate, SourceFlow
from topoopt.core.network_solution import NetworkSolution, Robustness
from topoopt.core.topology import Topology
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
from topoopt.kinds.network.solution_schema import (
    FlowRow,
    ListedNetworkFile,
    NetworkSolutionFile,
    NetworkTopologyFile,
    RobustnessFile,
)

LIMITS = Limits(json_bytes=256 * MIB, json_nodes=16_000_000)

MAX_FLOW_CELLS = 1 << 27
"""Entries of the table source x arc that is made of a file (1 GiB)."""


def network_solution_document(solution: NetworkSolution) -> dict[str, Any]:
    """Plain data of a solution; the long tables come last."""
    return {
        **head_document(solution, bounds={"routing_bound": float(solution.routing_bound)}),
        "diameter": solution.diameter,
        "mean_hops": None if solution.mean_hops is None else float(solution.mean_hops),
        "link_gbps": solution.link_gbps,
        **({} if solution.robustness is None else {"robustness": robustness_document(solution.robustness)}),
        **provenance_document(solution),
        "topology": topology_document(solution.topology),
        "lengths": solution.certificate.lengths.tolist(),
        "flow": flow_rows(solution.flow.flow),
        "hop_flow": None if solution.flow.by_hop is None else [flow_rows(part) for part in solution.flow.by_hop],
        "enumeration": _listed(solution.enumeration),
    }


def robustness_document(found: Robustness) -> dict[str, Any]:
    """Plain data of how a topology stands failures."""
    return {**vars(found), "worst_link": list(found.worst_link), "bound": bound_document(found.bound)}


def _robustness(file: RobustnessFile | None) -> Robustness | None:
    if file is None:
        return None
    return Robustness(**{**file.model_dump(), "bound": bound_of(file.bound)})


def _listed(proof: EnumerationProof | None) -> list[dict[str, Any]] | None:
    if proof is None:
        return None
    pairs = zip(proof.heads.tolist(), proof.lengths.tolist(), strict=True)
    return [{"heads": heads, "lengths": lengths} for heads, lengths in pairs]


def _proof(listed: list[ListedNetworkFile] | None, n: int, d: int) -> EnumerationProof | None:
    if listed is None:
        return None
    heads = np.array([network.heads for network in listed], dtype=np.int64).reshape(-1, n, d)
    return EnumerationProof(
        heads, np.array([network.lengths for network in listed], dtype=np.float64).reshape(-1, n, d)
    )


def topology_document(topology: Topology) -> dict[str, Any]:
    """Plain data of the links of a solution."""
    lit = bool((topology.switches >= 0).any())
    return {
        "servers": topology.servers,
        "degree": topology.degree,
        "links": topology.links.value,
        "origin": topology.origin,
        "offsets": list(topology.offsets),
        "switches": topology.switches.tolist() if lit else None,
        "arcs": np.column_stack((topology.arcs, topology.multiplicity)).tolist(),
    }


def flow_rows(flow: NDArray[np.float64]) -> list[list[list[Any]]]:
    """Of each row of a table over arcs: the arcs that are not 0, and their values."""
    return [_sparse(row) for row in flow]


def _sparse(row: NDArray[np.float64]) -> list[list[Any]]:
    used = np.flatnonzero(row)
    return [used.tolist(), row[used].tolist()]


def network_solution_to_json(solution: NetworkSolution) -> str:
    """JSON text, one line for each top-level key and each row of the long tables.

    Raises:
        TopooptError: a number is NaN or infinite (a bug of what made the solution).
    """
    return solution_text(
        network_solution_document(solution), rows=("flow", "hop_flow", "enumeration"), nested=("topology",)
    )


def write_network_solution(solution: NetworkSolution, path: str | os.PathLike[str]) -> None:
    """Write a solution file, whole or not at all.

    Raises:
        TopooptError: a number is NaN or infinite; WriteError: the file cannot be written.
    """
    write_text_atomically(path, network_solution_to_json(solution))


def topology_faults(topology: NetworkTopologyFile) -> list[Fault]:
    """What the schema cannot state about the links of a solution."""
    n, m = topology.servers, len(topology.arcs)
    faults = []
    for index, (tail, head, _) in enumerate(topology.arcs):
        if max(tail, head) >= n:
            faults.append(Fault(("topology", "arcs", index), "no such server", f"{tail} -> {head}", f"0 to {n - 1}"))
    if len({(tail, head) for tail, head, _ in topology.arcs}) < m:
        faults.append(Fault(("topology", "arcs"), "an arc more than once", allowed="each arc once, with its links"))
    if topology.switches is not None and (
        len(topology.switches) != topology.degree or any(len(row) != n for row in topology.switches)
    ):
        allowed = f"{topology.degree} rows of {n}"
        faults.append(Fault(("topology", "switches"), "wrong size", allowed=allowed))
    return faults


def _faults(file: NetworkSolutionFile) -> list[Fault]:
    """What the schema cannot state: indices in range, tables of fitting length."""
    topology, n, m = file.topology, file.topology.servers, len(file.topology.arcs)
    faults = topology_faults(topology)
    if len(file.lengths) != m:
        faults.append(Fault(("lengths",), "wrong number of lengths", str(len(file.lengths)), f"{m}, one for each arc"))
    parts = 1 + len(file.hop_flow or ())
    if n * m * parts > MAX_FLOW_CELLS or topology.degree * n > MAX_FLOW_CELLS:
        faults.append(Fault(("flow",), "too large", f"{n} sources, {m} arcs", f"at most {MAX_FLOW_CELLS} entries"))
    faults += flow_faults(("flow",), file.flow, n, m)
    for hop, rows in enumerate(file.hop_flow or ()):
        faults += flow_faults(("hop_flow", hop), rows, n, m)
    d = topology.degree
    for index, network in enumerate(file.enumeration or ()):
        tables: tuple[list[Any], ...] = (network.heads, network.lengths)
        if any(len(table) != n or any(len(row) != d for row in table) for table in tables):
            faults.append(Fault(("enumeration", index), "wrong size", allowed=f"{n} rows of {d}"))
    return faults


def flow_faults(path: tuple[str | int, ...], rows: list[FlowRow], n: int, m: int) -> list[Fault]:
    """What is wrong with rows that should fill a table of n x m."""
    faults = []
    if len(rows) != n:
        faults.append(Fault(path, "wrong number of sources", str(len(rows)), str(n)))
    for source, (arcs, amounts) in enumerate(rows):
        if len(arcs) != len(amounts) or len(set(arcs)) < len(arcs) or any(arc >= m for arc in arcs):
            faults.append(
                Fault((*path, source), "arcs and amounts do not fit", allowed=f"arcs 0 to {m - 1}, each once")
            )
    return faults


def flow_table(rows: list[FlowRow], n: int, m: int) -> NDArray[np.float64]:
    """float64[n, m] of valid rows."""
    flow = np.zeros((n, m))
    for source, (arcs, amounts) in enumerate(rows):
        flow[source, arcs] = amounts
    return flow


def topology_of_file(file: NetworkTopologyFile) -> Topology:
    """The links of a solution."""
    rows = np.array(file.arcs, dtype=np.int32).reshape(-1, 3)
    n, d = file.servers, file.degree
    dark = np.full((d, n), -1, dtype=np.int32)
    return Topology(
        servers=n,
        degree=d,
        links=LinkDirection(file.links),
        arcs=np.ascontiguousarray(rows[:, :2]),
        multiplicity=np.ascontiguousarray(rows[:, 2]),
        switches=dark if file.switches is None else np.array(file.switches, dtype=np.int32),
        offsets=tuple(file.offsets),
        origin=file.origin,
    )


def read_network_solution(path: str | os.PathLike[str]) -> NetworkSolution:
    """Read a solution file (JSON) of a network problem; whether it is right is for the checker to say.

    Raises:
        InputError: everything wrong with the file.
    """
    file = read_checked(path, NetworkSolutionFile, _faults, LIMITS)
    n, m = file.topology.servers, len(file.topology.arcs)
    by_hop = None if file.hop_flow is None else np.array([flow_table(rows, n, m) for rows in file.hop_flow])
    return NetworkSolution(
        **head_of(file),
        **provenance_of(file),
        kind=file.kind.removesuffix("-solution"),
        routing_bound=file.routing_bound,
        topology=topology_of_file(file.topology),
        flow=SourceFlow(flow_table(file.flow, n, m), by_hop),
        certificate=LengthCertificate(np.array(file.lengths, dtype=np.float64)),
        diameter=file.diameter,
        mean_hops=file.mean_hops,
        enumeration=_proof(file.enumeration, n, file.topology.degree),
        link_gbps=file.link_gbps,
        robustness=_robustness(file.robustness),
    )
