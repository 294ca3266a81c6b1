"""Small shared clusters, and ways to run them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from topoopt.core.cluster import Cluster, block_layer
from topoopt.core.shared_cluster import (
    FAT_TREE,
    IDEAL_SWITCH,
    PARTITIONED,
    Fabric,
    Goal,
    JobClass,
    QueueOrder,
    Scheduling,
    SharedCluster,
    TracedJob,
)

PARTITIONED = Fabric("partitioned", PARTITIONED, 400.0, placement="best-fit")
IDEAL = Fabric("ideal", IDEAL_SWITCH, 400.0, placement="packed")


def fat_tree(name: str = "tree", gbps: float = 400.0, ratio: float = 1.0, **fields: str) -> Fabric:
    """A fat-tree whose jobs take the lowest servers."""
    settings = {"placement": "packed", **fields}
    return Fabric(name, FAT_TREE, gbps, ratio, **settings)  # type: ignore[arg-type]


def plain_class(name: str, servers: int, ms: float = 1000.0, **fields: float) -> JobClass:
    """A class of one iteration time that sends nothing unless told."""
    return JobClass(name, servers, (ms,), **{"compute_ms": ms, **fields})  # type: ignore[arg-type]


def shared_cluster(
    jobs: Sequence[tuple[float, int, int]],
    classes: Sequence[JobClass],
    *,
    servers: int = 8,
    ports: int | None = None,
    switching_s: float = 0.0,
    look_ahead: bool = False,
    fabrics: Sequence[Fabric] = (PARTITIONED,),
    queue: QueueOrder = "fifo",
    defragment: bool = False,
    checkpoint_s: float = 1.0,
    goal: Goal = "mean-completion-time",
) -> SharedCluster:
    """A cluster of four interfaces of 100 Gbit/s; jobs are (arrival s, class, iterations)."""
    return SharedCluster(
        name="case",
        cluster=Cluster(servers, gpus_per_server=1, degree=4, link_gbps=100.0),
        layer=block_layer(servers, 4, ports or servers, switching_s),
        look_ahead=look_ahead,
        fabrics=tuple(fabrics),
        classes=tuple(classes),
        jobs=tuple(TracedJob(f"j{number}", *job) for number, job in enumerate(jobs)),
        scheduling=Scheduling(queue, defragment=defragment, checkpoint_s=checkpoint_s),
        goal=goal,
    )


def step_by_step(parts: np.ndarray, capacity: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Max-min rates from the definition: raise all rates together until each is stopped; parts is [jobs, links]."""
    rate = np.zeros(len(limit))
    rising = np.ones(len(limit), dtype=bool)
    while rising.any():
        growth = parts[rising].sum(axis=0)
        room = [(c - load) / g for c, load, g in zip(capacity, rate @ parts, growth, strict=True) if g > 1e-12]
        rate[rising] += max(0.0, min([*room, *(limit - rate)[rising]]))
        full = rate @ parts >= capacity * (1 - 1e-12)
        rising &= ~(parts[:, full] > 0).any(axis=1) & (rate < limit * (1 - 1e-12))
    return rate
