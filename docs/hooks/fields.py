"""The fields of instance files, one page a kind, from their schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from topoopt.kinds import KINDS, kind_named

Table = Callable[[list[str], list[list[str]]], str]


def _type(field: dict[str, Any]) -> str:
    """A type in words, with its range; links to the part it refers to."""
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[-1]
        return f"[{_part(name)}](#{_part(name)})"
    if "anyOf" in field or "oneOf" in field:
        kinds = [_type(each) for each in field.get("anyOf") or field["oneOf"]]
        return ", or ".join(dict.fromkeys(kinds))
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{each}`" for each in field["enum"])
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    if field.get("type") == "object":
        inner = field.get("additionalProperties")
        return f"mapping to {_type(inner)}" if isinstance(inner, dict) else "mapping"
    low, over = field.get("minimum"), field.get("exclusiveMinimum")
    high, under = field.get("maximum"), field.get("exclusiveMaximum")
    ends = [
        f"from {low:g}" if low is not None else f"above {over:g}" if over is not None else "",
        f"to {high:g}" if high is not None else f"below {under:g}" if under is not None else "",
    ]
    return " ".join(each for each in (field.get("type", "anything"), *ends) if each)


def _part(name: str) -> str:
    return name.removesuffix("File").removesuffix("Part").lower()


def _default(field: dict[str, Any], required: bool) -> str:
    if required:
        return "required"
    value = field.get("default", "")
    return "" if value == "" else "`null`" if value is None else f"`{value}`"


def _rows(schema: dict[str, Any]) -> Iterator[list[str]]:
    for name, field in schema.get("properties", {}).items():
        needed = name in schema.get("required", [])
        yield [f"`{name}`", _type(field), _default(field, needed), field.get("description", "")]


def _page(kind: str, table: Table) -> str:
    schema = kind_named(kind).files.schema.model_json_schema(by_alias=True)
    head = ["field", "value", "default", "meaning"]
    parts = [
        f"# Fields of `{kind}`",
        f"[The kind](../../kinds/{kind}.md). `topoopt schema {kind}` prints the same as a JSON Schema.",
        table(head, list(_rows(schema))),
    ]
    for name, part in sorted(schema.get("$defs", {}).items(), key=lambda item: _part(item[0])):
        parts.append(f"## {_part(name)} {{ #{_part(name)} }}")
        parts.append(part.get("description", ""))
        parts.append(table(head, list(_rows(part))) if part.get("properties") else f"Value: {_type(part)}.")
    return "\n\n".join(parts) + "\n"


def pages(table: Table) -> dict[str, str]:
    """A page a kind, and their list."""
    names = "\n".join(f"- [`{kind}`]({kind}.md)" for kind in KINDS)
    text = f"# Instance files\n\nThe fields of each kind, with their ranges and defaults:\n\n{names}\n"
    return {
        "reference/instances/index.md": text,
        **{f"reference/instances/{kind}.md": _page(kind, table) for kind in KINDS},
    }
