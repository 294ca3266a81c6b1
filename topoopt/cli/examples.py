"""`topoopt examples` and `topoopt init`: files to begin with, from the package alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from topoopt.cli.completions import complete_example, complete_template
from topoopt.console.output import JsonOption, Output
from topoopt.console.tables import TerminalTable

ForceOption = typer.Option("--force", help="Replace what is there.")


def examples(
    name: Annotated[
        str | None, typer.Argument(help="Of the one to copy; none: list all.", autocompletion=complete_example)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="File to write, or a folder; default: printed; without NAME a folder for all."
        ),
    ] = None,
    force: Annotated[bool, ForceOption] = False,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """List the instances that come with the package, print one, or copy it with the files that it names."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.files.untrusted import copied, shipped_files, shipped_named

        if name is None and out is None:
            files = shipped_files()
            document = {
                "examples": [{"name": one.name, "kind": one.kind, "summary": one.summary} for one in files],
            }

            def listed(console: Console) -> None:
                table = TerminalTable("example", "kind", "what")
                for one in files:
                    table.add_row(Text(one.name), one.kind, Text(one.summary.split(". ")[0]))
                console.print(table)

            output.result(document, listed)
            return 0
        if name is None:
            assert out is not None
            return _write(output, _all_below(out), force)
        file = shipped_named(name)
        made = copied(file)
        if out is None:
            text = made[file.path.name].decode()
            output.result(
                {"name": file.name, "kind": file.kind, "text": text},
                lambda console: console.print(text, end="", markup=False, highlight=False, soft_wrap=True),
            )
            return 0
        first = out / file.path.name if out.is_dir() else out
        beside = {first.parent / other: text for other, text in made.items() if other != file.path.name}
        return _write(output, {first: made[file.path.name], **beside}, force)

    output.run(command)


def init(
    kind: Annotated[str, typer.Argument(help="Of the problem.", autocompletion=complete_template)],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; default: KIND.yaml.")] = None,
    force: Annotated[bool, ForceOption] = False,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Write a first instance of a kind of problem, its fields explained, to be changed."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.formats.importer import name_of
        from topoopt.kinds import template

        file = Path(f"{kind}.yaml") if out is None else out
        return _write(output, {file: template(kind, name_of(file)).encode()}, force)

    output.run(command)


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
    output.result(
        {"files": written},
        lambda console: console.print(f"written: {', '.join(few)}", markup=False, highlight=False, soft_wrap=True),
    )
    return 0
