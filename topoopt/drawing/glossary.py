"""What the terms of the pages mean: one table, and the list of those that a page uses."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class GlossaryEntry:
    """An entry of the glossary.

    Attributes:
        name: how it stands in the list.
        spelt: regular expression of how it stands in a text.
        meaning: a sentence or two.
    """

    name: str
    spelt: str
    meaning: str

    @property
    def anchor(self) -> str:
        """Of the entry on a page."""
        return "term-" + re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


def _read() -> tuple[GlossaryEntry, ...]:
    text = files("topoopt.drawing").joinpath("glossary.csv").read_text(encoding="utf-8")
    return tuple(GlossaryEntry(row["term"], row["spelt"], row["meaning"]) for row in csv.DictReader(text.splitlines()))


TERMS = _read()
"""In the order of the alphabet."""

_SPELT = "|".join(f"(?P<t{place}>{term.spelt})" for place, term in enumerate(TERMS))
_EVERY = re.compile(rf"(?<![\w-])(?:{_SPELT})(?![\w-])")


def found_terms(text: str) -> Iterable[tuple[int, int, GlossaryEntry]]:
    """Where terms stand in a text: begin, end, entry."""
    for match in _EVERY.finditer(text):
        group = match.lastgroup
        if group is not None:
            yield match.start(), match.end(), TERMS[int(group[1:])]
