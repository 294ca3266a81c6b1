"""Instance files of the kinds `routing` and `topology`: what a user writes, all checks, and the problem that it states.

The demand is one matrix or several, generated, listed, or read from files. It is read also when other sections are
wrong, so that everything is said at once.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Len
from pydantic import Discriminator, Field, Tag, TypeAdapter

from topoopt.core.arrays import Floats
from topoopt.core.cluster import LinkDirection
from topoopt.core.data import MAX_LINKS, MAX_SERVERS, STRICT, FileName, Gbps, SchemaVersion, Server
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.network import EitherProblem, RoutingProblem, TopologyProblem
from topoopt.core.result import RobustSearchSettings, SearchSettings
from topoopt.core.topology import Topology, unreachable_pair
from topoopt.files import codec
from topoopt.files.codec import FileModel, Seed
from topoopt.files.demand_files import TRACE_ENDINGS, ServerNames, read_trace
from topoopt.files.documents import Document, canonical_sha256
from topoopt.files.issues import Issue, parse_path
from topoopt.files.reader_fields import Findings, fitting, within
from topoopt.files.results import LIMITS
from topoopt.files.sections import (
    UNIT,
    DemandSection,
    FamilyDemand,
    FileDemand,
    MatrixDemand,
    TopologyContent,
    TopologySection,
    demand_of,
    demand_shape,
    existing_file,
    in_links,
    topology_of,
)
from topoopt.workloads.demands import LAWS, HotExperts, hot_experts

Demand = Floats

MAX_STEPS = 1000
Hops = Annotated[int, Ge(1), Le(MAX_SERVERS)]
Arcs = Annotated[tuple[tuple[Server, Server], ...], Len(0, MAX_LINKS)]


class HotExpertsDemand(FileModel):
    """Generated: all-to-all traffic of a mixture of experts whose hot experts move."""

    family: Literal["hot-experts"]
    steps: int = Field(ge=1, le=MAX_STEPS, description="matrices")
    seed: Seed = Field(default=0, description="of the generator; nothing to do with the seed of the search")
    experts_per_server: int = Field(default=1, ge=1, le=1024)
    law: str = Field(default="zipf", json_schema_extra={"enum": [*LAWS]}, description="popularity of experts")
    skew: float = Field(default=1.0, gt=0, le=1000, description="exponent of Zipf, concentration of Dirichlet")
    affinity: float = Field(default=0.0, ge=0, le=1, description="part of a server's tokens with a law of their own")
    scale: float = Field(default=1.0, gt=0, le=1e12, description="mean demand of an ordered pair")
    unit: Literal["link", "gbps"] = Field(default="link", description=UNIT)


def demands_shape(value: object) -> str:
    """Which shape of an entry of several demands is meant; the answer names the class."""
    hot = isinstance(value, dict) and value.get("family") == "hot-experts"
    return "HotExpertsDemand" if hot or isinstance(value, HotExpertsDemand) else demand_shape(value)


DemandsEntry = Annotated[
    Annotated[FamilyDemand, Tag("FamilyDemand")]
    | Annotated[MatrixDemand, Tag("MatrixDemand")]
    | Annotated[FileDemand, Tag("FileDemand")]
    | Annotated[HotExpertsDemand, Tag("HotExpertsDemand")],
    Discriminator(demands_shape),
]


@dataclass(frozen=True, kw_only=True)
class RoutingInstance:
    """Route a demand over a given topology so that the largest link utilisation is least."""

    __pydantic_config__ = STRICT

    demand: DemandSection | None = None
    """a mapping with one of family, matrix and file"""
    demands: Annotated[tuple[DemandsEntry, ...], Len(1, MAX_STEPS)] | None = None
    """in place of demand: several matrices, one there at a time, the worst of which counts; an entry is as demand, where a file (.npy, .npz) may hold a stack of matrices, or of family hot-experts, which gives one a step"""  # noqa: E501
    routing: Literal["common", "adapted"] = "common"
    """of several demands: one for all, or one for each"""
    step_ms: Annotated[float, Gt(0), Le(1e9)] | None = None
    """time each of several demands stands for; topoopt reconfigure needs it"""
    link_gbps: Gbps | None = None
    """rate of one link, or of one unit of capacities, Gbit/s; needed by a demand in gbps"""
    schema_version: SchemaVersion = 1
    """version of this file format"""
    kind: Literal["routing"] = "routing"
    name: FileName = "routing"
    topology: TopologySection
    """a mapping with one of family, links and file"""
    max_hops: Hops | None = None
    """longest path allowed, in links; null: any"""
    objective: Literal["throughput", "completion-time"] = "throughput"
    """least theta, the largest link utilisation; or least theta + hop_price * mean hops of the demand"""
    hop_price: Annotated[float, Gt(0), Le(1e12)] | None = None
    """completion-time only: time of one hop, in units of the time a link takes for one unit of demand"""
    search: SearchSettings = SearchSettings()  # noqa: RUF009 - frozen


@dataclass(frozen=True, kw_only=True)
class TopologyInstance:
    """Choose the links between servers, and route a demand over them."""

    __pydantic_config__ = STRICT

    demand: DemandSection | None = None
    """a mapping with one of family, matrix and file"""
    demands: Annotated[tuple[DemandsEntry, ...], Len(1, MAX_STEPS)] | None = None
    """in place of demand: several matrices, one there at a time, the worst of which counts; an entry is as demand, where a file (.npy, .npz) may hold a stack of matrices, or of family hot-experts, which gives one a step"""  # noqa: E501
    routing: Literal["common", "adapted"] = "common"
    """of several demands: one for all, or one for each"""
    step_ms: Annotated[float, Gt(0), Le(1e9)] | None = None
    """time each of several demands stands for; topoopt reconfigure needs it"""
    link_gbps: Gbps | None = None
    """rate of one link, or of one unit of capacities, Gbit/s; needed by a demand in gbps"""
    schema_version: SchemaVersion = 1
    """version of this file format"""
    kind: Literal["topology"] = "topology"
    name: FileName = "topology"
    servers: Annotated[int, Ge(2), Le(MAX_SERVERS)]
    """n"""
    degree: Annotated[int, Ge(1), Le(64)]
    """d, links out of, and into, a server"""
    links: Literal["bidirectional", "unidirectional"] = "bidirectional"
    """a link takes an interface at both ends, or its fibres are patched apart"""
    max_hops: Hops | None = None
    """every server within so many hops of every other"""
    forbidden: Arcs = ()
    """pairs (tail, head) that may not be linked; both ways if bidirectional"""
    kept: Arcs = ()
    """links of the network as it stands; both ways if bidirectional, repeated for parallel"""
    max_changed: Annotated[int, Ge(0), Le(MAX_LINKS)] | None = None
    """most links of kept that may be given up; null: any"""
    parallel_links: bool = True
    """whether more than one link may join a pair"""
    search: RobustSearchSettings = RobustSearchSettings()  # noqa: RUF009 - frozen


_ONE: TypeAdapter[DemandSection] = TypeAdapter(DemandSection)
_SEVERAL: TypeAdapter[list[DemandsEntry]] = TypeAdapter(list[DemandsEntry])


def read_demand_keys(
    raw: Mapping[str, object],
    servers: int | None,
    folder: FilePath,
    findings: Findings,
    *,
    names: tuple[str, ...] = (),
    gbps: bool = False,
) -> Demand | None:
    """float64[n, n] of the key `demand`, or float64[k, n, n] of `demands`; None where anything is wrong with it.

    It is read also when other sections are wrong, so that everything is said at once.

    Args:
        servers: n; None where it is not known.
        findings: of the document; notes go there as well.
        names: of the servers; empty where they have numbers alone.
        gbps: whether capacities are in Gbit/s, whatever `link_gbps` says.
    """
    single_demand, several = raw.get("demand"), raw.get("demands")
    if (single_demand is None) == (several is None):
        message, allowed = (
            ("missing", "demand or demands") if single_demand is None else ("beside demands", "one of the two")
        )
        findings.add([Issue(("demand",), message, None, allowed)])
        return None
    rate = 1.0 if gbps else _rate(raw.get("link_gbps"))
    server_names = ServerNames(servers or 0, findings.note, names)
    section, entries = fitting(_ONE, single_demand), fitting(_SEVERAL, several)
    if servers is None:
        return None
    if section is not None:
        read = partial(demand_of, section, server_names, folder, rate)
        return findings.attempt(partial(within, "demand", read), ("demand",))
    steps = [
        partial(within, f"demands[{k}]", partial(_matrices, entry, server_names, folder, rate))
        for k, entry in enumerate(entries or [])
    ]
    stacks = [findings.attempt(step, ("demands", k)) for k, step in enumerate(steps)]
    whole = [stack for stack in stacks if stack is not None]
    return np.concatenate(whole) if whole and len(whole) == len(stacks) else None


def _rate(raw: object) -> float | None:
    usable = isinstance(raw, int | float) and not isinstance(raw, bool) and raw > 0
    return float(raw) if usable and isinstance(raw, int | float) else None


def _matrices(entry: DemandsEntry, server_names: ServerNames, folder: FilePath, link_gbps: float | None) -> Demand:
    """float64[k, n, n] of one entry."""
    servers = server_names.servers
    if isinstance(entry, HotExpertsDemand):
        settings = HotExperts(entry.steps, entry.experts_per_server, entry.law, entry.skew, entry.affinity)
        matrices = hot_experts(servers, settings, seed=entry.seed) * entry.scale
        return np.array([in_links(matrix, servers, entry.unit, None, link_gbps) for matrix in matrices])
    if not isinstance(entry, FileDemand) or FilePath(entry.file).suffix.lower() not in TRACE_ENDINGS:
        return demand_of(entry, server_names, folder, link_gbps)[None]
    matrices_read, problems = [], []
    for k, matrix in enumerate(read_trace(existing_file(folder, entry.file))):
        try:
            matrices_read.append(in_links(matrix, servers, entry.unit, "file", link_gbps))
        except InputError as error:
            problems += [replace(problem, message=f"matrix {k}: {problem.message}") for problem in error.problems]
    raise_any(problems)
    return np.array(matrices_read)


_SECTION: TypeAdapter[Any] = TypeAdapter(TopologySection)


def _identity(document: dict[str, Any], topology: Topology | None, demand: Demand) -> str:
    """Hash of the instance with defaults written out; files count by their content, not by their names."""
    if topology is not None and "file" in document["topology"]:
        rows = np.column_stack((topology.arcs, topology.multiplicity)).tolist()
        own = {} if topology.rates is None else {"rates": topology.rates.tolist()}
        document["topology"] = {"servers": topology.servers, "degree": topology.degree, "arcs": rows, **own}
    for section in [document["demand"] or {}, *(document["demands"] or [])]:
        if "file" in section:
            section["file"] = hashlib.sha256(np.ascontiguousarray(demand, dtype="<f8").tobytes()).hexdigest()
    return canonical_sha256(document)


def _fitting(
    problem: EitherProblem, file: RoutingInstance | TopologyInstance, findings: Findings, document: Document
) -> EitherProblem:
    """The problem, if nothing in the file is for one demand alone, or for several."""
    if problem.several:
        findings.add([Issue(parse_path(rule), "not with several demands", None, "left out") for rule in problem.rules])
    else:
        given = {"routing": file.routing != "common", "step_ms": file.step_ms is not None}
        findings.add(
            [Issue((key,), "for several demands only", None, "left out") for key, here in given.items() if here]
        )
    findings.refuse(document)
    return problem


def read_routing(document: Document) -> RoutingProblem:
    """Check and build.

    Raises:
        InputError: everything wrong with the file, so far as one fault does not hide another.
    """
    raw = document.data if isinstance(document.data, dict) else {}
    folder = FilePath(document.file).parent
    findings = Findings()
    file = findings.shape(RoutingInstance, document)
    if isinstance(file, RoutingInstance) and (file.objective == "completion-time") != (file.hop_price is not None):
        price, value = file.hop_price, None if file.hop_price is None else str(file.hop_price)
        message = "the objective knows no price of hops" if price is not None else "completion time needs it"
        allowed = "only beside objective completion-time" if price is not None else "a number above 0"
        findings.add([Issue(("hop_price",), message, value, allowed)])
    section = fitting(_SECTION, raw.get("topology"))
    content: TopologyContent | None = None
    if section is not None:
        made = lambda: topology_of(section, folder, connected=False)  # noqa: E731
        content = findings.attempt(lambda: within("topology", made), ("topology",))
    gbps = content is not None and content.gbps
    demand = read_demand_keys(
        raw,
        content.topology.servers if content else None,
        folder,
        findings,
        names=content.names if content else (),
        gbps=gbps,
    )
    if content is not None:
        findings.add(_cut_off(content.topology, demand))
        if gbps and isinstance(file, RoutingInstance) and file.link_gbps is not None:
            message = "the links have rates of their own in Gbit/s"
            findings.add([Issue(("link_gbps",), message, str(file.link_gbps), "left out")])
    findings.refuse(document)
    if not isinstance(file, RoutingInstance) or content is None or demand is None:
        raise AssertionError("an instance file was neither built nor refused")
    rate = {"link_gbps": 1.0} if gbps else {}
    problem = RoutingProblem(
        name=file.name,
        topology=content.topology,
        demand=demand,
        max_hops=file.max_hops,
        hop_price=file.hop_price or 0.0,
        search=file.search,
        sha256=_identity(codec.plain(file) | rate, content.topology, demand),
        notes=(*content.notes, *findings.notes),
        link_gbps=1.0 if gbps else file.link_gbps,
        routing=file.routing,
        step_ms=file.step_ms,
    )
    return _fitting(problem, file, findings, document)


def _cut_off(topology: Topology, demand: Floats | None) -> list[Issue]:
    """A pair with demand, or any where the demand is not known, that no path joins; others need none."""
    if unreachable_pair(topology.servers, topology.arcs.astype(np.int64)) is None:
        return []
    from topoopt.simulate.network import hop_matrix  # compiled, and rarely needed

    lost = hop_matrix(topology) < 0
    if demand is not None:
        lost &= (demand > 0) if demand.ndim == 2 else (demand > 0).any(axis=0)
    pairs = np.argwhere(lost)
    if not len(pairs):
        return []
    tail, head = pairs[0].tolist()
    text = f"the topology is not connected: no way from server {tail} to server {head}"
    return [Issue(("topology",), text, None, "a path for all demand")]


def _declared_servers(raw: object) -> int | None:
    right = isinstance(raw, int) and not isinstance(raw, bool) and 2 <= raw <= MAX_SERVERS
    return raw if right and isinstance(raw, int) else None


def _pair_errors(file: TopologyInstance) -> list[Issue]:
    errors = []
    for key, pairs in (("forbidden", file.forbidden), ("kept", file.kept)):
        for index, (tail, head) in enumerate(pairs):
            if max(tail, head) >= file.servers:
                allowed = f"servers 0 to {file.servers - 1}"
                errors.append(Issue((key, index), "unknown server", f"[{tail}, {head}]", allowed))
            elif tail == head:
                errors.append(Issue((key, index), "a link from a server to itself", f"[{tail}, {head}]"))
    kept = _arcs(file.kept, file.links)
    for end, word in ((0, "out of"), (1, "into")):
        for server, links in sorted(Counter(arc[end] for arc in kept).items()):
            if links > file.degree:
                message = f"more links {word} server {server} than its degree"
                errors.append(Issue(("kept",), message, str(links), f"at most {file.degree}"))
    if file.max_changed is not None and not file.kept:
        errors.append(Issue(("max_changed",), "no links to keep", str(file.max_changed), "only beside kept"))
    return errors


def _single_link_errors(file: TopologyInstance, demand: Demand | None) -> list[Issue]:
    """With one fibre pair a server has one peer: no demand may need another one."""
    if demand is None or file.degree > 1 or file.links != "bidirectional" or file.servers == 2:
        return []
    joined = (demand > 0) if demand.ndim == 2 else (demand > 0).any(axis=0)
    peers = (joined | joined.T).sum(axis=1)
    if file.max_hops is None and peers.max() <= 1:
        return []
    message = "one link a server cannot connect more than two servers"
    return [Issue(("degree",), message, "1", "at least 2, or demand of each server with one other alone")]


def _arcs(pairs: Sequence[tuple[int, int]], links: str) -> tuple[tuple[int, int], ...]:
    """Arcs of listed links, sorted; both ways for fibre pairs."""
    both = links == LinkDirection.BIDIRECTIONAL
    return tuple(sorted([*pairs, *((head, tail) for tail, head in pairs if both)]))


def read_topology(document: Document) -> TopologyProblem:
    """Check and build.

    Raises:
        InputError: everything wrong with the file, so far as one fault does not hide another.
    """
    raw = document.data if isinstance(document.data, dict) else {}
    findings = Findings()
    file = findings.shape(TopologyInstance, document)
    if isinstance(file, TopologyInstance):
        findings.add(_pair_errors(file))
    demand = read_demand_keys(raw, _declared_servers(raw.get("servers")), FilePath(document.file).parent, findings)
    if isinstance(file, TopologyInstance):
        findings.add(_single_link_errors(file, demand))
    findings.refuse(document)
    if not isinstance(file, TopologyInstance) or demand is None:
        raise AssertionError("an instance file was neither built nor refused")
    problem = TopologyProblem(
        name=file.name,
        servers=file.servers,
        degree=file.degree,
        links=LinkDirection(file.links),
        demand=demand,
        max_hops=file.max_hops,
        forbidden=tuple(sorted(set(_arcs(file.forbidden, file.links)))),
        kept=_arcs(file.kept, file.links),
        max_changed=file.max_changed,
        parallel_links=file.parallel_links,
        search=file.search,
        sha256=_identity(codec.plain(file), None, demand),
        notes=tuple(findings.notes),
        link_gbps=file.link_gbps,
        routing=file.routing,
        step_ms=file.step_ms,
    )
    return _fitting(problem, file, findings, document)


MOST_ROUTE_ENTRIES = LIMITS.json_nodes


def routing_problems(problem: RoutingProblem) -> list[Problem]:
    """A number for each source and link, unless one source stands for all."""
    topology = problem.topology
    if topology.servers * len(topology.arcs) <= MOST_ROUTE_ENTRIES or _alike(problem):
        return []
    value = f"{topology.servers} servers, {len(topology.arcs)} links in one direction"
    allowed = f"{MOST_ROUTE_ENTRIES} at most if multiplied, or links and demand that look the same from every server"
    return [Problem("more routes than a solution file holds", path="topology", value=value, allowed=allowed)]


def _alike(problem: RoutingProblem) -> bool:
    from solvers.network.routing import one_row  # compiled, and rarely needed

    free = problem.max_hops is None and not problem.hop_price
    return free and all(one_row(problem.topology, demand) for demand in problem.demands)


def circulants_only(problem: TopologyProblem) -> bool:
    """Whether only routes of which one row stands for all are written: whatever the links, each pair with demand takes
    a link into its destination, so an arc and an amount."""
    return 2 * int(np.count_nonzero(problem.demands)) > MOST_ROUTE_ENTRIES


def topology_problems(problem: TopologyProblem) -> list[Problem]:
    """Demand of too many pairs, unless it looks the same from every server and nothing speaks against circulants."""
    if not circulants_only(problem):
        return []
    from solvers.network.space import shift_invariant  # compiled, and rarely needed

    if not problem.several and not problem.rules and shift_invariant(problem.demand):
        return []
    text, value = "more routes than a solution file holds", f"{np.count_nonzero(problem.demands)} entries above 0"
    allowed = (
        f"{MOST_ROUTE_ENTRIES // 2} at most, or one matrix that looks the same from every server, and no constraints"
    )
    return [Problem(text, path="demand", value=value, allowed=allowed)]


def too_large(problem: TopologyProblem) -> Problem | None:
    """Why a method that makes other networks than circulants does not cover a problem, or None."""
    if not circulants_only(problem):
        return None
    text = "its routes are more than a solution file holds"
    return Problem(text, path="search.method", value=problem.search.method, allowed="auto, portfolio, totient")
