"""Commands about instance files: `topoopt validate`, `schema`, `describe`, `examples` and `init`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from topoopt.cli.app import complete_example, complete_template
from topoopt.core.errors import InputError, Problem
from topoopt.files.codec import FieldWords, SectionWords, sections_of
from topoopt.files.issues import nearest_text, value_text
from topoopt.kinds import kind_of
from topoopt.page.output import JsonOption, Output
from topoopt.page.render import TerminalTable


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
            for entry in files:
                console.print(f"{entry['file']}: {'ok' if entry['ok'] else 'INVALID'}", soft_wrap=True, markup=False)
            for note in notes:
                console.print(f"note: {note}", soft_wrap=True, markup=False, highlight=False)

        output.result({"ok": not problems, "files": files}, show)
        return min(codes, default=0)

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


def describe(
    kind: Annotated[str, typer.Argument(help="Kind of instance.", autocompletion=complete_template)],
    field: Annotated[
        str | None, typer.Argument(help="Only this field or section, such as cluster.degree or search.")
    ] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Say what stands in an instance file: every field, what is allowed there, its default and its meaning."""
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.kinds.files import json_schema

        sections = sections_of(json_schema(kind))
        shown = sections if field is None else _matching(kind, sections, field)

        def show(console: Console) -> None:
            for section in shown:
                _show(console, section)

        output.result({"kind": kind, "sections": [asdict(section) for section in shown]}, show)
        return 0

    output.run(command)


def _matching(kind: str, sections: tuple[SectionWords, ...], wanted: str) -> tuple[SectionWords, ...]:
    """What a path names: one field in its section, and all sections that may stand there or below.

    Raises:
        InputError: no such field; names those near.
    """
    by_name = {section.name: section for section in sections}
    *above, last = wanted.split(".")
    places = [by_name[""]] if above else list(sections)
    for name in above:
        fields = [field for candidate in places for field in candidate.fields if field.name == name]
        places = [by_name[section_name] for field in fields for section_name in field.sections]
    result = []
    for candidate in places:
        chosen = tuple(field for field in candidate.fields if field.name == last)
        if chosen:
            result.append(SectionWords(candidate.name, "", "", chosen))
    if last in by_name and not above:
        result.append(by_name[last])
    for section in result:  # grows
        below = [by_name[section_name] for field in section.fields for section_name in field.sections]
        result += [section_name for section_name in dict.fromkeys(below) if section_name not in result]
    if not result:
        names = [field.name for candidate in places or sections for field in candidate.fields]
        allowed = nearest_text(last, tuple(dict.fromkeys(names)))
        raise InputError([Problem(f"no such field of {kind}", path=wanted, value=value_text(last), allowed=allowed)])
    return tuple(result)


def _show(console: Console, section: SectionWords) -> None:
    """A heading, then each field: its name and value on a line, its meaning below, both folded to the width."""
    if section.name:
        console.print()
        console.print(Text.assemble((section.name, "bold"), f"  {section.meaning}" if section.meaning else ""))
    elif section.meaning:
        console.print(Text(section.meaning))
    if not section.fields:
        console.print(Padding(Text(section.value), (0, 0, 0, 2)))
    for field in section.fields:
        console.print(Padding(_line(field), (0, 0, 0, 2)))
        if field.meaning:
            console.print(Padding(Text(field.meaning, style="dim"), (0, 0, 0, 6)))


def _line(field: FieldWords) -> Text:
    end = "required" if field.required else f"default {field.default}" if field.default else ""
    return Text.assemble((field.name, "bold"), f": {field.value}", f"; {end}" if end else "")


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
                "examples": [
                    {"name": example.name, "kind": example.kind, "summary": example.summary} for example in files
                ],
            }

            def listed(console: Console) -> None:
                table = TerminalTable("example", "kind", "what")
                for example in files:
                    table.add_row(Text(example.name), example.kind, Text(example.summary.split(". ")[0]))
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
