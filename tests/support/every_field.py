"""Changes of a document in one field, for every field of its schema: any legal value but the default."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from topoopt.core.errors import InputError
from topoopt.files.documents import Document
from topoopt.kinds import kind_of
from topoopt.kinds.files import build_instance, json_schema
from topoopt.kinds.pipeline import search_problems

Path = tuple[str | int, ...]
Field = tuple[str, str]
"""Name of a section, and of a field in it."""

Edits = tuple[tuple[Path, Any], ...]
"""Places and values; a section that a document leaves out comes before what stands in it."""

Change = tuple[Field, Edits]

ABSENT = object()
SAME = frozenset({"schema_version", "kind"})
"""Fields of one value."""


def is_legal(document: Mapping[str, Any], file: str) -> bool:
    """Whether `topoopt validate` takes it."""
    try:
        problem = build_instance(Document(file, document, lambda _: {}))
    except InputError:
        return False
    return not search_problems(kind_of(problem), problem)


class Schema:
    """Of the instances of a kind.

    Args:
        words: values of fields by name that the schema does not tell.
    """

    def __init__(self, kind: str, words: Mapping[str, Any]) -> None:
        self._root, self._words = json_schema(kind), words

    def fields(self) -> set[Field]:
        """All of them, wherever they stand."""
        sections = [self._root, *self._root.get("$defs", {}).values()]
        return {(one["title"], name) for one in sections for name in one.get("properties", {})} - {
            (self._root["title"], name) for name in SAME
        }

    def changes(self, document: Mapping[str, Any], file: str) -> Iterator[Change]:
        """A legal value for each field of the sections of a document, those left out included."""
        yield from self._of_section(self._root, document, file, (), ())

    def _of_section(
        self, section: Mapping[str, Any], document: Mapping[str, Any], file: str, path: Path, before: Edits
    ) -> Iterator[Change]:
        here = _at(document, path)
        for name, shape in section["properties"].items():
            if not path and name in SAME:
                continue
            own, value = (*path, name), here.get(name, ABSENT)
            usual = shape.get("default", ABSENT) if value is ABSENT else value
            known = [self._words[name]] if name in self._words else []
            for one in itertools.chain(known, self._values(shape, usual)):
                edits = (*before, (own, one))
                if one not in (usual, shape.get("default", ABSENT)) and is_legal(edited(document, edits), file):
                    yield (section["title"], name), edits
                    value = one if value is ABSENT and isinstance(one, dict) else value
                    break
            edits = before if name in here or value is ABSENT else (*before, (own, value))
            yield from self._inside(shape, value, edited(document, edits), file, own, edits)

    def _inside(
        self, shape: Mapping[str, Any], value: object, document: Mapping[str, Any], file: str, path: Path, before: Edits
    ) -> Iterator[Change]:
        if isinstance(value, dict):
            for one in self._variants(shape):
                names = one.get("properties", {}).keys()
                if names and value.keys() <= names and set(one.get("required", ())) <= value.keys():
                    yield from self._of_section(one, document, file, path, before)
                    return
                if isinstance(one.get("additionalProperties"), dict) and not names:  # sections by names of one's own
                    for key, inner in value.items():
                        shape_of_key = one["additionalProperties"]
                        yield from self._inside(shape_of_key, inner, document, file, (*path, key), before)
                    return
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for one in self._variants(shape):
                if "items" in one:
                    yield from self._inside(one["items"], value[0], document, file, (*path, 0), before)

    def _variants(self, shape: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """What a value may be, references followed."""
        if "$ref" in shape:
            return self._variants(self._root["$defs"][shape["$ref"].rsplit("/", 1)[1]])
        for key in ("anyOf", "oneOf"):
            if key in shape:
                return [one for variant in shape[key] for one in self._variants(variant)]
        return [shape]

    def _values(self, shape: Mapping[str, Any], usual: object) -> Iterator[Any]:
        """Values of the shape, those near the usual one first."""
        for one in self._variants(shape):
            match one.get("type"):
                case _ if "enum" in one:
                    yield from one["enum"]
                case _ if "const" in one:
                    yield one["const"]
                case "boolean":
                    yield from (True, False)
                case "integer" | "number":
                    yield from self._numbers(one, usual)
                case "string":
                    yield from ("other", *(f"{usual}x" for _ in range(isinstance(usual, str))))
                case "array":
                    yield from self._lists(one, usual)
                case "object" if "properties" in one:
                    yield from self._sections(one)

    def _numbers(self, shape: Mapping[str, Any], usual: object) -> Iterator[Any]:
        whole = shape["type"] == "integer"
        base = usual if isinstance(usual, int | float) and not isinstance(usual, bool) else 1
        for one in (2 * base, base / 2, base + 1, base - 1, 1, 2, 4, 0, 8, 0.5, 12.5, 100, 1000):
            low, high = shape.get("minimum", one), shape.get("maximum", one)
            above, below = shape.get("exclusiveMinimum", one - 1), shape.get("exclusiveMaximum", one + 1)
            if low <= one <= high and above < one < below and (not whole or one == int(one)):
                yield int(one) if whole else float(one)

    def _lists(self, shape: Mapping[str, Any], usual: object) -> Iterator[Any]:
        if isinstance(usual, list) and len(usual) > 1:
            yield usual[::-1]
            yield usual[:-1]
        if "items" in shape:
            for one in self._values(shape["items"], ABSENT):
                yield [one] * max(1, shape.get("minItems", 1))

    def _sections(self, section: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """With what is required, first with the smallest numbers of all."""
        required = section.get("required", ())
        of_each = {name: self._few(name, section["properties"][name]) for name in required}
        for place in range(4):
            if all(of_each.values()):
                yield {name: values[min(place, len(values) - 1)] for name, values in of_each.items()}

    def _few(self, name: str, shape: Mapping[str, Any]) -> list[Any]:
        return [self._words[name]] if name in self._words else list(self._values(shape, ABSENT))[:4]


def _at(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


def edited(document: Mapping[str, Any], edits: Edits) -> dict[str, Any]:
    """The document with other values."""
    made: dict[str, Any] = copy.deepcopy(dict(document))
    for path, value in edits:
        _at(made, path[:-1])[path[-1]] = copy.deepcopy(value)
    return made
