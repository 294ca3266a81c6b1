"""Studies of language models in training: parts of the strategy and fabrics varied, parts of the time as columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import run, write
from tests.support.paths import INSTANCES
from tests.support.study_cases import study
from topoopt.files.documents import parse_document
from topoopt.studies.expand import read_study, varied
from topoopt.studies.runner import collect_rows, run_study


def test_a_row_is_what_solve_finds(tmp_path: Path, written: Callable[..., Path]) -> None:
    """Fields that are varied reach the instance; figures of the row are those of `solve`, and parts add up."""
    document: Any = parse_document(INSTANCES / "llm-training" / "small-16.yaml")
    base = document.data
    cases = [("1f1b", ["direct-connect"]), (["1f1b", "zb-h1"], ["ideal-switch"])]
    together = [{"strategy.schedule": schedule, "fabrics": fabrics} for schedule, fabrics in cases]
    file = written(study({"instance": base, "together": together}))
    assert run_study(read_study(file), tmp_path / "out", jobs=1)["missing"] == 0
    rows: list[Any] = [dict(row) for row in collect_rows(tmp_path / "out")]
    assert [(row["outcome"], row["check"]) for row in rows] == [("done", True)] * 2
    for row, case in zip(rows, together, strict=True):
        instance = write(tmp_path, varied(base, tuple(case.items())))
        alone = run("solve", instance, "-o", tmp_path / str(row["run"]), "--json")
        assert alone.code == 0, alone.stderr
        assert (row["iteration_time_s"], row["fabric"]) == (alone.json["iteration_time_s"], case["fabrics"][0])
        parts = [value for name, value in row.items() if name.startswith("breakdown_s.")]
        assert sum(parts) == pytest.approx(row["objective"], rel=1e-12)
    assert (
        rows[0]["iteration_time_s"] > rows[1]["iteration_time_s"]
    )  # less to choose from, and links in place of a switch


def test_compare_takes_the_kind() -> None:
    """The method whose bound is reached. Shipped studies name what there is."""
    found = run("compare", INSTANCES / "llm-training" / "small-16.yaml", "--json").json
    assert [(row["method"], row["outcome"], row["checked"]) for row in found["runs"]] == [
        ("branch-and-bound", "optimal", True)
    ]
    for file in sorted((INSTANCES / "studies").glob("llm-*.yaml")):
        assert run("study", "validate", file).code == 0, file.name
