"""The fields of instance files, one page a kind, from their schemas."""

from __future__ import annotations

import re
from collections.abc import Callable

from topoopt.files.codec import FieldWords, SectionWords, sections_of
from topoopt.kinds import KINDS
from topoopt.kinds.files import json_schema

Table = Callable[[list[str], list[list[str]]], str]

HEAD = ["field", "value", "default", "meaning"]


def _row(field: FieldWords) -> list[str]:
    value = field.value
    for name in field.sections:
        value = re.sub(rf"\b{re.escape(name)}\b", f"[{name}](#{name})", value, count=1)
    default = "required" if field.required else f"`{field.default}`" if field.default else ""
    return [f"`{field.name}`", value, default, field.meaning]


def _part(section: SectionWords, table: Table) -> str:
    text = table(HEAD, [_row(field) for field in section.fields]) if section.fields else f"Value: {section.value}."
    head = f"## {section.name} {{ #{section.name} }}\n\n{section.meaning}\n\n" if section.name else ""
    return f"{head}{text}"


def _page(kind: str, table: Table) -> str:
    sections = sections_of(json_schema(kind))
    head = (
        f"# Fields of `{kind}`\n\n[The kind](../../kinds/{kind}.md). `topoopt describe {kind}` prints the same, "
        f"`topoopt describe {kind} --schema` as a JSON Schema."
    )
    return "\n\n".join((head, *(_part(section, table) for section in sections))) + "\n"


def pages(table: Table) -> dict[str, str]:
    """A page a kind, and their list."""
    names = "\n".join(f"- [`{kind}`]({kind}.md)" for kind in KINDS)
    text = f"# Instance files\n\nThe fields of each kind, with their ranges and defaults:\n\n{names}\n"
    return {
        "reference/instances/index.md": text,
        **{f"reference/instances/{kind}.md": _page(kind, table) for kind in KINDS},
    }
