"""A page as data: an answer, facts, tables and plots. HTML, terminal and JSON are three renderings of it.

Values stay plain data; a block says how a value is written. So a figure has one name and one wording everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from markupsafe import Markup

Wording = Callable[[Any], str]


@dataclass(frozen=True)
class Fact:
    """One figure.

    Attributes
    ----------
    key : in JSON; empty where the head of the result has the figure.
    name : for people; empty for a fact that is for programs alone.
    value : plain data.
    text : how the value is written.
    detail : a line of explanation on the card.
    card : whether it is one of the cards at the top of the page.
    css : colour class of the card: good, bad, claimed or none.
    """

    key: str
    name: str
    value: Any
    text: Wording = str
    detail: str = ""
    card: bool = True
    css: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table: key in JSON, heading for people, how a value is written, and whether it is a number.

    `html` writes the cell of a page where it is more than text, such as a bar; the terminal leaves such a column out.
    """

    key: str
    heading: str
    text: Wording = str
    number: bool = False
    html: Callable[[Any], Markup] | None = None


@dataclass(frozen=True)
class Table:
    """Rows of plain values, in the order of the columns.

    Attributes
    ----------
    key : in JSON.
    columns, rows : as many values in a row as there are columns; without headings the table has no head.
    title, note : above the table and below it.
    members : index of a row -> rows that it stands for, folded away on the page.
    totals : rows below a rule.
    max_rows : rows on the page; the rest is counted.
    terminal_rows : rows in the terminal; 0 for no table there.
    """

    key: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    note: str = ""
    members: Mapping[int, Sequence[Sequence[Any]]] = field(default_factory=dict)
    totals: Sequence[Sequence[Any]] = ()
    max_rows: int = 60
    terminal_rows: int = 8

    @property
    def headed(self) -> bool:
        """Whether a column has a heading."""
        return any(column.heading for column in self.columns)


@dataclass(frozen=True)
class Plot:
    """A drawing, made when a page is rendered; `title` stands above it, `caption` below."""

    svg: Callable[[], Markup]
    caption: str = ""
    title: str = ""


@dataclass(frozen=True)
class Side:
    """Blocks side by side where the screen is wide."""

    blocks: Sequence[Block]


Block = Table | Plot | Side | str
"""A string is a paragraph, for the page alone."""


@dataclass(frozen=True)
class Swatch:
    """An entry of a legend: a line, box or dot in the colour of a CSS class, and what it stands for."""

    css: str
    text: str
    shape: Literal["line", "box", "dot"] = "line"


@dataclass(frozen=True)
class Section:
    """Blocks under a title; a section without blocks is left out of the page."""

    title: str
    blocks: Sequence[Block]
    note: str = ""
    legend: Sequence[Swatch] = ()

    @property
    def anchor(self) -> str:
        """The title as a fragment of an address."""
        return self.title.lower().replace(" ", "-")


@dataclass(frozen=True)
class Page:
    """What people and programs see of a result.

    Attributes
    ----------
    subtitle : the size of the problem, in one line.
    answer : one sentence that answers the question of the instance.
    cause : the second sentence: what the objective mostly consists of, or what limits it.
    facts : the first one is the objective.
    sections : in the order of the page; one without blocks is left out.
    provenance : (name, value) of what is particular about the instance.
    next_commands : (command, what it answers), without the name of the solution file.
    """

    subtitle: str
    answer: str
    facts: Sequence[Fact]
    sections: Sequence[Section]
    provenance: Sequence[tuple[str, str]] = ()
    cause: str = ""
    next_commands: Sequence[tuple[str, str]] = ()

    def tables(self) -> Iterable[Table]:
        for section in self.sections:
            yield from _tables(section.blocks)


def _tables(blocks: Iterable[Block]) -> Iterable[Table]:
    for block in blocks:
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Side):
            yield from _tables(block.blocks)
