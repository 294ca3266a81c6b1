"""Instance files of the kinds `routing` and `topology` to domain objects: all checks, then the build."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from topoopt.core.arrays import Floats
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import EitherProblem, RoutingMode, RoutingProblem, TopologyProblem
from topoopt.core.reachability import unreachable_pair
from topoopt.core.topology import Topology
from topoopt.files.canonical import canonical_sha256
from topoopt.files.documents import Document
from topoopt.files.faults import Fault, parse_path
from topoopt.files.fields import MAX_SERVERS
from topoopt.files.findings import Findings, fitting, within
from topoopt.files.network_sections import TopologySection
from topoopt.files.sections import TopologyContent, topology_of
from topoopt.kinds.network.read_demands import read_demand_keys
from topoopt.kinds.network.schema import RoutingFile, TopologyFile

_TOPOLOGY: TypeAdapter[Any] = TypeAdapter(TopologySection)

Demand = Floats


def _content_hash(array: Floats) -> str:
    return hashlib.sha256(np.ascontiguousarray(array, dtype="<f8").tobytes()).hexdigest()


def _identity(document: dict[str, Any], topology: Topology | None, demand: Demand) -> str:
    """Hash of the instance with defaults written out; files count by their content, not by their names."""
    if topology is not None and "file" in document["topology"]:
        rows = np.column_stack((topology.arcs, topology.multiplicity)).tolist()
        own = {} if topology.rates is None else {"rates": topology.rates.tolist()}
        document["topology"] = {"servers": topology.servers, "degree": topology.degree, "arcs": rows, **own}
    for section in [document["demand"] or {}, *(document["demands"] or [])]:
        if "file" in section:
            section["file"] = _content_hash(demand)
    return canonical_sha256(document)


def _fitting(
    problem: EitherProblem, file: RoutingFile | TopologyFile, findings: Findings, document: Document
) -> EitherProblem:
    """The problem, if nothing in the file is for one demand alone, or for several.

    Raises:
        InputError: something is.
    """
    if problem.several:
        findings.add([Fault(parse_path(rule), "not with several demands", None, "left out") for rule in problem.rules])
    else:
        given = {"routing": file.routing != RoutingMode.COMMON, "step_ms": file.step_ms is not None}
        findings.add(
            [Fault((key,), "for several demands only", None, "left out") for key, here in given.items() if here]
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
    file = findings.shape(RoutingFile, document)
    if isinstance(file, RoutingFile) and (file.objective == "completion-time") != (file.hop_price is not None):
        price, value = file.hop_price, None if file.hop_price is None else str(file.hop_price)
        message = "the objective knows no price of hops" if price is not None else "completion time needs it"
        allowed = "only beside objective completion-time" if price is not None else "a number above 0"
        findings.add([Fault(("hop_price",), message, value, allowed)])
    section = fitting(_TOPOLOGY, raw.get("topology"))
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
        if gbps and isinstance(file, RoutingFile) and file.link_gbps is not None:
            message = "the links have rates of their own in Gbit/s"
            findings.add([Fault(("link_gbps",), message, str(file.link_gbps), "left out")])
    findings.refuse(document)
    if not isinstance(file, RoutingFile) or content is None or demand is None:
        raise AssertionError("an instance file was neither built nor refused")
    rate = {"link_gbps": 1.0} if gbps else {}
    problem = RoutingProblem(
        name=file.name,
        topology=content.topology,
        demand=demand,
        max_hops=file.max_hops,
        hop_price=file.hop_price or 0.0,
        search=file.search.build(),
        sha256=_identity(file.model_dump(mode="json") | rate, content.topology, demand),
        notes=(*content.notes, *findings.notes),
        link_gbps=1.0 if gbps else file.link_gbps,
        routing=RoutingMode(file.routing),
        step_ms=file.step_ms,
    )
    return _fitting(problem, file, findings, document)


def _cut_off(topology: Topology, demand: Floats | None) -> list[Fault]:
    """A pair with demand, or any where the demand is not known, that no path joins; others need none."""
    if unreachable_pair(topology.servers, topology.arcs.astype(np.int64)) is None:
        return []
    from topoopt.simulate.hops import hop_matrix  # compiled, and rarely needed

    lost = hop_matrix(topology) < 0
    if demand is not None:
        lost &= (demand > 0) if demand.ndim == 2 else (demand > 0).any(axis=0)
    pairs = np.argwhere(lost)
    if not len(pairs):
        return []
    tail, head = pairs[0].tolist()
    text = f"the topology is not connected: no way from server {tail} to server {head}"
    return [Fault(("topology",), text, None, "a path for all demand")]


def _known_servers(raw: object) -> int | None:
    """n, if only that much is right."""
    right = isinstance(raw, int) and not isinstance(raw, bool) and 2 <= raw <= MAX_SERVERS
    return raw if right and isinstance(raw, int) else None


def _pair_faults(file: TopologyFile) -> list[Fault]:
    """What is wrong with the lists of pairs."""
    faults = []
    for key, pairs in (("forbidden", file.forbidden), ("kept", file.kept)):
        for index, (tail, head) in enumerate(pairs):
            if max(tail, head) >= file.servers:
                allowed = f"servers 0 to {file.servers - 1}"
                faults.append(Fault((key, index), "unknown server", f"[{tail}, {head}]", allowed))
            elif tail == head:
                faults.append(Fault((key, index), "a link from a server to itself", f"[{tail}, {head}]"))
    kept = _arcs(file.kept, file.links)
    for end, word in ((0, "out of"), (1, "into")):
        for server, links in sorted(Counter(arc[end] for arc in kept).items()):
            if links > file.degree:
                message = f"more links {word} server {server} than its degree"
                faults.append(Fault(("kept",), message, str(links), f"at most {file.degree}"))
    if file.max_changed is not None and not file.kept:
        faults.append(Fault(("max_changed",), "no links to keep", str(file.max_changed), "only beside kept"))
    return faults


def _single_link_faults(file: TopologyFile, demand: Demand | None) -> list[Fault]:
    """With one fibre pair a server has one peer: no demand may need another one."""
    if demand is None or file.degree > 1 or file.links != "bidirectional" or file.servers == 2:
        return []
    joined = (demand > 0) if demand.ndim == 2 else (demand > 0).any(axis=0)
    peers = (joined | joined.T).sum(axis=1)
    if file.max_hops is None and peers.max() <= 1:
        return []
    message = "one link a server cannot connect more than two servers"
    return [Fault(("degree",), message, "1", "at least 2, or demand of each server with one other alone")]


def _arcs(pairs: list[tuple[int, int]], links: str) -> tuple[tuple[int, int], ...]:
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
    file = findings.shape(TopologyFile, document)
    if isinstance(file, TopologyFile):
        findings.add(_pair_faults(file))
    folder = FilePath(document.file).parent
    demand = read_demand_keys(raw, _known_servers(raw.get("servers")), folder, findings)
    if isinstance(file, TopologyFile):
        findings.add(_single_link_faults(file, demand))
    findings.refuse(document)
    if not isinstance(file, TopologyFile) or demand is None:
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
        search=file.search.build(),
        sha256=_identity(file.model_dump(mode="json"), None, demand),
        notes=tuple(findings.notes),
        link_gbps=file.link_gbps,
        routing=RoutingMode(file.routing),
        step_ms=file.step_ms,
    )
    return _fitting(problem, file, findings, document)
