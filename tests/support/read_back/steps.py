"""Reader of patch lists of steps: circuits by number, and which are lit, cut and set in each step."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem
from topoopt.core.regional_circuits import StepCircuits, SwitchedSteps
from topoopt.files.untrusted import parsing, read_text
from topoopt.formats.patch_list import CIRCUIT_HEAD, CIRCUITS_FILE, STEP_HEAD, STEPS_FILE

MAX_BYTES = 256 * MIB


def read_steps(folder: Path) -> SwitchedSteps:
    """Circuits and steps.

    Raises:
        InputError: a port used twice in a step, changes that do not lead from step to step, circuits that are not told,
            or a row that is none.
    """
    with parsing(CIRCUITS_FILE, "a list of circuits"):
        rows = [tuple(int(number) for number in row[:3]) for row in _rows(folder / CIRCUITS_FILE, CIRCUIT_HEAD)]
    circuits = tuple((port - 1, peer - 1) for _, port, peer in rows)
    if [row[0] for row in rows] != list(range(1, len(rows) + 1)):
        raise InputError([Problem("circuits that are not numbered from 1", file=CIRCUITS_FILE)])
    with parsing(STEPS_FILE, "a list of steps"):
        steps = tuple(
            StepCircuits(int(stall), int(transfer), *(tuple(int(n) - 1 for n in words.split()) for words in lists))
            for _, stall, transfer, *lists in _rows(folder / STEPS_FILE, STEP_HEAD)
        )
    made = SwitchedSteps(circuits, steps)
    _refuse(made)
    return made


def _rows(file: Path, head: tuple[str, ...]) -> Iterator[list[str]]:
    first, *rows = list(csv.reader(read_text(file, MAX_BYTES).splitlines(keepends=True))) or [[]]
    if tuple(first) != head or any(len(row) != len(head) for row in rows):
        raise InputError([Problem("not the columns of this file", file=file.name, allowed=",".join(head))])
    yield from rows


def _refuse(made: SwitchedSteps) -> None:
    """Ports once in a step, changes that lead to what is lit."""
    before: set[int] = set()
    for place, one in enumerate(made.steps):
        lit = set(one.lit)
        if not lit <= set(range(len(made.circuits))):
            raise InputError([Problem("a circuit that is not told", file=STEPS_FILE, value=str(place))])
        if set(one.connect) != lit - before or set(one.disconnect) != before - lit:
            raise InputError([Problem("changes that do not lead to the step", file=STEPS_FILE, value=str(place))])
        ports = [port for number in one.lit for port in made.circuits[number]]
        if len(set(ports)) < len(ports):
            text = "a port of the switch is used twice in a step"
            raise InputError([Problem(text, file=STEPS_FILE, value=str(place))])
        before = lit
