"""Options of `topoopt solve` that mean something to some kinds only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from topoopt.core.errors import InputError, Problem

if TYPE_CHECKING:
    from solvers.processes import Gather

JobsOption = Annotated[
    int,
    typer.Option(min=1, max=256, help="Processes for kinds co-optimisation and topology; the plan stays the same."),
]
ExecutorOption = Annotated[
    str | None,
    typer.Option(help="Kind co-optimisation: dask or slurm do the --jobs parts at once; the plan stays the same."),
]
ExecutorOptionOption = Annotated[
    list[str] | None,
    typer.Option("--executor-option", help="KEY=VALUE for the executor, as of `topoopt study run`; may be repeated."),
]
SlackOption = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1000.0,
        help="Circuits between pods (dag-topology, llm-training): percent the job may take longer where that saves "
        "circuits, in place of slack_percent.",
    ),
]


def chosen_crew(executor: str | None, options: list[str], jobs: int, folder: Path) -> Gather | None:
    """Who does the parts of the search; None: processes here.

    Raises:
        InputError: an unknown executor, or options without one.
    """
    if executor is None and options:
        found = Problem("options of no executor", path="--executor-option", value=options[0], allowed="with --executor")
        raise InputError([found])
    if executor is None:
        return None
    from topoopt.cli.crews import crew_of
    from topoopt.studies.executors import option_pairs

    return crew_of(executor, option_pairs(options), jobs, folder)
