"""The table (CSV) and the plot (HTML or SVG) that a command is asked to write beside its answer."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from topoopt.core.errors import InputError, Problem
from topoopt.files.atomic import write_text_atomically

PLOTS = (".html", ".svg")


def require_targets(table: Path | None, plot: Path | None) -> None:
    """Refuse files that cannot be written before minutes are spent on what should go there.

    Raises:
        InputError: no folder to write to, a folder of that name, a plot of unknown format, one file for both.
    """
    problems = []
    for option, file in (("--csv", table), ("--plot", plot)):
        if file is not None and (file.is_dir() or not file.parent.is_dir()):
            problems.append(Problem("cannot be written", path=option, value=str(file), allowed="a file in a folder"))
    if plot is not None and plot.suffix.lower() not in PLOTS:
        problems.append(Problem("unknown format", path="--plot", value=str(plot), allowed=", ".join(PLOTS)))
    if plot is not None and plot == table:
        problems.append(Problem("the same file as --csv", path="--plot", value=str(plot)))
    if problems:
        raise InputError(problems)


def csv_text(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV, its lines ended by a newline alone; None is an empty cell."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return stream.getvalue()


def write_targets(
    table: Path | None, plot: Path | None, *, text: Callable[[], str], svg: Callable[[], str], html: Callable[[], str]
) -> dict[str, str | None]:
    """Write what was asked for; `text` is the CSV, the plot is by the extension of its file.

    Returns:
        The names as given, under `csv` and `plot`.

    Raises:
        WriteError: a file cannot be written.
    """
    if table is not None:
        write_text_atomically(table, text())
    if plot is not None:
        write_text_atomically(plot, svg() if plot.suffix.lower() == ".svg" else html())
    return {"csv": None if table is None else str(table), "plot": None if plot is None else str(plot)}
