"""The shipped instance files, read here without the loader of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.support.paths import INSTANCES
from topoopt.core.arrays import GIB
from topoopt.workloads.models import build_workload
from topoopt.workloads.operators import DEVICES

FOLDER = INSTANCES
FILES = sorted(FOLDER.glob("*.yaml"))
REQUIRED = {
    *(f"{model}-16" for model in ("dlrm", "candle", "bert", "vgg", "resnet", "ncf", "gpt", "moe")),
    *(f"{model}-128" for model in ("dlrm", "candle", "bert", "ncf")),
    *("tiny-4", "tiny-6", "tiny-8"),
}


def load(path: Path) -> dict[str, Any]:
    document = YAML(typ="safe").load(path)
    assert isinstance(document, dict)
    return document


def splits_of(document: dict[str, Any]) -> list[tuple[str, list[tuple[int, int]]]]:
    """Per operator its kind and (parts, server memory) of each split."""
    cluster, workload = document["cluster"], document["workload"]
    if "operators" in workload:
        return [
            (
                entry["kind"],
                [
                    (
                        s["sample_ways"] * s.get("channel_ways", 1) * s.get("reduce_ways", 1),
                        s["server_memory_bytes"],
                    )
                    for s in entry["splits"]
                ],
            )
            for entry in workload["operators"]
        ]
    built = build_workload(
        workload["model"],
        workload["sizes"],
        servers=cluster["servers"],
        gpus_per_server=cluster["gpus_per_server"],
        costs=DEVICES[workload["operator_times"]["device"]],
    )
    return [(o.kind, [(s.parts, s.server_memory_bytes) for s in o.splits]) for o in built.operators]


def test_all_promised_instances_are_shipped_and_listed() -> None:
    """Every required file exists, is named like its `name`, and stands in the README."""
    assert {path.stem for path in FILES} >= REQUIRED
    readme = (FOLDER / "README.md").read_text()
    for path in FILES:
        document = load(path)
        assert document["name"] == path.stem
        assert (document["schema_version"], document["kind"]) == (1, "co-optimisation")
        assert f"`{path.stem}`" in readme


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_data_parallel_start_fits_the_gpus(path: Path) -> None:
    """Widest splits everywhere and tables dealt out in turn stay within the GPUs' memory."""
    document = load(path)
    cluster = document["cluster"]
    servers = cluster["servers"]
    load_bytes = [0] * servers
    dealt = 0
    for _, splits in splits_of(document):
        parts, memory = splits[0]
        if parts == 1:
            load_bytes[dealt % servers] += memory
            dealt += 1
        for server in range(0, servers, servers // parts) if parts > 1 else ():
            load_bytes[server] += memory
    assert max(load_bytes) <= cluster["gpu_memory_gib"] * GIB * cluster["gpus_per_server"]


@pytest.mark.parametrize("name", ["tiny-4", "tiny-6", "tiny-8"])
def test_tiny_operators_are_legal(name: str) -> None:
    """Producers first, splits that divide servers, batch and tensors, few enough plans for exact methods."""
    document = load(FOLDER / f"{name}.yaml")
    servers, samples = document["cluster"]["servers"], document["workload"]["samples"]
    seen: set[str] = set()
    plans = 1
    for entry in document["workload"]["operators"]:
        assert {edge["operator"] for edge in entry["inputs"]} <= seen
        seen.add(entry["name"])
        placements = 0
        for split in entry["splits"]:
            channel, reduce = split.get("channel_ways", 1), split.get("reduce_ways", 1)
            parts = split["sample_ways"] * channel * reduce
            assert servers % parts == 0
            assert samples % split["sample_ways"] == 0
            assert all(w % (channel * reduce) == 0 for w in entry["weight_elements"])
            placements += servers // parts
        plans *= placements
    assert plans < 50_000
