"""The order of compute as a field of the cluster: the solution states it, the checker follows it, others refuse it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import topoopt
from tests.support.cli_cases import run
from topoopt.core.cluster import ComputeOrder
from topoopt.core.errors import InputError
from topoopt.core.job import CoOptimisation
from topoopt.core.result import Result
from topoopt.kinds.files import read_instance
from topoopt.kinds.job.figures import JobResult
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.job.check import CHECKER

LONGEST = ComputeOrder.LONGEST_PATH_FIRST
HAND_COUNTED_MS = {ComputeOrder.ARRIVAL: 12.0, LONGEST: 10.0}
"""Server 0 has `long` (2 ms) and `short` (1 ms) forward, server 1 `reader` (5 ms) and backward (3 ms), which reads
`short`. By arrival `long` goes first: 2 + 1 + 5 + 3 ms, then 1 ms backward of `short`. Else `short` goes first."""


def document(order: str) -> dict[str, Any]:
    """Three operators that stay where they are, on two servers; transfers take next to nothing."""

    def placed(name: str, server: int, forward_ms: float, backward_ms: float, *inputs: str) -> dict[str, Any]:
        split = {"sample_ways": 1, "forward_ms": forward_ms, "backward_ms": backward_ms}
        return {
            "name": name,
            "kind": "dense",
            "output_elements": 1,
            "element_bytes": 4,
            "weight_elements": [],
            "inputs": [{"operator": each, "fraction": 1.0} for each in inputs],
            "pinned_offset": server,
            "splits": [split],
        }

    cluster = {"servers": 2, "gpus_per_server": 1, "degree": 2, "link_gbps": 100, "compute_order": order}
    operators = [placed("long", 0, 2, 0), placed("short", 0, 1, 1), placed("reader", 1, 5, 3, "short")]
    return {
        "schema_version": 1,
        "kind": "co-optimisation",
        "name": "two-orders",
        "cluster": {**cluster, "hop_latency_us": 0},
        "workload": {"name": "two-orders", "samples": 2, "operators": operators},
    }


def job_file(folder: Path, order: str) -> Path:
    """The file of the job with that order."""
    path = folder / f"{order}.yaml"
    path.write_text(yaml.safe_dump(document(order)))
    return path


def solved(path: Path) -> tuple[CoOptimisation, JobResult]:
    """The instance and its plan."""
    instance = read_instance(path)
    assert isinstance(instance, CoOptimisation)
    solution = solve(instance, SolveOptions(budget=20, objective_only=True))
    assert isinstance(solution, Result)
    return instance, solution


def test_each_order_takes_what_was_counted_by_hand(tmp_path: Path) -> None:
    """The checker agrees under the order of the instance and not under the other one."""
    for order, other in ((ComputeOrder.ARRIVAL, LONGEST), (LONGEST, ComputeOrder.ARRIVAL)):
        instance, solution = solved(job_file(tmp_path, order.value))
        assert solution.objective.value == pytest.approx(HAND_COUNTED_MS[order], abs=1e-3)
        assert CHECKER(instance, solution).ok
        swapped = replace(instance, cluster=replace(instance.cluster, compute_order=other))
        assert "iteration-time" in {each.code for each in CHECKER(swapped, solution).violations}


def test_the_solution_file_states_the_order_and_is_held_to_it(tmp_path: Path) -> None:
    """With the word changed in the file, or against the instance of the other order, `check` refuses it."""
    path = job_file(tmp_path, LONGEST.value)
    assert run("solve", path, "--budget", "20", "-o", tmp_path / "out").code == 0
    written = tmp_path / "out" / "solution.json"
    assert run("check", written).code == 0
    text = written.read_text()
    assert text.count(f'"{LONGEST.value}"') == 1
    written.write_text(text.replace(LONGEST.value, ComputeOrder.ARRIVAL.value))
    assert json.loads(written.read_text())
    refused = run("check", written)
    assert refused.code != 0
    assert "iteration-time" in refused.stdout + refused.stderr


def test_another_word_is_refused(tmp_path: Path) -> None:
    """One message that names the field and what it may be."""
    result = run("validate", job_file(tmp_path, "shortest-path-first"))
    said = result.stdout + result.stderr
    assert result.code == 2
    assert said.count("cluster.compute_order") == 1
    assert "arrival" in said


@pytest.mark.parametrize("model", ["rounds", "hop"])
def test_time_models_that_follow_it(tmp_path: Path, model: str) -> None:
    """On the switch as on links, but for some microseconds of latency."""
    for order, time_ms in HAND_COUNTED_MS.items():
        replayed = topoopt.replay(job_file(tmp_path, order.value), fabric="ideal-switch", time_model=model)
        assert replayed.iteration_time_ms == pytest.approx(time_ms, abs=0.01)


@pytest.mark.parametrize("model", ["fluid", "flexnet"])
def test_time_models_that_compute_by_arrival_refuse_the_other(tmp_path: Path, model: str) -> None:
    """What a model does not follow it does not report."""
    with pytest.raises(InputError, match="order of arrival"):
        topoopt.replay(job_file(tmp_path, LONGEST.value), fabric="ideal-switch", time_model=model)


def test_a_shared_cluster_refuses_the_other(tmp_path: Path) -> None:
    """Jobs side by side compute in order of arrival."""
    for order, code in ((ComputeOrder.ARRIVAL, 0), (LONGEST, 2)):
        shared = {
            "schema_version": 1,
            "kind": "shared-cluster",
            "name": "shared",
            "cluster": {"servers": 4, "degree": 2, "link_gbps": 100},
            "classes": [{"name": "a", "iterations": 1, "plan": job_file(tmp_path, order.value).name}],
            "jobs": {"count": 1, "arrival": "together", "mix": {"a": 1}},
        }
        (tmp_path / "shared.yaml").write_text(yaml.safe_dump(shared))
        result = run("validate", tmp_path / "shared.yaml")
        assert result.code == code, result.stdout + result.stderr
        assert ("compute in order of arrival" in result.stdout + result.stderr) is (code == 2)


def test_reconfiguration_refuses_the_other(tmp_path: Path) -> None:
    """Links that are set anew between phases are simulated in order of arrival alone."""
    result = run("reconfigure", job_file(tmp_path, LONGEST.value))
    assert result.code == 2
    assert "order of arrival" in result.stdout + result.stderr
