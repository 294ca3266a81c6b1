"""Small hierarchical problems, the published ones, and ways to run a command."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.support.paths import SHARED_DATA
from topoopt.core.hierarchy import Design, HierarchicalProblem
from topoopt.core.result import Result
from topoopt.files.documents import Document
from topoopt.formats.libra import libra_document
from topoopt.kinds.hierarchy.read import resolve
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.hierarchy import fleet_time_ns, network_cost_usd

SHARED = SHARED_DATA / "libra"


def problem_of(document: dict[str, Any]) -> HierarchicalProblem:
    """The problem of an instance document."""
    return resolve(Document("case.yaml", document, lambda _: {}))


def solved(document: dict[str, Any], **options: Any) -> Result[Any, Any]:
    """A solution that the checker accepts."""
    solution: Result[Any, Any] = solve(problem_of(document), SolveOptions(**options))
    assert solution.check.ok, solution.check.violations
    return solution


def published(model: str, shape: str, **fields: Any) -> dict[str, Any]:
    """The document of one of the published problems, or skip."""
    if not SHARED.exists():
        pytest.skip(f"shared data absent: {SHARED}")
    document, _ = libra_document(
        SHARED / "network" / f"{shape}_network.yml",
        SHARED / "cost_model" / f"{shape}_cost_model.yml",
        SHARED / "workload" / f"{model}.txt",
        SHARED / "communicator" / f"{model}_{shape}.yml",
        name=model,
        total_gbytes_per_s=fields.pop("total", 500.0),
        objective="time",
        loop=fields.pop("loop", "no-overlap"),
        pareto_points=0,
    )
    return {**document, **fields}


def network(sizes: Sequence[int], prices: Sequence[float] | None = None, **fields: Any) -> dict[str, Any]:
    """Rings of these sizes, d0 innermost, with prices for 1 GB/s of one NPU."""
    dimensions: list[dict[str, Any]] = []
    for place, size in enumerate(sizes):
        tier = {} if prices is None else {"tier": f"t{place}"}
        dimensions.append({"name": f"d{place}", "block": "ring", "size": size, **tier})
    tiers = {} if prices is None else {f"t{place}": {"link": price} for place, price in enumerate(prices)}
    return {"dimensions": dimensions, "tiers": tiers, **fields}


def phase(compute_ns: float, *collectives: tuple[str, float, str | None]) -> dict[str, Any]:
    """Compute and (collective, bytes, communicator)."""
    rows = [{"collective": kind, "bytes": size, "communicator": own} for kind, size, own in collectives]
    return {"compute_ns": compute_ns, "collectives": rows}


def job(name: str = "job", *layers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A workload of layers; without any, one all-reduce of 10^9 bytes over the whole network after 10^6 ns."""
    own = layers or (layer(weight_gradient=phase(1e6, ("all-reduce", 1e9, None))),)
    return {"name": name, "layers": list(own), **fields}


def layer(name: str = "layer", **phases: Any) -> dict[str, Any]:
    """A layer."""
    return {"name": name, **phases}


def instance(net: dict[str, Any], *workloads: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """An instance document."""
    head = {"schema_version": 1, "kind": "hierarchical-bandwidth", "name": "case"}
    return copy.deepcopy({**head, "network": net, "workloads": list(workloads) or [job()], **fields})


def random_instance(seed: int, dimensions: int = 3, **fields: Any) -> dict[str, Any]:
    """Tensor parallelism on the inner dimensions, data parallelism on the outer ones, an all-to-all over everything."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([2, 3, 4, 5, 8, 16], size=dimensions).tolist()
    prices = rng.uniform(1.0, 60.0, size=dimensions).round(3).tolist()
    cut = int(rng.integers(1, dimensions))
    tensor = [size if place < cut else 1 for place, size in enumerate(sizes)]
    data = [1 if place < cut else size for place, size in enumerate(sizes)]

    def size_bytes() -> int:
        return round(rng.uniform(1e7, 3e9))

    layers = [
        layer(
            f"layer {number}",
            repeat=int(rng.integers(1, 4)),
            forward=phase(round(rng.uniform(0, 3e6)), ("all-reduce", size_bytes(), "tensor")),
            input_gradient=phase(round(rng.uniform(0, 3e6)), ("all-gather", size_bytes() / 100, "tensor")),
            weight_gradient=phase(
                round(rng.uniform(0, 3e6)),
                ("reduce-scatter", size_bytes(), "data"),
                ("all-to-all", size_bytes(), None),
            ),
        )
        for number in range(3)
    ]
    own = job("job", *layers, communicators={"tensor": tensor, "data": data}, loop=fields.pop("loop", "no-overlap"))
    net = network(sizes, prices, total_gbytes_per_s=round(rng.uniform(50, 900)))
    return instance(net, own, **fields)


TENSOR_DATA = {"tensor": [4, 1], "data": [1, 8]}


def value_at(problem: HierarchicalProblem, design: Design, bandwidth: Any) -> float:
    """The objective by the checker's evaluation."""
    time = fleet_time_ns(design, problem.fleet, bandwidth)
    cost = network_cost_usd(design.network, bandwidth)
    return {"time": time, "time-times-cost": time * (cost or 0.0), "cost": cost or 0.0}[problem.objective]
