"""`topoopt solve`: what it prints and writes, its exit codes, and what it refuses before it searches."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import (
    JOB_CHECKED,
    SOLVING_KEYS,
    chain,
    job,
    operator,
    process,
    refusals,
    run,
    run_apart,
    write,
)
from topoopt.kinds.files import read_instance
from topoopt.kinds.job import RECORDS, SOLUTION_FILE
from topoopt.verify.checker import CheckFindings, Violation

SIX = job(6, 2, chain(6), search={"seed": 3})


def test_json_of_a_solve_has_every_key(tmp_path: Path) -> None:
    """All keys a program may rely on are there, agree with each other and with the files written."""
    instance = write(tmp_path, SIX)
    result = run("solve", instance, "--output", tmp_path / "out", "--json")
    document = result.json
    assert result.code == 0
    assert set(document) >= SOLVING_KEYS | {"iteration_time_ms", "breakdown_ms", "bandwidth_tax", "diameter"}
    assert (document["kind"], document["name"], document["seed"]) == ("co-optimisation", "case", 3)
    assert document["status"] in {"optimal", "feasible"}
    assert document["stopped_by"] in {"converged", "budget"}
    assert document["check"] == JOB_CHECKED
    assert document["objective"] == {"name": "iteration_time", "value": document["iteration_time_ms"], "unit": "ms"}
    bound, value = document["bound"]["value"], document["objective"]["value"]
    assert 0 < bound <= value
    assert document["bound"]["proved_by"]
    assert document["gap"] == pytest.approx((value - bound) / value)
    terms = document["breakdown_ms"]
    parts = terms["compute"] + terms["model_parallel"] + terms["allreduce"] + terms["idle"]
    assert parts == pytest.approx(value)
    assert set(document["baselines_ms"]) == {"ideal-switch", "fat-tree", "full-fat-tree", "random-regular"}
    assert {"topoopt", "python", "numpy"} <= set(document["versions"])
    assert document["wall_s"] > 0
    assert document["instance_sha256"] == read_instance(instance).sha256
    # Degree 2 both ways joins six servers in a ring, the only connected choice: its diameter is 3.
    assert document["diameter"] == 3
    assert document["bandwidth_tax"] >= 1
    solution = SOLUTION_FILE.read(document["solution"])
    assert solution.objective.value == value
    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert run("check", instance, document["solution"]).code == 0


def test_text_goes_to_standard_output(tmp_path: Path) -> None:
    """Without --json people get a summary on standard output, also on a terminal that knows ASCII only."""
    name = "[red]" if os.name == "posix" else "red"  # not to be read as markup
    instance = write(tmp_path, SIX)
    result = run_apart("solve", instance, "--output", tmp_path / name, env={"PYTHONIOENCODING": "ascii"})
    assert result.code == 0
    assert "check" in result.stdout
    assert "passed" in result.stdout
    assert f"{tmp_path / name / 'solution.json'}" in result.stdout.replace("\n", "")
    assert result.stderr.strip() == ""


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    """Two processes with other hash seeds write the same solution, byte for byte, and print nothing but JSON."""
    instance = write(tmp_path, job(8, 3, chain(8, 5), search={"budget": 300, "seed": 2**63 - 1}))
    children = [
        process("solve", instance, "--output", tmp_path / seed, "--json", env={"PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    ]
    for child in children:
        stdout, stderr = child.communicate(timeout=300)
        assert child.returncode == 0
        assert stdout.startswith("{\n")
        assert stderr.strip() == ""
    first, second = ((tmp_path / seed / "solution.json").read_bytes() for seed in ("1", "2"))
    assert first == second


def test_time_limit_of_zero_gives_a_checked_plan(tmp_path: Path) -> None:
    """The limit passes at once: exit code 4, stopped by time, and still a plan the checker takes."""
    instance = write(tmp_path, SIX)
    result = run("solve", instance, "--output", tmp_path / "out", "--time-limit", 0, "--budget", 10**9, "--json")
    assert result.code == 4
    assert result.json["stopped_by"] == "time"
    assert result.json["check"]["ok"]
    assert run("check", instance, tmp_path / "out" / "solution.json").code == 0


def test_small_time_limit_ends_an_endless_search(tmp_path: Path) -> None:
    """A budget of 10^12 proposals ends with the time limit, exit code 4, no worse than the start."""
    instance = write(tmp_path, SIX)
    run("solve", instance, "--output", tmp_path / "out", "--budget", 10)  # loads what a search needs
    words = ("--time-limit", 2.0, "--budget", 10**12, "--json")
    result = run("solve", instance, "--force", "--output", tmp_path / "out", *words)
    assert result.code == 4
    assert result.json["iteration_time_ms"] <= result.json["initial_ms"]


@pytest.mark.parametrize(
    "method",
    ["auto", "alternating", "fixed-topology", "data-parallel", "topology-search", "exact-topology"],
)
def test_every_method_gives_a_checked_plan(tmp_path: Path, method: str) -> None:
    """Each method of the table works from the command line."""
    result = run("solve", write(tmp_path, SIX), "--output", tmp_path / "out", "--method", method, "--json")
    assert result.code == 0
    assert result.json["method"] == method
    assert result.json["check"]["ok"]


def test_the_joint_method_says_how_far_the_loop_is(tmp_path: Path) -> None:
    """On three servers: a checked plan, and the joint optimum beside the loop's plan in the notes; six are refused."""
    instance = write(tmp_path, job(3, 2, chain(3)))
    result = run("solve", instance, "--output", tmp_path / "out", "--method", "joint", "--json")
    assert result.code == 0
    assert result.json["check"]["ok"]
    notes = " ".join(result.json["notes"])
    assert "by the bulk-synchronous model" in notes
    assert "the joint optimum" in notes
    assert run("check", instance, tmp_path / "out" / "solution.json").code == 0
    result = run("solve", "--force", write(tmp_path, SIX), "--output", tmp_path / "out", "--method", "joint", "--json")
    assert result.code == 2
    assert refusals(result.json) == [("cluster.servers", "6", "too large for the method `joint`")]


def test_unknown_method_is_refused(tmp_path: Path) -> None:
    """As an option and in the file, where the message has its line; `validate` refuses it, too."""
    document = job(6, 2, chain(6), search={"method": "magic"})
    instance = write(tmp_path, document)
    line = 1 + instance.read_text().splitlines().index('  "method": "magic"')
    result = run("solve", instance, "--output", tmp_path / "out", "--json")
    assert result.code == 2
    assert refusals(result.json) == [("search.method", "'magic'", "unknown method")]
    problem = result.json["problems"][0]
    assert (problem["file"], problem["line"]) == (str(instance), line)
    names = "auto, alternating, fixed-topology, data-parallel, topology-search, exact-topology"
    names += ", robust, joint"
    assert problem["allowed"] == names
    assert run("validate", instance).code == 2
    result = run("solve", "--force", write(tmp_path, SIX), "--output", tmp_path / "out", "--method", "magic", "--json")
    assert refusals(result.json) == [("search.method", "'magic'", "unknown method")]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("solve",),
        ("solve", "x.json"),
        ("solve", "x.json", "--output", "o", "--nonsense"),
        ("solve", "x.json", "--output", "o", "--seed", "-1"),
        ("solve", "x.json", "--output", "o", "--seed", str(2**63)),
        ("solve", "x.json", "--output", "o", "--budget", "1.5"),
        ("solve", "x.json", "--output", "o", "--time-limit", "nan"),
        ("solve", "x.json", "--output", "o", "--time-limit", "-1"),
        ("solve", "x.json", "y.json", "--output", "o"),
        ("nonsense",),
        ("study", "nonsense"),
    ],
)
def test_errors_in_the_arguments(words: tuple[str, ...]) -> None:
    """Exit code 2 with a message; with --json also one JSON object on standard output."""
    plain, as_json = run(*words), run(*words, "--json")
    assert (plain.code, as_json.code) == (2, 2)
    assert plain.stdout == ""
    assert plain.stderr
    assert [path for path, _, _ in refusals(as_json.json)] == [None]


@pytest.mark.parametrize("given", ["missing.json", "."])
def test_unreadable_instance(tmp_path: Path, given: str) -> None:
    """A missing file and a folder are refused by name, and no output folder is made."""
    result = run("solve", tmp_path / given, "--output", tmp_path / "out", "--json")
    assert result.code == 2
    assert len(refusals(result.json)) == 1
    assert str(tmp_path) in result.json["error"]
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()


def no_search(*_: Any, **__: Any) -> None:
    """Stands in for the search where it must not begin."""
    raise AssertionError("the search began")


@pytest.mark.parametrize("place", ["file", "file/below", "occupied", "x" * 300])
def test_place_that_cannot_be_written_is_refused_before_the_search(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--output at a file, below a file, where solution.json is a folder, with too long a name: exit code 2 at once."""
    monkeypatch.setattr("topoopt.kinds.pipeline.solve", no_search)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "occupied" / "solution.json").mkdir(parents=True)
    result = run("solve", write(tmp_path, SIX), "--output", tmp_path / place, "--json")
    assert result.code == 2
    assert "cannot be written" in result.json["error"]
    assert (tmp_path / "file").read_text() == "mine"


def test_folder_without_permission_is_refused_before_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No permission to write: exit code 2, and the folder is named (root may write anywhere, so access is faked)."""
    monkeypatch.setattr("topoopt.kinds.pipeline.solve", no_search)
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    result = run("solve", write(tmp_path, SIX), "--output", tmp_path / "new" / "out", "--json")
    assert result.code == 2
    assert f"no permission to write to {tmp_path}" in result.json["error"]
    assert not (tmp_path / "new").exists()


def test_disk_full_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No space: exit code 7 with the reason, the earlier solution is untouched, no temporary file stays."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "solution.json").write_text("earlier")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    result = run("solve", write(tmp_path, SIX), "--force", "--output", out, "--json")
    assert result.code == 7
    assert os.strerror(errno.ENOSPC) in result.json["error"]
    assert [path.name for path in out.iterdir()] == ["solution.json"]
    assert (out / "solution.json").read_text() == "earlier"


def test_infeasible_cluster(tmp_path: Path) -> None:
    """One two-way interface each cannot join three servers: exit code 3, all keys of a solve, no files."""
    result = run("solve", write(tmp_path, job(3, 1, chain(3))), "--output", tmp_path / "out", "--json")
    assert result.code == 3
    assert set(result.json) >= SOLVING_KEYS
    assert (result.json["status"], result.json["objective"], result.json["solution"]) == ("infeasible", None, None)
    assert "cannot connect 3 servers" in result.json["error"]
    assert not (tmp_path / "out").exists()


def test_no_plan_within_the_limit(tmp_path: Path) -> None:
    """Servers of 2 GiB; every start overflows one; the time is up before another placement is tried: exit code 5."""
    sizes = (1.5, 1.0, 1.0, 0.5)
    operators = [
        operator(f"o{i}", 2, parts=[1], weights=0, time_ms=1.0 + (i in {0, 3}), memory_bytes=int(size * 2**30))
        for i, size in enumerate(sizes)
    ]
    instance = write(tmp_path, job(2, 2, operators, gpu_memory_gib=1.0))
    result = run("solve", instance, "--output", tmp_path / "out", "--time-limit", 0, "--json")
    assert result.code == 5
    assert (result.json["status"], result.json["solution"]) == ("unknown", None)
    # With time there is one: o0 with o3, o1 with o2, 2 GiB each; o0 and o3 take 2 + 4 ms one after the other.
    result = run("solve", "--force", instance, "--output", tmp_path / "out", "--json")
    assert result.code == 0
    assert result.json["iteration_time_ms"] == pytest.approx(12.0)


def test_plan_the_checker_rejects_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 6, status unknown, one JSON object with the violations."""
    rejected = CheckFindings((Violation("route", "made up"),))
    record = replace(RECORDS[0], check=lambda problem, solution, depth: rejected)
    monkeypatch.setattr("topoopt.kinds.job.RECORDS", (record,))
    result = run("solve", write(tmp_path, SIX), "--output", tmp_path / "out", "--json")
    assert result.code == 6
    assert (result.json["status"], result.json["stopped_by"]) == ("unknown", "error")
    assert result.json["check"] == {"ok": False, "violations": ["route: made up"], "not_recomputed": []}
    assert "route: made up" in result.stderr


def test_out_of_memory_is_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance too large for the machine ends in a sentence, not a traceback."""

    def exhausted(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("topoopt.kinds.pipeline.solve", exhausted)
    result = run("solve", write(tmp_path, SIX), "--output", tmp_path / "out", "--json")
    assert result.code == 1
    assert result.json["error"] == "out of memory"
