"""Progress of commands that do one thing after another."""

from __future__ import annotations

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from topoopt.console.output import Output


def counting_bar(output: Output) -> Progress:
    """What is done now, how many of how many are done, and the time; on standard error, if that is a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=output.errors,
        transient=True,
        disable=not output.errors.is_terminal,
    )
