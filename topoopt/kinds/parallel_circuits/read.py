"""Instances of kind `parallel-circuits`: what a user writes, and the problem that it states."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Le

from topoopt.core.arrays import BYTES_PER_MS_PER_GBPS, Floats
from topoopt.core.data import STRICT, FileName, Gbps, SchemaVersion
from topoopt.core.regional_circuits import MAX_SERVERS, MAX_SWITCHES, MAX_US, ParallelCircuitsProblem
from topoopt.core.result import SearchSettings
from topoopt.files import codec
from topoopt.files.demand_files import ServerNames
from topoopt.files.documents import Document, canonical_sha256
from topoopt.files.issues import Issue
from topoopt.files.reader_fields import Findings, within
from topoopt.files.sections import Traffic, matrices_of

BYTES_PER_US_PER_GBPS = BYTES_PER_MS_PER_GBPS / 1e3


@dataclass(frozen=True, kw_only=True)
class ParallelCircuitsInstance:
    """One demand over several optical switches that work at the same time, each with a delay of reconfiguration."""

    __pydantic_config__ = STRICT

    schema_version: SchemaVersion = 1
    """version of this file format"""
    kind: Literal["parallel-circuits"] = "parallel-circuits"
    name: FileName = "parallel-circuits"
    servers: Annotated[int, Ge(2), Le(MAX_SERVERS)]
    """n, each with one interface on every switch"""
    switches: Annotated[int, Ge(1), Le(MAX_SWITCHES)]
    """s, optical switches"""
    delay_us: Annotated[float, Ge(0), Le(MAX_US)]
    """microseconds for which all circuits of a switch are dark before a configuration"""
    first: Literal["pays", "free"] = "pays"
    """whether the first configuration of a switch waits for the delay as well; free: it is there before"""
    demand: Traffic
    """one matrix: bytes from server to server with link_gbps, else microseconds at the rate of a link"""
    link_gbps: Gbps | None = None
    """Gbit/s of an interface; null: the demand is in microseconds"""
    search: SearchSettings = SearchSettings()  # noqa: RUF009 - frozen


def resolve(document: Document) -> ParallelCircuitsProblem:
    """Return the problem that an instance states.

    Raises:
        InputError: all errors of the file, and of the file that it names.
    """
    findings, folder = Findings(), Path(document.file).parent
    instance = findings.shaped(ParallelCircuitsInstance, document)
    names = ServerNames(instance.servers, findings.note)
    stack = findings.attempt(
        partial(within, "demand", partial(matrices_of, instance.demand, names, folder)), ("demand",)
    )
    demand: Floats | None = None
    if stack is not None:
        if len(stack) != 1:
            findings.add([Issue(("demand",), "several matrices", str(len(stack)), "one")])
        rate = 1.0 if instance.link_gbps is None else instance.link_gbps * BYTES_PER_US_PER_GBPS
        demand = stack[0] / rate
        if demand.max() > MAX_US:
            findings.add([Issue(("demand",), "too much", f"{demand.max():.6g} us", f"at most {MAX_US:g} us")])
    findings.refuse(document)
    assert demand is not None
    return ParallelCircuitsProblem(
        name=instance.name,
        servers=instance.servers,
        switches=instance.switches,
        delay_us=instance.delay_us,
        first_pays=instance.first == "pays",
        demand_us=demand,
        link_gbps=instance.link_gbps,
        search=instance.search,
        sha256=_identity(instance, demand),
        notes=tuple(findings.notes),
    )


def _identity(instance: ParallelCircuitsInstance, demand: Floats) -> str:
    """Return the hash of an instance with defaults written out; a file counts by its content, not by its name."""
    document: dict[str, Any] = codec.plain(instance)
    if "file" in document["demand"]:
        document["demand"] = hashlib.sha256(np.ascontiguousarray(demand, dtype="<f8").tobytes()).hexdigest()
    return canonical_sha256(document)
