"""Studies that are run: whatever single runs do, the others finish, and the study can be killed and resumed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from solvers.stop import Stop
from tests.support.study_cases import routing, study
from topoopt.core.errors import InputError, TopooptError
from topoopt.studies.execute import read_rows
from topoopt.studies.expand import read_study
from topoopt.studies.results import TIMES, column_names, write_parquet
from topoopt.studies.runner import collect_rows, default_jobs, run_study
from topoopt.studies.schema import Run

Written = Callable[..., Path]


def figures(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what a run took."""
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def mixed_study(each: int) -> dict[str, Any]:
    """Runs of every fate."""

    def named(names: list[str], **changes: Any) -> list[dict[str, Any]]:
        return [{"instance": routing(name, **changes)} for name in names]

    fates = {"crash": 3, "raise": 3, "silent": 2, "eat": 2, "hang": 2}
    groups = [group for fate, number in fates.items() for group in named([f"{fate}-{k}" for k in range(number)])]
    for group in groups:
        if group["instance"]["name"].startswith("hang"):
            group["limits"] = {"wall_s": 1.5, "memory_mib": 1500}
        if group["instance"]["name"].startswith("eat"):
            group["limits"] = {"wall_s": 60, "memory_mib": 600}
    apart = {
        "schema_version": 1, "kind": "topology", "name": "apart", "servers": 6, "degree": 2,
        "links": "unidirectional", "demand": {"family": "uniform"}, "max_hops": 1,
    }  # fmt: skip
    groups.append({"instance": apart})  # five neighbours with two links
    groups += named(["malformed"], topology={"family": "ring", "servers": "four"})
    groups.append({"instance": routing("good"), "vary": {"topology.servers": [3, 4, 5, 6]}, "seeds": {"count": each}})
    return study(*groups)


FATES = {
    "crash": "crashed", "raise": "crashed", "silent": "crashed", "eat": "out-of-memory", "hang": "timed-out",
    "apart": "infeasible", "malformed": "refused", "good": "done",
}  # fmt: skip


@pytest.mark.usefixtures("programs")
def test_every_fate_is_recorded_and_costs_nothing_else(tmp_path: Path, written: Written) -> None:
    """50 runs of which some crash, hang, exhaust memory, are infeasible or malformed: all others finish."""
    found = read_study(written(mixed_study(each=9)))
    assert len(found.runs) == 50
    tally = run_study(found, tmp_path / "out", jobs=2, program="tests.support.misbehave:main")
    assert (tally["total"], tally["missing"], tally["ran"]) == (50, 0, 50)
    rows = collect_rows(tmp_path / "out")
    for row in rows:
        assert row["outcome"] == FATES[str(row["instance"]).split("-")[0]], row
        assert bool(row["reason"]) == (row["outcome"] != "done")
    assert tally["failed"] == {"crashed": 8, "out-of-memory": 2, "refused": 1, "timed-out": 2}
    good = [row for row in rows if row["outcome"] == "done"]
    # Uniform demand on a bidirectional ring: theta = n^2 / 8 for even n, (n^2 - 1) / 8 for odd n (distances by hand).
    expected = {3: 1.0, 4: 2.0, 5: 3.0, 6: 4.5}
    for row in good:
        assert row["objective"] == pytest.approx(expected[int(str(row["topology.servers"]))], rel=1e-6)
        assert row["check"] is True
    left = subprocess.run(["pgrep", "-f", "import time; time.sleep(1000)"], capture_output=True, text=True, check=False)
    assert left.stdout == "", "what a run started ends with it"
    again = run_study(found, tmp_path / "out", jobs=2, program="tests.support.misbehave:main")
    assert again["ran"] == 0
    retried = run_study(found, tmp_path / "out", jobs=2, retry_failed=True, program="tests.support.misbehave:main")
    assert retried["ran"] == 13
    assert figures(collect_rows(tmp_path / "out")) == figures(rows)
    assert not list((tmp_path / "out" / "unfinished").iterdir())


@pytest.mark.usefixtures("programs")
def test_killed_five_times_and_resumed(tmp_path: Path, written: Written) -> None:
    """SIGKILL of the whole study at random moments: after resuming, the table is that of an undisturbed study."""
    path = written(study({"instance": routing(), "seeds": {"count": 60}}))
    found = read_study(path)
    run_study(found, tmp_path / "calm", jobs=2, program="tests.support.misbehave:quick")
    program = (
        "import sys\nfrom topoopt.studies.expand import read_study\nfrom topoopt.studies.runner import run_study\n"
        "run_study(read_study(sys.argv[1]), sys.argv[2], jobs=2, program='tests.support.misbehave:quick')\n"
    )
    rng = random.Random(7)
    out = tmp_path / "killed"
    seen = []
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", program, str(path), str(out)])
        before = len(read_rows(out)) if out.exists() else 0
        deadline = time.monotonic() + 60
        while len(read_rows(out)) <= before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        process.wait()
        seen.append(len(read_rows(out)))
    assert 0 < seen[0] < 60
    tally = run_study(found, out, jobs=2, program="tests.support.misbehave:quick")
    assert tally["missing"] == 0
    assert tally["ran"] == 60 - seen[-1]
    assert figures(collect_rows(out)) == figures(collect_rows(tmp_path / "calm"))
    assert not list((out / "unfinished").iterdir())


@pytest.mark.usefixtures("programs")
def test_two_studies_in_one_directory(tmp_path: Path, written: Written) -> None:
    """Two processes on the same directory at the same time leave the table of one."""
    found = read_study(written(study({"instance": routing(), "seeds": {"count": 30}})))
    tallies = []

    def one() -> None:
        tallies.append(run_study(found, tmp_path / "out", jobs=1, program="tests.support.misbehave:quick"))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [tally["missing"] for tally in tallies] == [0, 0]
    rows = collect_rows(tmp_path / "out")
    assert [row["objective"] for row in rows] == [1.0 + seed for seed in range(30)]


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    ("executor", "jobs", "options"),
    [("local", 2, {}), ("slurm", 2, {"cluster": "local"}), ("dask", 2, {})],
)
@pytest.mark.filterwarnings("ignore")  # dask and submitit warn about this machine, not about us
def test_the_same_rows_from_every_executor(
    tmp_path: Path, written: Written, executor: str, jobs: int, options: dict[str, str]
) -> None:
    """One job, two jobs, submitit and dask give the same bytes, times apart."""
    group = {"instance": routing(), "vary": {"topology.servers": [3, 4]}, "methods": ["simplex", "ipx", "magic"]}
    found = read_study(written(study(group)))
    run_study(found, tmp_path / "one", jobs=1)
    run_study(found, tmp_path / "other", jobs=jobs, executor=executor, options=options)
    tables = []
    for name in ("one", "other"):
        rows = figures(collect_rows(tmp_path / name))
        file = tmp_path / f"{name}.parquet"
        write_parquet(rows, file)
        tables.append(file.read_bytes())
        assert [row["outcome"] for row in rows] == ["done", "done", "refused"] * 2
    assert tables[0] == tables[1]
    assert {path.name for path in tmp_path.iterdir()} == {"study.json", "one", "other", "one.parquet", "other.parquet"}


@pytest.mark.usefixtures("programs")
@pytest.mark.filterwarnings("ignore")
def test_dask_worker_killed_in_the_middle(tmp_path: Path, written: Written) -> None:
    """One of two workers on loopback is killed: the other one does the rest, and no row is lost."""
    import distributed

    found = read_study(written(study({"instance": routing(), "seeds": {"count": 40}})))
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        host="127.0.0.1",
        local_directory=str(tmp_path / "dask"),
    ) as cluster:
        pids = list(distributed.Client(cluster).run(os.getpid).values())
        killed = []

        def kill_one(run: Run) -> None:
            if not killed:
                killed.append(pids[0])
                os.kill(pids[0], signal.SIGKILL)

        options = {"scheduler": cluster.scheduler_address}
        tally = run_study(
            found, tmp_path / "out", jobs=2, executor="dask", options=options, on_row=kill_one,
            program="tests.support.misbehave:quick",
        )  # fmt: skip
    assert killed
    assert tally["missing"] == 0
    assert [row["objective"] for row in collect_rows(tmp_path / "out")] == [1.0 + seed for seed in range(40)]


@pytest.mark.usefixtures("programs")
def test_stopping(tmp_path: Path, written: Written) -> None:
    """A stop kills what is in flight, keeps what is done, and says what is missing."""
    found = read_study(written(study({"instance": routing(), "seeds": {"count": 30}})))
    stop = Stop()
    tally = run_study(
        found,
        tmp_path / "out",
        jobs=2,
        stop=stop,
        on_row=lambda run: stop.interrupted.set(),
        program="tests.support.misbehave:quick",
    )
    assert tally["missing"] > 0
    assert tally["done"] + tally["missing"] == 30
    assert sum(row["outcome"] == "missing" for row in collect_rows(tmp_path / "out")) == tally["missing"]


def test_a_program_that_does_not_load(tmp_path: Path, written: Written) -> None:
    """A worker that cannot start is an error at once, not one of every run."""
    found = read_study(written(study({"instance": routing()})))
    with pytest.raises(TopooptError, match="no worker process"):
        run_study(found, tmp_path / "out", jobs=1, program="no_such_module:main")


def test_directories_that_are_something_else(tmp_path: Path, written: Written) -> None:
    """A directory of another study, or of other things, is not touched."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x")
    found = read_study(written(study({"instance": routing()})))
    with pytest.raises(InputError, match="not empty"):
        run_study(found, tmp_path / "other", jobs=1)
    run_study(found, tmp_path / "out", jobs=1)
    second = read_study(written(study({"instance": routing()}, name="second"), "second.json"))
    with pytest.raises(InputError, match="another study"):
        run_study(second, tmp_path / "out", jobs=1)
    with pytest.raises(InputError, match="not a study"):
        collect_rows(tmp_path / "other")
    with pytest.raises(InputError, match="no such executor"):
        run_study(found, tmp_path / "out", jobs=1, executor="abacus")


def test_columns_have_one_type(tmp_path: Path) -> None:
    """Whole numbers, numbers, truth and text; what is mixed becomes text; times come last."""
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = [
        {"a": 1, "b": 1, "c": True, "d": 1, "e": None, "wall_s": 1.0},
        {"a": 2, "b": 0.5, "c": None, "d": "x", "e": None, "wall_s": 2.0},
    ]
    names = column_names(rows)
    write_parquet([{name: row.get(name) for name in names} for row in rows], tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    assert table.column_names[:5] == ["a", "b", "c", "d", "e"]
    assert tuple(table.column_names[5:]) == TIMES
    assert table.to_pydict()["a"] == [1, 2]
    assert table.to_pydict()["b"] == [1.0, 0.5]
    assert table.to_pydict()["c"] == [True, None]
    assert table.to_pydict()["d"] == ["1", "x"]
    assert table.to_pydict()["e"] == [None, None]


def test_number_of_jobs() -> None:
    """At least one job, whatever the memory; never more than cores."""
    assert default_jobs(1 << 40) == 1
    assert 1 <= default_jobs(1) <= (os.cpu_count() or 1)
