"""`topoopt methods`: the methods of a kind, or for one instance, and why some do not cover it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from topoopt.cli.completions import complete_kind
from topoopt.console.output import JsonOption, Output
from topoopt.console.tables import TerminalTable


def methods(
    what: Annotated[
        str,
        typer.Argument(
            metavar="KIND|INSTANCE", help="Kind of problem, or an instance file.", autocompletion=complete_kind
        ),
    ],
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """List the methods for a kind of problem, or for an instance, and which of them do not cover it."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds import KINDS

        groups = _of_kind(what) if what in KINDS or not Path(what).exists() else _for_instance(Path(what))

        def show(console: Console) -> None:
            for group in groups:
                if group["problems"]:
                    console.print(Text(f"{group['problems']}:", style="bold"))
                table = TerminalTable(show_header=False)
                table.add_column(no_wrap=True)
                table.add_column(overflow="fold")
                for line in group["methods"]:
                    left = line.get("not_covered")
                    table.add_row(Text(line["name"], style="dim" if left else ""), Text(left or line["summary"]))
                console.print(table)

        output.result({"groups": groups}, show)
        return 0

    output.run(command)


def _of_kind(name: str) -> list[dict[str, Any]]:
    from topoopt.kinds import kind_named

    tables = kind_named(name).solver().tables(name)
    return [
        {"problems": problems, "methods": [{"name": each.name, "summary": each.summary} for each in table.values()]}
        for problems, table in tables
    ]


def _for_instance(path: Path) -> list[dict[str, Any]]:
    from topoopt.kinds import kind_of
    from topoopt.kinds.files import read_instance

    problem = read_instance(path)
    lines = []
    for each in kind_of(problem).methods(problem).values():
        wrong = each.covers(problem)
        left = {} if wrong is None else {"not_covered": f"not covered: {wrong}"}
        lines.append({"name": each.name, "summary": each.summary, **left})
    return [{"problems": f"{problem.name} ({problem.kind})", "methods": lines}]
