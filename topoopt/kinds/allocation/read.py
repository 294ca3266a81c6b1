"""Instances of kind `allocation`: what a user writes, and the problem that it states.

The file is a small language: a topology by the name of its family, transfers without routes, transfers of a demand
matrix or of a routing. `AllocationInstance` is the file and the keyword API; `resolve` makes the problem of it, or
reports all errors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Len

from topoopt.core.allocation import (
    MAX_PATHS,
    MAX_TRANSFERS,
    AllocationGoal,
    AllocationProblem,
    Route,
    Transfer,
    transfer_errors,
)
from topoopt.core.arrays import Floats, Ints
from topoopt.core.data import (
    MAX_BYTES,
    MAX_LINKS,
    MAX_SERVERS,
    STRICT,
    FileName,
    Gbps,
    Label,
    Scalar,
    SchemaVersion,
    Server,
)
from topoopt.core.errors import InputError, Problem
from topoopt.core.result import SearchSettings
from topoopt.core.topology import Topology
from topoopt.files import codec
from topoopt.files.codec import PositiveBytes
from topoopt.files.demand_files import ServerNames
from topoopt.files.documents import Document, canonical_sha256
from topoopt.files.issues import Issue
from topoopt.files.reader_fields import Findings, within
from topoopt.files.results import LIMITS, solution_kind
from topoopt.files.sections import DemandSection, FamilyDemand, TopologyContent, TopologySection, demand_of, topology_of
from topoopt.kinds import kind_named
from topoopt.workloads.transfer_routes import ShortestRoutes, mixed_route, path_problem, path_route, routes_of_flow

ServerPath = Annotated[tuple[Server, ...], Len(2, MAX_SERVERS)]
ServerRates = Annotated[tuple[Gbps, ...], Len(1, MAX_SERVERS), Scalar()]

DEFAULT_ENTRY = {
    "max-min": "max_gbps",
    "weighted": "weight",
    "min-guarantee": "min_gbps",
    "completion-time": "gbytes",
}
"""What an entry of a matrix is when the file does not say."""

MAX_HOPS = LIMITS.json_nodes // 7
"""Entries of all routes together: (server, destination, next hop), which exporters write one by one."""

SHARES_ROUNDING = 1e-6
"""How far the sum of given shares may be from 1; they are scaled to 1."""

SHOWN_ERRORS = 20


@dataclass(frozen=True, kw_only=True)
class TransferStatement:
    """Traffic from one server to another; without path and paths over all hop-shortest paths, split evenly."""

    __pydantic_config__ = STRICT

    name: Label | None = None
    """default: source->destination, numbered where that repeats"""
    source: Server
    destination: Server
    path: ServerPath | None = None
    """the servers of the one path, both ends included"""
    paths: Annotated[tuple[ServerPath, ...], Len(1, MAX_PATHS)] | None = None
    """several paths; how traffic is split among them is chosen, or given by shares"""
    shares: Annotated[tuple[Annotated[float, Gt(0), Le(1)], ...], Len(1, MAX_PATHS)] | None = None
    """part of the traffic on each of paths; they sum to 1"""
    routing: Literal["shortest"] | None = None
    """every server splits evenly among its links on hop-shortest paths (ECMP)"""
    weight: Annotated[float, Gt(0), Le(1e9)] | None = None
    """of the fair share; default: 1"""
    min_gbps: Annotated[float, Ge(0), Le(1e6)] | None = None
    """guaranteed rate; default: 0"""
    max_gbps: Gbps | None = None
    """largest useful rate; default: any"""
    bytes: PositiveBytes | None = None
    """size of the transfer, such as 1 GB"""
    gbytes: Annotated[float, Gt(0), Le(MAX_BYTES / 1e9)] | None = None
    """the same in 10^9 bytes"""


@dataclass(frozen=True, kw_only=True)
class TransferSource:
    """Transfers made of a matrix, or of a routing: one for every ordered pair with something to send."""

    __pydantic_config__ = STRICT

    demand: DemandSection | None = None
    """a mapping with one of family, matrix and file; routes are hop-shortest"""
    solution: Annotated[str, Len(1, 1000)] | None = None
    """solution.json of kind routing or topology: its demand and its routes"""
    entry: Literal["weight", "gbytes", "min_gbps", "max_gbps"] | None = None
    """what an entry is; rates count in links unless the demand says gbps; default: max_gbps for max-min, weight for weighted, min_gbps for min-guarantee, gbytes for completion-time"""  # noqa: E501


@dataclass(frozen=True, kw_only=True)
class AllocationInstance:
    """Rates of transfers over given links and routes."""

    __pydantic_config__ = STRICT

    schema_version: SchemaVersion = 1
    """version of this file format"""
    kind: Literal["allocation"] = "allocation"
    name: FileName = "allocation"
    topology: TopologySection | None = None
    """a mapping with one of family, links and file; default: that of transfers_from.solution"""
    link_gbps: Gbps | None = None
    """rate of one link, or of one unit of capacities, Gbit/s; left out where links have rates in Gbit/s"""
    capacities: Annotated[tuple[tuple[Server, Server, Gbps], ...], Len(0, MAX_LINKS)] = ()
    """[tail, head, Gbit/s] for links of another rate, all parallel links together"""
    egress_gbps: ServerRates | None = None
    """most a server sends of its own, one number or one a server; default: no limit"""
    ingress_gbps: ServerRates | None = None
    """most a server receives for itself, one number or one a server; default: no limit"""
    transfers: Annotated[tuple[TransferStatement, ...], Len(1, MAX_TRANSFERS)] | None = None
    """one by one; or transfers_from"""
    transfers_from: TransferSource | None = None
    """a mapping with demand or solution"""
    objective: Literal["max-min", "weighted", "min-guarantee", "completion-time"] = "max-min"
    surplus: Literal["max-min", "sum"] = "max-min"
    """how min-guarantee shares what is left: fairly by weight, or for the largest sum"""
    search: SearchSettings = SearchSettings()  # noqa: RUF009 - frozen


RoutedDemand = tuple[Topology, dict[tuple[int, int], tuple[float, Route]]]
"""A routing taken apart: its links, and amount (in links) and route of every pair."""


def resolve(document: Document) -> AllocationProblem:
    """Return the problem that an instance states.

    Raises:
        InputError: all errors of the file, as far as one error does not hide another.
    """
    findings = Findings()
    instance = findings.shaped(AllocationInstance, document)
    findings.add(_combination_errors(instance))
    folder = Path(document.file).parent
    source, goal = instance.transfers_from, instance.objective
    routed = None
    if source is not None and source.solution is not None:
        name = source.solution
        routed = findings.attempt(lambda: _routed_demand(folder, name), ("transfers_from", "solution"))
    content = _topology(instance, folder, routed, findings)
    if content is None:
        findings.refuse(document)
        raise AssertionError("an instance without topology was not refused")
    topology, link_gbps = content.topology, _link_rate(instance, content, findings)
    capacity = _capacities(instance, topology, link_gbps, findings)
    egress = _server_rates(instance.egress_gbps, "egress_gbps", topology.servers, findings)
    ingress = _server_rates(instance.ingress_gbps, "ingress_gbps", topology.servers, findings)
    transfers: tuple[Transfer, ...] = ()
    if instance.transfers is not None:
        listed = instance.transfers
        transfers = findings.attempt(lambda: _listed_transfers(listed, topology, goal, findings), ("transfers",)) or ()
    elif source is not None:
        names = ServerNames(topology.servers, findings.note, content.names)
        generated = findings.attempt(
            lambda: tuple(_generated_transfers(source, topology, goal, folder, link_gbps, routed, names)),
            ("transfers_from",),
        )
        transfers = generated or ()
        for index, error in transfer_errors(transfers, goal, topology.servers)[:SHOWN_ERRORS]:
            text = f"{error.path} of {transfers[index].name}: {error.message}"
            findings.add([Issue(("transfers_from", "entry"), text, error.value, error.allowed)])
    findings.refuse(document)
    return AllocationProblem(
        name=instance.name,
        topology=topology,
        capacity_gbps=capacity,
        transfers=transfers,
        goal=goal,
        surplus=instance.surplus,
        egress_gbps=egress,
        ingress_gbps=ingress,
        search=instance.search,
        sha256=_identity(instance, topology, transfers),
        notes=(*content.notes, *findings.notes),
    )


def _combination_errors(instance: AllocationInstance) -> Iterator[Issue]:
    source = instance.transfers_from
    if (instance.transfers is None) == (source is None):
        yield Issue((), "one of transfers and transfers_from is needed", allowed="one of them, not both")
    if source is not None and (source.demand is None) == (source.solution is None):
        yield Issue(("transfers_from",), "one of demand and solution is needed", allowed="one, not both")
    if instance.topology is None and (source is None or source.solution is None):
        yield Issue(("topology",), "missing", allowed="a mapping with one of family, links and file")
    if instance.surplus != "max-min" and instance.objective != "min-guarantee":
        text = f"plays no part for objective {instance.objective}"
        yield Issue(("surplus",), text, instance.surplus, "with min-guarantee")


# Links and servers.


def _link_rate(instance: AllocationInstance, content: TopologyContent, findings: Findings) -> float:
    """Return the Gbit/s of one link, or of one unit of the capacities of the links."""
    declared = instance.link_gbps
    if content.gbps:
        if declared is not None:
            text = "the links have rates of their own in Gbit/s"
            findings.add([Issue(("link_gbps",), text, str(declared), "left out")])
        return 1.0
    if declared is None:
        findings.add([Issue(("link_gbps",), "missing", allowed="Gbit/s, above 0")])
    return 1.0 if declared is None else declared


def _topology(
    instance: AllocationInstance, folder: Path, routed: RoutedDemand | None, findings: Findings
) -> TopologyContent | None:
    section = instance.topology
    if section is None:
        return None if routed is None else TopologyContent(routed[0])
    # Transfers need paths between their ends only, so the links need not join all servers.
    content = findings.attempt(
        lambda: within("topology", lambda: topology_of(section, folder, connected=False)), ("topology",)
    )
    if content is None:
        return None
    if routed is not None and not _same_links(content.topology, routed[0]):
        text = "the solution has other links than this topology"
        findings.add([Issue(("topology",), text, allowed="the links of the solution, or no topology at all")])
    return content


def _same_links(first: Topology, second: Topology) -> bool:
    same = first.servers == second.servers and np.array_equal(first.arcs, second.arcs)
    same = same and np.array_equal(first.multiplicity, second.multiplicity)
    return same and np.array_equal(first.capacity, second.capacity)


def _capacities(instance: AllocationInstance, topology: Topology, link_gbps: float, findings: Findings) -> Floats:
    """Return float64[m], the rate of every arc."""
    capacity = topology.capacity * link_gbps
    ids, count = topology.arc_ids(), Counter((tail, head) for tail, head, _ in instance.capacities)
    for index, (tail, head, rate) in enumerate(instance.capacities):
        path, value = ("capacities", index), f"{tail} -> {head}"
        if max(tail, head) >= topology.servers or ids[tail, head] < 0:
            findings.add([Issue(path, "no such link", value, "links of the topology")])
        elif count[tail, head] > 1:
            findings.add([Issue(path, "a link more than once", value, "each link once")])
        else:
            capacity[ids[tail, head]] = rate
    return capacity


def _server_rates(given: Sequence[float] | None, key: str, servers: int, findings: Findings) -> Floats | None:
    if given is None:
        return None
    if len(given) not in (1, servers):
        findings.add([Issue((key,), "wrong number of rates", str(len(given)), f"one number, or {servers} of them")])
        return None
    return np.array([*given] * servers if len(given) == 1 else given, dtype=np.float64)


# Transfers one by one.


def _listed_transfers(
    statements: Sequence[TransferStatement], topology: Topology, goal: AllocationGoal, findings: Findings
) -> tuple[Transfer, ...]:
    """Return transfers in the order of the file; those with errors in their routes have no routes."""
    valid = [max(t.source, t.destination) < topology.servers and t.source != t.destination for t in statements]
    default = [k for k, t in enumerate(statements) if valid[k] and t.path is None and t.paths is None]
    pairs = np.array([(statements[k].source, statements[k].destination) for k in default], dtype=np.int64)
    routes = _shortest(topology, pairs.reshape(-1, 2))
    if isinstance(routes, Problem):
        findings.add([Issue(("transfers",), routes.message, routes.value, routes.allowed)])
        return ()
    shortest = dict(zip(default, routes, strict=True))
    count: Counter[tuple[int, int]] = Counter()
    transfers = []
    for index, statement in enumerate(statements):
        pair = (statement.source, statement.destination)
        count[pair] += 1
        repeated = f"#{count[pair]}" if count[pair] > 1 else ""
        name = statement.name or f"{statement.source}->{statement.destination}{repeated}"
        if statement.bytes is not None and statement.gbytes is not None:
            findings.add([Issue(("transfers", index, "gbytes"), "both bytes and gbytes", allowed="one of them")])
        chosen: tuple[Route, ...] = ()
        if valid[index]:
            chosen, errors = _routes(statement, topology, shortest.get(index))
            findings.add(replace(error, path=("transfers", index, *error.path)) for error in errors)
        transfers.append(_transfer(statement, name, chosen))
    wrong = transfer_errors(tuple(transfers), goal, topology.servers)
    findings.add(Issue(("transfers", index, e.path or ""), e.message, e.value, e.allowed) for index, e in wrong)
    return tuple(transfers)


def _transfer(statement: TransferStatement, name: str, routes: tuple[Route, ...]) -> Transfer:
    size = None if statement.bytes is None else float(statement.bytes)
    if size is None and statement.gbytes is not None:
        size = statement.gbytes * 1e9
    return Transfer(
        name=name,
        source=statement.source,
        destination=statement.destination,
        routes=routes,
        weight=1.0 if statement.weight is None else statement.weight,
        min_gbps=statement.min_gbps or 0.0,
        max_gbps=float("inf") if statement.max_gbps is None else statement.max_gbps,
        size_bytes=size,
    )


def _shortest(topology: Topology, pairs: Ints) -> list[Route] | Problem:
    """Return the shortest routes of pairs, or why there are too many, before they are built.

    Raises:
        InputError: no path joins one of the pairs.
    """
    shortest = ShortestRoutes(topology)
    if shortest.least_entries(pairs, MAX_HOPS) <= MAX_HOPS:
        return shortest.routes(pairs)
    allowed = f"routes on which servers send towards {MAX_HOPS} destinations in all, each server counted for itself"
    return Problem("more rates than a solution file holds", value=f"{len(pairs)} routes", allowed=allowed)


def _routes(
    statement: TransferStatement, topology: Topology, shortest: Route | None
) -> tuple[tuple[Route, ...], list[Issue]]:
    given = [key for key in ("path", "paths", "routing") if getattr(statement, key) is not None]
    paths, shares = statement.paths, statement.shares
    if len(given) > 1:
        return (), [Issue((given[1],), f"both {given[0]} and {given[1]}", allowed="one of path, paths and routing")]
    if shares is not None and (paths is None or len(shares) != len(paths)):
        allowed = "one for each of paths" if paths is None else f"{len(paths)}, one for each of paths"
        return (), [Issue(("shares",), "wrong number of shares", str(len(shares)), allowed)]
    if shortest is not None:
        return (shortest,), []
    listed = [(("path",), statement.path)] if statement.path is not None else []
    every = [*listed, *((("paths", k), path) for k, path in enumerate(paths or ()))]
    errors = []
    for where, path in every:
        text = path_problem(topology, list(path))
        if text is None and (path[0], path[-1]) != (statement.source, statement.destination):
            text = f"the path does not lead from {statement.source} to {statement.destination}"
        if text is not None:
            allowed = "servers joined by links, from source to destination"
            errors.append(Issue(where, text, str(list(path)), allowed))
    if not errors and len({path for _, path in every}) < len(every):
        errors.append(Issue(("paths",), "a path more than once", allowed="different paths"))
    if shares is not None and abs(sum(shares) - 1.0) > SHARES_ROUNDING:
        errors.append(Issue(("shares",), "the shares do not sum to 1", f"{sum(shares):.9g}", "a sum of 1"))
    if errors:
        return (), errors
    routes = tuple(path_route(topology, path) for _, path in every)
    if shares is None:
        return routes, []
    return (mixed_route([(r, share / sum(shares)) for r, share in zip(routes, shares, strict=True)]),), []


# Transfers of a matrix or of a routing.


def _routed_demand(folder: Path, name: str) -> RoutedDemand:
    """Return the routing in a result file of kind routing or topology."""
    path, kinds = folder / name, ("routing", "topology")
    solution: Any = kind_named(solution_kind(path, kinds)).files.solutions.read(path)
    figures = solution.figures
    topology = figures.topology
    pairs = {
        (source, destination): routed
        for source, row in enumerate(figures.flow.rows(topology))
        for destination, routed in routes_of_flow(topology, source, row).items()
    }
    if not pairs:
        raise InputError([Problem("the solution routes nothing", path="transfers_from.solution", value=name)])
    return topology, pairs


def _generated_transfers(
    source: TransferSource,
    topology: Topology,
    goal: AllocationGoal,
    folder: Path,
    link_gbps: float,
    routed: RoutedDemand | None,
    names: ServerNames,
) -> Iterator[Transfer]:
    """Yield a transfer for every positive entry, by source and destination."""
    entry = source.entry or DEFAULT_ENTRY[goal]
    section, origin = source.demand, str(source.solution)
    amounts = {pair: amount for pair, (amount, _) in sorted(routed[1].items())} if routed is not None else {}
    if section is not None:
        if section.unit == "gbps" and entry not in ("min_gbps", "max_gbps"):
            text = f"an entry that is a {entry} has no unit"
            raise InputError([Problem(text, path="transfers_from.demand.unit", value="gbps", allowed="no unit")])
        demand = within("transfers_from.demand", lambda: demand_of(section, names, folder, link_gbps))
        amounts = {(i, j): float(demand[i, j]) for i, j in np.argwhere(demand > 0).tolist()}
        origin = section.family if isinstance(section, FamilyDemand) else "the matrix"
    if len(amounts) > MAX_TRANSFERS:
        text, allowed = f"{len(amounts)} transfers in {origin}", f"at most {MAX_TRANSFERS}"
        raise InputError([Problem(text, path="transfers_from", allowed=allowed)])
    if section is None and routed is not None:
        routes: list[Route] | Problem = [routed[1][pair][1] for pair in amounts]
    else:
        routes = _shortest(topology, np.array([*amounts], dtype=np.int64).reshape(-1, 2))
    if isinstance(routes, Problem):
        raise InputError([replace(routes, path="transfers_from")])
    unit = {"weight": 1.0, "gbytes": 1e9, "min_gbps": link_gbps, "max_gbps": link_gbps}[entry]
    key = "size_bytes" if entry == "gbytes" else entry
    for ((i, j), amount), route in zip(amounts.items(), routes, strict=True):
        yield replace(Transfer(f"{i}->{j}", i, j, (route,)), **{key: amount * unit})  # type: ignore[arg-type]


def _identity(instance: AllocationInstance, topology: Topology, transfers: tuple[Transfer, ...]) -> str:
    """Return the hash of an instance with defaults written out; files count by their content, not by their names.

    Routes count where they are those of a solution; the shortest ones follow from topology and transfers.
    """
    document: dict[str, Any] = codec.plain(instance)
    if document["topology"] is None or "file" in document["topology"]:
        rows = np.column_stack((topology.arcs, topology.multiplicity)).tolist()
        rates = {} if topology.rates is None else {"rates": topology.rates.tolist()}
        document["topology"] = {"servers": topology.servers, "degree": topology.degree, "arcs": rows, **rates}
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
