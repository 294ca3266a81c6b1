"""`topoopt describe`: the fields of instance files, for people."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from topoopt.cli.completions import complete_template
from topoopt.console.output import JsonOption, Output
from topoopt.core.errors import InputError, Problem
from topoopt.files.codec import FieldWords, SectionWords, sections_of
from topoopt.files.faults import nearest_text, value_text


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
        shown = sections if field is None else _found(kind, sections, field)

        def show(console: Console) -> None:
            for section in shown:
                _show(console, section)

        output.result({"kind": kind, "sections": [asdict(section) for section in shown]}, show)
        return 0

    output.run(command)


def _found(kind: str, sections: tuple[SectionWords, ...], wanted: str) -> tuple[SectionWords, ...]:
    """What a path names: one field in its section, and all sections that may stand there or below.

    Raises:
        InputError: no such field; names those near.
    """
    by_name = {section.name: section for section in sections}
    *above, last = wanted.split(".")
    places = [by_name[""]] if above else list(sections)
    for name in above:
        fields = [field for place in places for field in place.fields if field.name == name]
        places = [by_name[each] for field in fields for each in field.sections]
    found = []
    for place in places:
        chosen = tuple(field for field in place.fields if field.name == last)
        if chosen:
            found.append(SectionWords(place.name, "", "", chosen))
    if last in by_name and not above:
        found.append(by_name[last])
    for section in found:  # grows
        below = [by_name[each] for field in section.fields for each in field.sections]
        found += [each for each in dict.fromkeys(below) if each not in found]
    if not found:
        names = [field.name for place in places or sections for field in place.fields]
        allowed = nearest_text(last, tuple(dict.fromkeys(names)))
        raise InputError([Problem(f"no such field of {kind}", path=wanted, value=value_text(last), allowed=allowed)])
    return tuple(found)


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
