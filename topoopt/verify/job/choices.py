"""Which splits an operator may use at all, and what each costs: the raw material of the strategy-free bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.cluster import Cluster
from topoopt.core.workload import Operator, Split, Workload
from topoopt.verify.job.parts import split_problems
from topoopt.verify.job.schedule import least_reduction_ms
from topoopt.verify.job.traffic import BYTES_PER_MS_OF_ONE_GBPS, local_allreduce_ms, shard_bytes


@dataclass(frozen=True, eq=False)
class Choices:
    """The usable splits of one operator; float64 arrays over them.

    Attributes:
        splits: legal on the cluster, and a part fits the memory of a server.
        forward_ms, backward_ms: of one part.
        work_ms: of all parts, over all servers.
        reduction_ms: least time from the end of the backward tasks to the end of the AllReduces, at rate d B.
        wire_bytes: sent by all members in the AllReduces of all shards.
        least_local_ms: least time an AllReduce of the operator spends inside the servers before it uses the network.
    """

    splits: tuple[Split, ...]
    forward_ms: Floats
    backward_ms: Floats
    work_ms: Floats
    reduction_ms: Floats
    wire_bytes: Floats
    least_local_ms: float

    @property
    def whole_server_only(self) -> bool:
        """Every usable split keeps the operator in one part."""
        return all(_parts(split) == 1 for split in self.splits)

    def all_servers_only(self, servers: int) -> bool:
        """Every usable split puts a part on every server."""
        return all(_parts(split) == servers for split in self.splits)


def _parts(split: Split) -> int:
    return split.sample_ways * split.channel_ways * split.reduce_ways


def choices_of(cluster: Cluster, workload: Workload) -> tuple[Choices, ...]:
    """Usable splits of every operator (maybe none), in workload order."""
    return tuple(_choices(cluster, workload, operator) for operator in workload.operators)


def _choices(cluster: Cluster, workload: Workload, operator: Operator) -> Choices:
    memory = None if cluster.gpu_memory_bytes is None else cluster.gpu_memory_bytes * cluster.gpus_per_server
    splits = tuple(
        split
        for split in operator.splits
        if not split_problems(cluster, workload, operator, split)
        and (memory is None or split.server_memory_bytes <= memory)
    )
    interfaces = cluster.degree * cluster.link_gbps * BYTES_PER_MS_OF_ONE_GBPS
    reduction_ms, wire_bytes, least_local = [], [], []
    for split in splits:
        blocks, k = split.channel_ways * split.reduce_ways, split.sample_ways
        payloads = [shard_bytes(weight, blocks) for weight in operator.weight_elements]
        local = [local_allreduce_ms(cluster, payload) if operator.locally_reduced else 0.0 for payload in payloads]
        sent = [2.0 * (k - 1) / k * payload for payload in payloads]
        reduction_ms.append(least_reduction_ms(local, [size / interfaces if size else 0.0 for size in sent]))
        wire_bytes.append(k * blocks * sum(sent))
        least_local.append(min(local, default=0.0))
    forward = np.array([split.forward_ms for split in splits], dtype=np.float64)
    backward = np.array([split.backward_ms for split in splits], dtype=np.float64)
    return Choices(
        splits=splits,
        forward_ms=forward,
        backward_ms=backward,
        work_ms=(forward + backward) * np.array([_parts(split) for split in splits], dtype=np.float64),
        reduction_ms=np.array(reduction_ms, dtype=np.float64),
        wire_bytes=np.array(wire_bytes, dtype=np.float64),
        least_local_ms=min(least_local, default=0.0),
    )


def memory_need(workload: Workload, choices: tuple[Choices, ...]) -> int:
    """Least memory all parts of the job take together, bytes."""
    return sum(
        min(_parts(split) * split.server_memory_bytes for split in choice.splits) for choice in choices if choice.splits
    )
