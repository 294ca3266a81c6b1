"""Studies in broken surroundings: full disks, damaged records and plans, files that want to be overwritten."""

from __future__ import annotations

import importlib
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pyarrow.parquet as pq
import pytest

from tests.support.cli_cases import run
from tests.support.paths import ROOT
from tests.support.study_cases import routing, study
from topoopt.core.errors import InputError, MachineError
from topoopt.studies.execute import append_row, read_rows, run_folder
from topoopt.studies.expand import FILE_OPTIONS, WRITTEN_OPTIONS, progression_values, read_study
from topoopt.studies.runner import collect_rows, read_plan, run_study
from topoopt.studies.schema import COMMANDS, Progression

Written = Callable[..., Path]

SIZE = {"servers": 16, "degree": 4, "link-gbps": 100}


def study_run(file: Path, out: Path, most_bytes: int | None = None) -> subprocess.CompletedProcess[str]:
    """`topoopt study run` in a process of its own, whose files may not become larger than so many bytes."""

    def limited() -> None:
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    words = ["study", "run", file, "--output", out, "--jobs", "2", "--json"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # of a file cut short no process could start again
    return subprocess.run(
        [sys.executable, "-m", "topoopt.cli.main", *map(str, words)],
        cwd=ROOT, capture_output=True, text=True, check=False, preexec_fn=limited, env=environment,
    )  # fmt: skip


def rest(folder: Path) -> list[Path]:
    """Temporary files and unfinished runs."""
    return [path for path in folder.rglob("*") if path.suffix == ".tmp" or path.parent.name == "unfinished"]


def stopped_then_done(result: subprocess.CompletedProcess[str], file: Path, out: Path) -> None:
    """The machine's failure is told as such, no run is judged, and the same command goes on to the end."""
    assert result.returncode == MachineError.exit_code
    assert "the same command goes on" in result.stderr
    assert "Traceback" not in result.stderr
    assert not any(line.startswith("error standard output") for line in result.stderr.splitlines())  # the study's own
    assert {row["outcome"] for row in collect_rows(out)} <= {"missing", "done"}
    assert rest(out) == []
    again = study_run(file, out)
    assert again.returncode == 0, again.stderr
    assert [row["outcome"] for row in collect_rows(out)] == ["done"] * 4
    assert rest(out) == []


def test_files_that_cannot_grow(tmp_path: Path, written: Written) -> None:
    """A report does not fit: no run is refused for it; with room again the same command does them all."""
    file = written(study({"instance": routing(), "seeds": {"count": 4}}))
    stopped_then_done(study_run(file, tmp_path / "out", 16_384), file, tmp_path / "out")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("file systems may not be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("free_kib", [12, 32, 60])
def test_a_full_disk(tmp_path: Path, small_disk: Path, written: Written, free_kib: int) -> None:
    """Space runs out before, in or after the first runs; room is made, and the same command goes on."""
    file = written(study({"instance": routing(), "seeds": {"count": 4}}))
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 1024 * (2048 - free_kib))
    out = small_disk / "out"
    result = study_run(file, out)
    ballast.unlink()
    stopped_then_done(result, file, out)


DAMAGE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no mapping": lambda record: [record],
    "outcome of no kind": lambda record: {**record, "outcome": ["done"]},
    "unknown outcome": lambda record: {**record, "outcome": "splendid"},
    "no output mapping": lambda record: {**record, "output": "x"},
    "of another run": lambda record: {**record, "identity": "0" * 64},
    "a time in words": lambda record: {**record, "wall_s": "long"},
}
"""What makes a record none."""

ODD: dict[str, Callable[[dict[str, Any]], Any]] = {
    "objective": lambda output: {**output, "objective": [1]},
    "bound": lambda output: {**output, "bound": 3, "check": "ok", "status": {"a": 1}},
    "enormous": lambda output: {**output, "objective": {"value": 10**390}, "figure": [10**390, 1]},
    "deep": lambda output: {**output, "a": {"b": {"c": [1, 2]}}},
}
"""What makes the output of a run odd, and leaves it a record."""


@pytest.fixture
def done(tmp_path: Path, written: Written) -> tuple[Path, Path, Path]:
    """A study of one run, done: its file, its folder, and the record."""
    file = written(study({"instance": routing()}))
    found = read_study(file)
    run_study(found, tmp_path / "out", jobs=1)
    return file, tmp_path / "out", tmp_path / "out" / "results.jsonl"


def test_damaged_records_are_made_again(done: tuple[Path, Path, Path]) -> None:
    """A record that is none counts as missing and the run is done again; odd figures are left out of the table."""
    file, out, kept = done
    good = kept.read_text()
    whole = json.loads(good)
    for name, damage in DAMAGE.items():
        kept.write_text(json.dumps(damage(whole)))
        assert [row["outcome"] for row in collect_rows(out)] == ["missing"], name
    kept.write_text(good[: len(good) // 2])
    tally = run_study(read_study(file), out, jobs=1)
    assert (tally["ran"], tally["done"], tally["missing"]) == (1, 1, 0)
    assert [row["objective"] for row in collect_rows(out)] == [2.0]  # uniform demand on a ring of four
    for odd in ODD.values():
        kept.write_text(json.dumps({**whole, "output": odd(whole["output"])}))
        assert run("study", "report", out, "--force", "--json").code == 0
        assert pq.read_table(out / "results.parquet")["outcome"].to_pylist() == ["done"]


def test_a_folder_of_an_earlier_format_is_refused(done: tuple[Path, Path, Path]) -> None:
    """One line says so, whether the study is to go on or its report is to be made; nothing is touched."""
    file, out, kept = done
    plan = json.loads((out / "study.json").read_text())
    (out / "study.json").write_text(json.dumps({**plan, "schema_version": 1}))
    before = kept.read_bytes()
    for words in (("run", file, "--output", out), ("report", out)):
        result = run("study", *words, "--json")
        assert result.code == 2
        assert "a study of an earlier version, which is not gone on with" in result.json["error"]
        assert len(result.json["problems"]) == 1
    assert kept.read_bytes() == before


def test_a_line_cut_short_costs_one_run(done: tuple[Path, Path, Path]) -> None:
    """What a kill left of a line stands alone: the next line is whole, and older ones count."""
    file, out, kept = done
    line = kept.read_text()
    kept.write_text(line + line[: len(line) // 2])
    assert [row["outcome"] for row in collect_rows(out)] == ["done"]
    row = next(iter(read_rows(out).values()))
    append_row(out, replace(row, outcome="crashed"))
    assert [row["outcome"] for row in collect_rows(out)] == ["crashed"]
    assert run_study(read_study(file), out, jobs=1, retry_failed=True)["ran"] == 1
    assert [row["outcome"] for row in collect_rows(out)] == ["done"]


def test_damaged_plans_are_refused(done: tuple[Path, Path, Path]) -> None:
    """Whatever reads study.json says what is wrong in it, and where."""
    _, out, _ = done
    plan = json.loads((out / "study.json").read_text())
    wounds: list[dict[str, Any]] = [
        {"runs": 3}, {"runs": [None]}, {"versions": []}, {"study": {**plan["study"], "figures": [{}]}},
        {"study": {**plan["study"], "compare": None}}, {"study": {**plan["study"], "notes": None}}, {"study": None},
        {"runs": [{**plan["runs"][0], "identity": "../../x"}]}, {"runs": [{**plan["runs"][0], "limits": 3}]},
    ]  # fmt: skip
    for wound in wounds:
        (out / "study.json").write_text(json.dumps({**plan, **wound}))
        result = run("study", "report", out, "--json")
        assert result.code == 2
        assert result.json["problems"][0]["path"].startswith(next(iter(wound)))
    (out / "study.json").write_text("[1")
    with pytest.raises(InputError, match="broken JSON"):
        read_plan(out)


@pytest.mark.parametrize("value", ["/tmp/x.csv", "../x.csv", "a/x.csv", "log.txt", ".hidden", "", True, 3])
@pytest.mark.parametrize("option", WRITTEN_OPTIONS)
def test_nothing_is_written_outside(written: Written, option: str, value: object) -> None:
    """Options that name a file to write take plain names, which stand in the folder of the run."""
    options = {**SIZE, option: value}
    with pytest.raises(InputError, match="would write outside the folder of the run"):
        read_study(written(study({"command": "cost", "options": options})))
    with pytest.raises(InputError, match="would write outside"):
        read_study(written(study({"command": "cost", "vary": {option: [value]}})))


def test_options_are_options(written: Written) -> None:
    """Neither a name with a value in it, nor a value that begins like an option."""
    for options in ({"output=/tmp/x": True}, {"-output": "x"}, {"fabrics": "--output"}, {"c s": 1}):
        with pytest.raises(InputError, match=r"not an option|begins like an option"):
            read_study(written(study({"command": "cost", "options": options})))


def test_options_that_write_are_listed() -> None:
    """Every option of the commands of studies that names a file is listed, as one to read or one to write."""
    functions = [getattr(importlib.import_module(module), name) for module, name, _ in COMMANDS.values()]
    found = set()
    for function in functions:
        for name, kind in get_type_hints(function).items():
            nested = [inner for part in (kind, *get_args(kind)) for inner in (part, *get_args(part))]
            if Path in nested:
                found.add(name.removesuffix("_files"))
    assert found == {"file", "instances", *FILE_OPTIONS, *WRITTEN_OPTIONS}, "file and instances are arguments"


def test_a_bill_is_written_beside_its_run(tmp_path: Path, written: Written) -> None:
    """What a command writes is kept with its run."""
    found = read_study(written(study({"command": "cost", "options": {**SIZE, "output": "bill.csv"}})))
    run_study(found, tmp_path / "out", jobs=1)
    folder = run_folder(tmp_path / "out", found.runs[0].identity)
    assert (folder / "bill.csv").read_text().count("\n") > 3


def test_a_folder_of_a_stranger_is_not_obeyed(done: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """Runs are those of the study file, whatever the plan in the folder says; the plan is written anew."""
    file, out, kept = done
    plan = json.loads((out / "study.json").read_text())
    target = tmp_path / "mine"
    changes = {"command": ["cost"], "arguments": ["--servers", "16", "--output", str(target)]}
    (out / "study.json").write_text(json.dumps({**plan, "runs": [{**plan["runs"][0], **changes}]}))
    kept.unlink()
    assert run_study(read_study(file), out, jobs=1)["ran"] == 1
    assert not target.exists()
    assert json.loads((out / "study.json").read_text()) == plan


def test_rules_beyond_all_numbers() -> None:
    """Sequences that leave the range of floats end there."""
    assert progression_values(Progression(1e308, 1.7e308, factor=2.0)) == [1e308]
    assert progression_values(Progression(1e307, 1e308, factor=10)) == [1e307, 1e308]
    assert progression_values(Progression(1e308, 1.7e308, step=1e308)) == [1e308]
    assert len(progression_values(Progression(1.0, 1.7e308, factor=1e300))) == 2


def test_a_leftover_plan_is_removed(done: tuple[Path, Path, Path]) -> None:
    """What a killed study left of its plan goes with the next run."""
    file, out, _ = done
    (out / ".study.json.0123456789abcdef.tmp").write_text("half")
    run_study(read_study(file), out, jobs=1)
    assert rest(out) == []
    assert sorted(os.listdir(out)) == [".lock", "results.jsonl", "runs", "study.json", "unfinished"]


def test_numbers_that_are_none(tmp_path: Path) -> None:
    """More than any double, or NaN, is refused with its path in an instance written out; in a file it is a run."""
    file = tmp_path / "study.json"
    text = json.dumps(study({"instance": {**routing(), "link_gbps": "here"}}))
    for number in ("1" + "0" * 400, "NaN", "-1e999"):
        file.write_text(text.replace('"here"', number))
        with pytest.raises(InputError, match=r"instance\.link_gbps: not a finite number"):
            read_study(file)
        (tmp_path / "odd.json").write_text(json.dumps({**routing(), "link_gbps": "here"}).replace('"here"', number))
        file.write_text(json.dumps(study({"file": "odd.json"})))
        assert len(read_study(file).runs) == 1
