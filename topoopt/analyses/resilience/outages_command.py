"""`topoopt resilience --days`: servers that are down, drawn with the statistics of a published trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from topoopt.console.output import Output
    from topoopt.core.failures import OutageStudy

MOST_SPARES, MOST_DAYS = 100_000, 100_000
DEFAULT_SPARES = "0,4,8,16"

DaysOption = Annotated[
    int | None,
    typer.Option(min=1, max=MOST_DAYS, help="Of llm-training, in place of failures: days of servers down, drawn."),
]
SparesOption = Annotated[
    str | None, typer.Option(help=f"With --days, spare servers, separated by commas; default: {DEFAULT_SPARES}.")
]


def answer_outages(
    output: Output, solution: Path, days: int, spares: str | None, seed: int, *, csv: Path | None, report: Path | None
) -> int:
    """Draw the days, follow the plan through them, and say what is left.

    Raises:
        InputError: the solution is not of kind llm-training, or the spare servers are no numbers.
    """
    from topoopt.analyses.resilience.outages import outage_study
    from topoopt.kinds.llm_training import SOLUTION_FILE

    study = outage_study(SOLUTION_FILE.read(solution), _numbers(spares or DEFAULT_SPARES), days, seed)
    document = {
        "kind": "outages",
        "name": study.name,
        "days": days,
        "seed": seed,
        "copies": study.copies.number,
        "servers_each": study.copies.servers_each,
        "rows": [asdict(row) for row in study.rows],
    }
    said = _answer(document)
    written = _written(study, said, csv, report)
    output.result({**document, "written": written}, lambda console: _show(console, study, written), said)
    return 0


def refuse_mixed(kind: str, days: int | None, spares: str | None, alone: Mapping[str, object]) -> None:
    """Raise InputError where options of days and of single failures meet, or the plan trains no language model."""
    from topoopt.core.errors import InputError, Problem

    problems = []
    if days is None and spares is not None:
        problems.append(Problem("only with --days", path="--spares", value=spares))
    if days is not None:
        problems += [Problem("not with --days", path=name) for name, value in alone.items() if value not in (None, [])]
        if kind != "llm-training":
            problems.append(Problem("servers are down in plans of one kind", "", None, "--days", kind, "llm-training"))
    if problems:
        raise InputError(problems)


def _numbers(text: str) -> list[int]:
    """Whole numbers separated by commas.

    Raises:
        InputError: they are none.
    """
    from topoopt.core.errors import InputError, Problem

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) <= MOST_SPARES for part in parts):
        allowed = f"whole numbers from 0 to {MOST_SPARES}, separated by commas"
        raise InputError([Problem("not numbers of servers", path="--spares", value=text, allowed=allowed)])
    return sorted({int(part) for part in parts})


def _answer(document: dict[str, Any]) -> str:
    """The mean without circuits or spares, and the best of the rows."""
    from topoopt.drawing.format import counted, percent

    first = document["rows"][0]
    best = max(document["rows"][1:], key=lambda row: (row["mean"], -row["spares"]))
    return (
        f"{document['name']} keeps {percent(first['mean'])} of its throughput in the mean of "
        f"{counted(document['days'], 'day')} without spare servers and circuits, {percent(best['mean'])} with "
        f"{counted(best['spares'], 'spare server')} over circuits."
    )


def _written(study: OutageStudy, said: str, csv: Path | None, report: Path | None) -> list[str]:
    """The files, written."""
    from topoopt.analyses.resilience.outages_report import outages_html
    from topoopt.core.failures import OutageRow
    from topoopt.files.atomic import csv_text, write_text_atomically

    if csv is not None:
        names = [column.name for column in fields(OutageRow)]
        rows = ((getattr(row, name) for name in names) for row in study.rows)
        write_text_atomically(csv, csv_text(names, rows))
    if report is not None:
        write_text_atomically(report, outages_html(study, said))
    return [str(path) for path in (csv, report) if path is not None]


def _show(console: Console, study: OutageStudy, written: list[str]) -> None:
    """A table."""
    from topoopt.analyses.resilience.outages_report import HEADINGS, row_cells
    from topoopt.console.tables import TerminalTable, stacked

    title = f"{study.copies.number} copies of the model on {study.copies.servers_each} servers each"
    table = TerminalTable(title=title, dense=True)
    for name in HEADINGS:
        table.add_column(stacked(name), justify="left" if name == "circuits" else "right")
    for row in study.rows:
        table.add_row(*row_cells(row))
    console.print(table)
    for file in written:
        console.print(f"written: {file}", soft_wrap=True, markup=False)
