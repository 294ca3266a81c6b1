"""The study of circuits between pods by the graphs of language models, in its small form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import run
from tests.support.paths import INSTANCES
from topoopt.studies.runner import collect_rows


def test_the_study(tmp_path: Path) -> None:
    """A row for each setting of pods, with the figures of its plan."""
    out = tmp_path / "study"
    assert (
        run("study", "run", INSTANCES / "studies" / "dag-jobs.yaml", "--small", "--output", out, "--jobs", 1).code == 0
    )
    rows: list[dict[str, Any]] = collect_rows(out)
    assert [(row["pods.pods"], row["pods.ports"], row["status"]) for row in rows] == [
        (8, 4, "optimal"),
        (8, 6, "optimal"),
    ]
    for row in rows:
        assert row["pods.makespan_s"] == pytest.approx(row["pods.compute_s"] + row["pods.communication_s"])
        assert row["pods.makespan_s"] <= row["pods.by_volume_s"] * (1 + 1e-9)
