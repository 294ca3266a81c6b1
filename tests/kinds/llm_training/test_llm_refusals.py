"""Instances that cannot be, and cannot be solved: what is wrong is named, and what would do."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli_cases import run

BASE = """
schema_version: 1
kind: llm-training
name: refused
model: {layers: 8, hidden: 1024, ffn_hidden: 4096, heads: 16, kv_heads: 4, vocabulary: 32000}
batch: {sequences: 32, length: 2048}
cluster: {servers: 4, gpus_per_server: 4, device: a100, intra_server_gbps: 2400, degree: 4, link_gbps: 100}
strategy: {tensor: 4, pipeline: [1, 2], context: 1, recompute: none, zero: 1, schedule: 1f1b, micro_batch: 1}
fabrics: [ideal-switch]
"""


def told(folder: Path, **changes: object) -> tuple[int, str]:
    """Exit code and what is said of the instance with other values in its sections."""
    document = copy.deepcopy(yaml.safe_load(BASE))
    for section, values in changes.items():
        document[section] = {**document[section], **values} if isinstance(values, dict) else values
    file = folder / "case.yaml"
    file.write_text(yaml.safe_dump(document))
    result = run("solve", file, "--output", folder / "out")
    return result.code, " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"model": {"layers": 0}}, "model.layers: out of range (value: 0); allowed: a whole number 1 to 10000"),
        ({"model": 5}, "model: wrong type (value: 5); allowed: a name, a file, sizes, or kinds of layers"),
        ({"model": {"huggingface": "config.json"}}, "model.layers: unknown key layers"),
        ({"strategy": {"order": ["tensor", "tensor", "data", "pipeline"]}}, "strategy.order: a dimension stands twice"),
        ({"strategy": {"tensor": [1, "two"]}}, "strategy.tensor[1]: wrong type (value: 'two')"),
    ],
)
def test_only_what_is_wrong_is_told(changes: dict[str, Any], text: str, tmp_path: Path) -> None:
    """One line for the fault; none of the shapes that a model could have had instead."""
    code, said = told(tmp_path, **changes)
    assert code == 2
    assert text in said
    assert "model.huggingface: missing" not in said


@pytest.mark.parametrize("fabric", ["torus-3d", "torus-2d", "hypercube", "random-regular", "expander"])
def test_one_server_has_no_links(fabric: str, tmp_path: Path) -> None:
    code, said = told(tmp_path, cluster={"servers": 1}, fabrics=[fabric])
    assert code == 2
    assert f"{fabric}: one server has no links (value: 1)" in said


@pytest.mark.parametrize("fabric", ["direct-connect", "rail-only", "fat-tree"])
def test_one_server_trains_without_a_network(fabric: str, tmp_path: Path) -> None:
    assert told(tmp_path, cluster={"servers": 1}, fabrics=[fabric])[0] == 0


def test_pins_that_contradict_each_other_are_named(tmp_path: Path) -> None:
    """4 x 4 x 4 is not 16: each of the three could be 1."""
    code, said = told(tmp_path, strategy={"pipeline": 4, "data": 4})
    assert code == 3
    for part in ("tensor", "pipeline", "data"):
        assert f"strategy.{part} were 1" in said


def test_replicas_that_do_not_divide_the_batch_are_named(tmp_path: Path) -> None:
    """32 sequences do not go over 13 replicas; in 13 stages one replica has them all."""
    pins = {"tensor": "auto", "pipeline": [1], "schedule": "auto"}
    code, said = told(tmp_path, cluster={"servers": 13, "gpus_per_server": 1}, strategy=pins, model={"layers": 16})
    assert code == 3
    assert "no strategy at all on 13 GPUs; they would if strategy.pipeline were 13" in said
