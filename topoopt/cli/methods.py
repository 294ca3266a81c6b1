"""Commands about methods: `topoopt methods` lists them, `dump-model` writes a model, `doctor` tries the solvers."""

from __future__ import annotations

import math
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from topoopt.cli.app import complete_formulation, complete_kind
from topoopt.core.errors import InputError, Problem
from topoopt.page.output import JsonOption, Output
from topoopt.page.render import TerminalTable


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
        {
            "problems": problems,
            "methods": [{"name": method.name, "summary": method.summary} for method in table.values()],
        }
        for problems, table in tables
    ]


def _for_instance(path: Path) -> list[dict[str, Any]]:
    from topoopt.kinds import kind_of
    from topoopt.kinds.files import read_instance

    problem = read_instance(path)
    lines = []
    for method in kind_of(problem).methods(problem).values():
        wrong = method.covers(problem)
        left = {} if wrong is None else {"not_covered": f"not covered: {wrong}"}
        lines.append({"name": method.name, "summary": method.summary, **left})
    return [{"problems": f"{problem.name} ({problem.kind})", "methods": lines}]


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
        issues = [
            Problem("missing", path=name, allowed="--list needs none") for name, given in missing if given is None
        ]
        if out is not None and out.suffix.lower() not in FORMS:
            text = "the extension says which format to write"
            issues.append(Problem(text, path="--out", value=str(out), allowed=", ".join(FORMS)))
        options = _options(option or [], issues)
        if issues or instance is None or formulation is None:
            raise InputError(issues)
        return _dump(output, instance, formulation, out or Path(f"{instance.stem}-{formulation}.lp"), options)

    output.run(command)


def _options(words: list[str], issues: list[Problem]) -> dict[str, float]:
    options: dict[str, float] = {}
    for word in words:
        name, _, text = word.partition("=")
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not name or not math.isfinite(value) or name in options:
            issues.append(Problem("not an option", path="--option", value=word, allowed="NAME=NUMBER, each name once"))
        options[name] = value
    return options


def _dump(output: Output, instance: Path, formulation: str, out: Path, options: dict[str, float]) -> int:
    from formulations.programs import model_text
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


LIBRARIES = ("topoopt", "numpy", "scipy", "networkx", "highspy", "ortools", "pyomo", "pydantic")


def doctor(
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Print versions and solve a tiny problem with every solver found; exit code 1 if something is broken."""
    output = Output.choose(as_json)

    def command() -> int:
        libraries = {name: _version(name) for name in LIBRARIES}
        solvers, absent = _try_solvers()
        document: dict[str, Any] = {
            "python": sys.version.split()[0],
            "platform": platform.platform(),
            "libraries": libraries,
            "solvers": solvers,
            "solvers_absent": absent,
            "ok": None not in libraries.values() and all(entry["ok"] for entry in solvers.values()),
        }

        def show(console: Console) -> None:
            table = TerminalTable("part", "version", "state")
            table.add_row("python", document["python"], "ok")
            for name, release in libraries.items():
                table.add_row(name, release or "-", "ok" if release else "missing")
            for name, entry in solvers.items():
                table.add_row(
                    f"solver {name}", "", f"ok, {entry['by']}" if entry["ok"] else f"broken: {entry['reason']}"
                )
            table.add_row("not found", "", ", ".join(absent))
            console.print(table)

        output.result(document, show)
        return 0 if document["ok"] else 1

    output.run(command)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _try_solvers() -> tuple[dict[str, dict[str, Any]], list[str]]:
    """What solving min x, x >= 1 came to with every backend and every solver that is found; and those not found."""
    from solvers.backends import SOLVERS, self_test
    from solvers.backends.table import FOREIGN, any_solver, place_of

    there = [name for name in FOREIGN if place_of(name) is not None]
    table = {**SOLVERS, **{name: any_solver(name) for name in there}}
    tried = {
        name: {"ok": reason is None, "reason": reason, "by": table[name].library}
        for name, reason in self_test(table).items()
    }
    return tried, [name for name in FOREIGN if name not in there]
