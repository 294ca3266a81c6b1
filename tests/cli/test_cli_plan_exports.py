"""`topoopt export` of solved plans: task graphs that replay to the same time, changes only, files that do not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import topoopt
from tests.support.cli_cases import chain, job, refusals, run, write

JOB = job(8, 4, chain(8, 5), search={"budget": 60, "method": "fixed-topology"})


def solved(folder: Path, document: dict, name: str = "one") -> tuple[Path, Path, float]:
    """Instance, solution, and iteration time."""
    instance = write(folder, document, f"{name}.json")
    result = run("solve", instance, "--output", folder / name, "--json")
    assert result.code == 0, result.stderr
    return instance, folder / name / "solution.json", result.json["objective"]["value"]


@pytest.mark.parametrize("sharing", ["fifo", "transfers-first"])
def test_task_graph_replays_to_the_same_time(tmp_path: Path, sharing: str) -> None:
    """The exported graph on its own topology, routes and rings takes as long as the solution says (32-bit times).

    Links that are not shared in order of arrival are said in a note, with what replays them.
    """
    _, solution, time_ms = solved(tmp_path, {**JOB, "cluster": {**JOB["cluster"], "link_sharing": sharing}})
    out = tmp_path / "plan.fbuf"
    result = run("export", solution, "--to", "flexnet-taskgraph", "-o", out, "--json")
    assert result.code == 0, result.stderr
    assert any(f"link_sharing={sharing}" in note for note in result.json["notes"]) == (sharing != "fifo")
    replayed = topoopt.replay(out, fabric="direct-connect", link_sharing=sharing)
    assert replayed.iteration_time_ms == pytest.approx(time_ms, rel=1e-5)


def test_task_graph_needs_the_instance_that_was_solved(tmp_path: Path) -> None:
    """The one in the solution; where none is there, or another one, nothing is written."""
    _, solution, _ = solved(tmp_path, JOB)
    words = ("export", solution, "--to", "flexnet-taskgraph", "-o")
    assert run(*words, tmp_path / "own.fbuf").code == 0
    assert run(*words, tmp_path / "own.fbuf").code == 2
    document = json.loads(solution.read_text(encoding="utf-8"))
    document["instance"]["name"] = "another"
    changed = write(tmp_path, document, "changed.json")
    said = run("export", changed, "--to", "flexnet-taskgraph", "-o", tmp_path / "x.fbuf")
    assert (said.code, "not the instance that was solved" in said.stderr) == (2, True)
    del document["instance"]
    alone = write(tmp_path, document, "alone.json")
    result = run("export", alone, "--to", "flexnet-taskgraph", "-o", tmp_path / "plan.fbuf", "--json")
    assert result.code == 2
    assert "needs the operators" in refusals(result.json)[0][2]
    assert not (tmp_path / "plan.fbuf").exists()


def test_changes_from_a_previous_plan(tmp_path: Path) -> None:
    """A list of changes holds no circuit of both plans; a previous plan of another cluster is refused."""
    _, first, _ = solved(tmp_path, JOB, "first")
    _, second, _ = solved(tmp_path, job(8, 4, chain(8, 3), search={"method": "data-parallel"}), "second")
    _, small, _ = solved(tmp_path, job(6, 2, chain(6)), "small")
    out = tmp_path / "patches"
    assert run("export", second, "--to", "patch-list", "--set", f"previous={first}", "-o", out).code == 0
    lines = {
        name: set((out / f"{name}.csv").read_text().splitlines()[1:]) for name in ("circuits", "connect", "disconnect")
    }
    assert lines["connect"] <= lines["circuits"]
    assert not lines["disconnect"] & lines["circuits"]
    assert len(lines["circuits"]) == 32
    result = run(
        "export", second, "--to", "patch-list", "--set", f"previous={small}", "-o", tmp_path / "none", "--json"
    )
    assert (result.code, refusals(result.json)[0][0]) == (2, "--set previous")
    assert not (tmp_path / "none").exists()
