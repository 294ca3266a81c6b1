"""A study that is ended before all runs are done: what is said, the exit code, and that the same command goes on."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli_cases import process, run_apart
from tests.support.sized_instances import topology
from tests.support.study_cases import routing, study
from topoopt.studies.ending import SAID
from topoopt.studies.store import Store

HOURS = {"time_limit_s": 7200, "wall_s": 7200, "memory_mib": 4096}


@pytest.fixture
def file(written: Callable[..., Path]) -> Path:
    """Two runs of no time, then one that takes hours."""
    endless = {"schema_version": 1, "name": "endless", **topology(512)}
    quick = {"instance": routing(), "seeds": {"count": 2}}
    return written(study(quick, {"instance": endless, "methods": ["portfolio"], "limits": HOURS}))


def test_a_limit_for_the_whole_study(tmp_path: Path, file: Path) -> None:
    """Exit code 4 with the table of what is done; the same command goes on with what is missing."""
    words = ("study", "run", file, "--out", tmp_path / "out", "--jobs", 1, "--json")
    none = run_apart(*words, "--time-limit", 0)
    assert (none.code, none.json["status"], none.json["done"], none.json["missing"]) == (4, "time", 0, 3)
    some, more = (run_apart(*words, "--time-limit", 6).json for _ in range(2))
    assert some["status"] == more["status"] == "time"
    assert some["done"] + some["missing"] == more["done"] + more["missing"] == 3
    assert some["ran"] == some["done"] <= more["done"] == some["done"] + more["ran"] <= 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_runs_in_flight(tmp_path: Path, file: Path, number: signal.Signals) -> None:
    """Said at once; exit code 130, and what was done before is in the table."""
    out = tmp_path / "out"
    with process("study", "run", file, "--out", out, "--jobs", 1, "--json") as child:
        deadline = time.monotonic() + 300.0
        while not (out.exists() and len(Store(out).finished()) == 2 and list((out / "unfinished").iterdir())):
            assert time.monotonic() < deadline, "the endless run never began"
            assert child.poll() is None
            time.sleep(0.05)
        child.send_signal(number)
        stdout, stderr = child.communicate(timeout=300)
    stated = json.loads(stdout)
    assert (child.returncode, stated["status"], stated["done"], stated["missing"]) == (130, "interrupted", 2, 1)
    assert SAID in stderr
    assert (out / "results.parquet").exists()
