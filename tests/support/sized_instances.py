"""Instances of every kind, from two servers to thousands, to hold limits against."""

from __future__ import annotations

from typing import Any

import yaml

from tests.support.dag_jobs import pipeline
from tests.support.paths import INSTANCES

Document = dict[str, Any]


def job(servers: int, model: str = "dlrm") -> Document:
    """A training job with the sizes of its model as they are."""
    cluster = {"servers": servers, "gpus_per_server": 4, "degree": 4, "link_gbps": 100, "links": "bidirectional"}
    workload = {"model": model, "operator_times": {"device": "a100"}}
    return {"kind": "co-optimisation", "cluster": cluster, "workload": workload}


def topology(servers: int) -> Document:
    """Uniform demand, four links a server."""
    shape = {"servers": servers, "degree": min(4, servers), "links": "unidirectional"}
    return {"kind": "topology", **shape, "demand": {"family": "uniform"}}


def routing(dims: tuple[int, ...]) -> Document:
    """Uniform demand on a torus."""
    return {"kind": "routing", "topology": {"family": "torus", "dims": list(dims)}, "demand": {"family": "uniform"}}


RINGS_4096 = {"family": "circulant", "servers": 4096, "offsets": [1, 64], "links": "bidirectional"}
"""Looks the same from every server: of others this large, no file holds the routes. Nor does one hold the rates of
transfers over a plain ring, whose paths are a thousand links long."""


def allocation(servers: int) -> Document:
    """Every server sends to one other over the shortest paths of a ring."""
    ends = [{"source": i, "destination": (7 * i + 3) % servers} for i in range(servers) if (6 * i + 3) % servers]
    return {
        "kind": "allocation",
        "topology": {"family": "ring", "servers": servers},
        "link_gbps": 100,
        "transfers": ends,
    }


def placement(devices: int, objective: str) -> Document:
    """A transformer on servers of one device each."""
    servers = [
        {
            "name": f"server{place}",
            "links": [{"name": "eth0", "gbps": 100}],
            "devices": [{"name": f"gpu{place}", "class": "gpu", "memory_bytes": 80_000_000_000}],
        }
        for place in range(devices)
    ]
    sizes = {"layers": 8, "hidden": 1024, "heads": 16, "global_batch": 4}
    workload = {"model": "gpt", "sizes": sizes, "device": "a100"}
    return {"kind": "placement", "objective": objective, "servers": servers, "workload": workload}


def shipped(name: str, **changes: Any) -> Document:
    """An instance of the repository, changed; jobs of a trace are read where they are."""
    document: Document = yaml.safe_load((INSTANCES / name).read_text())
    trace = document.get("jobs", {}).get("trace")
    if trace:
        document["jobs"]["trace"] = str((INSTANCES / name).parent / trace)
    return {**document, **changes}


def circuits(stages: int, replicas: int, micro_batches: int) -> Document:
    """A pipeline of 1F1B as a graph, a pod for each stage of each replica, and a circuit to spare for each peer."""
    ports = 2 + replicas
    job = pipeline(stages, replicas, micro_batches, gradients=4.0, ports=ports)
    names = [step.name for step in (*job.transfers, *job.tasks)]
    moves = [
        {"name": one.name, "source": one.source, "target": one.target, "volume": one.volume, "after": after(names, one)}
        for one in job.transfers
    ]
    tasks = [{"name": one.name, "duration": one.duration, "after": after(names, one)} for one in job.tasks]
    size = {"pods": job.pods, "ports": ports, "circuit_rate": 1}
    return {"kind": "dag-topology", **size, "transfers": moves, "tasks": tasks}


def after(names: list[str], step: Any) -> list[str]:
    """Names of what a step waits for."""
    return [names[k] for k in step.after]


def regional(servers: int, steps: int) -> Document:
    """Experts whose demand changes from step to step."""
    family = {"family": "hot-experts", "steps": steps, "seed": 1, "law": "dirichlet", "skew": 0.4, "affinity": 0.3}
    size = {"servers": servers, "ports": 6, "circuit_gbps": 400, "electrical_gbps": 800}
    demands, switching = [{**family, "scale": 4.0e8}], {"delay_ms": 25, "window_ms": 30}
    return {"kind": "regional-circuits", **size, "demands": demands, "switching": switching}


def language_model(model: str, servers: int, **changes: Any) -> Document:
    """Servers of eight GPUs, every strategy, on three fabrics."""
    shape = {"servers": servers, "gpus_per_server": 8, "degree": 8, "interfaces": "per-gpu", "link_gbps": 400}
    gpus = {"device": "h100", "intra_server_gbps": 3600}
    return {
        "kind": "llm-training",
        "model": model,
        "batch": {"sequences": 8 * servers, "length": 4096},
        "cluster": {**shape, **gpus},
        "fabrics": ["direct-connect", "rail-only", "ideal-switch"],
        **changes,
    }


def collective(dims: tuple[int, ...]) -> Document:
    """AllGather on a torus."""
    topology = {"family": "torus", "dims": list(dims), "link_gbytes_per_s": 50}
    return {"kind": "collective", "topology": topology, "collective": "allgather", "bytes": "1GiB"}


SMALL: dict[str, Document] = {
    "job": job(2),
    "topology": topology(16),
    "routing": routing((4, 4)),
    "allocation": allocation(16),
    "throughput": placement(4, "throughput"),
    "latency": placement(4, "latency"),
    "circuits": circuits(2, 2, 2),
    "regional circuits": regional(8, 4),
    "language model": shipped("llm-training/small-16.yaml"),
    "rails": shipped("llm-training/rails-32.yaml"),
    "pods": shipped("llm-training/pods-16.yaml"),
    "collective": collective((3, 3)),
    "arrivals": shipped("shared/trace-16.yaml"),
    "dimensions": shipped("hierarchical/gpt3-3d.yaml"),
}
"""One of every kind that is searched, of a few servers."""

LARGE: dict[str, Document] = {
    **{f"job of {n}": job(n) for n in (16, 64, 128, 512, 1024)},
    "job of 64 transformers": job(64, "gpt"),
    **{f"topology of {n}": topology(n) for n in (2, 64, 128, 512, 1024, 4096)},
    "routing of 64": routing((4, 4, 4)),
    "routing of 512": routing((8, 8, 8)),
    "routing of 4096": {**routing((16, 16, 16)), "topology": RINGS_4096},
    "routing of a torus of 4096": routing((16, 16, 16)),
    **{f"allocation of {n}": allocation(n) for n in (128, 512, 1024)},
    "allocation of 4096": {**allocation(4096), "topology": RINGS_4096},
    **{f"throughput on {n}": placement(n, "throughput") for n in (16, 64)},
    **{f"latency on {n}": placement(n, "latency") for n in (16, 64)},
    "circuits of 32 pods": circuits(8, 4, 32),
    **{f"regional circuits of {n}": regional(n, 4) for n in (32, 64)},
    "language model on 1024": language_model("llama3-70b", 128),
    "experts on 1024": language_model("mixtral-8x22b", 128),
    "language model on 16384": language_model("llama3-405b", 2048),
    **{f"collective on {'x'.join(map(str, dims))}": collective(dims) for dims in ((4, 4, 4), (8, 8, 8))},
    "arrivals on 432": shipped("shared/arrivals-432.yaml"),
    "arrivals on 4096": shipped("shared/arrivals-4096.yaml"),
    "strategies of dimensions": shipped("hierarchical/gpt3-strategies.yaml"),
    "fleet of dimensions": shipped("hierarchical/fleet-4d.yaml"),
}
"""The same of many."""

REFUSED: dict[str, Document] = {
    "routing on a mesh of 4096": {**routing((64, 64)), "topology": {"family": "mesh", "dims": [64, 64]}},
    "allocation on a ring of 4096": allocation(4096),
}
"""What no solution file holds."""
