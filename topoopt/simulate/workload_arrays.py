"""A workload as arrays, from which strategies are lowered to task graphs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.workload import GRADIENT_BYTES, Workload, strided_groups


class WorkloadArrays(NamedTuple):
    """A workload on n servers in flat arrays; operators o, splits by `split_ptr`, input edges e by `edge_ptr`."""

    servers: int
    samples: int
    split_ptr: Ints
    sample_ways: Ints
    channel_ways: Ints
    reduce_ways: Ints
    forward_ms: Floats
    backward_ms: Floats
    memory: Floats
    edge_ptr: Ints
    producer: Ints
    fraction: Floats
    channels: Ints
    element_bytes: Ints
    mixes: Bools
    weight_ptr: Ints
    weight_bytes: Ints
    local_ms: Floats
    group_base: Ints
    pinned: Ints


def workload_arrays(cluster: Cluster, workload: Workload) -> WorkloadArrays:
    """Flatten a workload.

    `pinned` holds the offset of operators that may not move, -1 for the others. `local_ms` is laid out per operator as
    splits x weights: entry (split, w) is the time of the AllReduce inside a server of the part's shard of weight w.
    """
    n = cluster.servers
    group_base = np.full(n + 1, -1, dtype=np.int64)
    for index, members in enumerate(strided_groups(n)):
        if members[0] == 0:
            group_base[len(members)] = index
    operators = workload.operators
    splits = [split for operator in operators for split in operator.splits]
    local = [
        cluster.local_allreduce_ms(GRADIENT_BYTES * elements // (split.channel_ways * split.reduce_ways))
        if operator.locally_reduced
        else 0.0
        for operator in operators
        for split in operator.splits
        for elements in operator.weight_elements
    ]

    def ptr(lengths: list[int]) -> Ints:
        return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)

    return WorkloadArrays(
        servers=n,
        samples=workload.samples,
        split_ptr=ptr([len(operator.splits) for operator in operators]),
        sample_ways=np.array([split.sample_ways for split in splits], dtype=np.int64),
        channel_ways=np.array([split.channel_ways for split in splits], dtype=np.int64),
        reduce_ways=np.array([split.reduce_ways for split in splits], dtype=np.int64),
        forward_ms=np.array([split.forward_ms for split in splits], dtype=np.float64),
        backward_ms=np.array([split.backward_ms for split in splits], dtype=np.float64),
        memory=np.array([split.server_memory_bytes for split in splits], dtype=np.float64),
        edge_ptr=ptr([len(operator.inputs) for operator in operators]),
        producer=np.array([edge.producer for operator in operators for edge in operator.inputs], dtype=np.int64),
        fraction=np.array([edge.fraction for operator in operators for edge in operator.inputs], dtype=np.float64),
        channels=np.array([operator.output_elements for operator in operators], dtype=np.int64),
        element_bytes=np.array([operator.element_bytes for operator in operators], dtype=np.int64),
        mixes=np.array([operator.mixes_channels for operator in operators], dtype=np.bool_),
        weight_ptr=ptr([len(operator.weight_elements) for operator in operators]),
        weight_bytes=np.array(
            [GRADIENT_BYTES * elements for operator in operators for elements in operator.weight_elements],
            dtype=np.int64,
        ),
        local_ms=np.array(local, dtype=np.float64),
        group_base=group_base,
        pinned=np.array([-1 if op.pinned_offset is None else op.pinned_offset for op in operators], dtype=np.int64),
    )
