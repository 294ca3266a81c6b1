"""`topoopt import`: files of other tools become instance files, one command a format, and two of our own."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

import typer
from rich.console import Console

from topoopt.cli.app import LazyGroup
from topoopt.core.errors import InputError, Problem
from topoopt.files.atomic import new_file
from topoopt.files.results import check_document
from topoopt.formats.importer import Imported, Importer, NameOption, imported_placement, name_of, require_choice
from topoopt.formats.table import IMPORTERS
from topoopt.page.output import JsonOption, Output

OWN = ("expert-split", "job")
"""Commands that have no foreign instance to read; in `topoopt.cli.import_`."""

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
        parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(importer).parameters.values()
    ]
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=OutOption)
    as_json = inspect.Parameter(
        "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, JsonOption]
    )
    required = sum(parameter.default is inspect.Parameter.empty for parameter in given)
    parameters = [*given[:required], out, *given[required:], as_json]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
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
        own: Callable[..., None] = getattr(importlib.import_module("topoopt.cli.import_"), name.replace("-", "_"))
        return own


app = typer.Typer(
    cls=ImportCommands,
    help="Turn files of other tools into instance files.",
    callback=lambda: None,
    no_args_is_help=True,
    rich_markup_mode="rich",
)


OBJECTIVES = ("throughput", "latency")


def job(
    file: Annotated[Path, typer.Argument(help="Instance of kind co-optimisation.")],
    objective: Annotated[str, typer.Option(help="throughput or latency.")],
    out: OutOption = None,
    inference: Annotated[bool, typer.Option("--inference", help="Forward operators only.")] = False,
    name: NameOption = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """The job of a co-optimisation instance, every operator whole on one server of its cluster, to be placed."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.files import read_instance
        from topoopt.kinds.placement.read import job_document

        require_choice("--objective", objective, OBJECTIVES)
        problem: Any = read_instance(file)
        if problem.kind != "co-optimisation":
            allowed = "co-optimisation"
            raise InputError([Problem("no job in this kind", file=str(file), value=problem.kind, allowed=allowed)])
        document = job_document(problem, objective=objective, name=name or name_of(file), training=not inference)
        return write_imported(imported_placement(document), out, output)

    output.run(command)


def expert_split(
    instance: Annotated[Path, typer.Argument(help="Instance of kind placement, from `import dnn-partitioning`.")],
    file: Annotated[Path, typer.Argument(help="Split (JSON) of msr-fiddle/dnn-partitioning, by a human expert.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Solution file to write; default: FILE-solution.json, if that is new."),
    ] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """A split made by hand, evaluated and checked: a solution file; exit code 6 if it breaks a rule."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.formats.dnn_partitioning import read_expert_split
        from topoopt.kinds.files import document_to_embed, read_instance
        from topoopt.kinds.placement import SOLUTION_FILE
        from topoopt.kinds.placement.methods import evaluate_given

        problem: Any = read_instance(instance)
        if problem.kind != "placement":
            raise InputError([Problem("no placement", file=str(instance), value=problem.kind, allowed="placement")])
        split, notes = read_expert_split(file)
        solution = evaluate_given(problem, split, "expert-split")
        path = out or new_file(f"{name_of(file)}-solution.json")
        SOLUTION_FILE.write(replace(solution, instance=document_to_embed(problem)), path)
        summary = {
            "solution": str(path),
            "max_load_ms": solution.objective.value,
            "check": check_document(solution.check),
            "notes": list(notes),
        }
        text = "\n".join(
            (f"written: {path} (max load {solution.objective.value:.6f} ms)", *(f"note: {note}" for note in notes))
        )
        output.result(summary, lambda console: console.print(text, soft_wrap=True, highlight=False, markup=False))
        return output.exit_code(solution.check, solution.stopped_by)

    output.run(command)
