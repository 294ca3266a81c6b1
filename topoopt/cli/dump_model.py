"""`topoopt dump-model`: an optimisation model as a file that other solvers read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from topoopt.cli.completions import complete_formulation
from topoopt.console.output import JsonOption, Output
from topoopt.console.tables import TerminalTable
from topoopt.core.errors import InputError, Problem

FORMS: dict[str, Literal["lp", "mps"]] = {".lp": "lp", ".mps": "mps"}


def dump_model(
    instance: Annotated[Path | None, typer.Argument(help="Instance file.")] = None,
    formulation: Annotated[
        str | None, typer.Option(help="Name of the formulation; see --list.", autocompletion=complete_formulation)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write, .lp or .mps; default: INSTANCE-FORMULATION.lp.")
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help="NAME=NUMBER; see --list. Repeatable.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the formulations and their options.")] = False,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Write the model of an instance in LP or MPS format, its variables and constraints named."""
    output = Output.choose(as_json)

    def command() -> int:
        if list_all:
            return _list(output)
        missing = (("INSTANCE", instance), ("--formulation", formulation))
        faults = [
            Problem("missing", path=name, allowed="--list needs none") for name, given in missing if given is None
        ]
        if out is not None and out.suffix.lower() not in FORMS:
            text = "the extension says which format to write"
            faults.append(Problem(text, path="--out", value=str(out), allowed=", ".join(FORMS)))
        options = _options(option or [], faults)
        if faults or instance is None or formulation is None:
            raise InputError(faults)
        return _dump(output, instance, formulation, out or Path(f"{instance.stem}-{formulation}.lp"), options)

    output.run(command)


def _options(words: list[str], faults: list[Problem]) -> dict[str, float]:
    options: dict[str, float] = {}
    for word in words:
        name, _, text = word.partition("=")
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not name or not math.isfinite(value) or name in options:
            faults.append(Problem("not an option", path="--option", value=word, allowed="NAME=NUMBER, each name once"))
        options[name] = value
    return options


def _dump(output: Output, instance: Path, formulation: str, out: Path, options: dict[str, float]) -> int:
    from formulations.parts.write_model import model_text
    from formulations.table import build_named
    from topoopt.files.atomic import write_text_atomically
    from topoopt.kinds.files import read_instance

    problem = read_instance(instance)
    program = build_named(formulation, problem, options)
    form = FORMS[out.suffix.lower()]
    write_text_atomically(out, model_text(program, form, title=f"{problem.name}: {formulation}"))
    document = {
        "model": str(out),
        "format": form,
        "formulation": formulation,
        "kind": problem.kind,
        "name": problem.name,
        "instance_sha256": problem.sha256,
        "columns": program.columns,
        "integer_columns": int(program.is_integer.sum()),
        "rows": program.rows,
        "nonzeros": program.nonzeros,
    }

    def show(console: Console) -> None:
        text = f"{program.columns} columns ({document['integer_columns']} integer), {program.rows} rows"
        console.print(f"{formulation}: {text}, {program.nonzeros} coefficients", markup=False, highlight=False)
        console.print(f"written: {out}", markup=False, soft_wrap=True, highlight=False)

    output.result(document, show)
    return 0


def _list(output: Output) -> int:
    from formulations.table import FORMULATIONS

    listed: dict[str, Any] = {
        name: {
            "summary": line.summary,
            "kinds": list(line.kinds),
            "options": {
                key: {"summary": option.summary, "default": option.default} for key, option in line.options.items()
            },
        }
        for name, line in FORMULATIONS.items()
    }

    def show(console: Console) -> None:
        table = TerminalTable("formulation", "kinds", "decides", "options")
        for name, line in FORMULATIONS.items():
            options = "\n".join(f"{key}={option.default:g}: {option.summary}" for key, option in line.options.items())
            table.add_row(name, ", ".join(line.kinds), line.summary, options)
        console.print(table)

    output.result({"formulations": listed}, show)
    return 0
