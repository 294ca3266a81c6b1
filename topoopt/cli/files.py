"""Commands about instance files: `topoopt init` and `validate`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from topoopt.core.errors import InputError, Problem
from topoopt.kinds import kind_of
from topoopt.page import options
from topoopt.page.output import Output, say
from topoopt.page.render import TerminalTable


def validate(
    instances: Annotated[list[Path], typer.Argument(help="Instance files.")], as_json: options.Json = False
) -> None:
    """Read instance files and list everything wrong with them."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.files import located, read_instance
        from topoopt.kinds.pipeline import search_problems

        files: list[dict[str, Any]] = []
        problems: list[Problem] = []
        notes: list[str] = []
        codes: list[int] = []
        for path in instances:
            try:
                instance = read_instance(path)
                wrong = search_problems(kind_of(instance), instance)
                if wrong:
                    raise InputError(located(wrong, path))
                remarks = [*getattr(instance, "notes", ())]
                notes += [f"{path}: {note}" for note in remarks]
                entry = {"file": str(path), "ok": True, "kind": instance.kind, "sha256": instance.sha256}
                files.append({**entry, "notes": remarks} if remarks else entry)
            except InputError as error:
                codes.append(error.exit_code)
                problems.extend(error.problems)
                listed = [asdict(problem) for problem in error.problems]
                files.append({"file": str(path), "ok": False, "problems": listed})

        def show(console: Console) -> None:
            for problem in problems:
                console.print(f"[bold red]error[/] {escape(str(problem))}", soft_wrap=True, highlight=False)
            say(console, *(f"{entry['file']}: {'ok' if entry['ok'] else 'INVALID'}" for entry in files), notes=notes)

        output.result({"ok": not problems, "files": files}, show)
        return min(codes, default=0)

    output.run(command)


def _names() -> list[str]:
    from topoopt.files.untrusted import shipped_files
    from topoopt.kinds import TEMPLATES

    return [*TEMPLATES, *(file.name for file in shipped_files())]


def init(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="EXAMPLE|KIND",
            help="A shipped instance or a kind of problem; none: all shipped instances.",
            autocompletion=options.complete_from(_names),
        ),
    ] = None,
    listed: options.Listed = False,
    output_files: options.OutputOption = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Write a first instance: a shipped example with the files that it names, or the template of a kind.

    Default file: NAME.yaml. All shipped instances go into the folder of --output, in the same folders.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.files.atomic import sole_target
        from topoopt.files.untrusted import copied, shipped_named
        from topoopt.formats.table import name_of
        from topoopt.kinds import TEMPLATES, template

        if listed:
            return _list(output)
        if name is None:
            if not output_files:
                allowed = "EXAMPLE or KIND, or --list, or -o FOLDER for all"
                raise InputError([Problem("missing", path="EXAMPLE|KIND", allowed=allowed)])
            return _write(output, _all_below(sole_target(output_files, Path())), force)
        if name in TEMPLATES:
            file = sole_target(output_files, Path(f"{name}.yaml"))
            return _write(output, {file: template(name, name_of(file)).encode()}, force)
        example = shipped_named(name, TEMPLATES)
        target = sole_target(output_files, Path(example.path.name))
        first = target / example.path.name if target.is_dir() else target
        made = copied(example)
        beside = {first.parent / other: text for other, text in made.items() if other != example.path.name}
        return _write(output, {first: made[example.path.name], **beside}, force)

    output.run(command)


def _list(output: Output) -> int:
    from topoopt.files.untrusted import shipped_files
    from topoopt.kinds import TEMPLATES

    files = shipped_files()
    document = {
        "kinds": list(TEMPLATES),
        "examples": [{"name": example.name, "kind": example.kind, "summary": example.summary} for example in files],
    }

    def show(console: Console) -> None:
        console.print(f"kinds: {', '.join(TEMPLATES)}", markup=False, highlight=False)
        table = TerminalTable("example", "kind", "what")
        for example in files:
            table.add_row(Text(example.name), example.kind, Text(example.summary.split(". ")[0]))
        console.print(table)

    output.result(document, show)
    return 0


def _all_below(out: Path) -> dict[Path, bytes]:
    """Everything that comes with the package, in the same folders."""
    from topoopt.files.untrusted import MOST_BYTES, read_bytes, shipped_folder

    folder = shipped_folder()
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".png")
    return {out / path.relative_to(folder): read_bytes(path, MOST_BYTES) for path in files}


def _write(output: Output, files: dict[Path, bytes], force: bool) -> int:
    """Write all files, or none where one is there already."""
    from topoopt.files.atomic import make_directory, refuse_existing, write_bytes_atomically

    if not force:
        refuse_existing(files, "--force replaces it")
    for path, data in files.items():
        make_directory(path.parent)
        write_bytes_atomically(path, data)
    written = [str(path) for path in files]
    few = written if len(written) <= 6 else [*written[:5], f"and {len(written) - 5} more"]
    output.result({"files": written}, lambda console: say(console, written=[", ".join(few)]))
    return 0
