"""`topoopt validate` and `topoopt schema`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from topoopt.cli.completions import complete_template
from topoopt.console.output import JsonOption, Output
from topoopt.core.errors import InputError, Problem
from topoopt.kinds import kind_of


def validate(
    instances: Annotated[list[Path], typer.Argument(help="Instance files.")],
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Read instance files and list everything wrong with them."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.files import located, read_instance
        from topoopt.kinds.pipeline import search_problems

        files: list[dict[str, Any]] = []
        problems: list[Problem] = []
        notes: list[str] = []
        for path in instances:
            try:
                instance = read_instance(path)
                wrong = search_problems(kind_of(instance), instance)
                if wrong:
                    raise InputError(located(wrong, path))
                found = [*getattr(instance, "notes", ())]
                notes += [f"{path}: {note}" for note in found]
                entry = {"file": str(path), "ok": True, "kind": instance.kind, "sha256": instance.sha256}
                files.append({**entry, "notes": found} if found else entry)
            except InputError as error:
                problems.extend(error.problems)
                listed = [asdict(problem) for problem in error.problems]
                files.append({"file": str(path), "ok": False, "problems": listed})

        def show(console: Console) -> None:
            for problem in problems:
                console.print(f"[bold red]error[/] {escape(str(problem))}", soft_wrap=True, highlight=False)
            for entry in files:
                console.print(f"{entry['file']}: {'ok' if entry['ok'] else 'INVALID'}", soft_wrap=True, markup=False)
            for note in notes:
                console.print(f"note: {note}", soft_wrap=True, markup=False, highlight=False)

        output.result({"ok": not problems, "files": files}, show)
        return InputError.exit_code if problems else 0

    output.run(command)


def schema(
    kind: Annotated[
        str | None, typer.Argument(help="Kind of instance; default: all kinds.", autocompletion=complete_template)
    ] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Print the JSON Schema of instance files."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.files import json_schema

        document = json_schema(kind)
        output.result(document, lambda console: console.print_json(json.dumps(document)))
        return 0

    output.run(command)
