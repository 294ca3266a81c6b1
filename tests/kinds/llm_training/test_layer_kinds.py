"""Models whose layers are stated by hand, and devices by name and by figures."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import refusals, run
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.kinds.files import read_instance
from topoopt.workloads.language_models import TRAINING_DEVICES, active_parameters, parameters, token_operations

EXPERTS = {"count": 512, "per_token": 10, "hidden": 512, "shared_hidden": 512, "shared_gate": True}
DELTA = {"key_heads": 16, "key_size": 128, "value_heads": 32, "value_size": 128, "kernel": 4}
FULL = {"heads": 16, "kv_heads": 2, "head_size": 256, "norms": "head", "gated": True}
QWEN3_NEXT: dict[str, Any] = {
    "schema_version": 1,
    "kind": "llm-training",
    "name": "own-layers",
    "model": {
        "hidden": 2048,
        "vocabulary": 151936,
        "kinds": {
            "linear": {"count": 36, "delta_attention": DELTA, "experts": EXPERTS},
            "full": {"count": 12, "attention": FULL, "experts": EXPERTS},
        },
        "pattern": ["3*linear", "full"],
    },
    "batch": {"sequences": 16, "length": 4096},
    "cluster": {"servers": 2, "device": "h200"},
    "strategy": {"tensor": 1, "context": 1, "pipeline": [1, 4], "expert": 4, "micro_batch": 1},
    "fabrics": ["ideal-switch"],
}


def _file(folder: Path, document: dict[str, Any]) -> Path:
    path = folder / "own-layers.json"
    path.write_text(json.dumps(document))
    return path


def _problem(folder: Path, document: dict[str, Any]) -> LlmTrainingProblem:
    problem = read_instance(_file(folder, document))
    assert isinstance(problem, LlmTrainingProblem)
    return problem


def test_layers_by_hand_are_those_of_the_family(tmp_path: Path) -> None:
    """Qwen3-Next: three of four layers by the gated delta rule; counts of its checkpoint and of Megatron-LM."""
    model = _problem(tmp_path, QWEN3_NEXT).model
    assert (parameters(model), active_parameters(model)) == (79_674_391_296, 3_874_929_408)
    assert token_operations(model, 4096) / 1e9 == pytest.approx(23.0423, abs=5e-5)
    assert model.order[:5] == (0, 0, 0, 1, 0)
    plain = deepcopy(QWEN3_NEXT)
    del plain["model"]["pattern"]
    assert _problem(tmp_path, plain).model.order == (0,) * 36 + (1,) * 12


def _changed(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    document = deepcopy(QWEN3_NEXT)
    section = document["model"]
    for key in path[:-1]:
        section = section[key]
    section[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "where", "said"),
    [
        (("pattern",), ["3*linear", "ful"], "model.pattern[1]", "no such kind of layer"),
        (("kinds", "full", "count"), 13, "model.kinds.full.count", "not as often as the pattern has it"),
        (("kinds", "full", "delta_attention"), DELTA, "model.kinds.full", "more than a layer has"),
        (("kinds", "linear"), {"count": 36}, "model.kinds.linear", "an empty layer"),
        (("kinds", "full", "experts"), {**EXPERTS, "count": 256}, "model.experts", "experts of several numbers"),
        (("kinds", "full", "experts"), {**EXPERTS, "per_token": 513}, "model.experts.per_token", "more experts"),
        (("kinds", "full", "attention"), {**FULL, "kv_heads": 3}, "model.kv_heads", "indivisible heads"),
        (("kinds", "full", "attention"), {**FULL, "widow": 3}, "model.kinds.full.attention.widow", ""),
    ],
)
def test_layers_that_cannot_be(tmp_path: Path, path: tuple[str, ...], value: Any, where: str, said: str) -> None:
    result = run("llm", "evaluate", _file(tmp_path, _changed(path, value)), "--json")
    assert result.code == 2
    assert any(found[0] == where and said in found[2] for found in refusals(result.json)), result.json


def test_a_plan_of_mixed_layers_is_proven_and_checked(tmp_path: Path) -> None:
    """Attention in the second and the fourth of four stages costs more than in the others; the checker agrees."""
    small = _changed(("kinds", "linear", "count"), 6)
    small["model"]["kinds"]["full"]["count"] = 2
    small["strategy"] |= {"pipeline": 4, "zero": 1, "recompute": ["none", "full"], "schedule": ["1f1b", "zb-h1"]}
    solved = run("solve", _file(tmp_path, small), "-o", tmp_path / "out", "--json")
    assert solved.code == 0, solved.stderr
    assert solved.json["status"] == "optimal"
    assert run("check", tmp_path / "out" / "solution.json").code == 0


def test_a_device_fills_what_the_cluster_leaves_out(tmp_path: Path) -> None:
    cluster = _problem(
        tmp_path,
        {**QWEN3_NEXT, "batch": {"sequences": 144, "length": 64}, "cluster": {"servers": 2, "device": "gb300"}},
    ).cluster
    assert (cluster.gpus_per_server, cluster.gpus, cluster.degree) == (72, 144, 72)
    assert (cluster.intra_server_gbps, cluster.link_gbps) == (7200.0, 800.0)
    assert cluster.gpu_memory_bytes == round(277.5 * 2**30)
    own = {
        "peak_tflops": 500, "memory_gib": 64, "memory_gbytes_per_s": 3000, "scale_up_gbytes_per_s": 100, "domain": 16,
        "network_gbps": 200, "like": "a100",
    }  # fmt: skip
    problem = _problem(tmp_path, {**QWEN3_NEXT, "cluster": {"servers": 2, "device": own, "link_gbps": 100.0}})
    assert (problem.device.name, problem.device.matrix_tflops, problem.device.fp8_tflops) == ("custom", 500, None)
    assert (problem.cluster.gpus_per_server, problem.cluster.intra_server_gbps) == (16, 800.0)
    assert problem.cluster.link_gbps == 100.0  # what the file states counts
    assert problem.device.reached == TRAINING_DEVICES["a100"].reached


SCALE = {"scale_up_gbytes_per_s": 100.0, "network_gbps": 100.0}


@pytest.mark.parametrize(
    ("device", "where"),
    [
        ("h300", "cluster.device"),
        ({"peak_tflops": 1.0, "memory_gbytes_per_s": 1.0, "like": "h300", **SCALE}, "cluster.device.like"),
        ({"memory_gbytes_per_s": 1.0}, "cluster.device.peak_tflops"),
        ({"peak_tflops": 1.0, "memory_gbytes_per_s": 1.0}, "cluster.link_gbps"),
    ],
)
def test_devices_that_say_too_little(tmp_path: Path, device: Any, where: str) -> None:
    document = {**QWEN3_NEXT, "cluster": {"servers": 2, "device": device}}
    result = run("llm", "evaluate", _file(tmp_path, document), "--json")
    assert result.code == 2
    assert where in {found[0] for found in refusals(result.json)}
