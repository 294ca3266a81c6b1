"""Circuits of a region by step: ports by hand, what the checker objects to, files that contradict themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import run
from tests.support.read_back.exports import READERS, check_export
from topoopt.core.errors import InputError
from topoopt.core.regional_circuits import StepCircuits, SwitchedSteps
from topoopt.core.result import Result
from topoopt.formats.patch_list import EXPORTER, switched_steps
from topoopt.formats.table import ExportOptions
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.regional_circuits import check_switched_steps

FIRST = [[0, 9, 0, 0], [9, 0, 0, 0], [0, 0, 0, 9], [0, 0, 9, 0]]
SECOND = [[0, 9, 9, 0], [9, 0, 0, 9], [9, 0, 0, 0], [0, 9, 0, 0]]


def solved(folder: Path) -> Result[Any, Any]:
    """Four servers with two ports each: pairs 0-1 and 2-3 twice, then 0-1, 0-2 and 1-3 once."""
    document = {
        "schema_version": 1,
        "kind": "regional-circuits",
        "name": "by-hand",
        "servers": 4,
        "ports": 2,
        "circuit_gbps": 8,
        "electrical_gbps": 0.001,
        "demands": [{"matrix": (1e6 * one).tolist()} for one in map(_array, (FIRST, SECOND))],
        "switching": {"delay_ms": 1},
    }
    file = folder / "region.yaml"
    file.write_text(json.dumps(document))
    found = solve(read_instance(file), SolveOptions())
    assert isinstance(found, Result)
    assert found.check.ok
    return found


def _array(rows: list[list[int]]):  # type: ignore[no-untyped-def]
    import numpy as np

    return np.array(rows, dtype=float)


def test_ports_by_hand(tmp_path: Path) -> None:
    """Ports 0 and 1 are those of server 0, and so on; the first circuit between 0 and 1 stays."""
    solution = solved(tmp_path)
    made = switched_steps(solution.figures)
    assert made.circuits == ((0, 2), (1, 3), (4, 6), (5, 7), (1, 4), (3, 6))
    assert made.steps == (
        StepCircuits(0, 4_500_000, (0, 1, 2, 3), (), (0, 1, 2, 3)),
        StepCircuits(1_000_000, 9_000_000, (0, 4, 5), (1, 2, 3), (4, 5)),
    )
    export = EXPORTER.build(solution, ExportOptions())
    check_export("patch-list", export)
    text = dict(export.files)["patch-list.txt"].decode()
    assert "Step 1: 3 circuits; before it 3 to disconnect, 2 to connect" in text
    assert "  connect       4 -    7    server1 eth2 - server3 eth1" in text


WRONG: dict[str, Callable[[SwitchedSteps], SwitchedSteps]] = {
    "a port twice": lambda made: replace(made, circuits=((0, 2), (0, 3), *made.circuits[2:])),
    "other circuits": lambda made: replace(made, circuits=((0, 4), (1, 5), (2, 6), (3, 7), *made.circuits[4:])),
    "changes that do not lead": lambda made: replace(
        made, steps=(made.steps[0], replace(made.steps[1], disconnect=(1,)))
    ),
    "more circuits are set": lambda made: SwitchedSteps(
        (*made.circuits, (0, 3), (2, 6)),
        (made.steps[0], replace(made.steps[1], lit=(4, 6, 7), disconnect=(0, 1, 2, 3), connect=(4, 6, 7))),
    ),
    "1 steps": lambda made: replace(made, steps=made.steps[:1]),
}


@pytest.mark.parametrize("message", WRONG)
def test_the_checker_objects(message: str, tmp_path: Path) -> None:
    solution = solved(tmp_path)
    made = switched_steps(solution.figures)
    assert check_switched_steps(solution, made) == ()
    assert message in " ".join(map(str, check_switched_steps(solution, WRONG[message](made))))


SPOILT: dict[str, tuple[str, Callable[[str], str]]] = {
    "a port of the switch is used twice": ("circuits.csv", lambda text: text.replace("2,2,4", "2,1,4")),
    "changes that do not lead to the step": ("steps.csv", lambda text: text.replace("2 3 4,5 6", "2 3,5 6")),
    "a circuit that is not told": ("steps.csv", lambda text: text.replace(",1 5 6,", ",1 5 9,")),
    "not the columns of this file": ("steps.csv", lambda text: text.replace("stall_ns", "stall")),
    "circuits that are not numbered from 1": ("circuits.csv", lambda text: text.replace("\n2,2", "\n7,2")),
}


@pytest.mark.parametrize("message", SPOILT)
def test_files_that_contradict_themselves(message: str, tmp_path: Path) -> None:
    for name, data in EXPORTER.build(solved(tmp_path), ExportOptions()).files:
        text = data.decode()
        spoilt = SPOILT[message][1](text) if name == SPOILT[message][0] else text
        assert name != SPOILT[message][0] or spoilt != text
        (tmp_path / name).write_text(spoilt)
    with pytest.raises(InputError, match=message):
        READERS["patch-list"](tmp_path)


def test_from_the_command_line(tmp_path: Path) -> None:
    """Names of hosts; a previous solution is refused."""
    solved(tmp_path)
    out, instance = tmp_path / "out", tmp_path / "region.yaml"
    assert run("solve", instance, "--output", out).code == 0
    told = run("export", out / "solution.json", "--to", "patch-list", "-o", tmp_path / "patches", "--json")
    assert told.code == 0, told.stderr
    assert sorted(Path(one).name for one in json.loads(told.stdout)["files"]) == [
        "NOTES.txt", "circuits.csv", "patch-list.txt", "steps.csv",
    ]  # fmt: skip
