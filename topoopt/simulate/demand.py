"""Network demand of a task graph: the matrix of model-parallel bytes and the payload of every AllReduce group."""

from __future__ import annotations

import numpy as np

from topoopt.core.routing import AllReduceDemand, Demand
from topoopt.core.workload import TaskGraph, TaskKind


def demand_of(graph: TaskGraph) -> Demand:
    """Demand of one iteration (forward and backward transfers added up)."""
    n = graph.servers
    sent = graph.kind == TaskKind.TRANSFER
    slot = graph.source[sent].astype(np.int64) * n + graph.target[sent]
    matrix = np.zeros((n, n), dtype=np.float64)
    np.add.at(matrix.reshape(-1), slot, graph.bytes[sent].astype(np.float64))
    reduced = (graph.kind == TaskKind.ALLREDUCE) & (graph.group >= 0)
    payload = np.bincount(
        graph.group[reduced], weights=graph.bytes[reduced].astype(np.float64), minlength=len(graph.groups)
    )
    return Demand(
        model_parallel_bytes=matrix,
        allreduce=tuple(
            AllReduceDemand(members, float(payload[index]))
            for index, members in enumerate(graph.groups)
            if payload[index] > 0
        ),
    )
