"""From domain objects back to what stands in an instance file."""

from __future__ import annotations

from topoopt.core.cluster import Cluster
from topoopt.core.units import GIB
from topoopt.core.workload import Operator, Split, Workload

Entry = dict[str, object]


def split_document(split: Split) -> Entry:
    """One entry of `splits`."""
    ways = ("sample_ways", "channel_ways", "reduce_ways")
    return {name: getattr(split, name) for name in (*ways, "forward_ms", "backward_ms", "server_memory_bytes")}


def operator_document(operator: Operator, workload: Workload) -> Entry:
    """One entry of `operators`."""
    return {
        "name": operator.name,
        "kind": operator.kind,
        "output_elements": operator.output_elements,
        "element_bytes": operator.element_bytes,
        "weight_elements": list(operator.weight_elements),
        "inputs": [
            {"operator": workload.operators[edge.producer].name, "fraction": edge.fraction} for edge in operator.inputs
        ],
        "mixes_channels": operator.mixes_channels,
        "locally_reduced": operator.locally_reduced,
        "pinned_offset": operator.pinned_offset,
        "splits": [split_document(split) for split in operator.splits],
    }


def workload_document(workload: Workload) -> Entry:
    """A workload in full, as it stands under `workload`; reading it back gives an equal one."""
    return {
        "name": workload.name,
        "samples": workload.samples,
        "operators": [operator_document(operator, workload) for operator in workload.operators],
    }


def cluster_document(cluster: Cluster) -> Entry:
    """A cluster as it stands under `cluster`; reading it back gives an equal one."""
    memory = cluster.gpu_memory_bytes
    return {
        "servers": cluster.servers,
        "gpus_per_server": cluster.gpus_per_server,
        "degree": cluster.degree,
        "link_gbps": cluster.link_gbps,
        "links": cluster.links.value,
        "hop_latency_us": cluster.hop_latency_us,
        "ring_round_latency_us": cluster.ring_round_latency_us,
        "intra_server_gbps": cluster.intra_server_gbps,
        "local_allreduce": cluster.local_allreduce.value,
        "link_sharing": cluster.link_sharing.value,
        "gpu_memory_gib": None if memory is None else memory / GIB,
    }
