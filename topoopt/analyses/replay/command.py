"""`topoopt replay`: iteration time of a given task graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from topoopt.console.output import JsonOption, Output
from topoopt.core.cluster import LinkSharing
from topoopt.drawing.format import counted, milliseconds
from topoopt.simulate.time_models import TIME_MODELS


def replay(
    taskgraph: Annotated[
        Path,
        typer.Argument(help="Task graph (.fbuf of FlexNet), or an instance with all operators pinned."),
    ],
    fabric: Annotated[
        str, typer.Option(help="ideal-switch, full-fat-tree, oversubscribed-fat-tree or direct-connect.")
    ],
    link_gbps: Annotated[float | None, typer.Option(help="Gbit/s of one interface; default: as in the file.")] = None,
    time_model: Annotated[str, typer.Option(help=", ".join(TIME_MODELS) + ".")] = "rounds",
    link_sharing: Annotated[
        str | None,
        typer.Option(help=", ".join(LinkSharing) + ", of rounds and hop; default: as in the file, or fifo."),
    ] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Simulate one iteration of a task graph on a fabric."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.replay.run import replay as run

        result = run(taskgraph, fabric=fabric, link_gbps=link_gbps, time_model=time_model, link_sharing=link_sharing)
        document: dict[str, Any] = {
            "iteration_time_ms": result.iteration_time_ms,
            "fabric": result.fabric,
            "link_gbps": result.link_gbps,
            "time_model": result.time_model,
            "tasks": result.graph.tasks,
            "servers": result.graph.servers,
        }

        def show(console: Console) -> None:
            text = f"{result.iteration_time_ms:.4f} ms, {counted(result.graph.tasks, 'task')}"
            console.print(text, markup=False, highlight=False)

        said = (
            f"One iteration takes {milliseconds(result.iteration_time_ms)} on "
            f"{counted(result.graph.servers, 'server')}, fabric {result.fabric} at {result.link_gbps:g} Gbit/s, "
            f"by time model {result.time_model}."
        )
        output.result(document, show, said)
        return 0

    output.run(command)
