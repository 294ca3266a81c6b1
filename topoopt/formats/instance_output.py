"""What the commands that import foreign files have in common: options, their words, the instance written and told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.console.output import Output
from topoopt.core.errors import InputError, Problem

OutOption = Annotated[Path, typer.Option("--out", "-o", help="Instance file to write.")]
NameOption = Annotated[str | None, typer.Option(help="Name of the instance; default: of the file.")]
QueuesOption = Annotated[
    int, typer.Option(min=1, max=2, help="Queues per dimension of ASTRA-sim: a ring runs one way with 1, both with 2.")
]


def one_of(option: str, value: str, allowed: tuple[str, ...]) -> str:
    """The value of an option that must be one of a few words.

    Raises:
        InputError: it is not.
    """
    from topoopt.files.faults import nearest_text, value_text

    if value not in allowed:
        raise InputError(
            [Problem("unknown value", None, None, option, value_text(value), nearest_text(value, allowed))]
        )
    return value


def finish(
    document: dict[str, Any], out: Path, output: Output, summary: dict[str, Any], line: str, notes: list[str]
) -> int:
    """Write an instance, then say so: `summary` for programs, `line` for people, notes for both.

    Raises:
        InputError: the document is no valid instance; WriteError: the file cannot be written.
    """
    from topoopt.files.instance_file import write_instance

    write_instance(document, out)
    notes = list(dict.fromkeys(notes))
    result = {"instance": str(out), "kind": document["kind"], "name": document["name"], **summary, "notes": notes}

    def show(console: Any) -> None:
        console.print(f"written: {out} ({document['kind']}; {line})", soft_wrap=True, highlight=False, markup=False)
        for note in notes:
            console.print(f"note: {note}", soft_wrap=True, highlight=False, markup=False)

    output.result(result, show)
    return 0
