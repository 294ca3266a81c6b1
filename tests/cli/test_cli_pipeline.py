"""`topoopt pipeline`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli_cases import refusals, run


def test_schedules_side_by_side(tmp_path: Path) -> None:
    """Eight stages, 24 micro-batches, F = B = W = 1 ms: known makespans; the page draws each pass with its time."""
    page = tmp_path / "page.html"
    words = ("pipeline", "--stages", 8, "--micro-batches", 24)
    result = run(*words, "--out", page, "--json")
    assert result.code == 0
    rows = {row["schedule"]: row for row in result.json["schedules"]}
    expected = {"gpipe": 93.0, "1f1b": 93.0, "zb-h1": 79.0, "zb-2p": 79.0, "dualpipe": 78.0}
    assert {name: row["makespan_ms"] for name, row in rows.items()} == pytest.approx(expected)
    assert rows["zb-2p"]["longest_span_ms"] == pytest.approx(72.0)
    assert rows["1f1b"]["bubble_ms"] == pytest.approx(7 * 3.0)
    assert rows["1f1b"]["in_flight"] == [8, 7, 6, 5, 4, 3, 2, 1]
    text = page.read_text()
    assert text.count("micro-batch 23 in stage 7") == 2 + 2 + 3 + 3  # and DualPipe: of one of two copies
    assert "gradients of weights of micro-batch 23 in stage 7" in text
    assert "http" not in text.replace("http://www.w3.org", "")
    shown = run(*words).stdout
    assert "zb-2p" in shown
    assert "79.00" in shown


def test_stages_of_their_own(tmp_path: Path) -> None:
    """One slow stage sets the pace: GPipe takes 1 + 1 + 3 and 2 + 2 + 2, and 3 (3 + 2) more."""
    words = ("--stages", 3, "--micro-batches", 4, "--schedule", "gpipe", "--forward", "1,3,1", "--json")
    result = run("pipeline", *words)
    assert result.code == 0
    assert result.json["schedules"][0]["makespan_ms"] == pytest.approx(5 + 6 + 3 * 5)
    assert result.json["schedules"][0]["formula_ms"] == pytest.approx(5 + 6 + 3 * 5)


def test_against_the_best() -> None:
    """Three stages, four micro-batches of F = B = W = 1: 1F1B is 2 (F + B + W) above its work, in its memory 2 are
    needed; both ways of proving it say so. Larger pipelines are refused."""
    for method in ("cp-sat", "milp"):
        words = ("--stages", 3, "--micro-batches", 4, "--schedule", "1f1b", "--best", "--method", method, "--json")
        row = run("pipeline", *words).json["schedules"][0]
        assert row["makespan_ms"] == pytest.approx(18.0)
        assert (row["best_ms"], row["best_bound_ms"]) == (pytest.approx(14.0), pytest.approx(14.0))
    result = run("pipeline", "--stages", 5, "--micro-batches", 7, "--best", "--method", "luck", "--json")
    assert result.code == 2
    assert [path for path, _, _ in refusals(result.json)] == ["--stages", "--micro-batches", "--method"]


def test_layers_to_stages() -> None:
    """Ten layers of 1 + 2 ms on two ranks, one a rank too heavy with two on their way: four and six. GPipe, which
    holds all eight micro-batches, is left out, or refused with exit code 3 and what would do where it is asked for."""
    words = ("pipeline", "--stages", 2, "--micro-batches", 8, "--layers", "10x1", "--layer-state", 1)
    words = (*words, "--activations", 2, "--room", 20, "--json")
    result = run(*words)
    assert result.code == 0
    rows = {row["schedule"]: row for row in result.json["schedules"]}
    assert rows["1f1b"]["stage_layers"] == [4, 6]
    assert rows["1f1b"]["makespan_ms"] == pytest.approx(4 + 8 * 18 + 8)
    assert rows["1f1b"]["makespan_ms"] == pytest.approx(rows["1f1b"]["bound_ms"])
    assert "gpipe" in result.json["left_out"]
    refused = run(*words, "--schedule", "gpipe")
    assert (refused.code, refused.json["status"]) == (3, "infeasible")
    assert "would do" in refused.json["error"]
    assert run(*words[:-1]).stdout.count("left out: ") == 6


def test_wrong_values() -> None:
    """Names, lists of another length, more weights than backward pass, sizes that a schedule does not allow."""
    words = ("pipeline", "--stages", 3, "--micro-batches", 8, "--json")

    def paths(*more: object) -> list[str]:
        result = run(*words, *more)
        assert result.code == 2
        return [path for path, _, _ in refusals(result.json)]

    assert paths("--schedule", "2f2b,zb") == ["--schedule", "--schedule"]
    assert paths("--forward", "1,2") == ["--forward"]
    assert paths("--forward", "one") == ["--forward"]
    assert paths("--backward", "-1") == ["--backward"]
    assert paths("--weights", "3") == ["--weights"]
    assert paths("--schedule", "dualpipe", "--chunks", 2) == ["chunks", "stages"]
    assert paths("--layers", "3y1") == ["--layers"]
    assert paths("--layers", "3x1", "--layer-state", "1,2") == ["--layer-state"]
    assert paths("--layers", "3x1", "--forward", "1,2,3") == ["--layers"]
    assert paths("--out", "page.svg") == ["--out"]
    assert paths("--stages", 4096, "--micro-batches", 10**6) == ["--micro-batches"]


def test_headings_are_whole_in_a_terminal_of_80_columns() -> None:
    """Units stand in the title, so that seven columns have room."""
    lines = run("pipeline", "--stages", 4, "--micro-batches", 8).stdout.splitlines()
    (headings,) = [line for line in lines if "schedule" in line and "makespan" in line]
    for heading in ("bound", "longest rank", "bubble", "closed form", "in flight"):
        assert heading in headings
    assert max(map(len, lines[lines.index(headings) : lines.index(headings) + 6])) <= 80


def test_no_heading_is_cut_in_a_terminal() -> None:
    """With the best order there are nine columns: each heading stands whole within 80 letters."""
    lines = run("pipeline", "--stages", 3, "--micro-batches", 4, "--best").stdout.splitlines()
    words = {word for line in lines for word in line.split()}
    assert {"schedule", "makespan", "longest", "rank", "bubble", "closed", "form", "flight", "best"} <= words
