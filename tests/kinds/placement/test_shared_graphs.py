"""The published graphs: optimal loads as the authors' own dynamic program computes them (Tarnawski et al. 2020)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.paths import INSTANCES, SHARED_DATA
from tests.support.settled import settled
from topoopt.core.placement import PlacementProblem
from topoopt.formats.dnn_partitioning import placement_document, read_expert_split
from topoopt.kinds.files import read_instance, write_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.kinds.placement.methods import evaluate_given

SHARED = SHARED_DATA / "placement"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the published files are not there")

ORACLE = {
    "bert24-inference": 17.789906,
    "resnet50-inference": 33.774666,
    "gnmt-inference": 32.910658,
    "bert-3-inference": 27.918568,
    "bert24-training": 41.745812,
    "bert-3-training": 65.303149,
    "bert-6-inference": 29.579506,
}
"""Loads that the dynamic program of the authors computes, by shipped instance."""

FILES = {
    "bert24-inference": "LayerGraphs/bert24_inference",
    "resnet50-inference": "LayerGraphs/resnet50_inference",
    "gnmt-inference": "LayerGraphs/gnmt_inference",
    "bert24-training": "LayerGraphs/bert24_training",
}
WITHOUT_CPU = {
    "LayerGraphs/resnet50_inference": 34.22285,
    "OperatorGraphs/bert_l-6_inference": 33.98910,
    "LayerGraphs/gnmt_inference": 32.91066,
}
EXPERTS = {
    "bert24-inference": 20.084,
    "resnet50-inference": 43.9183,
    "gnmt-inference": 46.2085,
    "bert24-training": 49.4049,
}


def imported(graph: str, folder: Path, **options: object) -> PlacementProblem:
    """The instance of a graph, through its file."""
    file = folder / "instance.json"
    path = SHARED / "throughput" / f"{graph}.json"
    write_instance(placement_document(path, objective="throughput", name="g", **options)[0], file)  # type: ignore[arg-type]
    problem = read_instance(file)
    assert isinstance(problem, PlacementProblem)
    return problem


@pytest.mark.parametrize("graph", list(ORACLE))
def test_optimum_is_that_of_the_published_program(graph: str) -> None:
    """With the CPU pool: the six decimals of the oracle, proven and checked."""
    problem = read_instance(INSTANCES / "published" / f"{graph}.json")
    assert isinstance(problem, PlacementProblem)
    solution = solve(problem, SolveOptions(time_limit_s=900))
    assert solution.objective.value == pytest.approx(ORACLE[graph], abs=6e-7)
    assert settled(solution)
    assert solution.check.ok, solution.check.violations


@needs_shared
@pytest.mark.parametrize("graph", list(WITHOUT_CPU))
def test_optimum_without_the_cpu_pool(graph: str, tmp_path: Path) -> None:
    """Accelerators alone: the optimum of the paper's program, to its digits."""
    solution = solve(imported(graph, tmp_path, cpu=False), SolveOptions(time_limit_s=900))
    assert solution.objective.value == pytest.approx(WITHOUT_CPU[graph], abs=6e-6)
    assert settled(solution)


@needs_shared
@pytest.mark.parametrize("graph", list(EXPERTS))
def test_experts_are_evaluated_and_never_better(graph: str, tmp_path: Path) -> None:
    """A split by hand has the load the paper's program states, which the optimum is below."""
    problem = imported(FILES[graph], tmp_path)
    split, _ = read_expert_split(SHARED / "human-experts" / f"{graph.replace('-', '_')}_expert.json")
    solution = evaluate_given(problem, split, "expert")
    assert solution.objective.value == pytest.approx(EXPERTS[graph], rel=2e-5)
    assert solution.objective.value > ORACLE[graph]
    assert solution.check.ok, solution.check.violations


@needs_shared
def test_communication_scale_and_device_count(tmp_path: Path) -> None:
    """Transfers cost a thousand times more, on three devices: send times and devices are as asked."""
    graph = "LayerGraphs/bert24_inference"
    plain = imported(graph, tmp_path)
    scaled = imported(graph, tmp_path, comm_scale=1000.0, devices=3, cpu=False)
    assert len(scaled.devices) == 3
    size = plain.tensors[0].size_bytes
    assert scaled.send_ms(size, 0, 1) == pytest.approx(1000 * plain.send_ms(size, 0, 1))
    assert plain.send_ms(4_194_304, 0, 1) == pytest.approx(0.001953125)  # what the file states for these bytes
