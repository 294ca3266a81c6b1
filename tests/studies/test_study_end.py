"""A study that is ended before all runs are done: what is said, the exit code, and that the same command goes on."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from solvers.stop import Stop
from tests.support.cli_cases import process, run_apart
from tests.support.sized_instances import topology
from tests.support.study_cases import routing, study
from topoopt.studies.execute import read_rows
from topoopt.studies.expand import read_study
from topoopt.studies.runner import SAID, collect_rows, run_study

HOURS = {"time_limit_s": 7200, "wall_s": 7200, "memory_mib": 4096}


@pytest.fixture
def file(written: Callable[..., Path]) -> Path:
    """Two runs of no time, then one that takes hours."""
    endless = {"schema_version": 1, "name": "endless", **topology(512)}
    quick = {"instance": routing(), "seeds": {"count": 2}}
    return written(study(quick, {"instance": endless, "methods": ["portfolio"], "limits": HOURS}))


def test_a_limit_for_the_whole_study(tmp_path: Path, file: Path) -> None:
    """Exit code 4 with the table of what is done; the same command goes on with what is missing."""
    words = ("study", "run", file, "--output", tmp_path / "out", "--jobs", 1, "--json")
    none = run_apart(*words, "--time-limit", 0)
    assert (none.code, none.json["status"], none.json["done"], none.json["missing"]) == (4, "time", 0, 3)
    some, more = (run_apart(*words, "--time-limit", 6).json for _ in range(2))
    assert some["status"] == more["status"] == "time"
    for one in (some, more):
        assert one["done"] + one["missing"] + one["failed"].get("interrupted", 0) == 3
    assert some["ran"] == some["done"] <= more["done"] == some["done"] + more["ran"] <= 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_runs_in_flight(tmp_path: Path, file: Path, number: signal.Signals) -> None:
    """Said at once; exit code 130, and what was done before is in the table."""
    out = tmp_path / "out"
    with process("study", "run", file, "--output", out, "--jobs", 1, "--json") as child:
        deadline = time.monotonic() + 300.0
        while not (out.exists() and len(read_rows(out)) == 2 and list((out / "unfinished").iterdir())):
            assert time.monotonic() < deadline, "the endless run never began"
            assert child.poll() is None
            time.sleep(0.05)
        child.send_signal(number)
        stdout, stderr = child.communicate(timeout=300)
    stated = json.loads(stdout)
    assert (child.returncode, stated["status"], stated["done"]) == (130, "interrupted", 2)
    assert stated["missing"] + stated["failed"].get("interrupted", 0) == 1
    assert SAID in stderr
    assert (out / "results.parquet").exists()


@pytest.mark.usefixtures("programs")
def test_runs_in_flight_keep_the_best_they_have(tmp_path: Path, written: Callable[..., Path]) -> None:
    """Who answers the first signal is in the table, who does not is killed by the second; both are done again."""
    groups = [{"instance": routing(name), "seeds": {"count": 1}} for name in ("polite", "deaf", "never-begun")]
    found, out, stop = read_study(written(study(*groups))), tmp_path / "out", Stop()

    def end() -> None:
        while len(list(out.glob("unfinished/*/ready"))) < 2:
            time.sleep(0.01)
        stop.interrupted.set()
        while not read_rows(out):
            time.sleep(0.01)
        stop.second_interrupt.set()

    thread = threading.Thread(target=end)
    thread.start()
    tally = run_study(found, out, jobs=2, stop=stop, program="tests.support.misbehave:main")
    thread.join()
    assert [tally[key] for key in ("ran", "done", "failed", "missing")] == [0, 0, {"interrupted": 1}, 2]
    rows = [(row["instance"], row["outcome"], row["objective"]) for row in collect_rows(out)]
    assert rows == [("polite", "interrupted", 7.5), ("deaf", "missing", None), ("never-begun", "missing", None)]
    again = run_study(found, out, jobs=2, program="tests.support.misbehave:quick")
    assert [again[key] for key in ("ran", "done", "failed", "missing")] == [3, 3, {}, 0]
    assert [row["objective"] for row in collect_rows(out)] == [1.0, 1.0, 1.0]
    assert not list((out / "unfinished").iterdir())
