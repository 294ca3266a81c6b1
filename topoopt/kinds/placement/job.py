"""The job of a co-optimisation instance as a placement instance: a server is one device."""

from __future__ import annotations

from typing import Any

from topoopt.core.errors import InputError, Problem
from topoopt.core.job import CoOptimisation
from topoopt.workloads.placement_graph import graph_of, nodes_of

DEVICE_CLASS = "server"


def job_document(problem: CoOptimisation, *, objective: str, name: str, training: bool) -> dict[str, Any]:
    """An instance document; times are those of an operator whole on one server, on the whole batch.

    Raises:
        InputError: operators that cannot run whole on one server, or larger than its memory.
    """
    cluster = problem.cluster
    try:
        graph = graph_of(nodes_of(problem.workload), training=training)
    except InputError as error:
        hint = "an instance with a smaller batch, or more memory a GPU"
        problems = [Problem(p.message, problem.source or None, value=p.value, allowed=hint) for p in error.problems]
        raise InputError(problems) from None
    names = [operator.name for operator in graph.operators]
    return {
        "schema_version": 1,
        "kind": "placement",
        "name": name,
        "objective": objective,
        "transfer_latency_us": cluster.hop_latency_us,
        "servers": [
            {
                "name": f"server{i}",
                "links": [{"name": f"eth{j}", "gbps": cluster.link_gbps} for j in range(cluster.degree)],
                "devices": [{"name": f"device{i}", "class": DEVICE_CLASS, "memory_bytes": cluster.server_memory_bytes}],
            }
            for i in range(cluster.servers)
        ],
        "operators": [
            {
                "name": operator.name,
                "times_ms": {DEVICE_CLASS: operator.times_ms[0]},
                "memory_bytes": operator.memory_bytes,
                "colocation": operator.colocation,
                "backward": operator.backward,
            }
            for operator in graph.operators
        ],
        "tensors": [
            {
                "producer": names[tensor.producer],
                "consumers": [names[user] for user in tensor.consumers],
                "size_bytes": tensor.size_bytes,
            }
            for tensor in graph.tensors
        ],
    }
