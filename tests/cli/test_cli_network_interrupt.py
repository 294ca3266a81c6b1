"""Ctrl-C in the methods of network problems: the best so far is written, and the exit code is 130."""

from __future__ import annotations

import time
from pathlib import Path
from signal import SIGINT
from typing import Any

import pytest

from tests.support.cli_cases import run, searching, write

HEAD = {"schema_version": 1, "name": "case", "demand": {"family": "balanced-skew", "seed": 1}}
FINDING: dict[str, Any] = {**HEAD, "kind": "topology", "links": "unidirectional"}
ROUTING: dict[str, Any] = {**HEAD, "kind": "routing"}

# Each works for minutes if nobody stops it.
ENDLESS = [
    ({**FINDING, "servers": 12, "degree": 3}, "milp"),
    ({**FINDING, "servers": 11, "degree": 3}, "exact"),
    ({**FINDING, "servers": 40, "degree": 4}, "portfolio"),
    ({**FINDING, "servers": 128, "degree": 8}, "portfolio"),
    ({**ROUTING, "topology": {"family": "random-regular", "servers": 128, "degree": 4, "links": "unidirectional"}},
     "simplex"),
    ({**ROUTING, "topology": {"family": "random-regular", "servers": 200, "degree": 4, "links": "unidirectional"}},
     "frank-wolfe"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "method"), ENDLESS, ids=lambda value: value if isinstance(value, str) else "")
def test_interrupt_keeps_the_best(tmp_path: Path, document: dict[str, Any], method: str) -> None:
    """A signal a second after the search began: the file is there, the checker takes it, no traceback."""
    instance = write(tmp_path, document)
    with searching("solve", instance, "--output", tmp_path / "out", "--json", "--method", method) as child:
        time.sleep(1.5)
        child.send_signal(SIGINT)
        stdout, stderr = child.communicate(timeout=600)
    assert child.returncode == 130, stdout + stderr
    assert '"stopped_by": "interrupted"' in stdout
    assert "Traceback" not in stderr
    checked = run("check", instance, tmp_path / "out" / "solution.json", "--json")
    assert (checked.code, checked.json["ok"]) == (0, True)


@pytest.mark.parametrize("method", ["pdlp", "ipx"])
def test_limits_hold_where_solvers_are_slow(tmp_path: Path, method: str) -> None:
    """A limit of a second on a program that takes far longer: exit code 4 with a routing that passes the check."""
    topology = {"family": "random-regular", "servers": 160, "degree": 4, "links": "unidirectional"}
    instance = write(tmp_path, {**ROUTING, "topology": topology})
    options = ("--output", tmp_path / "out", "--json", "--method", method, "--time-limit", 1)
    result = run("solve", instance, *options)
    assert result.code == 4
    assert result.json["stopped_by"] == "time"
    assert run("check", instance, tmp_path / "out" / "solution.json").code == 0
