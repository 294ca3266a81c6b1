"""The demand of network instances, one matrix or several, from what the file says to one array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path as FilePath

import numpy as np
from pydantic import TypeAdapter

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.files.demand_tables import ServerNames
from topoopt.files.demand_traces import TRACE_ENDINGS, read_trace
from topoopt.files.faults import Fault
from topoopt.files.findings import Findings, fitting, within
from topoopt.files.network_sections import DemandSection, FileDemand
from topoopt.files.sections import demand_of, existing_file, in_links
from topoopt.kinds.network.schema import DemandsEntry, HotExpertsDemand
from topoopt.workloads.demand_traces import HotExperts, hot_experts

_ONE: TypeAdapter[DemandSection] = TypeAdapter(DemandSection)
_SEVERAL: TypeAdapter[list[DemandsEntry]] = TypeAdapter(list[DemandsEntry])

Demand = Floats


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
        raw: the document.
        servers: n; None where it is not known.
        folder: of the document.
        findings: of the document; notes go there as well.
        names: of the servers; empty where they have numbers alone.
        gbps: whether capacities are in Gbit/s, whatever `link_gbps` says.
    """
    one, several = raw.get("demand"), raw.get("demands")
    if (one is None) == (several is None):
        message, allowed = ("missing", "demand or demands") if one is None else ("beside demands", "one of the two")
        findings.add([Fault(("demand",), message, None, allowed)])
        return None
    rate = 1.0 if gbps else _rate(raw.get("link_gbps"))
    known = ServerNames(servers or 0, findings.note, names)
    section, entries = fitting(_ONE, one), fitting(_SEVERAL, several)
    if servers is None:
        return None
    if section is not None:
        read = partial(demand_of, section, known, folder, rate)
        return findings.attempt(partial(within, "demand", read), ("demand",))
    steps = [
        partial(within, f"demands[{k}]", partial(_matrices, entry, known, folder, rate))
        for k, entry in enumerate(entries or [])
    ]
    found = [findings.attempt(step, ("demands", k)) for k, step in enumerate(steps)]
    whole = [each for each in found if each is not None]
    return np.concatenate(whole) if whole and len(whole) == len(found) else None


def _rate(raw: object) -> float | None:
    """Rate of a link, if it is one."""
    usable = isinstance(raw, int | float) and not isinstance(raw, bool) and raw > 0
    return float(raw) if usable and isinstance(raw, int | float) else None


def _matrices(entry: DemandsEntry, known: ServerNames, folder: FilePath, link_gbps: float | None) -> Demand:
    """float64[k, n, n] of one entry.

    Raises:
        InputError: everything wrong with any of the matrices; paths are relative to the entry.
    """
    servers = known.servers
    if isinstance(entry, HotExpertsDemand):
        settings = HotExperts(entry.steps, entry.experts_per_server, entry.law, entry.skew, entry.affinity)
        matrices = hot_experts(servers, settings, seed=entry.seed) * entry.scale
        return np.array([in_links(matrix, servers, entry.unit, None, link_gbps) for matrix in matrices])
    if not isinstance(entry, FileDemand) or FilePath(entry.file).suffix.lower() not in TRACE_ENDINGS:
        return demand_of(entry, known, folder, link_gbps)[None]
    found, problems = [], []
    for k, matrix in enumerate(read_trace(existing_file(folder, entry.file))):
        try:
            found.append(in_links(matrix, servers, entry.unit, "file", link_gbps))
        except InputError as error:
            problems += [_of_matrix(problem, k) for problem in error.problems]
    if problems:
        raise InputError(problems)
    return np.array(found)


def _of_matrix(problem: Problem, matrix: int) -> Problem:
    return replace(problem, message=f"matrix {matrix}: {problem.message}")
