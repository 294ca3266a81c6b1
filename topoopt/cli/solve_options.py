"""Options of `topoopt solve` that mean something to some kinds only."""

from __future__ import annotations

from typing import Annotated

import typer

JobsOption = Annotated[
    int,
    typer.Option(min=1, max=256, help="Processes for kinds co-optimisation and topology; the plan stays the same."),
]
SlackOption = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1000.0,
        help="Kind dag-topology: percent the job may take longer where that saves circuits, in place of slack_percent.",
    ),
]
