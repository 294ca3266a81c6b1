"""Workloads of LIBRA as instances."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from topoopt.formats.importer import Imported, Importer, name_of, require_choice, require_positive
from topoopt.formats.libra.read import libra_document

OBJECTIVES = ("time", "time-times-cost")
LOOPS = ("no-overlap", "dp-overlap")


def import_workload(
    network: Annotated[Path, typer.Option(help="Topology, NpusCount and CostDimension (YAML).")],
    cost_model: Annotated[Path, typer.Option(help="Prices by tier (YAML).")],
    workload: Annotated[Path, typer.Option(help="Layers, 12 columns a line.")],
    total_gbytes_per_s: Annotated[float, typer.Option(help="Bandwidth of an NPU in all dimensions together.")],
    communicator: Annotated[
        Path | None, typer.Option(help="Ranks of each phase (YAML); default: every phase uses the whole network.")
    ] = None,
    objective: Annotated[str, typer.Option(help="time or time-times-cost.")] = "time",
    loop: Annotated[str, typer.Option(help="no-overlap or dp-overlap.")] = "no-overlap",
    pareto_points: Annotated[int, typer.Option(min=0, max=1000, help="Points of the front of time and cost.")] = 25,
    name: Annotated[str | None, typer.Option(help="Name of the instance; default: of the workload file.")] = None,
) -> Imported:
    """A workload on a hierarchical network, in the files of LIBRA."""
    require_positive("--total-gbytes-per-s", total_gbytes_per_s)
    require_choice("--objective", objective, OBJECTIVES)
    require_choice("--loop", loop, LOOPS)
    document, notes = libra_document(
        network,
        cost_model,
        workload,
        communicator,
        name=name or name_of(workload),
        total_gbytes_per_s=total_gbytes_per_s,
        objective=objective,
        loop=loop,
        pareto_points=pareto_points,
    )
    dimensions, layers = document["network"]["dimensions"], document["workloads"][0]["layers"]
    shape = " x ".join(f"{one['block']} {one['size']}" for one in dimensions)
    figures = {"dimensions": len(dimensions), "layers": len(layers), "shape": shape}
    return Imported(document, f"{len(layers)} layers on {shape}", figures, notes)


IMPORTER: Importer = import_workload
