"""Instances of every kind, from two servers to thousands, to hold limits against."""

from __future__ import annotations

from typing import Any

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
"""Looks the same from every server: of a torus this large, no file holds the routes. Nor does one hold the rates of
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


SMALL: dict[str, Document] = {
    "job": job(2),
    "topology": topology(16),
    "routing": routing((4, 4)),
    "allocation": allocation(16),
    "throughput": placement(4, "throughput"),
    "latency": placement(4, "latency"),
}
"""One of every kind that is searched, of a few servers."""

LARGE: dict[str, Document] = {
    **{f"job of {n}": job(n) for n in (16, 64, 128, 512, 1024)},
    "job of 64 transformers": job(64, "gpt"),
    **{f"topology of {n}": topology(n) for n in (2, 64, 128, 512, 1024, 4096)},
    "routing of 64": routing((4, 4, 4)),
    "routing of 512": routing((8, 8, 8)),
    "routing of 4096": {**routing((16, 16, 16)), "topology": RINGS_4096},
    **{f"allocation of {n}": allocation(n) for n in (128, 512, 1024)},
    "allocation of 4096": {**allocation(4096), "topology": RINGS_4096},
    **{f"throughput on {n}": placement(n, "throughput") for n in (16, 64)},
    **{f"latency on {n}": placement(n, "latency") for n in (16, 64)},
}
"""The same of many."""

REFUSED: dict[str, Document] = {
    "routing on a torus of 4096": routing((16, 16, 16)),
    "allocation on a ring of 4096": allocation(4096),
}
"""What no solution file holds."""
