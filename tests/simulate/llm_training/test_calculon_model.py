"""The Calculon model against figures that its own code printed, to all printed digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.llm_cases import execution, imported, needs_calculon
from topoopt.analyses.evaluate.run import best_of_calculon, chosen_strategy
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.units import GIB
from topoopt.files.documents import Document
from topoopt.kinds.llm_training.read import read_llm_training
from topoopt.simulate.llm_training.estimate import estimate

A100, H100 = "a100_80g", "h100_80g_nvl8"
SELECTIVE = {"forward": 3.3335, "backward": 6.3477, "recompute": 0.3185, "bubble": 0.4790}
ROWS: list[tuple[str, str, str, str, dict[str, int], float, dict[str, float], dict[str, float]]] = [
    ("gpt3-175B", A100, "8/8/1", "f ar", {"batch": 64, "micro_batch": 1, "chunks": 3}, 18.0288,
     {"forward": 3.6486, "backward": 6.9061, "recompute": 3.6486, "bubble": 0.6334, "tensor": 1.5948 + 0.7092,
      "pipeline": 0.8667, "data": 0.0},
     {"weights": 5.064, "gradients": 5.486, "optimizer": 30.382, "total": 48.103}),
    ("gpt3-175B", A100, "8/8/1", "a rs G", {"batch": 64, "micro_batch": 1, "chunks": 3}, 13.6381,
     {**SELECTIVE, "tensor": 2.4871 + 0.5357, "pipeline": 0.1151, "data": 0.0}, {"total": 54.073}),
    ("gpt3-175B", A100, "8/8/8", "a rs G O", {"batch": 512, "micro_batch": 1, "chunks": 3}, 14.1031,
     {**SELECTIVE, "data": 0.4838}, {"gradients": 1.424, "optimizer": 3.798, "total": 23.428}),
    ("gpt3-175B", A100, "8/8/8", "a rs G O V", {"batch": 512, "micro_batch": 1, "chunks": 3}, 13.7671,
     {**SELECTIVE, "data": 0.1477}, {"total": 23.428}),
    ("gpt3-175B", A100, "8/16/8", "f p2p", {"batch": 1536, "micro_batch": 2, "chunks": 6}, 26.6470,
     {"forward": 5.1582, "backward": 9.8417, "recompute": 5.1582, "bubble": 0.6730, "tensor": 3.4329 + 1.5841,
      "pipeline": 0.6673, "data": 0.1209}, {"total": 33.801}),
    ("megatron-1T", A100, "8/64/1", "f ar", {"batch": 512, "micro_batch": 1, "chunks": 1}, 90.0809,
     {"forward": 17.4480, "backward": 34.1768, "recompute": 17.4480, "bubble": 9.8682, "tensor": 4.3855 + 1.9477,
      "pipeline": 4.7927, "data": 0.0}, {"total": 46.268}),
    ("megatron-1T", A100, "8/64/6", "a rs G O V", {"batch": 3072, "micro_batch": 1, "chunks": 2}, 63.2461,
     {"forward": 16.5728, "backward": 32.6258, "recompute": 0.6912, "bubble": 3.6551, "tensor": 6.8198 + 1.4659,
      "pipeline": 1.2340, "data": 0.1791}, {"total": 52.382}),
    ("megatron-1T", A100, "4/64/12", "f rs O F", {"batch": 3072, "micro_batch": 4, "chunks": 1}, 131.9006,
     {"forward": 15.4804, "backward": 30.3475, "recompute": 15.4804, "bubble": 65.0829, "tensor": 2.9645 + 1.2441,
      "pipeline": 0.5991, "data": 0.6992}, {"total": 79.554}),
    ("gpt3-175B", H100, "8/8/16", "a rs O V", {"batch": 1024, "micro_batch": 1, "chunks": 4}, 5.7444,
     {"forward": 1.3157, "backward": 2.4437, "recompute": 0.1931, "bubble": 0.1510, "tensor": 1.3480 + 0.1398,
      "pipeline": 0.0818, "data": 0.0701}, {"total": 25.979}),
]  # fmt: skip
"""Model, system, t/p/D, flags, sizes; seconds and GiB as printed: half a unit of the last digit is allowed."""


def problem_of(document: dict[str, Any]) -> LlmTrainingProblem:
    """As it is read."""
    return read_llm_training(Document("instance", document, lambda _: {}))


@needs_calculon
@pytest.mark.parametrize(("model", "system", "shape", "flags", "sizes", "total", "times", "memory"), ROWS)
def test_figures_are_those_of_calculon(
    tmp_path: Path,
    model: str,
    system: str,
    shape: str,
    flags: str,
    sizes: dict[str, int],
    total: float,
    times: dict[str, float],
    memory: dict[str, float],
) -> None:
    problem = problem_of(imported(tmp_path, model, system, execution(shape, flags, **sizes)))
    found = estimate(problem, chosen_strategy(problem, {}))
    assert found.iteration_time_s == pytest.approx(total, abs=5.1e-5)
    for name, seconds in times.items():
        # Two printed figures are added for `tensor`.
        assert getattr(found.breakdown, name) == pytest.approx(seconds, abs=1.01e-4), name
    for name, gib in memory.items():
        assert getattr(found.memory, name) / GIB == pytest.approx(gib, abs=5.1e-4), name


@needs_calculon
def test_parts_of_activations_are_those_of_calculon(tmp_path: Path) -> None:
    run = execution("8/8/1", "f ar", batch=64, micro_batch=1, chunks=3)
    problem = problem_of(imported(tmp_path, "gpt3-175B", A100, run))
    detail = dict(estimate(problem, chosen_strategy(problem, {})).detail)
    assert detail["activations_bytes"] / GIB == pytest.approx(0.633, abs=5e-4)
    assert detail["checkpoints_bytes"] / GIB == pytest.approx(5.812, abs=5.1e-4)
    assert detail["tensor_again_s"] == pytest.approx(0.7092, abs=5e-5)


@needs_calculon
@pytest.mark.parametrize(
    ("model", "batch", "records", "fitting", "seconds"),
    [("megatron-22B", 128, 17_600, 9_884, 3.21507), ("gpt3-175B", 64, 20_284, 1_153, 11.45363)],
)
def test_the_whole_space_has_the_optimum_of_calculon(
    tmp_path: Path, model: str, batch: int, records: int, fitting: int, seconds: float
) -> None:
    # 64 GPUs: every execution that its search goes through, without offloading and tiles of tensor parallelism.
    document = imported(tmp_path, model, A100, execution("8/8/1", "a rs F", batch=batch, micro_batch=1, chunks=1))
    document["strategy"] = {"expert": 1, "context": 1}
    found = best_of_calculon(problem_of(document))
    assert (found["records"], found["fitting"]) == (records, fitting)
    assert found["iteration_time_s"] == pytest.approx(seconds, abs=5.1e-6)


@needs_calculon
def test_the_search_keeps_to_what_the_instance_allows(tmp_path: Path) -> None:
    run = execution("8/8/1", "a rs F", batch=64, micro_batch=1, chunks=1)
    document = imported(tmp_path, "gpt3-175B", A100, run)
    document["strategy"] = {"expert": 1, "context": 1, "tensor": 8, "recompute": "full"}
    found = best_of_calculon(problem_of(document))
    assert found["records"] < 20_284
    assert found["execution"]["tensor"] == 8
    assert found["execution"]["recompute"] == "full"
    assert found["iteration_time_s"] > 11.4537
