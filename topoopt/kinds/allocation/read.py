"""Instance files of kind `allocation` to domain objects: all checks, then the build."""

from __future__ import annotations

from collections import Counter
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from topoopt.core.allocation import AllocationGoal, AllocationProblem, Surplus, Transfer
from topoopt.core.allocation_rules import transfer_faults
from topoopt.core.arrays import Floats
from topoopt.core.topology import Topology
from topoopt.files.canonical import canonical_sha256
from topoopt.files.demand_tables import ServerNames
from topoopt.files.documents import Document
from topoopt.files.faults import Fault
from topoopt.files.findings import Findings, within
from topoopt.files.sections import TopologyContent, topology_of
from topoopt.kinds.allocation.schema import AllocationFile
from topoopt.kinds.allocation.transfers import RoutedDemand, generated_transfers, listed_transfers, routed_demand


def read_allocation(document: Document) -> AllocationProblem:
    """Check and build.

    Raises:
        InputError: everything wrong with the file, so far as one fault does not hide another.
    """
    findings = Findings()
    file = findings.shaped(AllocationFile, document)
    folder = FilePath(document.file).parent
    findings.add(_shape_faults(file))
    routed = None
    if file.transfers_from is not None and file.transfers_from.solution is not None:
        name = file.transfers_from.solution
        routed = findings.attempt(lambda: routed_demand(folder, name), ("transfers_from", "solution"))
    content = _topology(file, folder, routed, findings)
    if content is None:
        findings.refuse(document)
        raise AssertionError("an instance file without topology was not refused")
    topology, link_gbps = content.topology, _link_rate(file, content, findings)
    capacity = _capacities(file, topology, link_gbps, findings)
    egress = _server_rates(file.egress_gbps, "egress_gbps", topology.servers, findings)
    ingress = _server_rates(file.ingress_gbps, "ingress_gbps", topology.servers, findings)
    goal = AllocationGoal(file.objective)
    transfers = _transfers(file, content, goal, folder, routed, link_gbps, findings)
    findings.refuse(document)
    return AllocationProblem(
        name=file.name,
        topology=topology,
        capacity_gbps=capacity,
        transfers=transfers,
        goal=goal,
        surplus=Surplus(file.surplus),
        egress_gbps=egress,
        ingress_gbps=ingress,
        search=file.search.build(),
        sha256=_identity(file.model_dump(mode="json"), topology, transfers),
        notes=(*content.notes, *findings.notes),
    )


def _link_rate(file: AllocationFile, content: TopologyContent, findings: Findings) -> float:
    """Gbit/s of one link, or of one unit of the capacities of the links."""
    stated = file.link_gbps
    if content.gbps:
        if stated is not None:
            message = "the links have rates of their own in Gbit/s"
            findings.add([Fault(("link_gbps",), message, str(stated), "left out")])
        return 1.0
    if stated is None:
        findings.add([Fault(("link_gbps",), "missing", allowed="Gbit/s, above 0")])
    return 1.0 if stated is None else stated


def _shape_faults(file: AllocationFile) -> list[Fault]:
    """What the schema cannot state about which keys go together."""
    faults = []
    source = file.transfers_from
    if (file.transfers is None) == (source is None):
        faults.append(Fault((), "one of transfers and transfers_from is needed", allowed="one of them, not both"))
    if source is not None and (source.demand is None) == (source.solution is None):
        faults.append(Fault(("transfers_from",), "one of demand and solution is needed", allowed="one, not both"))
    if file.topology is None and (source is None or source.solution is None):
        allowed = "a mapping with one of family, links and file"
        faults.append(Fault(("topology",), "missing", allowed=allowed))
    if file.surplus != "max-min" and file.objective != AllocationGoal.MIN_GUARANTEE.value:
        message = f"plays no part for objective {file.objective}"
        faults.append(Fault(("surplus",), message, file.surplus, "with min-guarantee"))
    return faults


def _topology(
    file: AllocationFile, folder: FilePath, routed: RoutedDemand | None, findings: Findings
) -> TopologyContent | None:
    given = file.topology
    if given is None:
        return None if routed is None else TopologyContent(routed.topology)
    # Transfers need paths, and no others do.
    made = lambda: topology_of(given, folder, connected=False)  # noqa: E731
    content = findings.attempt(lambda: within("topology", made), ("topology",))
    if content is None:
        return None
    if routed is not None and not _same_links(content.topology, routed.topology):
        message = "the solution has other links than this topology"
        findings.add([Fault(("topology",), message, allowed="the links of the solution, or no topology at all")])
    return content


def _same_links(one: Topology, other: Topology) -> bool:
    same = one.servers == other.servers and np.array_equal(one.arcs, other.arcs)
    same = same and np.array_equal(one.multiplicity, other.multiplicity)
    return same and np.array_equal(one.capacity, other.capacity)


def _capacities(file: AllocationFile, topology: Topology, link_gbps: float, findings: Findings) -> Floats:
    """float64[m]."""
    capacity = topology.capacity * link_gbps
    ids = topology.arc_ids()
    pairs = Counter((tail, head) for tail, head, _ in file.capacities)
    for index, (tail, head, rate) in enumerate(file.capacities):
        known = max(tail, head) < topology.servers and ids[tail, head] >= 0
        if not known:
            findings.add([Fault(("capacities", index), "no such link", f"{tail} -> {head}", "links of the topology")])
        elif pairs[tail, head] > 1:
            findings.add([Fault(("capacities", index), "a link more than once", f"{tail} -> {head}", "each link once")])
        else:
            capacity[ids[tail, head]] = rate
    return capacity


def _server_rates(given: list[float] | None, key: str, servers: int, findings: Findings) -> Floats | None:
    if given is None:
        return None
    if len(given) not in (1, servers):
        findings.add([Fault((key,), "wrong number of rates", str(len(given)), f"one number, or {servers} of them")])
        return None
    return np.array(given * servers if len(given) == 1 else given, dtype=np.float64)


def _transfers(
    file: AllocationFile,
    content: TopologyContent,
    goal: AllocationGoal,
    folder: FilePath,
    routed: RoutedDemand | None,
    link_gbps: float,
    findings: Findings,
) -> tuple[Transfer, ...]:
    """All transfers, with everything that is wrong about them."""
    source, listed, topology = file.transfers_from, file.transfers, content.topology
    if listed is not None:
        both = findings.attempt(lambda: listed_transfers(listed, topology, goal), ("transfers",))
        transfers, faults = both or ((), [])
        findings.add(faults)
        return transfers
    if source is None:
        return ()
    known = ServerNames(topology.servers, findings.note, content.names)
    made = findings.attempt(
        lambda: generated_transfers(source, topology, goal, folder, link_gbps, routed, known), ("transfers_from",)
    )
    for fault in transfer_faults(made or (), goal, topology.servers)[:20]:
        name = (made or ())[fault.place].name
        path = ("transfers_from", "entry")
        findings.add([Fault(path, f"{fault.field} of {name}: {fault.message}", fault.value, fault.allowed)])
    return made or ()


def _identity(document: dict[str, Any], topology: Topology, transfers: tuple[Transfer, ...]) -> str:
    """Hash of the instance with defaults written out; files count by their content, not by their names.

    Routes count where they are those of a solution; the shortest ones follow from topology and transfers.
    """
    if document["topology"] is None or "file" in document["topology"]:
        rows = np.column_stack((topology.arcs, topology.multiplicity)).tolist()
        own = {} if topology.rates is None else {"rates": topology.rates.tolist()}
        document["topology"] = {"servers": topology.servers, "degree": topology.degree, "arcs": rows, **own}
    if document["transfers"] is None:
        given = document["transfers_from"]["solution"] is not None
        document["transfers_from"] = [
            (
                transfer.name,
                transfer.weight,
                transfer.min_gbps,
                None if np.isinf(transfer.max_gbps) else transfer.max_gbps,
                transfer.size_bytes,
                [(route.arcs.tolist(), route.fraction.tolist()) for route in transfer.routes if given],
            )
            for transfer in transfers
        ]
    return canonical_sha256(document)
