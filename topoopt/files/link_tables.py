"""Tables of links: one link a line, with a first line that names the columns, or of two or three columns without."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from topoopt.files.graphml_files import MAX_TEXT, RawGraph
from topoopt.files.known_fields import FieldLog, bare, used
from topoopt.files.link_attributes import LINK, NetworkUse
from topoopt.files.reader_fields import FieldTable
from topoopt.files.untrusted import parsing, read_text

SOURCES = ("source", "tail", "src", "from")
TARGETS = ("target", "head", "dst", "destination", "to")
COUNTS = ("links", "count", "parallel")

COLUMNS: FieldTable = {
    **{name: used("tail of the link") for name in SOURCES},
    **{name: used("head of the link") for name in TARGETS},
    **{name: used("as multiplicity") for name in COUNTS},
}
"""Columns besides those that attributes of links name (`link_attributes`)."""

THIRD: Mapping[NetworkUse, str] = {NetworkUse.LINKS: "multiplicity", NetworkUse.RATES: "rate"}
"""What a third column without a name is."""

_HEADER = "other columns need a first line with their names: source, target, capacity, ..."
ALLOWED: Mapping[NetworkUse, str] = {
    NetworkUse.LINKS: f"two numbers of servers, and a number of parallel links if more than one; {_HEADER}",
    NetworkUse.RATES: f"tail, head and a rate above 0 in GB/s; {_HEADER}",
}
"""What stands in a line of a table without names of columns."""


class Row(NamedTuple):
    """A line that is not empty: its number, and its cells."""

    line: int
    cells: tuple[str, ...]


def table_rows(path: str | os.PathLike[str], max_bytes: int, allowed: str | None = None) -> Iterator[Row]:
    """The lines of a table, parted by commas, semicolons, tabs or blanks, whichever the first has; # comments."""
    first, mark = True, None
    for number, raw in enumerate(read_text(path, max_bytes, allowed).splitlines(), start=1):
        text = raw.partition("#")[0].strip(" \r\n")
        if not text.strip(" \t,;"):
            continue
        if first:
            first, mark = False, next((sign for sign in ",;\t" if sign in text), None)
        cells = text.split()
        if mark is not None:
            with parsing(os.fspath(path), "a table"):
                cells = next(csv.reader([text], delimiter=mark, skipinitialspace=True))
        yield Row(number, tuple(cell.strip() for cell in cells))


def column_of(names: tuple[str, ...], among: tuple[str, ...]) -> int | None:
    """Place of the column with one of some names; None where there is none."""
    return next((place for place, name in enumerate(names) if bare(name) in among), None)


def is_header(row: Row) -> bool:
    """Whether a line names columns, both ends of links among them."""
    return column_of(row.cells, SOURCES) is not None and column_of(row.cells, TARGETS) is not None


def read_link_table(path: str, log: FieldLog, use: NetworkUse) -> RawGraph:
    """A table of links, whose nodes are any names.

    Raises:
        InputError: lines that are none of links.
    """
    rows = list(table_rows(path, MAX_TEXT, "a list of links"))
    graph = RawGraph()
    if rows and is_header(rows[0]):
        _named(rows, graph, log)
    elif rows and not _is_bare_link(_parted(rows[0]), use) and not any(map(_begins_number, _parted(rows[0]))):
        text = "a first line of names without a column of tails or of heads"
        allowed = f"source and target, or one of {', '.join((*SOURCES[1:], *TARGETS[1:]))}"
        log.refuse(text, value=", ".join(rows[0].cells), allowed=allowed, line=rows[0].line)
    else:
        _bare(rows, graph, log, use)
    return graph


def _begins_number(cell: str) -> bool:
    return cell[:1].isdigit() or cell[:1] in "+-."


def _parted(row: Row) -> tuple[str, ...]:
    """Cells parted by any commas and blanks."""
    return tuple(cell for cell in re.split(r"[,;\s]+", " ".join(row.cells)) if cell)


def _named(rows: list[Row], graph: RawGraph, log: FieldLog) -> None:
    """Rows below a line of names."""
    header, tail, head = rows[0], column_of(rows[0].cells, SOURCES), column_of(rows[0].cells, TARGETS)
    assert tail is not None
    assert head is not None
    names: dict[int, str] = {}
    for place, name in enumerate(header.cells):
        if place in (tail, head):
            continue
        known = "multiplicity" if bare(name) in COUNTS else name
        if known in names.values():
            log.refuse("a column more than once", value=name, line=header.line)
        names[place] = known
        log.meet(LINK, known, line=header.line)
    for row in rows[1:]:
        if len(row.cells) != len(header.cells):
            allowed = f"{len(header.cells)} cells: {', '.join(header.cells)}"
            log.refuse("not a link", value=",".join(row.cells), allowed=allowed, line=row.line)
            continue
        data = {name: row.cells[place] for place, name in names.items() if row.cells[place]}
        graph.links.append((row.cells[tail], row.cells[head], data))


def _bare(rows: list[Row], graph: RawGraph, log: FieldLog, use: NetworkUse) -> None:
    """Rows of two ends and, if anything, one more column, whose meaning is that of the kind.

    Any commas and blanks may part them, as long as every end is a number.
    """
    third = THIRD[use]
    for row in rows:
        cells = _parted(row)
        if not _is_bare_link(cells, use):
            log.refuse("not a link", value=", ".join(row.cells), allowed=ALLOWED[use], line=row.line)
            continue
        data: dict[str, object] = {third: cells[2]} if len(cells) == 3 else {}
        graph.links.append((cells[0], cells[1], data))
    if graph.links and any(data for _, _, data in graph.links):
        log.meet(LINK, third)


def _is_bare_link(cells: tuple[str, ...], use: NetworkUse) -> bool:
    if use is NetworkUse.RATES:
        return len(cells) == 3
    return 2 <= len(cells) <= 3 and all(re.fullmatch(r"[0-9]{1,9}", cell, re.ASCII) for cell in cells)
