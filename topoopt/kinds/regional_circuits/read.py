"""Instance files of kind `regional-circuits` to domain objects: all checks, then the build."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path as FilePath

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.regional_circuits import RegionalCircuitsProblem
from topoopt.core.units import BYTES_PER_MS_PER_GBPS
from topoopt.files.canonical import canonical_sha256
from topoopt.files.demand_files import read_demand
from topoopt.files.demand_tables import ServerNames
from topoopt.files.demand_traces import TRACE_ENDINGS, read_trace
from topoopt.files.documents import Document
from topoopt.files.faults import Fault
from topoopt.files.findings import Findings, within
from topoopt.files.sections import check_demand, existing_file, matrix_rows
from topoopt.kinds.regional_circuits.schema import (
    MAX_STEPS,
    FileTraffic,
    HotExpertsTraffic,
    RegionalCircuitsFile,
    TrafficEntry,
)
from topoopt.workloads.demand_traces import HotExperts, hot_experts

BYTES_PER_S_PER_GBPS = BYTES_PER_MS_PER_GBPS * 1e3


def read_regional_circuits(document: Document) -> RegionalCircuitsProblem:
    """Check and build.

    Raises:
        InputError: everything wrong with the file and those it names.
    """
    findings, folder = Findings(), FilePath(document.file).parent
    file = findings.shaped(RegionalCircuitsFile, document)
    ports = [file.ports] * file.servers if isinstance(file.ports, int) else file.ports
    if len(ports) != file.servers:
        allowed = f"{file.servers}, one for each server"
        findings.add([Fault(("ports",), "wrong number of entries", str(len(ports)), allowed)])
    known = ServerNames(file.servers, findings.note)
    parts = [
        findings.attempt(partial(within, f"demands[{k}]", partial(_matrices, entry, known, folder)), ("demands", k))
        for k, entry in enumerate(file.demands)
    ]
    whole = [part for part in parts if part is not None]
    demands = np.concatenate(whole) if len(whole) == len(parts) else None
    if demands is not None:
        _check_steps(findings, file, demands)
    findings.refuse(document)
    assert demands is not None
    windows = file.switching.window_ms
    stated = file.model_dump(mode="json")
    if any("file" in entry for entry in stated["demands"]):  # which counts by its content, not by its name
        stated["demands"] = hashlib.sha256(np.ascontiguousarray(demands, dtype="<f8").tobytes()).hexdigest()
    return RegionalCircuitsProblem(
        name=file.name,
        servers=file.servers,
        ports=tuple(ports),
        circuit_rate=file.circuit_gbps * BYTES_PER_S_PER_GBPS,
        electrical_rate=file.electrical_gbps * BYTES_PER_S_PER_GBPS,
        demands=demands,
        split=file.split,
        delay_s=file.switching.delay_ms / 1e3,
        windows_s=tuple(one / 1e3 for one in (windows if isinstance(windows, list) else [windows] * len(demands))),
        search=file.search.build(),
        sha256=canonical_sha256(stated),
        notes=tuple(findings.notes),
    )


def _check_steps(findings: Findings, file: RegionalCircuitsFile, demands: Floats) -> None:
    """Not too many steps, as many windows, and something sent."""
    steps, windows = len(demands), file.switching.window_ms
    if steps > MAX_STEPS:
        findings.add([Fault(("demands",), "too many steps", str(steps), f"at most {MAX_STEPS}")])
    if isinstance(windows, list) and len(windows) != steps:
        allowed = f"{steps}, one for each step"
        findings.add([Fault(("switching", "window_ms"), "wrong number of entries", str(len(windows)), allowed)])
    if not demands.any():
        findings.add([Fault(("demands",), "nothing is sent in any step", None, "a demand above 0")])


def _matrices(entry: TrafficEntry, known: ServerNames, folder: FilePath) -> Floats:
    """float64[k, n, n] of one entry, bytes.

    Raises:
        InputError: everything wrong with any of the matrices; paths are relative to the entry.
    """
    servers = known.servers
    if isinstance(entry, HotExpertsTraffic):
        settings = HotExperts(entry.steps, entry.experts_per_server, entry.law, entry.skew, entry.affinity)
        return hot_experts(servers, settings, seed=entry.seed) * entry.scale
    if not isinstance(entry, FileTraffic):
        matrix = matrix_rows(entry.matrix, servers)
        check_demand(matrix, servers, "matrix")
        return matrix[None]
    path = existing_file(folder, entry.file)
    several = path.suffix.lower() in TRACE_ENDINGS
    found = read_trace(path) if several else read_demand(path).placed(known, str(path))[None]
    problems: list[Problem] = []
    for matrix in found:
        try:
            check_demand(matrix, servers, "file")
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return np.asarray(found * entry.scale)
