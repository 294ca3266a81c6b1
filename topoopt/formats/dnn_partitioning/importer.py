"""Operator graphs of msr-fiddle/dnn-partitioning as instances."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from topoopt.formats.dnn_partitioning.read import placement_document
from topoopt.formats.importer import (
    Imported,
    Importer,
    NameOption,
    imported_placement,
    name_of,
    require_choice,
    require_positive,
)

OBJECTIVES = ("throughput", "latency")
SHARING = ("none", "fair", "fifo", "static")


def import_graph(
    file: Annotated[Path, typer.Argument(help="Graph (JSON) of msr-fiddle/dnn-partitioning.")],
    objective: Annotated[str, typer.Option(help="throughput or latency.")],
    comm_scale: Annotated[float, typer.Option(help="Factor on all transfer times.")] = 1.0,
    devices: Annotated[int | None, typer.Option(min=1, max=1024, help="Accelerators; default: of the file.")] = None,
    no_cpu: Annotated[bool, typer.Option("--no-cpu", help="Leave the CPU pool of the file out.")] = False,
    sharing: Annotated[
        str,
        typer.Option(help="Objective latency, how transfers of a server share its links: none, fair, fifo or static."),
    ] = "none",
    name: NameOption = None,
) -> Imported:
    """An operator graph of Tarnawski et al. (NeurIPS 2020), to be placed."""
    require_choice("--objective", objective, OBJECTIVES)
    require_choice("--sharing", sharing, SHARING)
    require_positive("--comm-scale", comm_scale)
    document, notes = placement_document(
        file,
        objective=objective,
        name=name or name_of(file),
        comm_scale=comm_scale,
        devices=devices,
        cpu=not no_cpu,
        sharing=sharing,
    )
    return imported_placement(document, notes)


IMPORTER: Importer = import_graph
