"""`topoopt pod-circuits`: circuits by a graph beside those of matrices, against all circuits; the study of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import run
from tests.support.dag_jobs import choices
from tests.support.paths import INSTANCES
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.kinds.instance_file import read_instance
from topoopt.studies.collect import collect_rows
from topoopt.verify.dag_topology.follow import follow

SMALL = INSTANCES / "llm-training" / "small-16.yaml"
SETTING = ("--pod-gpus", 4, "--pod-ports", 4, "--circuit-gbps", 12.5)


def test_against_all_circuits(tmp_path: Path) -> None:
    """None are earlier; none fewer are as early as the best matrix; every figure follows from others."""
    said = run("pod-circuits", SMALL, *SETTING, "--out", tmp_path, "--json").json
    graph = read_instance(tmp_path / "circuits.json")
    assert isinstance(graph, DagTopologyProblem)
    times = {counts: max(follow(graph, counts)[1]) for counts in choices(graph)}
    assert said["makespan_s"] == pytest.approx(min(times.values()), rel=1e-7)
    assert said["gap_percent"] == pytest.approx(0.0, abs=1e-5)
    matrix = min(said["matrix_s"].values())
    as_early = [sum(counts) for counts, time in times.items() if time <= matrix * (1 + 1e-8)]
    assert said["circuits_as_early"] == said["circuits_as_early_bound"] == min(as_early)
    assert said["communication_s"] == pytest.approx(said["makespan_s"] - said["compute_s"])
    saved = 1 - said["communication_s"] / (said["matrix_s"]["volume"] - said["compute_s"])
    assert said["less_than_volume_percent"] == pytest.approx(100 * saved)
    assert said["best_matrix_s"] <= said["by_volume_s"]
    assert run("check", tmp_path / "solution.json").code == 0


def test_refusals() -> None:
    """Pods that are none, and jobs without strategies."""
    assert run("pod-circuits", SMALL, "--pod-gpus", 3).code == 2
    other = run("pod-circuits", INSTANCES / "bert-16.yaml", "--pod-gpus", 4)
    assert other.code == 2
    assert "language model" in other.stderr
    few = run("pod-circuits", SMALL, "--pod-gpus", 2, "--pod-ports", 2, "--circuit-gbps", 12.5, "--max-hops", 2)
    assert few.code == 2
    assert "--pod-ports: matrices give every pair circuits of its own" in few.stderr


def test_the_study(tmp_path: Path) -> None:
    """The table of language models in its small form: one command, a row for each setting of pods."""
    out = tmp_path / "study"
    assert run("study", "run", INSTANCES / "studies" / "dag-jobs.yaml", "--small", "--out", out, "--jobs", 1).code == 0
    rows: list[dict[str, Any]] = collect_rows(out)
    assert [(row["pod-gpus"], row["ports"], row["status"], row["check"]) for row in rows] == [
        (2, 6, "optimal", True),
        (4, 4, "optimal", True),
    ]
    for row in rows:
        assert row["communication_s"] <= row["best_matrix_s"] * (1 + 1e-9) <= row["by_volume_s"] * (1 + 2e-9)
        assert row["circuits_as_early"] <= row["circuits_of_best_matrix"]
