"""`topoopt import`: files of other tools to instance files, one command a format of the table."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

import typer
from rich.console import Console

from topoopt.cli.lazy import LazyGroup
from topoopt.console.output import JsonOption, Output
from topoopt.files.atomic import new_file
from topoopt.formats.importer import Imported, Importer
from topoopt.formats.table import IMPORTERS

OWN = ("expert-split", "job")
"""Commands that have no foreign instance to read; in `topoopt.cli.import_placement`."""

OutOption = Annotated[
    Path | None, typer.Option("--out", "-o", help="Instance file to write; default: NAME.yaml, if that is new.")
]


def write_imported(made: Imported, out: Path | None, output: Output) -> int:
    """Write an instance, then say so: figures for programs, the line for people, notes for both.

    Args:
        made: the instance.
        out: file to write; None: after the name of the instance, where no file has that name.
        output: of the command.

    Raises:
        InputError: the document is no valid instance; WriteError: the file cannot be written.
    """
    from topoopt.kinds.files import write_instance

    document = made.document
    if out is None:
        out = new_file(f"{document['name']}.yaml")
    write_instance(document, out)
    notes = list(dict.fromkeys(made.notes))
    result = {"instance": str(out), "kind": document["kind"], "name": document["name"], **made.figures, "notes": notes}

    def show(console: Console) -> None:
        text = f"written: {out} ({document['kind']}; {made.line})"
        for line in (text, *(f"note: {note}" for note in notes)):
            console.print(line, soft_wrap=True, highlight=False, markup=False)

    output.result(result, show)
    return 0


def command_of(importer: Importer) -> Callable[..., None]:
    """The command of an importer: its parameters, the file to write, and the form of the answer."""

    def command(**values: Any) -> None:
        out, output = values.pop("out"), Output.choose(values.pop("as_json"))
        output.run(lambda: write_imported(importer(**values), out, output))

    hints = get_type_hints(importer, include_extras=True)
    given = [
        one.replace(annotation=hints[one.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for one in inspect.signature(importer).parameters.values()
    ]
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=OutOption)
    as_json = inspect.Parameter(
        "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, JsonOption]
    )
    required = sum(one.default is inspect.Parameter.empty for one in given)
    parameters = [*given[:required], out, *given[required:], as_json]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__doc__ = importer.__doc__
    return command


class ImportCommands(LazyGroup):
    """The formats of the table, and our own commands."""

    names: ClassVar = (*IMPORTERS, *OWN)
    path: ClassVar = ("import",)

    @staticmethod
    def load(name: str) -> Callable[..., None]:
        """The command of a format, or one of our own."""
        if name in IMPORTERS:
            return command_of(IMPORTERS[name])
        own: Callable[..., None] = getattr(
            importlib.import_module("topoopt.cli.import_placement"), name.replace("-", "_")
        )
        return own


app = typer.Typer(
    cls=ImportCommands,
    help="Turn files of other tools into instance files.",
    callback=lambda: None,
    no_args_is_help=True,
    rich_markup_mode="rich",
)
