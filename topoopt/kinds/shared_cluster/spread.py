"""Shards over several groups of servers, for jobs that do not use all interfaces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.shards import find_shard
from topoopt.core.arrays import Bools, Ints
from topoopt.core.optical_layer import OpticalLayer, ShardShape
from topoopt.core.shared_cluster_jobs import JobClass


def any_shape(servers: int, interfaces: int) -> ShardShape:
    """The hardest shape to place: every interface joins all ranks. A shard of it has a place for any other shape."""
    ring = (np.arange(servers, dtype=np.int32) + 1) % np.int32(servers)
    return ShardShape(np.tile(ring if servers > 1 else np.full(1, -1, dtype=np.int32), (interfaces, 1)))


class SpreadPlacer:
    """Servers that share a switch in as many planes as the class has interfaces, whatever they do in the others."""

    by_size = False

    def __init__(self, layer: OpticalLayer, classes: Sequence[JobClass], seed: int) -> None:
        self.layer, self.seed = layer, seed
        planes = layer.planes
        self.shapes = [any_shape(one.servers, one.interfaces or planes) for one in classes]

    def fits(self, free: Bools, servers: int, job_class: int) -> bool:
        """Whether a shard is found."""
        return self.place(free, servers, job_class) is not None

    def place(self, free: Bools, servers: int, job_class: int) -> Ints | None:
        """int64[servers], ascending; None when no shard is found."""
        if int(np.count_nonzero(free)) < servers:
            return None
        shard = find_shard(self.layer, free, self.shapes[job_class], self.seed)
        return None if shard is None else np.sort(np.array(shard.servers, dtype=np.int64))
