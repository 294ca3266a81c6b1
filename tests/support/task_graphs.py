"""Task graphs on unequal devices: the ten tasks of a paper, and random layers, whole milliseconds."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.placement import PlacementProblem
from topoopt.files.documents import Document
from topoopt.kinds.files import build_instance

Delays = tuple[tuple[int, int, int], ...]
"""Producer, consumer, milliseconds of the transfer."""

TIMES_MS = (
    (14, 16, 9), (13, 19, 18), (11, 13, 19), (13, 8, 17), (12, 13, 10),
    (13, 16, 9), (7, 15, 11), (5, 11, 14), (18, 12, 20), (21, 7, 16),
)  # fmt: skip
DELAYS_MS: Delays = (
    (0, 1, 18), (0, 2, 12), (0, 3, 9), (0, 4, 11), (0, 5, 14), (1, 7, 19), (1, 8, 16), (2, 6, 23),
    (3, 7, 27), (3, 8, 23), (4, 8, 13), (5, 7, 15), (6, 9, 17), (7, 9, 11), (8, 9, 13),
)  # fmt: skip


def ten_tasks() -> tuple[Ints, Delays]:
    """The example of Topcuoglu, Hariri and Wu (IEEE TPDS 2002): 10 tasks, 3 processors; their lists take 80 and 86."""
    return np.array(TIMES_MS), DELAYS_MS


def layered(tasks: int, devices: int, ratio: float, seed: int) -> tuple[Ints, Delays]:
    """Random layers as in the generator of that paper: mean width sqrt(tasks), one start and one end.

    Args:
        ratio: mean delay over mean time.
    """
    rng = np.random.default_rng(seed)
    sizes = [1]
    while sum(sizes) < tasks - 1:
        sizes.append(int(min(tasks - 1 - sum(sizes), max(1, rng.integers(1, round(2 * tasks**0.5) + 1)))))
    sizes.append(1)
    layer = np.repeat(np.arange(len(sizes)), sizes)
    mean = rng.uniform(10, 70, tasks)
    time = np.maximum(1, np.rint(mean[:, None] * rng.uniform(0.5, 1.5, (tasks, devices))))
    pairs = set()
    for j in range(1, tasks):
        above = np.flatnonzero(layer == layer[j] - 1)
        chosen = rng.choice(above, min(len(above), int(rng.integers(1, 4))), replace=False)
        pairs |= {(int(i), j) for i in chosen}
    for i in range(tasks - 1):
        if not any(a == i for a, _ in pairs):
            pairs.add((i, int(rng.choice(np.flatnonzero(layer == layer[i] + 1)))))
    delays = tuple((i, j, round(rng.uniform(0.5, 1.5) * ratio * time.mean())) for i, j in sorted(pairs))
    return time.astype(np.int64), delays


def task_graph(times_ms: Ints, delays_ms: Delays, sharing: str) -> PlacementProblem:
    """A placement on devices of their own classes and servers; a transfer of a megabyte takes a millisecond."""
    devices = range(times_ms.shape[1])
    document = {
        "schema_version": 1,
        "kind": "placement",
        "name": "tasks",
        "objective": "latency",
        "latency": {"sharing": sharing},
        "servers": [
            {"name": f"s{d}", "links": [{"name": "eth0", "gbps": 8}], "devices": [{"name": f"d{d}", "class": f"c{d}"}]}
            for d in devices
        ],
        "operators": [
            {"name": f"t{i}", "times_ms": {f"c{d}": float(row[d]) for d in devices}} for i, row in enumerate(times_ms)
        ],
        "tensors": [
            {"producer": f"t{i}", "consumers": [f"t{j}"], "size_bytes": delay * 10**6} for i, j, delay in delays_ms
        ],
    }
    problem: PlacementProblem = build_instance(Document("tasks", document, lambda _: {}))
    return problem
