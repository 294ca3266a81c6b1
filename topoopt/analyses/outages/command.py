"""`topoopt outages`: days of servers that are down, drawn with the statistics of a published trace."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topoopt.console.output import JsonOption, Output

if TYPE_CHECKING:
    from rich.console import Console

    from topoopt.core.outages import OutageStudy

MOST_SPARES, MOST_DAYS = 100_000, 100_000


def outages(
    solution: Annotated[Path, typer.Argument(help="solution.json of `topoopt solve`, kind llm-training.")],
    spares: Annotated[str, typer.Option(help="Spare servers, parted by commas.")] = "0,4,8,16",
    days: Annotated[int, typer.Option(min=1, max=MOST_DAYS, help="To draw.")] = 349,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of the draw.")] = 0,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="CSV file to write: the table.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Page to write, as .html: charts and the table.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Throughput of a plan over days on which servers are down, with circuits that any servers use, and without.

    How many servers are down has the statistics of the trace of InfiniteHBD (mean 2.31 %, 99th percentile 7.75 %). A
    copy of the model trains as in the plan while all its servers are up. With circuits any servers make one, spare ones
    included; without them each copy needs its own servers.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.outages.run import outage_study
        from topoopt.files.table_and_plot import require_targets
        from topoopt.kinds.llm_training.solution_file import SOLUTION_FILE

        require_targets(csv_file, plot)
        _refuse_picture(plot)
        study = outage_study(SOLUTION_FILE.read(solution), _numbers(spares), days, seed)
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
        document |= _written(study, said, csv_file, plot)
        output.result(document, lambda console: _show(console, study, (csv_file, plot)), said)
        return 0

    output.run(command)


def _numbers(text: str) -> list[int]:
    """Whole numbers parted by commas.

    Raises:
        InputError: they are none.
    """
    from topoopt.core.errors import InputError, Problem

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) <= MOST_SPARES for part in parts):
        allowed = f"whole numbers from 0 to {MOST_SPARES}, parted by commas"
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


def _refuse_picture(plot: Path | None) -> None:
    from topoopt.core.errors import InputError, Problem

    if plot is not None and plot.suffix.lower() != ".html":
        text = "several charts make a page, not a picture"
        raise InputError([Problem(text, path="--plot", value=str(plot), allowed=".html")])


def _written(study: OutageStudy, said: str, csv_file: Path | None, plot: Path | None) -> dict[str, str | None]:
    from topoopt.analyses.outages.report import outages_html
    from topoopt.core.outages import OutageRow
    from topoopt.files.atomic import write_text_atomically
    from topoopt.files.table_and_plot import csv_text

    if csv_file is not None:
        names = [one.name for one in fields(OutageRow)]
        rows = ((getattr(row, name) for name in names) for row in study.rows)
        write_text_atomically(csv_file, csv_text(names, rows))
    if plot is not None:
        write_text_atomically(plot, outages_html(study, said))
    return {"csv": None if csv_file is None else str(csv_file), "plot": None if plot is None else str(plot)}


def _show(console: Console, study: OutageStudy, files: tuple[Path | None, ...]) -> None:
    """A table."""
    from topoopt.analyses.outages.report import HEADINGS, row_cells
    from topoopt.console.tables import TerminalTable, stacked

    title = f"{study.copies.number} copies of the model on {study.copies.servers_each} servers each"
    table = TerminalTable(title=title, dense=True)
    for name in HEADINGS:
        table.add_column(stacked(name), justify="left" if name == "circuits" else "right")
    for row in study.rows:
        table.add_row(*row_cells(row))
    console.print(table)
    for file in files:
        if file is not None:
            console.print(f"written: {file}", soft_wrap=True, markup=False)
