"""Fields of files that are met one after the other: tables by level, and one rule for what is in none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from topoopt.core.errors import InputError, Problem
from topoopt.files.faults import value_text
from topoopt.files.reader_fields import ANY_OTHER, FieldRow, FieldTable

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
        self.name = Path(file).name
        self.problems: list[Problem] = []
        self._fields = fields
        self._seen: set[tuple[str, str]] = set()
        self._noted: list[str] = []
        self._unknown: dict[str, list[str]] = {}

    def meet(self, level: str, name: str, *, line: int | None = None) -> None:
        """Remember that the file has this field."""
        if (level, name) in self._seen:
            return
        self._seen.add((level, name))
        known = self._fields.get(level, {})
        field = known.get(name)
        shown = value_text(name)
        if field is None:
            like = [other for other, entry in known.items() if entry[0] == "used" and bare(other) == bare(name)]
            if like:
                self.refuse(f"{level} {shown} is not known", allowed=f"did you mean {like[0]}?", line=line)
            else:
                self._unknown.setdefault(level, []).append(shown)
        elif field[0] == "refused":
            self.refuse(f"{level} {shown} cannot be read", allowed=field[1], line=line)
        elif field[0] == "noted":
            self.note(f"{level} {shown} of {self.name} was not read: {field[1]}")

    def seen(self, level: str, name: str) -> bool:
        """Whether the file has this field."""
        return (level, name) in self._seen

    def note(self, text: str) -> None:
        """Keep a note for people."""
        if text not in self._noted:
            self._noted.append(text)

    def refuse(
        self, message: str, *, value: object = None, allowed: str | None = None, line: int | None = None
    ) -> None:
        """Keep a problem of the file."""
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
        return (*self._noted, *(self._unknown_note(level, names) for level, names in self._unknown.items()))

    def _unknown_note(self, level: str, names: list[str]) -> str:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        shown = ", ".join(names[:SHOWN]) + more
        verb = "is not understood and was not read" if len(names) == 1 else "are not understood and were not read"
        return f"{level} {shown} of {self.name} {verb}"
