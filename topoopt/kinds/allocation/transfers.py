"""Transfers of allocation instances: listed, one for each entry of a demand matrix, or those of a routing solution."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

import numpy as np

from topoopt.core.allocation import AllocationGoal, Route, Transfer
from topoopt.core.allocation_rules import transfer_faults
from topoopt.core.arrays import Ints
from topoopt.core.errors import InputError, Problem
from topoopt.core.topology import Topology
from topoopt.files.demand_tables import ServerNames
from topoopt.files.faults import Fault
from topoopt.files.findings import within
from topoopt.files.network_sections import FamilyDemand
from topoopt.files.sections import demand_of
from topoopt.files.solution_format import LIMITS
from topoopt.kinds.allocation.schema import MAX_TRANSFERS, TransferFile, TransferSource
from topoopt.kinds.network.solution_file import SOLUTION_FILE
from topoopt.workloads.transfer_routes import ShortestRoutes, mixed_route, path_problem, path_route, routes_of_flow

ENTRY_OF = {
    AllocationGoal.MAX_MIN: "max_gbps",
    AllocationGoal.WEIGHTED: "weight",
    AllocationGoal.MIN_GUARANTEE: "min_gbps",
    AllocationGoal.COMPLETION_TIME: "gbytes",
}
"""What an entry of a matrix is when the file does not say."""

MAX_RATES = LIMITS.json_nodes // 7
"""Rows `[server, destination, [[next hop, Gbit/s]]],` of a solution file, of seven values and brackets each."""

SHARES_ROUNDING = 1e-6
"""How far the sum of given shares may be from 1; they are scaled to 1."""


@dataclass(frozen=True, eq=False)
class RoutedDemand:
    """A routing taken apart: its links, and amount (in links) and route of every pair."""

    topology: Topology
    pairs: dict[tuple[int, int], tuple[float, Route]]


def listed_transfers(
    files: list[TransferFile], topology: Topology, goal: AllocationGoal
) -> tuple[tuple[Transfer, ...], list[Fault]]:
    """Transfers in the order of the file, and all faults; transfers with faulty routes have none."""
    short = [k for k, file in enumerate(files) if _joins(file, topology) and file.path is None and file.paths is None]
    pairs = np.array([(files[k].source, files[k].destination) for k in short], dtype=np.int64).reshape(-1, 2)
    made = _shortest(topology, pairs)
    if isinstance(made, Problem):
        return (), [Fault(("transfers",), made.message, made.value, made.allowed)]
    shortest = dict(zip(short, made, strict=True))
    faults: list[Fault] = []
    transfers = []
    met: Counter[tuple[int, int]] = Counter()
    for index, file in enumerate(files):
        met[file.source, file.destination] += 1
        again = met[file.source, file.destination]
        name = file.name or f"{file.source}->{file.destination}" + (f"#{again}" if again > 1 else "")
        if file.bytes is not None and file.gbytes is not None:
            faults.append(Fault(("transfers", index, "gbytes"), "both bytes and gbytes", allowed="one of them"))
        size = float(file.bytes) if file.bytes is not None else None if file.gbytes is None else file.gbytes * 1e9
        transfer = Transfer(
            name=name,
            source=file.source,
            destination=file.destination,
            routes=(),
            weight=1.0 if file.weight is None else file.weight,
            min_gbps=file.min_gbps or 0.0,
            max_gbps=float("inf") if file.max_gbps is None else file.max_gbps,
            size_bytes=size,
        )
        found: tuple[Route, ...] = ()
        if _joins(file, topology):
            found, wrong = _routes(file, topology, shortest.get(index))
            faults += [replace(fault, path=("transfers", index, *fault.path)) for fault in wrong]
        transfers.append(replace(transfer, routes=found))
    faults += [
        Fault(("transfers", fault.place, fault.field or ""), fault.message, fault.value, fault.allowed)
        for fault in transfer_faults(tuple(transfers), goal, topology.servers)
    ]
    return tuple(transfers), faults


def _joins(file: TransferFile, topology: Topology) -> bool:
    """Whether a transfer leads from a server to another one."""
    return max(file.source, file.destination) < topology.servers and file.source != file.destination


def _shortest(topology: Topology, pairs: Ints) -> list[Route] | Problem:
    """The shortest routes of pairs, or why no solution file holds the rates over them: told before they are made.

    Raises:
        InputError: no path joins one of them.
    """
    shortest = ShortestRoutes(topology)
    if shortest.least_entries(pairs, MAX_RATES) <= MAX_RATES:
        return shortest.routes(pairs)
    allowed = f"routes on which servers send towards {MAX_RATES} destinations in all, each server counted for itself"
    return Problem("more rates than a solution file holds", value=f"{len(pairs)} routes", allowed=allowed)


def _routes(file: TransferFile, topology: Topology, shortest: Route | None) -> tuple[tuple[Route, ...], list[Fault]]:
    """Routes of one transfer, faults with paths below it; `shortest`: where no path is given."""
    given = [key for key in ("path", "paths", "routing") if getattr(file, key) is not None]
    if len(given) > 1:
        return (), [Fault((given[1],), f"both {given[0]} and {given[1]}", allowed="one of path, paths and routing")]
    if file.shares is not None and (file.paths is None or len(file.shares) != len(file.paths)):
        allowed = "one for each of paths" if file.paths is None else f"{len(file.paths)}, one for each of paths"
        return (), [Fault(("shares",), "wrong number of shares", str(len(file.shares)), allowed)]
    if shortest is not None:
        return (shortest,), []
    listed = [(("path",), file.path)] if file.path is not None else []
    paths = [*listed, *((("paths", k), path) for k, path in enumerate(file.paths or ()))]
    faults = []
    for where, path in paths:
        message = path_problem(topology, path)
        if message is None and (path[0], path[-1]) != (file.source, file.destination):
            message = f"the path does not lead from {file.source} to {file.destination}"
        if message is not None:
            faults.append(Fault(where, message, str(path), "servers joined by links, from source to destination"))
    if not faults and len({tuple(path) for _, path in paths}) < len(paths):
        faults.append(Fault(("paths",), "a path more than once", allowed="different paths"))
    if file.shares is not None and abs(sum(file.shares) - 1.0) > SHARES_ROUNDING:
        faults.append(Fault(("shares",), "the shares do not sum to 1", f"{sum(file.shares):.9g}", "a sum of 1"))
    if faults:
        return (), faults
    routes = tuple(path_route(topology, path) for _, path in paths)
    if file.shares is not None:
        total = sum(file.shares)
        return (mixed_route([(r, share / total) for r, share in zip(routes, file.shares, strict=True)]),), []
    return routes, []


def routed_demand(folder: FilePath, name: str) -> RoutedDemand:
    """The routing in a solution file of kind routing or topology.

    Raises:
        InputError: not such a file, or its flow does not bring anything anywhere.
    """
    solution = SOLUTION_FILE.read(folder / name)
    pairs = {}
    for source, row in enumerate(solution.flow.rows(solution.topology)):
        for destination, (amount, route) in routes_of_flow(solution.topology, source, row).items():
            pairs[source, destination] = (amount, route)
    if not pairs:
        raise InputError([Problem("the solution routes nothing", path="transfers_from.solution", value=name)])
    return RoutedDemand(solution.topology, pairs)


def generated_transfers(
    source: TransferSource,
    topology: Topology,
    goal: AllocationGoal,
    folder: FilePath,
    link_gbps: float,
    routed: RoutedDemand | None,
    known: ServerNames,
) -> tuple[Transfer, ...]:
    """One transfer for every positive entry, by source and destination.

    Raises:
        InputError: paths are those of the file.
    """
    entry = source.entry or ENTRY_OF[goal]
    if source.demand is not None:
        section = source.demand
        if section.unit == "gbps" and entry not in ("min_gbps", "max_gbps"):
            text = f"an entry that is a {entry} has no unit"
            raise InputError([Problem(text, path="transfers_from.demand.unit", value="gbps", allowed="no unit")])
        demand = within("transfers_from.demand", lambda: demand_of(section, known, folder, link_gbps))
        pairs: Ints = np.argwhere(demand > 0)
        count = len(pairs)
        if count <= MAX_TRANSFERS:
            routes = _shortest(topology, pairs)
            if isinstance(routes, Problem):
                raise InputError([replace(routes, path="transfers_from")])
            ends = zip(pairs.tolist(), routes, strict=True)
            every = [(i, j, float(demand[i, j]), route) for (i, j), route in ends]
        shown = section.family if isinstance(section, FamilyDemand) else "the matrix"
    else:
        found = routed.pairs if routed is not None else {}
        every = [(i, j, amount, route) for (i, j), (amount, route) in sorted(found.items())]
        count, shown = len(every), str(source.solution)
    if count > MAX_TRANSFERS:
        text, allowed = f"{count} transfers in {shown}", f"at most {MAX_TRANSFERS}"
        raise InputError([Problem(text, path="transfers_from", allowed=allowed)])
    return tuple(_transfer(entry, link_gbps, *row) for row in every)


def _transfer(entry: str, link_gbps: float, i: int, j: int, amount: float, route: Route) -> Transfer:
    plain = Transfer(f"{i}->{j}", i, j, (route,))
    if entry == "weight":
        return replace(plain, weight=amount)
    if entry == "gbytes":
        return replace(plain, size_bytes=amount * 1e9)
    if entry == "min_gbps":
        return replace(plain, min_gbps=amount * link_gbps)
    return replace(plain, max_gbps=amount * link_gbps)
