"""Instances of kind `regional-circuits`: what a user writes, and the problem that it states.

Demands of the steps are matrices in the file, matrices and traces of other files, or generated traffic of experts.
`RegionalCircuitsInstance` is the file and the keyword API; `resolve` makes the problem of it, or reports all errors.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Le, Len

from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS, Floats
from topoopt.core.data import STRICT, FileName, Gbps, SchemaVersion
from topoopt.core.regional_circuits import MAX_PORTS, MAX_SERVERS, MAX_STEPS, RegionalCircuitsProblem
from topoopt.core.result import SearchSettings
from topoopt.files import codec
from topoopt.files.codec import MAX_MS
from topoopt.files.demand_files import ServerNames
from topoopt.files.documents import Document, canonical_sha256
from topoopt.files.issues import Issue
from topoopt.files.reader_fields import Findings, within
from topoopt.files.sections import Traffic, matrices_of

BYTES_PER_S_PER_GBPS = BYTES_PER_MS_PER_GBPS * 1e3

Ports = Annotated[int, Ge(0), Le(MAX_PORTS)]
Milliseconds = Annotated[float, Ge(0), Le(MAX_MS)]


@dataclass(frozen=True, kw_only=True)
class Switching:
    """What it takes to set circuits anew."""

    __pydantic_config__ = STRICT

    delay_ms: Milliseconds = 0.0
    """of the optical switch"""
    window_ms: Milliseconds | Annotated[tuple[Milliseconds, ...], Len(0, MAX_STEPS)] = 0.0
    """time before a step that hides the delay: one number, or one for each step"""


@dataclass(frozen=True, kw_only=True)
class RegionalCircuitsInstance:
    """Circuits of an optical switch for the all-to-all traffic of a region, beside an electrical network."""

    __pydantic_config__ = STRICT

    schema_version: SchemaVersion = 1
    """version of this file format"""
    kind: Literal["regional-circuits"] = "regional-circuits"
    name: FileName = "regional-circuits"
    servers: Annotated[int, Ge(2), Le(MAX_SERVERS)]
    """n, of the region"""
    ports: Ports | Annotated[tuple[Ports, ...], Len(0, MAX_SERVERS)]
    """interfaces of a server on the optical switch: one number, or one for each server"""
    circuit_gbps: Gbps
    """Gbit/s of a circuit, in each direction"""
    electrical_gbps: Gbps
    """Gbit/s of a server into the electrical network, all interfaces there together, in each direction"""
    demands: Annotated[tuple[Traffic, ...], Len(1, MAX_STEPS)]
    """steps that follow each other: a mapping with one of matrix, file and family"""
    split: bool = False
    """what the circuits of a pair cannot carry in time goes over the electrical network; false: a pair with circuits uses these alone"""  # noqa: E501
    switching: Switching = Switching()
    search: SearchSettings = SearchSettings()  # noqa: RUF009 - frozen


def resolve(document: Document) -> RegionalCircuitsProblem:
    """Return the problem that an instance states.

    Raises:
        InputError: all errors of the file, and of the files that it names.
    """
    findings, folder = Findings(), Path(document.file).parent
    instance = findings.shaped(RegionalCircuitsInstance, document)
    servers, declared = instance.servers, instance.ports
    ports = (declared,) * servers if isinstance(declared, int) else declared
    if len(ports) != servers:
        findings.add([Issue(("ports",), "wrong number of entries", str(len(ports)), f"{servers}, one for each server")])
    names = ServerNames(servers, findings.note)
    matrices = [
        findings.attempt(partial(within, f"demands[{k}]", partial(matrices_of, entry, names, folder)), ("demands", k))
        for k, entry in enumerate(instance.demands)
    ]
    valid = [stack for stack in matrices if stack is not None]
    demands = np.concatenate(valid) if len(valid) == len(matrices) else None
    if demands is not None:
        _check_steps(findings, instance, demands)
    findings.refuse(document)
    assert demands is not None
    windows = instance.switching.window_ms
    return RegionalCircuitsProblem(
        name=instance.name,
        servers=servers,
        ports=ports,
        circuit_rate=instance.circuit_gbps * BYTES_PER_S_PER_GBPS,
        electrical_rate=instance.electrical_gbps * BYTES_PER_S_PER_GBPS,
        demands=demands,
        split=instance.split,
        delay_s=instance.switching.delay_ms / 1e3,
        windows_s=tuple(ms / 1e3 for ms in (windows if isinstance(windows, tuple) else [windows] * len(demands))),
        search=instance.search,
        sha256=_identity(instance, demands),
        notes=tuple(findings.notes),
    )


def _identity(instance: RegionalCircuitsInstance, demands: Floats) -> str:
    """Return the hash of an instance with defaults written out; files count by their content, not by their names."""
    document: dict[str, Any] = codec.plain(instance)
    if any("file" in entry for entry in document["demands"]):
        document["demands"] = hashlib.sha256(np.ascontiguousarray(demands, dtype="<f8").tobytes()).hexdigest()
    return canonical_sha256(document)


def _check_steps(findings: Findings, instance: RegionalCircuitsInstance, demands: Floats) -> None:
    steps, windows = len(demands), instance.switching.window_ms
    if steps > MAX_STEPS:
        findings.add([Issue(("demands",), "too many steps", str(steps), f"at most {MAX_STEPS}")])
    if isinstance(windows, tuple) and len(windows) != steps:
        allowed = f"{steps}, one for each step"
        findings.add([Issue(("switching", "window_ms"), "wrong number of entries", str(len(windows)), allowed)])
    if not demands.any():
        findings.add([Issue(("demands",), "nothing is sent in any step", None, "a demand above 0")])
