"""Faults of the surroundings that kill nothing: two runners in one folder, a clock that jumps."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fuzz.test_kills import PATIENCE_S, leftovers
from tests.support.cli_cases import run
from tests.support.paths import INSTANCES, ROOT
from tests.support.study_cases import routing, study
from topoopt.studies.runner import collect_rows

RUNS = 24

RUNNER = """
import sys
from topoopt.studies.expand import read_study
from topoopt.studies.runner import collect_rows, run_study
tally = run_study(read_study(sys.argv[1]), sys.argv[2], jobs=1, program="tests.support.misbehave:quick")
assert not tally['failed'], tally
"""


def test_two_runners_in_one_folder(tmp_path: Path) -> None:
    """Both come to their end, and every run is there once, with the figure that belongs to its seed."""
    file, out = tmp_path / "study.json", tmp_path / "out"
    file.write_text(json.dumps(study({"instance": routing(), "seeds": {"count": RUNS}})))
    words = [sys.executable, "-c", RUNNER, str(file), str(out)]
    both = [
        subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(2)
    ]
    for process in both:
        text = process.communicate(timeout=PATIENCE_S)[0]
        assert process.returncode == 0, text
    found = collect_rows(out)
    assert len(found) == RUNS
    assert {row["seed"]: row["objective"] for row in found} == {seed: 1.0 + seed for seed in range(RUNS)}
    assert not leftovers(out)
    assert not list((out / "unfinished").iterdir())


@pytest.mark.parametrize("name", ["networks/k4-4", "placement/branches-3"])
def test_a_clock_that_jumps(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of day leaps by years, forth and back, at every look: the plan and the exit code are the same."""
    words = ("solve", INSTANCES / f"{name}.yaml", "--seed", 1, "--time-limit", 600, "--output")
    assert run(*words, tmp_path / "calm").code == 0
    leaps = itertools.cycle([1e9, 0.0, -1e9, 5e8])
    true = time.time
    monkeypatch.setattr(time, "time", lambda: true() + next(leaps))
    assert run(*words, tmp_path / "jumping").code == 0
    for file in ("solution.json", "report.html"):
        assert (tmp_path / "jumping" / file).read_bytes() == (tmp_path / "calm" / file).read_bytes()
