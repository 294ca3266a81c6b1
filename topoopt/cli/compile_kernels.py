"""Compile the kernels of every kind once, by solving something small of each; they stay on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from topoopt.core.errors import TopooptError

_SERVERS = [
    {
        "name": f"server{place}",
        "links": [{"name": "eth0", "gbps": 100}],
        "devices": [{"name": f"gpu{place}", "class": "gpu", "memory_bytes": 80_000_000_000}],
    }
    for place in range(2)
]
_UNIFORM = {"demand": {"family": "uniform"}}

SMALL: Mapping[str, Mapping[str, Any]] = {
    "co-optimisation": {
        "kind": "co-optimisation",
        "cluster": {"servers": 4, "gpus_per_server": 1, "degree": 2, "link_gbps": 25, "links": "bidirectional"},
        "workload": {"model": "ncf", "operator_times": {"device": "a100"}},
        "search": {"budget": 200},
    },
    "routing": {"kind": "routing", "topology": {"family": "torus", "dims": [3, 3]}, **_UNIFORM},
    "topology": {"kind": "topology", "servers": 10, "degree": 2, "links": "unidirectional", **_UNIFORM},
    "placement": {
        "kind": "placement",
        "objective": "latency",
        "servers": _SERVERS,
        "workload": {"model": "gpt", "sizes": {"layers": 2, "hidden": 64, "heads": 4}, "device": "a100"},
        "search": {"budget": 200},
    },
    "shared-cluster": {
        "kind": "shared-cluster",
        "cluster": {"servers": 8, "degree": 2, "link_gbps": 25},
        "fabrics": [{"kind": "partitioned"}, {"kind": "fat-tree"}],
        "classes": [
            {
                "name": "one",
                "servers": 2,
                "iteration_ms": 100,
                "compute_ms": 60,
                "allreduce_gbytes": 0.05,
                "duration_s": 60,
            }
        ],
        "jobs": {"count": 4, "load": 0.5, "mix": {"one": 1}},
        "objective": "mean-completion-time",
    },
    "collective": {
        "kind": "collective",
        "topology": {"family": "ring", "servers": 5},
        "collective": "allreduce",
        "bytes": 1_000_000,
    },
}
"""Instances by name; between them they call nearly every kernel."""

TOPOLOGIES = "collective find"

MOST_S = 20.0
"""Of the search of each, without the time of the compiler."""


def compile_kernels(tell: Callable[[str], None]) -> dict[str, Any]:
    """Solve the small instances; seconds of each, and what went wrong.

    Args:
        tell: told which is solved.
    """
    from topoopt.files.documents import Document
    from topoopt.kinds.instance_file import build_instance
    from topoopt.kinds.kind import SolveOptions
    from topoopt.kinds.pipeline import solve

    done: dict[str, Any] = {}
    for name, document in SMALL.items():
        tell(f"compiling kernels for {name}")
        began, reason = time.monotonic(), None
        try:
            whole = {"schema_version": 1, "name": name, **document}
            solution = solve(build_instance(Document(name, whole, lambda _: {})), SolveOptions(time_limit_s=MOST_S))
            reason = None if solution.check.ok else "; ".join(solution.check.violations)
        except TopooptError as error:
            reason = str(error)
        done[name] = {"ok": reason is None, "reason": reason, "wall_s": round(time.monotonic() - began, 3)}
    tell(f"compiling kernels for {TOPOLOGIES}")
    began = time.monotonic()
    reason = _topologies()
    done[TOPOLOGIES] = {"ok": reason is None, "reason": reason, "wall_s": round(time.monotonic() - began, 3)}
    return done


def _topologies() -> str | None:
    """Search for topologies of twelve servers; what went wrong."""
    from topoopt.analyses.collective.calls import find_topologies

    try:
        for links in ("unidirectional", "bidirectional"):
            found = find_topologies(12, 3, links=links, visits=20_000, time_limit_s=MOST_S)
            if found.preferred.bandwidth < found.limits.bandwidth:
                return f"a bandwidth factor of {found.preferred.bandwidth} is below {found.limits.bandwidth}"
    except TopooptError as error:
        return str(error)
    return None
