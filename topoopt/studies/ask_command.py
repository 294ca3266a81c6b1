"""`topoopt study query` and `topoopt study reproduce`."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from topoopt.console.output import JsonOption, Output
from topoopt.console.tables import TerminalTable
from topoopt.core.errors import CheckError

if TYPE_CHECKING:
    from topoopt.studies.reproduce import Reproduction

Directory = Annotated[Path, typer.Argument(help="Directory of a study, made by `topoopt study run --out`.")]


def query(
    directory: Directory,
    sql: Annotated[str, typer.Argument(help="SQL; the table is called results.")],
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Ask the table of results with SQL (duckdb)."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.studies.collect import query as ask

        names, rows = ask(directory, sql)

        def show(console: Console) -> None:
            table = TerminalTable(*(escape(name) for name in names))
            for row in rows:
                table.add_row(*("" if value is None else escape(str(value)) for value in row))
            console.print(table)

        plain = [[_plain(value) for value in row] for row in rows]
        output.result({"columns": names, "rows": plain}, show)
        return 0

    output.run(command)


def _plain(value: Any) -> Any:
    """A value JSON can say."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def reproduce(
    directory: Directory,
    run_name: Annotated[str, typer.Argument(metavar="RUN", help="Hash of the run, or the beginning of it.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Keep the new run here; default: it is not kept.")
    ] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Do one run again and compare every figure; exit code 6 if anything differs that should not."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.studies.reproduce import reproduce as again

        with tempfile.TemporaryDirectory() as scratch:
            found = again(directory, run_name, out or Path(scratch))
        document = {
            "run": found.identity,
            "command": list(found.command),
            "same": found.same,
            "comparable": found.comparable,
            "cut_short_by": list(found.cut_short),
            "differences": {name: list(pair) for name, pair in found.differences.items()},
            "same_files": found.same_files,
            "versions_differ": {name: list(pair) for name, pair in found.versions_differ.items()},
            "folder": None if out is None else str(found.folder),
        }

        def show(console: Console) -> None:
            for name, (then, now) in found.versions_differ.items():
                console.print(f"version of {name}: then {then}, now {now}", markup=False, soft_wrap=True)
            for name, (then, now) in found.differences.items():
                console.print(f"{name}: then {then}, now {now}", markup=False, soft_wrap=True)
            for name, same in found.same_files.items():
                console.print(f"{name}: {'the same bytes' if same else 'different'}", markup=False)
            console.print(_verdict(found), markup=False, soft_wrap=True, highlight=False)

        output.result(document, show)
        return 0 if found.same or not found.comparable else CheckError.exit_code

    output.run(command)


def _verdict(found: Reproduction) -> str:
    if found.same:
        return "reproduced"
    if found.comparable:
        return "NOT reproduced"
    limit = ", ".join(found.cut_short)
    return (
        f"not comparable: a limit ({limit}) ended the search, which gets as far as the machine lets it; with `budget` "
        "instead of `time_limit_s` the same seed gives the same plan"
    )
