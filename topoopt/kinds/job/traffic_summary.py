"""Traffic of a plan in a few numbers, for tables of many plans: demand, path lengths, load of the links."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from topoopt.core.job_solution import JobSolution

QUANTILES = (("p50", 0.5), ("p99", 0.99))


def path_hop_shares(solution: JobSolution) -> dict[int, float]:
    """Part of the routed model-parallel bytes that take so many hops; empty without such traffic."""
    table = solution.plan.routes
    hops = np.diff(table.path_ptr) - 1
    pair = np.repeat(np.arange(len(table.source)), np.diff(table.pair_ptr))
    demand = solution.demand.model_parallel_bytes[table.source, table.target]
    carried = demand[pair] * table.share
    total = float(carried.sum())
    if total <= 0:
        return {}
    volume = np.bincount(hops, weights=carried)
    return {count: float(amount) / total for count, amount in enumerate(volume) if amount > 0}


def traffic_summary(solution: JobSolution) -> dict[str, Any]:
    """Keys `demand_bytes`, `mean_path_hops`, `path_hops` and `link_bytes` of the JSON summary.

    Bytes of a link: carried by one arc of the topology over an iteration; quantiles by nearest rank.
    """
    shares = path_hop_shares(solution)
    loads = np.sort(solution.evaluation.link_bytes)
    links: dict[str, float] = {}
    if len(loads):
        links = {"mean": float(loads.mean()), "max": float(loads[-1])}
        links |= {name: float(loads[max(0, math.ceil(part * len(loads)) - 1)]) for name, part in QUANTILES}
    return {
        "demand_bytes": {
            "allreduce": solution.demand.allreduce_wire_bytes,
            "model_parallel": float(solution.demand.model_parallel_bytes.sum()),
        },
        "mean_path_hops": sum(count * share for count, share in shares.items()) if shares else None,
        "path_hops": {str(count): share for count, share in shares.items()},
        "link_bytes": links,
    }
