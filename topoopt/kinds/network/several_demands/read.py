"""Files of `topoopt robust` to domain objects: all checks, then the build."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.robust_network import RobustMode, RobustProblem
from topoopt.core.search_settings import SearchSettings
from topoopt.core.topology import Topology
from topoopt.files.canonical import canonical_sha256
from topoopt.files.demand_files import read_demand
from topoopt.files.demand_traces import read_trace
from topoopt.files.documents import Document, parse_document
from topoopt.files.faults import Fault
from topoopt.files.findings import Findings
from topoopt.files.network_sections import TopologySection
from topoopt.files.sections import MOST_DEMAND, check_demand, existing_file, matrix_rows, topology_of, within
from topoopt.kinds.network.several_demands.schema import (
    HotExpertsDemand,
    ListedDemand,
    RobustFile,
    SetDemand,
    TraceDemand,
    TraceSection,
)
from topoopt.workloads.demand_traces import HotExperts, hot_experts

Result = TypeVar("Result")
Demands = NDArray[np.float64]
Trace = SetDemand | TraceDemand | ListedDemand | HotExpertsDemand

_TOPOLOGY: TypeAdapter[Any] = TypeAdapter(TopologySection)
_TRACE: TypeAdapter[Trace] = TypeAdapter(TraceSection)


def read_robust(path: str | os.PathLike[str]) -> RobustProblem:
    """Read a file of kind `robust-network` (YAML or JSON).

    Raises:
        InputError: everything wrong with the file, so far as one fault does not hide another.
    """
    return read_robust_network(parse_document(path))


def read_robust_network(document: Document) -> RobustProblem:
    """From document to domain object.

    Raises:
        InputError: as `read_robust`.
    """
    raw = document.data if isinstance(document.data, dict) else {}
    folder = FilePath(document.file).parent
    findings = Findings()
    file = findings.shape(RobustFile, document)
    if file is not None:
        findings.add(_either(file))
    topology = _topology(raw.get("topology"), folder, findings)
    servers = topology.servers if topology is not None else _count(raw.get("servers"))
    demands = _demands(raw, servers, folder, findings)
    findings.refuse(document)
    if file is None or demands is None or servers is None:
        raise AssertionError("a file was neither built nor refused")
    return RobustProblem(
        name=file.name,
        servers=servers,
        degree=topology.degree if topology is not None else file.degree or 0,
        links=topology.links if topology is not None else LinkDirection(file.links or "bidirectional"),
        topology=topology,
        demands=demands,
        routing=RobustMode(file.routing),
        step_ms=file.step_ms,
        search=SearchSettings(seed=file.search.seed, time_limit_s=file.search.time_limit_s),
        sha256=_identity(document, file, topology, demands),
    )


def _either(file: RobustFile) -> list[Fault]:
    """Links are given, or servers and degree are."""
    size = {"servers": file.servers, "degree": file.degree, "links": file.links}
    if file.topology is not None:
        allowed = "nothing beside topology"
        return [Fault((key,), "the topology says it", str(value), allowed) for key, value in size.items() if value]
    faults = [
        Fault((key,), "missing", None, "a number, where no topology is given")
        for key in ("servers", "degree")
        if size[key] is None
    ]
    if file.degree == 1 and file.links != "unidirectional" and (file.servers or 0) > 2:
        faults.append(Fault(("degree",), "one fibre pair per server cannot join all servers", "1", "at least 2"))
    return faults


def _topology(raw: object, folder: FilePath, findings: Findings) -> Topology | None:
    if raw is None:
        return None
    try:
        section = _TOPOLOGY.validate_python(raw)
    except ValidationError:
        return None
    content = findings.attempt(lambda: within("topology", lambda: topology_of(section, folder)), ("topology",))
    return None if content is None else content.topology


def _count(raw: object) -> int | None:
    return raw if isinstance(raw, int) and not isinstance(raw, bool) and 2 <= raw <= 4096 else None


def _demands(raw: dict[str, object], servers: int | None, folder: FilePath, findings: Findings) -> Demands | None:
    """The matrices, also when other sections are wrong, so that everything is said at once."""
    try:
        section = _TRACE.validate_python(raw.get("demand"))
    except ValidationError:
        return None
    if servers is None:
        return None
    rate = raw.get("link_gbps")
    known = float(rate) if isinstance(rate, int | float) and not isinstance(rate, bool) and rate > 0 else None
    return findings.attempt(lambda: within("demand", lambda: demands_of(section, servers, folder, known)), ("demand",))


def demands_of(section: Trace, servers: int, folder: FilePath, link_gbps: float | None) -> Demands:
    """float64[k, n, n] in units of the capacity of one link.

    Raises:
        InputError: everything wrong with any of the matrices; paths are relative to the section.
    """
    if isinstance(section, HotExpertsDemand):
        settings = HotExperts(section.steps, section.experts_per_server, section.law, section.skew, section.affinity)
        matrices = list(hot_experts(servers, settings, seed=section.seed) * section.scale)
    elif isinstance(section, SetDemand):
        names = [f"set[{k}]" for k in range(len(section.set))]
        matrices = _each(names, lambda k: _checked(matrix_rows(section.set[k], servers), servers))
    elif isinstance(section, ListedDemand):
        names = [f"files[{k}]" for k in range(len(section.files))]
        matrices = _each(names, lambda k: _checked(read_demand(existing_file(folder, section.files[k])), servers))
    else:
        matrices = list(read_trace(existing_file(folder, section.file)))
        _each(["file"] * len(matrices), lambda k: _checked(matrices[k], servers))
    demands = np.array(matrices)
    if section.unit == "gbps":
        if link_gbps is None:
            text, allowed = "a demand in gbps needs the rate of a link", "link_gbps beside demand"
            raise InputError([Problem(text, path="unit", value="gbps", allowed=allowed)])
        demands = demands / link_gbps
    if demands.max() > MOST_DEMAND:
        raise InputError([Problem("too much demand", value=f"{demands.max():g}", allowed=f"at most {MOST_DEMAND:g}")])
    return np.ascontiguousarray(demands)


def _checked(matrix: NDArray[np.float64], servers: int) -> NDArray[np.float64]:
    check_demand(matrix, servers, None)
    return matrix


def _each(names: list[str], step: Callable[[int], Result]) -> list[Result]:
    """What a step gives for every matrix; the problems of all of them together."""
    found: list[Result] = []
    problems: list[Problem] = []
    for k, name in enumerate(names):
        try:
            found.append(step(k))
        except InputError as error:
            label = "" if "[" in name else f"matrix {k}: "
            problems += [
                each if each.file is not None else replace(each, path=name, message=label + each.message)
                for each in error.problems
            ]
    if problems:
        raise InputError(problems)
    return found


def _identity(document: Document, file: RobustFile, topology: Topology | None, demands: Demands) -> str:
    """Hash of the instance with defaults written out; files count by their content."""
    content = file.model_dump(mode="json")
    if topology is not None and "file" in content["topology"]:
        rows = np.column_stack((topology.arcs, topology.multiplicity)).tolist()
        content["topology"] = {"servers": topology.servers, "degree": topology.degree, "arcs": rows}
    if "file" in content["demand"] or "files" in content["demand"]:
        digest = hashlib.sha256(np.ascontiguousarray(demands, dtype="<f8").tobytes()).hexdigest()
        content["demand"] = {"sha256": digest}
    return canonical_sha256(content)
