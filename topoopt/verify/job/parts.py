"""Where a strategy puts the parts of every operator, and whether it may.

Rebuilt from the meaning of the data (topoopt.core.workload), sharing no code with the simulator.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.cluster import Cluster
from topoopt.core.workload import Operator, Placement, Split, Strategy, Workload
from topoopt.verify.laws.findings import ViolationLog, as_int


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of one operator: part (a * c + b) * r + e stands on `server[...]`.

    Attributes:
        operator: its index in the workload.
        split: the chosen split.
        server: int64[P], all different.
    """

    operator: int
    split: Split
    server: Ints

    @property
    def blocks(self) -> int:
        """Parts that share one slice of the samples."""
        return self.split.channel_ways * self.split.reduce_ways


def place(index: int, operator: Operator, placement: Placement, servers: int) -> Parts:
    """Parts of a legal placement: part i of P on server offset + i n/P."""
    split = operator.splits[placement.split]
    count = split.sample_ways * split.channel_ways * split.reduce_ways
    return Parts(index, split, placement.offset + np.arange(count, dtype=np.int64) * (servers // count))


def split_problems(cluster: Cluster, workload: Workload, operator: Operator, split: Split) -> list[tuple[str, str]]:
    """Why no placement of this split is legal: pairs of violation code and reason."""
    problems = []
    count = split.sample_ways * split.channel_ways * split.reduce_ways
    if min(split.sample_ways, split.channel_ways, split.reduce_ways) < 1:
        problems.append(("strategy-parts", "a split needs at least one way of each kind"))
    elif cluster.servers % count:
        problems.append(("strategy-parts", f"{count} parts do not divide {cluster.servers} servers"))
    elif workload.samples % split.sample_ways:
        problems.append(
            ("strategy-samples", f"{split.sample_ways} sample ways do not divide {workload.samples} samples")
        )
    elif operator.pinned_offset is not None and not 0 <= operator.pinned_offset < cluster.servers // count:
        problems.append(("strategy-pinned", f"{count} parts cannot stand at offset {operator.pinned_offset}"))
    return problems


def check_strategy(
    findings: ViolationLog, cluster: Cluster, workload: Workload, strategy: Strategy
) -> tuple[Parts, ...] | None:
    """Report illegal placements and servers without enough memory; the parts, if all placements are legal."""
    placements = strategy.placements
    if len(placements) != len(workload.operators):
        findings.add(
            "strategy-length", f"{len(placements)} placements for the {len(workload.operators)} operators of the job"
        )
        return None
    parts = []
    for index, (operator, placement) in enumerate(zip(workload.operators, placements, strict=True)):
        chosen, offset = as_int(placement.split), as_int(placement.offset)
        if chosen is None or not 0 <= chosen < len(operator.splits):
            findings.add(
                "strategy-split",
                f"operator {operator.name!r}: split {placement.split!r} is not one of its {len(operator.splits)}",
            )
            continue
        split = operator.splits[chosen]
        problems = split_problems(cluster, workload, operator, split)
        for code, reason in problems:
            findings.add(code, f"operator {operator.name!r}: {reason}")
        if problems:
            continue
        stride = cluster.servers // (split.sample_ways * split.channel_ways * split.reduce_ways)
        if offset is None or not 0 <= offset < stride:
            findings.add(
                "strategy-offset", f"operator {operator.name!r}: offset {placement.offset!r} is outside 0..{stride - 1}"
            )
            continue
        if operator.pinned_offset is not None and offset != operator.pinned_offset:
            findings.add(
                "strategy-pinned",
                f"operator {operator.name!r}: offset {offset}, but it is pinned to {operator.pinned_offset}",
            )
            continue
        parts.append(place(index, operator, Placement(chosen, offset), cluster.servers))
    if len(parts) < len(placements):
        return None
    _check_memory(findings, cluster, tuple(parts))
    return tuple(parts)


def _check_memory(findings: ViolationLog, cluster: Cluster, parts: tuple[Parts, ...]) -> None:
    if cluster.gpu_memory_bytes is None:
        return
    room = cluster.gpu_memory_bytes * cluster.gpus_per_server
    used = [0] * cluster.servers
    for part in parts:
        for server in part.server.tolist():
            used[server] += part.split.server_memory_bytes
    findings.add_each(
        "strategy-memory",
        [server for server, total in enumerate(used) if total > room],
        lambda server: f"server {server} needs {used[server]} bytes of memory and has {room}",
    )
