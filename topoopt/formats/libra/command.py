"""`topoopt import libra`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from topoopt.console.output import JsonOption, Output

OBJECTIVES = ("time", "time-times-cost")
LOOPS = ("no-overlap", "dp-overlap")


def libra(
    network: Annotated[Path, typer.Option(help="Topology, NpusCount and CostDimension (YAML).")],
    cost_model: Annotated[Path, typer.Option(help="Prices by tier (YAML).")],
    workload: Annotated[Path, typer.Option(help="Layers, 12 columns a line.")],
    total_gbytes_per_s: Annotated[float, typer.Option(help="Bandwidth of an NPU in all dimensions together.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Instance file to write.")],
    communicator: Annotated[
        Path | None, typer.Option(help="Ranks of each phase (YAML); default: every phase uses the whole network.")
    ] = None,
    objective: Annotated[str, typer.Option(help="time or time-times-cost.")] = "time",
    loop: Annotated[str, typer.Option(help="no-overlap or dp-overlap.")] = "no-overlap",
    pareto_points: Annotated[int, typer.Option(min=0, max=1000, help="Points of the front of time and cost.")] = 25,
    name: Annotated[str | None, typer.Option(help="Name of the instance; default: of the workload file.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """A workload on a hierarchical network, in the files of LIBRA."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.core.errors import InputError, Problem
        from topoopt.files.instance_file import write_instance
        from topoopt.formats.importers import name_of, positive
        from topoopt.formats.libra.read import libra_document

        positive("--total-gbytes-per-s", total_gbytes_per_s)
        for option, value, allowed in (("--objective", objective, OBJECTIVES), ("--loop", loop, LOOPS)):
            if value not in allowed:
                raise InputError([Problem("not one of them", path=option, value=value, allowed=", ".join(allowed))])
        document = libra_document(
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
        write_instance(document, out)
        dimensions, layers = document["network"]["dimensions"], document["workloads"][0]["layers"]
        shape = " x ".join(f"{one['block']} {one['size']}" for one in dimensions)
        summary = {"instance": str(out), "dimensions": len(dimensions), "layers": len(layers), "shape": shape}
        output.result(
            summary,
            lambda console: console.print(
                f"written: {out} ({len(layers)} layers on {shape})", soft_wrap=True, highlight=False, markup=False
            ),
        )
        return 0

    output.run(command)
