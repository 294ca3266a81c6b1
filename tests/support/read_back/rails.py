"""Reader of patch lists of rails: groups of circuits, and from when to when each is being set or lit."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem
from topoopt.core.switching import PortUse, RailCircuit, RailPhase
from topoopt.files.untrusted import parsing, read_text
from topoopt.formats.patch_list import GROUP_HEAD, GROUPS_FILE, PHASE_HEAD, PHASES_FILE

MAX_BYTES = 256 * MIB


PhasedCircuits = tuple[tuple[tuple[PortUse, frozenset[RailCircuit]], ...], tuple[RailPhase, ...]]
"""Groups by number from 0, what each carries and its circuits; and the phases in their order."""


def read_timetable(folder: Path) -> PhasedCircuits:
    """Circuits by group, and phases.

    Raises:
        InputError: a port used twice in a phase, phases with a gap, groups that are not told, or a row that is none.
    """
    rows = list(_rows(folder / GROUPS_FILE, GROUP_HEAD))
    with parsing(GROUPS_FILE, "a list of circuits"):
        made = [(int(row[0]) - 1, PortUse(row[1]), (int(row[2]) - 1, int(row[3]) - 1, int(row[4]) - 1)) for row in rows]
    uses = sorted({(group, use) for group, use, _ in made})
    circuits = [frozenset(one for number, _, one in made if number == group) for group, _ in uses]
    if [group for group, _ in uses] != list(range(len(uses))) or sum(map(len, circuits)) != len(made):
        text = "a circuit more than once, or groups that are not numbered from 1, each of one use"
        raise InputError([Problem(text, file=GROUPS_FILE)])
    with parsing(PHASES_FILE, "a list of phases"):
        phases = tuple(
            RailPhase(int(begin), int(end), *(tuple(int(word) - 1 for word in words.split()) for words in both))
            for begin, end, *both in _rows(folder / PHASES_FILE, PHASE_HEAD)
        )
    _refuse(circuits, phases)
    return tuple((use, one) for (_, use), one in zip(uses, circuits, strict=True)), phases


def _rows(file: Path, head: tuple[str, ...]) -> Iterator[list[str]]:
    first, *rows = list(csv.reader(read_text(file, MAX_BYTES).splitlines(keepends=True))) or [[]]
    if tuple(first) != head or any(len(row) != len(head) for row in rows):
        raise InputError([Problem("not the columns of this file", file=file.name, allowed=",".join(head))])
    yield from rows


def _refuse(groups: list[frozenset[RailCircuit]], phases: tuple[RailPhase, ...]) -> None:
    """Ports once in a phase, phases without a gap."""
    at = 0
    for one in phases:
        if one.begin_ns != at or one.end_ns <= at:
            raise InputError([Problem("phases leave a gap, or overlap", file=PHASES_FILE, value=str(one.begin_ns))])
        at, used = one.end_ns, (*one.lit, *one.dark)
        if not set(used) <= set(range(len(groups))):
            raise InputError([Problem("a group that has no circuits", file=PHASES_FILE, value=str(one.begin_ns))])
        ports = [(rail, port) for group in used for rail, *ends in groups[group] for port in ends]
        if len(set(ports)) < len(ports):
            text = "a port of a switch is used twice in a phase"
            raise InputError([Problem(text, file=PHASES_FILE, value=str(one.begin_ns))])
