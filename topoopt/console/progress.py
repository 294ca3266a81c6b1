"""Progress of commands that do one thing after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from topoopt.console.output import Output


def counting_bar(output: Output) -> Progress:
    """What is done now, how many of how many, the time, and about how long it will take; on a line that is never wider
    than the terminal, on standard error if that is one."""
    return Progress(
        TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=output.remarks,
        expand=True,
        transient=True,
        disable=not output.remarks.is_terminal,
    )


@contextmanager
def solving_bar(output: Output) -> Iterator[Callable[[str, int, int | None], None]]:
    """The same for a solve, as a function that is told (what is done, steps done, of how many; None: nobody knows)."""
    with counting_bar(output) as bar:
        task = bar.add_task("", total=None)

        def tell(what: str, done: int, total: int | None) -> None:
            bar.update(task, description=escape(what), completed=done, total=total)

        yield tell
