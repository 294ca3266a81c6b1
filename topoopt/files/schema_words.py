"""A JSON Schema of files in words: each field with what may stand there, its default and its meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FieldWords:
    """One field of a section.

    Attributes:
        name: as in the file.
        value: what may stand there, with its range; the name of a section in the place of its fields.
        sections: names of the sections that may stand there, as in `value`.
        default: as in the file; empty where nothing is assumed.
        required: whether it must be given.
        meaning: empty where the name says it.
    """

    name: str
    value: str
    sections: tuple[str, ...]
    default: str
    required: bool
    meaning: str


@dataclass(frozen=True)
class SectionWords:
    """One section of a file, or the whole file.

    Attributes:
        name: of the section; empty for the whole.
        meaning: in a sentence.
        value: of a section without fields, such as a list or one of a few.
        fields: in the order of the schema.
    """

    name: str
    meaning: str
    value: str
    fields: tuple[FieldWords, ...]


def section_name(name: str) -> str:
    """What a part of a schema is called: the name of its model, without what all have in theirs."""
    return name.removesuffix("File").removesuffix("Part").lower()


def value_words(field: Mapping[str, Any]) -> str:
    """What may stand in a field, in words."""
    if "$ref" in field:
        return section_name(field["$ref"].rsplit("/", 1)[-1])
    if "anyOf" in field or "oneOf" in field:
        return ", or ".join(dict.fromkeys(value_words(each) for each in field.get("anyOf") or field["oneOf"]))
    if "const" in field:
        return str(field["const"])
    if "enum" in field:
        return ", ".join(map(str, field["enum"]))
    if field.get("type") == "array":
        return f"list of {value_words(field.get('items', {}))}"
    if field.get("type") == "object":
        inner = field.get("additionalProperties")
        return f"mapping to {value_words(inner)}" if isinstance(inner, dict) else "mapping"
    low, over = field.get("minimum"), field.get("exclusiveMinimum")
    high, under = field.get("maximum"), field.get("exclusiveMaximum")
    ends = [
        f"from {_number(low)}" if low is not None else f"above {_number(over)}" if over is not None else "",
        f"to {_number(high)}" if high is not None else f"below {_number(under)}" if under is not None else "",
    ]
    return " ".join(each for each in (field.get("type", "anything"), *ends) if each)


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def _sections(field: Any) -> Iterator[str]:
    if isinstance(field, Mapping):
        if "$ref" in field:
            yield section_name(field["$ref"].rsplit("/", 1)[-1])
        for key in ("anyOf", "oneOf", "items", "additionalProperties"):
            yield from _sections(field.get(key))
    elif isinstance(field, list):
        for each in field:
            yield from _sections(each)


def _default(field: Mapping[str, Any]) -> str:
    value = field.get("default", "")
    if isinstance(value, bool) or value is None:
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _section(name: str, schema: Mapping[str, Any]) -> SectionWords:
    required = schema.get("required", [])
    fields = tuple(
        FieldWords(
            key,
            value_words(field),
            tuple(dict.fromkeys(_sections(field))),
            "" if key in required else _default(field),
            key in required,
            field.get("description", ""),
        )
        for key, field in schema.get("properties", {}).items()
    )
    return SectionWords(name, " ".join(schema.get("description", "").split()), value_words(schema), fields)


def sections_of(schema: Mapping[str, Any]) -> tuple[SectionWords, ...]:
    """The whole file first, then its sections by name."""
    parts = sorted(schema.get("$defs", {}).items(), key=lambda item: section_name(item[0]))
    return (_section("", schema), *(_section(section_name(name), part) for name, part in parts))
