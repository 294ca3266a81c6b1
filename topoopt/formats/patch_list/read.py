"""Reader of patch lists that stay: which input of which optical switch goes to which output."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem
from topoopt.files.untrusted import parsing, read_text

Circuit = tuple[int, int, int]

MAX_BYTES = 256 * MIB

LINE = re.compile(r"    in +(\d+) -> out +(\d+) {4}(\S+) (\S+) -> (\S+) (\S+)")
SWITCH = re.compile(r"  optical switch (\d+)")
TITLE = re.compile(r"(Circuits|Disconnect|Connect): (\d+)")


def read_patch_list(folder: Path) -> dict[str, frozenset[Circuit]]:
    """Circuits by file (`circuits`, and `disconnect` and `connect` where there are changes).

    Raises:
        InputError: a port used twice, a file and the text for people that differ, changes that do not lead to the
            circuits, or a row that is none.
    """
    found = {file.stem: _read_csv(file) for file in sorted(folder.glob("*.csv"))}
    people = _read_text(folder / "patch-list.txt")
    tables = {name: frozenset((row[0], row[1], row[2]) for row in rows) for name, rows in found.items()}
    for name, rows in found.items():
        if people.get(name, set()) != rows:
            raise InputError([Problem("the text says something else", file=f"{name}.csv")])
    circuits = tables.get("circuits", frozenset())
    for end in (1, 2):
        ports = [(circuit[0], circuit[end]) for circuit in circuits]
        if len(set(ports)) < len(ports):
            raise InputError([Problem("a port of a switch is used twice", file="circuits.csv")])
    if tables.get("disconnect", frozenset()) & circuits or not tables.get("connect", frozenset()) <= circuits:
        raise InputError([Problem("the changes do not lead to the circuits", file="connect.csv")])
    return tables


Row = tuple[int, int, int, str, str, str, str]


def _read_csv(file: Path) -> set[Row]:
    text = read_text(file, MAX_BYTES)
    with parsing(file.name, "a list of circuits"):
        rows = list(csv.reader(text.splitlines(keepends=True)))[1:]
        made = {_row(row[:3], row[3:]) for row in rows}
    if len(made) < len(rows):
        raise InputError([Problem("a circuit more than once", file=file.name)])
    return made


def _row(numbers: list[str], names: list[str]) -> Row:
    switch, into, out = map(int, numbers)
    from_host, from_interface, to_host, to_interface = names
    return switch, into, out, from_host, from_interface, to_host, to_interface


def _read_text(file: Path) -> dict[str, set[Row]]:
    found: dict[str, set[Row]] = {}
    counts: dict[str, int] = {}
    title, switch = "", ""
    for line in read_text(file, MAX_BYTES).splitlines():
        if match := TITLE.fullmatch(line):
            title = match[1].lower()
            found[title], counts[title] = set(), int(match[2])
        elif match := SWITCH.fullmatch(line):
            switch = match[1]
        elif match := LINE.fullmatch(line):
            found[title].add(_row([switch, match[1], match[2]], list(match.groups()[2:])))
        elif line:
            raise InputError([Problem("a line that is none", file=file.name, value=line[:80])])
    if counts != {name: len(rows) for name, rows in found.items()}:
        raise InputError([Problem("another number of circuits than it says", file=file.name)])
    return found
