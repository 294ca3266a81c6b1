"""Bounds on what a workload may ask for, checked before any table or task of that size is made."""

from __future__ import annotations

from collections.abc import Callable

from topoopt.core.cluster import Cluster
from topoopt.core.workload import GRADIENT_BYTES, Split, Workload
from topoopt.files.faults import Fault, Path
from topoopt.files.fields import MAX_OPERATORS

MAX_COMPUTE_TASKS = 4_000_000
"""Forward parts of all operators when each is split as finely as it may be."""

MAX_TRANSFERS = 1 << 28
"""Forward transfers of all tensors when producers and consumers are split as badly as they may be."""

MAX_TENSOR_BYTES = 10**15
MAX_TOTAL_BYTES = 10**16
"""Of all weights, and of all tensors: sums of traffic stay far inside 64-bit integers."""


Cuts = tuple[tuple[int, int], ...]
"""Pairs (channel_ways x reduce_ways, largest sample_ways that goes with it)."""


def _cuts(splits: tuple[Split, ...]) -> Cuts:
    largest: dict[int, int] = {}
    for split in splits:
        ways = split.channel_ways * split.reduce_ways
        largest[ways] = max(largest.get(ways, 0), split.sample_ways)
    return tuple(sorted(largest.items()))


def _transfers(producer: Cuts, consumer: Cuts) -> int:
    """Upper bound on the transfers of one tensor over all pairs of splits.

    Cutting one batch into s and t ranges leaves at most s + t - 1 common pieces; along the channels every part of the
    producer may meet every part of the consumer; in no case are there more than pairs of parts.
    """
    return max(min(s + t - 1, s * t) * c * e for c, s in producer for e, t in consumer)


def _all_transfers(workload: Workload) -> int:
    """Upper bound over all tensors; stops counting beyond the limit."""
    cuts = [_cuts(operator.splits) for operator in workload.operators]
    known: dict[tuple[Cuts, Cuts], int] = {}
    total = 0
    for index, operator in enumerate(workload.operators):
        for edge in operator.inputs:
            pair = (cuts[edge.producer], cuts[index])
            if pair not in known:
                known[pair] = _transfers(*pair)
            total += known[pair]
            if total > MAX_TRANSFERS:
                return total
    return total


def size_faults(workload: Workload, at: Callable[[int], Path]) -> list[Fault]:
    """Faults of a workload that is too large; `at` gives the path of an operator in the file."""
    faults = []
    if len(workload.operators) > MAX_OPERATORS:
        message = "too many operators"
        faults.append(Fault(("workload",), message, str(len(workload.operators)), f"at most {MAX_OPERATORS}"))
        return faults
    tensors = 0
    for index, operator in enumerate(workload.operators):
        output_bytes = workload.samples * operator.output_elements * operator.element_bytes
        tensors += output_bytes * max(1, len(operator.inputs))
        if output_bytes > MAX_TENSOR_BYTES:
            message = "the output tensor is too large (samples x output_elements x element_bytes)"
            faults.append(Fault(at(index), message, f"{output_bytes} bytes", f"at most {MAX_TENSOR_BYTES} bytes"))
    weights = GRADIENT_BYTES * sum(sum(operator.weight_elements) for operator in workload.operators)
    for what, total in (("output tensors", tensors), ("weights", weights)):
        if total > MAX_TOTAL_BYTES:
            message = f"all {what} together are too large"
            faults.append(Fault(("workload",), message, f"{total} bytes", f"at most {MAX_TOTAL_BYTES} bytes"))
    parts = sum(max(split.parts for split in operator.splits) for operator in workload.operators)
    if parts > MAX_COMPUTE_TASKS:
        message = "too many operator parts in the finest splits"
        faults.append(Fault(("workload",), message, str(parts), f"at most {MAX_COMPUTE_TASKS}"))
    transfers = _all_transfers(workload)
    if transfers > MAX_TRANSFERS:
        message = "too many transfers in the worst pairs of splits"
        allowed = f"at most {MAX_TRANSFERS}: fewer operators, servers or channel splits"
        faults.append(Fault(("workload",), message, f"at least {transfers}", allowed))
    return faults


def memory_faults(workload: Workload, cluster: Cluster, at: Callable[[int], Path]) -> list[Fault]:
    """Faults of a workload that cannot fit the memory of the cluster in any strategy."""
    server = cluster.server_memory_bytes
    if server is None:
        return []
    faults = []
    memory = f"{server} bytes, the memory of a server"
    total = 0
    for index, operator in enumerate(workload.operators):
        smallest = min(split.server_memory_bytes for split in operator.splits)
        total += min(split.server_memory_bytes * split.parts for split in operator.splits)
        if smallest > server:
            message = f"operator {operator.name} does not fit the memory of a server in any split"
            faults.append(Fault(at(index), message, f"{smallest} bytes", f"at most {memory}"))
    if total > server * cluster.servers:
        message = "the workload does not fit the memory of the cluster even in its smallest splits"
        allowed = f"at most {server * cluster.servers} bytes: {cluster.servers} servers of {server}"
        faults.append(Fault(("workload",), message, f"{total} bytes", allowed))
    return faults
