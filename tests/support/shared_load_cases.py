"""Small shared-load instances: jobs of four servers on a cluster of sixteen, and the published times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from topoopt.core.shared_load import SharedLoadProblem
from topoopt.core.shared_load_solution import SharedLoadSolution
from topoopt.kinds.instance_file import read_instance
from topoopt.kinds.shared_cluster.flows_solve import solve_shared_load

SIX_MB = 1_500_000
"""Weights of an operator."""


def job(name: str, servers: int, forward_ms: float, weights: int) -> dict[str, Any]:
    """A job of two operators that may be split over all servers or stand on one."""

    def operator(label: str, inputs: list[str]) -> dict[str, Any]:
        return {
            "name": label,
            "kind": "dense",
            "output_elements": 2000,
            "weight_elements": [weights],
            "inputs": [{"operator": each} for each in inputs],
            "splits": [
                {"sample_ways": ways, "forward_ms": forward_ms / ways, "backward_ms": 2 * forward_ms / ways}
                for ways in (1, servers)
            ],
        }

    return {
        "schema_version": 1,
        "kind": "co-optimisation",
        "name": name,
        "cluster": {"servers": servers, "gpus_per_server": 2, "degree": 2, "link_gbps": 25},
        "workload": {"name": name, "samples": 64 * servers, "operators": [operator("a", []), operator("b", ["a"])]},
    }


def instance(**changes: Any) -> dict[str, Any]:
    """Two classes on four fabrics."""
    return {
        "schema_version": 1,
        "kind": "shared-load",
        "name": "small",
        "cluster": {"servers": 16, "degree": 2, "link_gbps": 100},
        "classes": [
            {"name": "short", "share": 3, "file": "short.json"},
            {"name": "long", "share": 1, "file": "long.json"},
        ],
        "loads": [1, 4],
        "repetitions": 2,
        "fabrics": [
            "direct-connect",
            {"fabric": "fat-tree"},
            {"label": "slow-tree", "fabric": "fat-tree", "nic_gbps": 100, "oversubscription": 2},
            {"fabric": "ideal-switch"},
        ],
        "search": {"budget": 40, "seed": 1},
        **changes,
    }


PUBLISHED = {
    "dlrm": ((15.185, 19.382, 19.612, 19.926, 20.917), 35.0),
    "bert": ((62.644,), 42.25),
    "candle": ((131.546,), 20.475),
    "vgg": ((100.559,), 2.275),
}
"""Times of 16-server jobs on their own shard at d = 8, and the shares the published sampling gives."""


def published(shares: Mapping[str, float] | None = None, **changes: Any) -> dict[str, Any]:
    """The published experiment from its dedicated times."""
    classes = [
        {"name": name, "share": (shares or {}).get(name, share), "times_ms": list(times), "servers": 16}
        for name, (times, share) in PUBLISHED.items()
    ]
    return {
        **instance(),
        "name": "published",
        "cluster": {"servers": 432, "degree": 8, "link_gbps": 100},
        "classes": classes,
        "loads": [5, 10, 15, 20, 27],
        "repetitions": 400,
        "fabrics": [{"fabric": "direct-connect"}],
        **changes,
    }


def write(folder: Path, document: Mapping[str, Any]) -> Path:
    """The instance with the files of its classes."""
    for name, forward_ms, weights in (("short", 2.0, 400_000), ("long", 6.0, SIX_MB)):
        (folder / f"{name}.json").write_text(json.dumps(job(name, 4, forward_ms, weights)))
    path = folder / "shared.json"
    path.write_text(json.dumps(document, indent=1))
    return path


def read(document: Mapping[str, Any]) -> SharedLoadProblem:
    """The domain object of an instance."""
    with TemporaryDirectory() as folder:
        problem = read_instance(write(Path(folder), document))
    assert isinstance(problem, SharedLoadProblem)
    return problem


@lru_cache
def solved() -> tuple[SharedLoadProblem, SharedLoadSolution]:
    """The small instance and its solution."""
    problem = read(instance())
    return problem, solve_shared_load(problem)
