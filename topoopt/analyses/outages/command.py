"""`topoopt outages`: days of servers that are down, drawn with the statistics of a published trace."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topoopt.console.output import JsonOption, Output

if TYPE_CHECKING:
    from rich.console import Console

MOST_SPARES, MOST_DAYS = 100_000, 100_000


def outages(
    solution: Annotated[Path, typer.Argument(help="solution.json of `topoopt solve`, kind llm-training.")],
    spares: Annotated[str, typer.Option(help="Spare servers, parted by commas.")] = "0,4,8,16",
    days: Annotated[int, typer.Option(min=1, max=MOST_DAYS, help="To draw.")] = 349,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of the draw.")] = 0,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Throughput of a plan over days on which servers are down, with circuits that any servers use, and without.

    How many servers are down has the statistics of the trace of InfiniteHBD (mean 2.31 %, 99th percentile 7.75 %). A
    copy of the model trains as in the plan while all its servers are up. With circuits any servers make one, spare ones
    included; without them each copy needs its own servers.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.outages.run import copies_of, outage_rows
        from topoopt.kinds.llm_training.solution_file import SOLUTION_FILE

        numbers = _numbers(spares)
        plan = SOLUTION_FILE.read(solution)
        copies, rows = copies_of(plan), outage_rows(plan, numbers, days, seed)
        document = {
            "kind": "outages",
            "name": plan.name,
            "days": days,
            "seed": seed,
            "copies": copies.number,
            "servers_each": copies.servers_each,
            "rows": [asdict(row) for row in rows],
        }
        output.result(document, lambda console: _show(console, document), _answer(document))
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


def _show(console: Console, document: dict[str, Any]) -> None:
    """A table."""
    from topoopt.console.tables import TerminalTable
    from topoopt.drawing.format import percent

    title = f"{document['copies']} copies of the model on {document['servers_each']} servers each"
    table = TerminalTable(title=title)
    for name in ("spare servers", "circuits", "mean", "99 % of days", "worst day", "days without loss", "worst step"):
        table.add_column(name, justify="left" if name == "circuits" else "right")
    for row in document["rows"]:
        worst = "–" if row["worst_step_s"] is None else f"{row['worst_step_s']:.4g} s"
        shares = (percent(row[name]) for name in ("mean", "p99", "worst", "whole_days"))
        table.add_row(str(row["spares"]), "yes" if row["circuits"] else "no", *shares, worst)
    console.print(table)
