"""Files a command is asked to write beside its answer, refused before any work is done."""

from __future__ import annotations

from pathlib import Path

from topoopt.core.errors import InputError, Problem

PLOTS = (".html", ".svg")


def require_targets(csv_file: Path | None, plot: Path | None) -> None:
    """Refuse files that cannot be written before minutes are spent on what should go there.

    Raises:
        InputError: no folder to write to, a folder of that name, a plot of unknown format, one file for both.
    """
    problems = []
    for option, file in (("--csv", csv_file), ("--plot", plot)):
        if file is not None and (file.is_dir() or not file.parent.is_dir()):
            problems.append(Problem("cannot be written", path=option, value=str(file), allowed="a file in a folder"))
    if plot is not None and plot.suffix.lower() not in PLOTS:
        problems.append(Problem("unknown format", path="--plot", value=str(plot), allowed=", ".join(PLOTS)))
    if plot is not None and plot == csv_file:
        problems.append(Problem("the same file as --csv", path="--plot", value=str(plot)))
    if problems:
        raise InputError(problems)
