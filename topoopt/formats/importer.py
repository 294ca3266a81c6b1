"""What every importer is: a function from foreign files and options to an instance document.

Its parameters are those of `topoopt import FORMAT`, annotated with how they are written there; the command adds the
file to write and the form of its answer. Called as a function it takes the same arguments as keywords.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import Workload
from topoopt.files.issues import nearest_text, value_text
from topoopt.files.job_document import workload_document


@dataclass(frozen=True)
class Imported:
    """An instance made of foreign files.

    Attributes:
        document: of the instance.
        line: its size, in words.
        figures: its size and what else was read, for programs.
        notes: what was assumed or left out.
    """

    document: dict[str, Any]
    line: str
    figures: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


Importer = Callable[..., Imported]
"""Raises InputError: everything that is wrong with the files or options."""

NameOption = Annotated[str | None, typer.Option(help="Name of the instance; default: of the file.")]
DegreeOption = Annotated[int, typer.Option(min=1, max=64, help="Optical interfaces per server.")]
LinkOption = Annotated[float, typer.Option(help="Gbit/s of one interface.")]
LinksOption = Annotated[str, typer.Option(help="bidirectional or unidirectional.")]
QueuesOption = Annotated[
    int, typer.Option(min=1, max=2, help="Queues per dimension of ASTRA-sim: a ring runs one way with 1, both with 2.")
]


def require_choice(option: str, value: str, allowed: tuple[str, ...]) -> None:
    """Refuse a value that is none of a few words.

    Raises:
        InputError: it is not.
    """
    if value not in allowed:
        raise InputError(
            [Problem("unknown value", None, None, option, value_text(value), nearest_text(value, allowed))]
        )


def require_positive(option: str, value: float | None) -> None:
    """Refuse an option that is no positive finite number; None is not given.

    Raises:
        InputError: it is not.
    """
    if value is not None and not 0 < value < float("inf"):
        raise InputError([Problem("must be a positive finite number", path=option, value=str(value))])


def name_of(file: Path) -> str:
    """Name of an instance after a file, without what names may not hold."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", file.stem).lstrip("._+-")[:100] or "imported"


def job_of_workload(name: str, cluster: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """Instance document of a job: a cluster, and a workload in full."""
    return {
        "schema_version": 1,
        "kind": "co-optimisation",
        "name": name,
        "cluster": cluster,
        "workload": workload_document(workload),
    }


def hierarchical_document(
    name: str, dimensions: list[dict[str, Any]], total_gbytes_per_s: float, workload: dict[str, Any]
) -> dict[str, Any]:
    """Instance of kind `hierarchical-bandwidth` for one workload."""
    return {
        "schema_version": 1,
        "kind": "hierarchical-bandwidth",
        "name": name,
        "network": {"dimensions": dimensions, "total_gbytes_per_s": total_gbytes_per_s},
        "workloads": [workload],
    }


def imported_job(name: str, cluster: dict[str, Any], workload: Workload) -> Imported:
    """A job with the figures of its workload."""
    figures = {
        "servers": cluster["servers"],
        "operators": len(workload.operators),
        "samples": workload.samples,
        "weight_bytes": workload.weight_bytes,
    }
    line = (
        f"{figures['operators']} operators, {figures['servers']} servers, batch {workload.samples}, "
        f"{workload.weight_bytes / 1e9:.4g} GB of weights"
    )
    return Imported(job_of_workload(name, cluster, workload), line, figures)


def imported_placement(document: dict[str, Any], notes: tuple[str, ...] = ()) -> Imported:
    """A graph to be placed, with its figures."""
    counts = {
        "operators": len(document["operators"]),
        "tensors": len(document["tensors"]),
        "devices": sum(len(server["devices"]) for server in document["servers"]),
        "servers": len(document["servers"]),
    }
    line = ", ".join(f"{count} {what}" for what, count in counts.items())
    return Imported(document, line, {"objective": document["objective"], **counts}, notes)
