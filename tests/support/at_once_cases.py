"""Small instances of jobs at once: four servers each on a cluster of sixteen, and the published times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from topoopt.core.result import Result
from topoopt.core.shared_cluster import SharedCluster
from topoopt.kinds.files import read_instance
from topoopt.kinds.pipeline import solve

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


def instance(jobs: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Two classes on four fabrics; `jobs` changes the section of the jobs."""
    return {
        "schema_version": 1,
        "kind": "shared-cluster",
        "name": "small",
        "cluster": {"servers": 16, "degree": 2, "link_gbps": 100},
        "classes": [{"name": "short", "plan": "short.json"}, {"name": "long", "plan": "long.json"}],
        "jobs": {"at_once": [1, 4], "repetitions": 2, "mix": {"short": 3, "long": 1}, **(jobs or {})},
        "fabrics": [
            {"name": "direct-connect", "kind": "partitioned"},
            {"kind": "fat-tree"},
            {"name": "slow-tree", "kind": "fat-tree", "server_gbps": 100, "oversubscription": 2},
            {"kind": "ideal-switch"},
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
"""Times of 16-server jobs on their own shard at d = 8, and the shares the published sampling gives
(TopoOpt, NSDI'23, Fig 16, and its public artifact)."""


def published(
    weights: Mapping[str, float] | None = None, jobs: Mapping[str, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    """The published experiment from its dedicated times; `jobs` changes the section of the jobs."""
    classes = [{"name": name, "iteration_ms": list(times), "servers": 16} for name, (times, _) in PUBLISHED.items()]
    mix = {name: (weights or {}).get(name, weight) for name, (_, weight) in PUBLISHED.items()}
    return {
        **instance(),
        "name": "published",
        "cluster": {"servers": 432, "degree": 8, "link_gbps": 100},
        "classes": classes,
        "jobs": {"at_once": [5, 10, 15, 20, 27], "repetitions": 400, "mix": mix, **(jobs or {})},
        "fabrics": [{"kind": "partitioned"}],
        **changes,
    }


def write(folder: Path, document: Mapping[str, Any]) -> Path:
    """The instance with the files of its classes."""
    for name, forward_ms, weights in (("short", 2.0, 400_000), ("long", 6.0, SIX_MB)):
        (folder / f"{name}.json").write_text(json.dumps(job(name, 4, forward_ms, weights)))
    path = folder / "shared.json"
    path.write_text(json.dumps(document, indent=1))
    return path


def read(document: Mapping[str, Any]) -> SharedCluster:
    """The domain object of an instance."""
    with TemporaryDirectory() as folder:
        problem = read_instance(write(Path(folder), document))
    assert isinstance(problem, SharedCluster)
    return problem


@lru_cache
def solved() -> tuple[SharedCluster, Result[Any, Any]]:
    """The small instance and its solution."""
    problem = read(instance())
    return problem, solve(problem)
