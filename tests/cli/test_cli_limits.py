"""A time limit holds for the whole of a solve, of every kind and size: search, bounds, baselines, check and files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import run, run_apart, write
from tests.support.paths import ROOT
from tests.support.sized_instances import LARGE, REFUSED, SMALL

SLOWER = 30
"""How much slower than ours a machine may be before the light test says anything."""


@pytest.mark.parametrize("name", SMALL)
def test_a_limit_holds(tmp_path: Path, name: str) -> None:
    """A second for everything: a plan that passes the check, or a word that there was no time for one."""
    document: dict[str, Any] = {"schema_version": 1, "name": "case", **SMALL[name]}
    instance = write(tmp_path, document)
    result = run("solve", instance, "--output", tmp_path / "out", "--time-limit", 1, "--json")
    assert result.code in (0, 4, 5), result.stderr
    assert result.json["wall_s"] < SLOWER * 2.05
    if result.code != 5:
        assert run("check", instance, tmp_path / "out" / "solution.json").code == 0


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_file_holds_is_refused(tmp_path: Path, name: str) -> None:
    """Before anything is searched, and before routes of a thousand links each are made."""
    instance = write(tmp_path, {"schema_version": 1, "name": "case", **REFUSED[name]})
    result = run("solve", instance, "--output", tmp_path / "out", "--time-limit", 600)
    assert result.code == 2
    assert "than a solution file holds" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def byte_code() -> None:
    """What an installation has: modules are not compiled again at every start."""
    folders = [str(ROOT / name) for name in ("topoopt", "solvers", "formulations")]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run([sys.executable, "-m", "compileall", "-q", *folders], check=True, env=environment)


@pytest.mark.heavy
@pytest.mark.usefixtures("byte_code")
@pytest.mark.parametrize("limit_s", [0.1, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_a_limit_holds_exactly(tmp_path: Path, name: str, limit_s: float) -> None:
    """On a machine with nothing else to do: limit + 1 s + 5 %, start to end."""
    document: dict[str, Any] = {"schema_version": 1, "name": "case", **{**SMALL, **LARGE}[name]}
    instance = write(tmp_path, document)
    began = time.monotonic()
    result = run_apart("solve", instance, "--output", tmp_path / "out", "--time-limit", limit_s)
    wall_s = time.monotonic() - began
    print(f"{name}: limit {limit_s} s, {wall_s:.2f} s, exit code {result.code}")
    assert result.code in (0, 4, 5), result.stderr
    assert wall_s <= limit_s * 1.05 + 1.0
