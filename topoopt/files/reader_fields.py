"""A reader uses, notes or refuses each field of a file, so that none is dropped without a word.

A table beside each reader says so field by field. A field is the way to it: `gpus[].id` in mappings and lists, `*` for
any key, `gpu[].@id` for an attribute of the XML elements `gpu`. A field that is not in the table is refused, or, where
the table has a row `any other` that says so, noted.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any, Literal, TypeVar
from xml.etree.ElementTree import Element

from pydantic import BaseModel, TypeAdapter, ValidationError

from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.process import end_if_interrupted
from topoopt.files import codec
from topoopt.files.documents import Document, parse_document
from topoopt.files.issues import Issue, Path, key_text, nearest_text, parse_path, said_removed, value_text

Use = Literal["used", "noted", "refused"]
FieldRow = tuple[Use, str]
"""What becomes of a field, and what it means or why it is not used."""

FieldTable = Mapping[str, FieldRow]

ANY_OTHER = "any other"
MOST_NAMED = 50
_TOKEN = re.compile(r"\[\]|[^.\[\]]+")


@dataclass
class _Met:
    """A field that is not used, where it was met."""

    path: Path
    value: object
    row: FieldRow | None
    siblings: tuple[str, ...]
    message: str = "unknown field"
    count: int = 1


class _Level:
    """What may stand at one place of a document, from all rows of a table that lead there."""

    def __init__(self) -> None:
        self.inner: dict[str, _Level] = {}
        self.row: FieldRow | None = None

    def next(self, token: str) -> _Level | None:
        return self.inner.get(token) or self.inner.get("*")


def _levels(table: FieldTable) -> _Level:
    top = _Level()
    for field, row in table.items():
        if field == ANY_OTHER:
            continue
        level = top
        for token in _TOKEN.findall(field):
            level = level.inner.setdefault(token, _Level())
        level.row = row
    return top


def _content(element: Element) -> dict[str, Any]:
    content: dict[str, Any] = {f"@{name}": value for name, value in element.attrib.items()}
    for child in element:
        content.setdefault(child.tag, []).append(child)
        if child.tail and child.tail.strip():
            content["text"] = child.tail.strip()
    if element.text and element.text.strip():
        content["text"] = element.text.strip()
    return content


def _named(key: str) -> str:
    return f"@{key_text(key[1:])}" if key.startswith("@") else key_text(key)


def _walk(value: object, level: _Level, path: Path, name: str, met: dict[str, _Met]) -> None:
    """Keep what is not used at or below a place, the first of each field and how many there are."""
    if isinstance(value, Element):
        value = _content(value)
    if isinstance(value, dict) and level.inner.keys() - {"[]"}:
        rows = [(key, f"{name}.{_named(key)}" if name else _named(key), inner) for key, inner in value.items()]
    elif isinstance(value, list) and "[]" in level.inner:
        rows = [(index, f"{name}[]", inner) for index, inner in enumerate(value)]
    else:
        rows = []
        if level.inner and level.row is None and value is not None:  # of another shape than any row of the table
            _add(met, name, _Met(path, value, None, tuple(level.inner), "of another shape"))
    for key, field, inner in rows:
        below = level.next("[]" if isinstance(key, int) else key)
        row = None if below is None else below.row
        if below is None or (row is not None and row[0] != "used"):
            _add(met, field, _Met((*path, key), inner, row, tuple(level.inner)))
        elif below.inner:
            _walk(inner, below, (*path, key), field, met)


def _add(met: dict[str, _Met], field: str, entry: _Met) -> None:
    if field in met:
        met[field].count += 1
    else:
        met[field] = entry


def notes_of(document: Document, table: FieldTable, issues: Iterable[Issue] = ()) -> tuple[str, ...]:
    """What stands in a document and is not used, in words.

    Args:
        document: a file; of XML its root element.
        table: what becomes of each field.
        issues: what else is wrong with it.

    Raises:
        InputError: faults, or fields that are refused; all of them are listed.
    """
    met: dict[str, _Met] = {}
    _walk(document.data, _levels(table), (), "", met)
    others = table.get(ANY_OTHER, ("refused", ""))[0]
    issues = list(issues)
    paths = {issue.path for issue in issues}
    listed: list[str] = []
    unknown: list[str] = []
    for field, entry in met.items():
        times = "" if entry.count == 1 else f", {entry.count} times"
        if entry.path in paths:
            continue
        if entry.row is None and others == "refused":
            allowed = nearest_text(str(entry.path[-1]) if entry.path else "", entry.siblings)
            issues.append(Issue(entry.path, entry.message, value_text(entry.value), allowed))
        elif entry.row is None:
            unknown.append(f"{field} ({value_text(entry.value)}{times})")
        elif entry.row[0] == "noted":
            listed.append(f"{field} ({entry.row[1]}{times})")
        elif entry.value:
            issues.append(Issue(entry.path, f"not covered: {entry.row[1]}", value_text(entry.value)))
    document.refuse(issues)
    return (*named("not used", listed), *named("not used, and not known to this reader", unknown))


def named(words: str, fields: Sequence[str]) -> tuple[str, ...]:
    """A note that names fields; none without any."""
    hidden = len(fields) - MOST_NAMED
    more = f", and {hidden} more" if hidden > 0 else ""
    return (f"{words}: {', '.join(fields[:MOST_NAMED])}{more}",) if fields else ()


Value = TypeVar("Value")

SHOWN = 12
"""Names of fields in one note."""


Fields = Mapping[str, FieldTable]
"""The fields of a format by level (`node`, `column`, ...), and by name."""


def used(meaning: str) -> FieldRow:
    return "used", meaning


def noted(meaning: str) -> FieldRow:
    return "noted", meaning


def refused(meaning: str) -> FieldRow:
    return "refused", meaning


def listed(fields: Fields) -> FieldTable:
    """One table of all levels; what is in none is noted."""
    rows = {f"{name} ({level})": row for level, table in fields.items() for name, row in table.items()}
    return {**rows, ANY_OTHER: noted("its name, and the file")}


def bare(name: str) -> str:
    """A name without what writers differ in: case, blanks, hyphens and underscores."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


class FieldLog:
    """The fields that a file turned out to have.

    A field in no table gives a note; one that is written almost like a field that is used is refused, for it is one.
    """

    def __init__(self, fields: Fields, file: str) -> None:
        self.file = file
        self.name = FilePath(file).name
        self.problems: list[Problem] = []
        self._fields = fields
        self._seen: set[tuple[str, str]] = set()
        self._noted: list[str] = []
        self._unread: dict[tuple[str, str], list[str]] = {}
        self._unknown: dict[str, list[str]] = {}

    def meet(self, level: str, name: str, *, line: int | None = None) -> None:
        """Remember that the file has this field."""
        if (level, name) in self._seen:
            return
        self._seen.add((level, name))
        fields = self._fields.get(level, {})
        field = fields.get(name)
        shown = value_text(name)
        if field is None:
            like = [other for other, entry in fields.items() if entry[0] == "used" and bare(other) == bare(name)]
            if like:
                self.refuse(f"{level} {shown} is not known", allowed=f"did you mean {like[0]}?", line=line)
            else:
                self._unknown.setdefault(level, []).append(shown)
        elif field[0] == "refused":
            self.refuse(f"{level} {shown} cannot be read", allowed=field[1], line=line)
        elif field[0] == "noted":
            self._unread.setdefault((level, field[1]), []).append(shown)

    def seen(self, level: str, name: str) -> bool:
        return (level, name) in self._seen

    def note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.append(text)

    def refuse(
        self, message: str, *, value: object = None, allowed: str | None = None, line: int | None = None
    ) -> None:
        shown = None if value is None else value_text(value)
        self.problems.append(Problem(message, file=self.file, line=line, value=shown, allowed=allowed))

    def attempt(self, step: Callable[[], Value]) -> Value | None:
        """Result of a step, or None with what it refuses kept."""
        try:
            return step()
        except InputError as error:
            self.problems += error.problems
            return None

    def settle(self) -> tuple[str, ...]:
        """The notes.

        Raises:
            InputError: everything that was refused, up to fifty problems.
        """
        if self.problems:
            hidden = len(self.problems) - 50
            more = [Problem(f"{hidden} further problems", file=self.file)] if hidden > 0 else []
            raise InputError([*self.problems[:50], *more])
        unread = (
            f"{level} {', '.join(names)} of {self.name} {'was' if len(names) == 1 else 'were'} not read: {why}"
            for (level, why), names in self._unread.items()
        )
        return (
            *self._noted,
            *unread,
            *(self._unknown_note(level, names) for level, names in self._unknown.items()),
        )

    def _unknown_note(self, level: str, names: list[str]) -> str:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        shown = ", ".join(names[:SHOWN]) + more
        verb = "is not understood and was not read" if len(names) == 1 else "are not understood and were not read"
        return f"{level} {shown} of {self.name} {verb}"


Result = TypeVar("Result")
File = TypeVar("File")


VERSION: Path = ("schema_version",)


def is_version(data: object) -> bool:
    """Whether a document says of what version it is, be it one that is read or not."""
    version = data.get(*VERSION) if isinstance(data, dict) else None
    return isinstance(version, int) and not isinstance(version, bool)


def fitting(shape: type[Value] | TypeAdapter[Value], raw: object) -> Value | None:
    """A section of a document that has faults elsewhere, in its shape; None if it has some itself."""
    try:
        adapter = shape if isinstance(shape, TypeAdapter) else TypeAdapter(shape)
        return adapter.validate_json(json.dumps(raw))
    except ValidationError:
        return None


def within(section: str, step: Callable[[], Result]) -> Result:
    """Run a step whose problems have paths relative to a section."""
    try:
        return step()
    except InputError as error:
        raise InputError(
            [
                problem
                if problem.file is not None
                else replace(problem, path=f"{section}.{problem.path}" if problem.path else section)
                for problem in error.problems
            ]
        ) from None


class Findings:
    """Faults of a file, problems of the files it refers to, and notes on how these were read.

    `infeasible` holds reasons why no plan satisfies a file that has no faults.
    """

    def __init__(self) -> None:
        self.issues: list[Issue] = []
        self.infeasible: list[Issue] = []
        self._elsewhere: list[Problem] = []
        self.notes: list[str] = []

    def add(self, issues: Iterable[Issue]) -> None:
        """Keep faults, but not a second time at a path where the schema already complained."""
        paths = {issue.path for issue in self.issues}
        self.issues += [issue for issue in issues if issue.path not in paths]

    def note(self, text: str) -> None:
        """Keep a note for people, once."""
        if text not in self.notes:
            self.notes.append(text)

    def shape(self, model: type[File], document: Document) -> File | None:
        """The document in the shape of a model, or None with its faults kept, so that more can be looked for."""
        value: File | None
        value, issues = codec.read(model, document.data)
        if issues:
            kind = document.data.get("kind") if isinstance(document.data, dict) else None
            issues = [said_removed(kind, issue) for issue in issues]
            # What is of another version fits in many places, for one reason.
            version = [issue for issue in issues if issue.path == VERSION and is_version(document.data)]
            self.add(version or issues)
        end_if_interrupted()
        return value

    def shaped(self, model: type[File], document: Document) -> File:
        """The document in the shape of a model.

        Raises:
            InputError: it does not have it; what was found so far is told as well.
        """
        return self.shape(model, document) or self.settled(document, None)

    def attempt(self, step: Callable[[], Result], around: Path, source: str | None = None) -> Result | None:
        """Result of `step`, or None with its problems kept.

        Args:
            step: may raise InputError.
            around: path of problems that have none of their own.
            source: a file whose problems are the fault of what stands at `around`.
        """
        try:
            return step()
        except InputError as error:
            issues = []
            for problem in error.problems:
                if problem.file is None:
                    path = parse_path(problem.path) if problem.path else around
                    issues.append(Issue(path, problem.message, problem.value, problem.allowed))
                elif problem.file == source:
                    issues.append(Issue(around, f"{problem.message} ({source})", problem.value, problem.allowed))
                else:
                    self._elsewhere.append(problem)
            self.add(issues)
            return None

    def clear_of(self, *sections: str) -> bool:
        """Whether nothing is wrong with the given sections, or with files they refer to."""
        return not self._elsewhere and not any(not issue.path or issue.path[0] in sections for issue in self.issues)

    def refuse(self, document: Document) -> None:
        """Raise InputError when anything was found, or the document has faults of its own."""
        wrong = self.issues or self._elsewhere or document.issues
        problems = document.problems([*self.issues, *self.infeasible]) + self._elsewhere
        if problems:
            raise InputError(problems, InputError.exit_code if wrong else InfeasibleError.exit_code)

    def settled(self, document: Document, built: Result | None) -> Result:
        """What was built of the document.

        Raises:
            InputError: anything was found, or the document has faults of its own.
        """
        self.refuse(document)
        if built is None:
            raise AssertionError("a file was neither built nor refused")
        return built


Model = TypeVar("Model", bound=BaseModel)


def read_checked(path: str | os.PathLike[str], model: type[Model]) -> Model:
    """The file as an instance of `model`.

    Raises:
        InputError: everything wrong with the file.
    """
    document, findings = parse_document(path), Findings()
    return findings.settled(document, findings.shaped(model, document))
